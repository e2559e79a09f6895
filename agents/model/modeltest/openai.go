package modeltest

import (
	"bytes"
	"encoding/json"

	"gantry.dev/agents/model"
)

// OpenAI is the protocol of chat completions.
func OpenAI() Protocol {
	return Protocol{
		Name: "openai", Base: "/v1", KeyHeader: "Authorization", Stream: Stream, Read: openAIRead,
		Whole: func(stream []byte) int { return len(stream) - 1 }, // with the empty line that ends the last event
		Ends:  []string{"[done]"},
		Refusals: []Refusal{
			{500, refusal(""), model.Overloaded, true},
			{502, refusal(""), model.Overloaded, true},
			{503, refusal(""), model.Overloaded, true},
			{529, refusal("overloaded_error"), model.Overloaded, true},
			{400, refusal("invalid_value"), model.BadRequest, false},
			{400, refusal("context_length_exceeded"), model.TooLong, false},
			{413, refusal(""), model.TooLong, false},
			{422, refusal(""), model.BadRequest, false},
			{401, refusal("invalid_api_key"), model.Unauthorised, false},
			{403, refusal(""), model.Unauthorised, false},
			{429, refusal("insufficient_quota"), model.Unauthorised, false},
			{404, refusal("model_not_found"), model.ModelNotFound, false},
			{408, refusal(""), model.TimedOut, true},
			{204, refusal(""), model.BadAnswer, true},
			{302, refusal(""), model.BadAnswer, true},
		},
		Streamed: map[string]model.ErrorKind{
			openAIFailed("server_error"): model.Overloaded, openAIFailed("rate_limit_exceeded"): model.RateLimited,
			openAIFailed("context_length_exceeded"): model.TooLong,
		},
		Garbage: map[string]string{
			"no JSON":   "data: {\"choices\":\n\ndata: [DONE]\n\n",
			"no reason": "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n",
			"strange":   "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"bored\"}]}\n\ndata: [DONE]\n\n",
			"two":       "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n",
		},
	}
}

func refusal(code string) any {
	return map[string]any{"error": map[string]any{"code": code, "message": Hidden, "type": "test"}}
}

func openAIFailed(code string) string {
	return `data: {"error":{"code":"` + code + `","message":"` + Hidden + `"}}` + "\n\n"
}

// reported is Reported in the words of the protocol.
var reported = map[string]any{
	"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150,
	"prompt_tokens_details":     map[string]any{"cached_tokens": 100},
	"completion_tokens_details": map[string]any{"reasoning_tokens": 10},
}

// Stream returns an answer as the events of chat completions, up to the line
// that ends them. Names of calls are written as they are.
func Stream(answer model.Answer, style Style) []byte {
	w := &writer{style: style}
	w.delta(map[string]any{"role": "assistant", "content": ""})
	for _, piece := range w.style.pieces(answer.Reasoning) {
		w.delta(map[string]any{"reasoning_content": piece})
	}
	field := "content"
	if answer.Finish == model.FinishRefusal {
		field = "refusal"
	}
	for _, piece := range w.style.pieces(answer.Text) {
		w.delta(map[string]any{field: piece})
	}
	for i, call := range answer.Calls {
		w.call(i, call)
	}
	w.choice(map[string]any{}, finishes[answer.Finish])
	if !style.NoUsage {
		w.event(map[string]any{"choices": []any{}, "usage": reported})
	}
	w.line("data: [DONE]")
	w.line("")
	return w.out.Bytes()
}

var finishes = map[model.Finish]string{
	model.FinishStop: "stop", model.FinishCalls: "tool_calls", model.FinishLength: "length", model.FinishRefusal: "stop",
}

type writer struct {
	style Style
	out   bytes.Buffer
}

func (w *writer) call(i int, call model.Proposed) {
	index := i
	if w.style.OneIndex {
		index = 0
	}
	pieces := w.style.pieces(string(call.Arguments))
	first := ""
	if len(pieces) > 0 {
		first, pieces = pieces[0], pieces[1:]
	}
	part := map[string]any{"index": index, "type": "function", "function": map[string]any{"name": call.Name, "arguments": first}}
	if call.ProviderID != "" {
		part["id"] = call.ProviderID
	}
	w.delta(map[string]any{"tool_calls": []any{part}})
	for _, piece := range pieces {
		w.delta(map[string]any{"tool_calls": []any{map[string]any{"index": index, "function": map[string]any{"arguments": piece}}}})
	}
}

func (w *writer) delta(delta map[string]any) { w.choice(delta, "") }

func (w *writer) choice(delta map[string]any, finish string) {
	choice := map[string]any{"index": 0, "delta": delta, "finish_reason": nil}
	if finish != "" {
		choice["finish_reason"] = finish
	}
	w.event(map[string]any{"choices": []any{choice}, "usage": nil})
}

func (w *writer) event(fields map[string]any) {
	fields["id"], fields["object"], fields["created"], fields["model"] = "chatcmpl-1", "chat.completion.chunk", 1700000000, "test-model"
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(err) // of values that this file makes
	}
	w.line("data: " + string(raw))
	w.line("")
}

func (w *writer) line(text string) { w.out.WriteString(text + w.style.end()) }

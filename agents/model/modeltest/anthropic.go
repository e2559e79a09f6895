package modeltest

import (
	"bytes"
	"fmt"

	"gantry.dev/agents/model"
)

// Anthropic is the protocol of messages.
func Anthropic() Protocol {
	return Protocol{
		Name: "anthropic", KeyHeader: "Authorization", Stream: anthropicStream, Read: anthropicRead,
		Arguments: func(raw string) string {
			if raw == "" {
				return "{}" // how a call without arguments comes
			}
			return raw
		},
		Whole: func(stream []byte) int { return len(stream) },
		Ends:  []string{"message_stop", `\u`},
		Refusals: []Refusal{
			{500, anthropicRefusal("api_error", ""), model.Overloaded, true},
			{504, anthropicRefusal("timeout_error", ""), model.Overloaded, true},
			{529, anthropicRefusal("overloaded_error", ""), model.Overloaded, true},
			{400, anthropicRefusal("invalid_request_error", ""), model.BadRequest, false},
			{400, anthropicRefusal("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum. "), model.TooLong, false},
			{400, anthropicRefusal("invalid_request_error", "Your credit balance is too low. "), model.Unauthorised, false},
			{402, anthropicRefusal("billing_error", ""), model.Unauthorised, false},
			{413, anthropicRefusal("request_too_large", ""), model.TooLong, false},
			{401, anthropicRefusal("authentication_error", ""), model.Unauthorised, false},
			{403, anthropicRefusal("permission_error", ""), model.Unauthorised, false},
			{404, anthropicRefusal("not_found_error", ""), model.ModelNotFound, false},
			{302, anthropicRefusal("", ""), model.BadAnswer, true},
		},
		Streamed: map[string]model.ErrorKind{
			anthropicFailed("overloaded_error"): model.Overloaded, anthropicFailed("rate_limit_error"): model.RateLimited,
			anthropicFailed("request_too_large"):     model.TooLong,
			"event: error\ndata: " + Hidden + "\n\n": model.Overloaded,
		},
		Garbage: map[string]string{
			"no JSON":    "event: message_start\ndata: {\"type\":\n\n",
			"no reason":  "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
			"strange":    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"bored\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
			"no start":   "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
			"other kind": anthropicBlock(0, `{"type":"tool_use","id":"x","name":"files_read","input":{}}`) + anthropicText(0),
			"block done": anthropicBlock(0, `{"type":"text","text":""}`) + anthropicBlock(1, `{"type":"text","text":""}`) + anthropicText(0),
			"same block": anthropicBlock(0, `{"type":"text","text":""}`) + anthropicBlock(0, `{"type":"text","text":""}`),
			"not wanted": "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"server_tool_use\",\"id\":\"x\",\"name\":\"web_search\",\"input\":{}}}\n\n",
		},
	}
}

func anthropicRefusal(kind, message string) any {
	return map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": message + Hidden}, "request_id": "req_1"}
}

func anthropicBlock(index int, block string) string {
	return fmt.Sprintf("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":%d,\"content_block\":%s}\n\n", index, block)
}

func anthropicText(index int) string {
	return fmt.Sprintf("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":%d,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n", index)
}

func anthropicFailed(kind string) string {
	return "event: error\ndata: " + written(anthropicRefusal(kind, "")) + "\n\n"
}

// Signature is what test servers sign reasoning with.
const Signature = "c2lnbmVkIGJ5IGEgdGVzdA=="

type anthropicWriter struct {
	style Style
	out   bytes.Buffer
	index int
}

func anthropicStream(answer model.Answer, style Style) []byte {
	w := &anthropicWriter{style: style}
	message := map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": "test-model", "content": []any{}, "stop_reason": nil}
	if !style.NoUsage {
		message["usage"] = map[string]any{"input_tokens": Reported.Input, "cache_read_input_tokens": Reported.CacheRead, "cache_creation_input_tokens": 0, "output_tokens": 1}
	}
	w.event("message_start", map[string]any{"message": message})
	w.event("ping", map[string]any{})
	if answer.Reasoning != "" {
		w.block(map[string]any{"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", answer.Reasoning,
			map[string]any{"type": "signature_delta", "signature": Signature})
	}
	if answer.Text != "" {
		w.block(map[string]any{"type": "text", "text": ""}, "text_delta", "text", answer.Text, nil)
	}
	for _, call := range answer.Calls {
		w.block(map[string]any{"type": "tool_use", "id": call.ProviderID, "name": call.Name, "input": map[string]any{}}, "input_json_delta", "partial_json", string(call.Arguments), nil)
	}
	end := map[string]any{"delta": map[string]any{"stop_reason": anthropicFinishes[answer.Finish], "stop_sequence": nil}}
	if !style.NoUsage {
		end["usage"] = map[string]any{"output_tokens": Reported.Output + Reported.Reasoning, "output_tokens_details": map[string]any{"thinking_tokens": Reported.Reasoning}}
	}
	w.event("message_delta", end)
	w.event("message_stop", map[string]any{})
	return w.out.Bytes()
}

var anthropicFinishes = map[model.Finish]string{
	model.FinishStop: "end_turn", model.FinishCalls: "tool_use", model.FinishLength: "max_tokens", model.FinishRefusal: "refusal",
}

// block writes one block of content, its text in pieces, and a last delta.
func (w *anthropicWriter) block(start map[string]any, delta, field, text string, last map[string]any) {
	w.event("content_block_start", map[string]any{"index": w.index, "content_block": start})
	for _, piece := range w.style.pieces(text) {
		w.event("content_block_delta", map[string]any{"index": w.index, "delta": map[string]any{"type": delta, field: piece}})
	}
	if last != nil {
		w.event("content_block_delta", map[string]any{"index": w.index, "delta": last})
	}
	w.event("content_block_stop", map[string]any{"index": w.index})
	w.index++
}

func (w *anthropicWriter) event(kind string, fields map[string]any) {
	fields["type"] = kind
	w.out.WriteString("event: " + kind + w.style.end() + "data: " + written(fields) + w.style.end() + w.style.end())
}

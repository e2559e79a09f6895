// Package modeltest holds the suite that every model provider passes, and a
// local server that speaks OpenAI's chat completions as well or as badly as a
// test wants.
package modeltest

import (
	"bytes"
	"encoding/json"
	"strings"

	"gantry.dev/agents/model"
)

// Style says how a server writes an answer as a stream.
type Style struct {
	Piece    int  // bytes of text and arguments per chunk; 0 for all at once
	NoUsage  bool // the server does not count
	OneIndex bool // every call has index 0
	LineEnd  string
}

// reported is Reported in the words of the protocol.
var reported = map[string]any{
	"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150,
	"prompt_tokens_details":     map[string]any{"cached_tokens": 100},
	"completion_tokens_details": map[string]any{"reasoning_tokens": 10},
}

// Reported is the usage that Stream writes.
var Reported = model.Usage{Input: 20, CacheRead: 100, Output: 20, Reasoning: 10}

// Stream returns an answer as the events of chat completions, up to the line
// that ends them. Names of calls are written as they are.
func Stream(answer model.Answer, style Style) []byte {
	w := &writer{style: style}
	w.delta(map[string]any{"role": "assistant", "content": ""})
	for _, piece := range w.pieces(answer.Reasoning) {
		w.delta(map[string]any{"reasoning_content": piece})
	}
	field := "content"
	if answer.Finish == model.FinishRefusal {
		field = "refusal"
	}
	for _, piece := range w.pieces(answer.Text) {
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
	pieces := w.pieces(string(call.Arguments))
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

// pieces cuts at characters: JSON could not carry half of one.
func (w *writer) pieces(text string) []string {
	if text == "" {
		return nil
	}
	var pieces []string
	var piece strings.Builder
	for _, r := range text {
		piece.WriteRune(r)
		if w.style.Piece > 0 && piece.Len() >= w.style.Piece {
			pieces = append(pieces, piece.String())
			piece.Reset()
		}
	}
	if piece.Len() > 0 {
		pieces = append(pieces, piece.String())
	}
	return pieces
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

func (w *writer) line(text string) {
	end := w.style.LineEnd
	if end == "" {
		end = "\n"
	}
	w.out.WriteString(text + end)
}

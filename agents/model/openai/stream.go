package openai

import (
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
)

// collector puts a stream together. What it holds is an answer only when the
// stream has ended as it should.
type collector struct {
	deltas     func(text string)
	names      exchange.Names
	compatible bool

	text, refusal, reasoning []byte
	finish, model            string
	calls                    []*model.Proposed
	at                       map[int64]*model.Proposed // the call that an index adds to
	usage                    openai.CompletionUsage
	counted                  bool
}

func (c *collector) add(chunk openai.ChatCompletionChunk) error {
	if chunk.Model != "" {
		c.model = chunk.Model
	}
	if chunk.JSON.Usage.Valid() {
		c.usage, c.counted = chunk.Usage, true
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			return &model.Error{Kind: model.BadAnswer, Billed: true, Detail: "more answers than were asked for"}
		}
		c.addDelta(choice.Delta)
		if choice.FinishReason != "" {
			c.finish = choice.FinishReason
		}
	}
	return nil
}

func (c *collector) addDelta(delta openai.ChatCompletionChunkChoiceDelta) {
	c.text = append(c.text, delta.Content...)
	if c.deltas != nil && delta.Content != "" {
		c.deltas(delta.Content)
	}
	c.refusal = append(c.refusal, delta.Refusal...)
	// Not OpenAI's own, but how servers of open models send it.
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var text string
		if field, given := delta.JSON.ExtraFields[name]; given && json.Unmarshal([]byte(field.Raw()), &text) == nil && text != "" {
			c.reasoning = append(c.reasoning, text...)
			break
		}
	}
	for _, part := range delta.ToolCalls {
		c.addCall(part)
	}
}

// addCall adds a part to the call of its index. Servers that give every call
// the same index begin a new one with another id, or, without ids, with a name
// when the arguments before are whole.
func (c *collector) addCall(part openai.ChatCompletionChunkChoiceDeltaToolCall) {
	call := c.at[part.Index]
	if call == nil || (part.ID != "" && call.ProviderID != "" && part.ID != call.ProviderID) ||
		(part.ID == "" && call.ProviderID == "" && part.Function.Name != "" && part.Function.Arguments != "" && json.Valid(call.Arguments)) {
		call = &model.Proposed{}
		c.calls = append(c.calls, call)
		if c.at == nil {
			c.at = map[int64]*model.Proposed{}
		}
		c.at[part.Index] = call
	}
	if call.ProviderID == "" {
		call.ProviderID = part.ID
	}
	if call.Name == "" {
		call.Name = part.Function.Name
	}
	call.Arguments = append(call.Arguments, part.Function.Arguments...)
	// Some servers send the object itself in place of its text.
	if raw := part.Function.JSON.Arguments.Raw(); part.Function.Arguments == "" && strings.HasPrefix(raw, "{") {
		call.Arguments = append(call.Arguments, raw...)
	}
}

// others are words of other servers for the end of an answer.
var others = map[string]bool{"eos": true, "eos_token": true, "stop_sequence": true, "end_turn": true}

// answer returns the whole answer.
func (c *collector) answer(request model.Request) (model.Answer, error) {
	answer := model.Answer{Text: string(c.text), Reasoning: string(c.reasoning), Model: c.model}
	finish := c.finish
	if c.compatible && others[finish] {
		finish = "stop"
	}
	switch finish {
	case "stop":
		answer.Finish = model.FinishStop
	case "tool_calls", "function_call":
		answer.Finish = model.FinishCalls
	case "length":
		answer.Finish = model.FinishLength
	case "content_filter":
		answer.Finish = model.FinishRefusal
	default:
		return model.Answer{}, &model.Error{Kind: model.BadAnswer, Billed: true, Detail: "the answer gives no known reason for its end"}
	}
	if len(c.refusal) > 0 {
		answer.Finish, answer.Text = model.FinishRefusal, string(c.refusal)
	}
	for _, call := range c.calls {
		call.Name = c.names.From(call.Name)
		answer.Calls = append(answer.Calls, *call)
	}
	answer.Usage = c.used(request, answer)
	return answer, nil
}

// maxCounted is more tokens than any request has.
const maxCounted = 1_000_000_000

// used returns what the server counted, if that can be true, and otherwise an
// estimate.
func (c *collector) used(request model.Request, answer model.Answer) model.Usage {
	prompt, completion := c.usage.PromptTokensDetails, c.usage.CompletionTokensDetails
	usage := model.Usage{
		Input:      c.usage.PromptTokens - prompt.CachedTokens - prompt.CacheWriteTokens,
		CacheRead:  prompt.CachedTokens,
		CacheWrite: prompt.CacheWriteTokens,
		Output:     c.usage.CompletionTokens - completion.ReasoningTokens,
		Reasoning:  completion.ReasoningTokens,
	}
	if !c.counted || c.usage.PromptTokens <= 0 ||
		max(c.usage.PromptTokens, c.usage.CompletionTokens) > maxCounted ||
		min(usage.Input, usage.CacheRead, usage.CacheWrite, usage.Output, usage.Reasoning) < 0 {
		return model.Estimate(request, answer)
	}
	return usage
}

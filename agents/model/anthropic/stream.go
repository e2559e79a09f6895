package anthropic

import (
	"encoding/json"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
)

// thought is what Anthropic wants back of its reasoning, as it was.
type thought struct {
	Thinking  string `json:"thinking,omitempty"`
	Signature string `json:"signature,omitempty"`
	Redacted  string `json:"redacted,omitempty"`
}

// block is one piece of an answer as it grows.
type block struct {
	kind    string
	text    []byte
	call    model.Proposed
	whole   []byte // arguments that came at once, in case no piece follows
	thought thought
}

// collector puts a stream together. What it holds is an answer only when the
// stream has said so.
type collector struct {
	deltas func(text string)
	names  exchange.Names

	blocks  []*block // the last is the one that grows
	at      int64    // its index
	finish  anthropic.StopReason
	model   string
	usage   anthropic.MessageDeltaUsage // the last that was said of each number
	counted bool
	whole   bool
}

func (c *collector) add(event anthropic.MessageStreamEventUnion) error {
	switch event.Type {
	case "message_start":
		c.model = event.Message.Model
		first := event.Message.Usage
		c.usage.InputTokens, c.usage.OutputTokens = first.InputTokens, first.OutputTokens
		c.usage.CacheReadInputTokens, c.usage.CacheCreationInputTokens = first.CacheReadInputTokens, first.CacheCreationInputTokens
		c.counted = first.JSON.InputTokens.Valid()
	case "content_block_start":
		return c.open(event)
	case "content_block_delta":
		return c.extend(event)
	case "message_delta":
		if event.Delta.StopReason != "" {
			c.finish = event.Delta.StopReason
		}
		c.count(event.Usage)
	case "message_stop":
		c.whole = true
	}
	return nil // of what is new nobody knows what it means; an answer does not depend on it
}

// count takes over what is said at the end: those numbers are of the whole
// request, and what is not among them stands as it was.
func (c *collector) count(u anthropic.MessageDeltaUsage) {
	if u.JSON.InputTokens.Valid() {
		c.usage.InputTokens, c.counted = u.InputTokens, true
	}
	if u.JSON.CacheReadInputTokens.Valid() {
		c.usage.CacheReadInputTokens = u.CacheReadInputTokens
	}
	if u.JSON.CacheCreationInputTokens.Valid() {
		c.usage.CacheCreationInputTokens = u.CacheCreationInputTokens
	}
	if u.JSON.OutputTokens.Valid() {
		c.usage.OutputTokens = u.OutputTokens
	}
	if u.JSON.OutputTokensDetails.Valid() {
		c.usage.OutputTokensDetails = u.OutputTokensDetails
	}
}

func (c *collector) open(event anthropic.MessageStreamEventUnion) error {
	if len(c.blocks) > 0 && event.Index <= c.at {
		return exchange.Garbled()
	}
	start := event.ContentBlock
	b := &block{kind: start.Type, thought: thought{Thinking: start.Thinking, Signature: start.Signature, Redacted: start.Data}}
	switch start.Type {
	case "text":
		c.say(b, start.Text)
	case "tool_use":
		b.call = model.Proposed{ProviderID: start.ID, Name: start.Name}
		b.whole = []byte(start.JSON.Input.Raw())
	case "thinking", "redacted_thinking":
	default:
		return &model.Error{Kind: model.BadAnswer, Billed: true, Detail: "the answer holds something that was not asked for"}
	}
	c.at, c.blocks = event.Index, append(c.blocks, b)
	return nil
}

// grows says of which kind of block a piece is one.
var grows = map[string]string{
	"text_delta": "text", "input_json_delta": "tool_use", "thinking_delta": "thinking", "signature_delta": "thinking",
}

// extend adds a piece to the block that grows. A piece of another block, or of
// another kind, would be shown live at a place where the answer does not have it.
func (c *collector) extend(event anthropic.MessageStreamEventUnion) error {
	if len(c.blocks) == 0 || event.Index != c.at {
		return exchange.Garbled()
	}
	b := c.blocks[len(c.blocks)-1]
	if kind, known := grows[event.Delta.Type]; known && kind != b.kind {
		return exchange.Garbled()
	}
	switch event.Delta.Type {
	case "text_delta":
		c.say(b, event.Delta.Text)
	case "input_json_delta":
		b.call.Arguments = append(b.call.Arguments, event.Delta.PartialJSON...)
	case "thinking_delta":
		b.thought.Thinking += event.Delta.Thinking
	case "signature_delta":
		b.thought.Signature += event.Delta.Signature
	}
	return nil
}

func (c *collector) say(b *block, text string) {
	b.text = append(b.text, text...)
	if c.deltas != nil && text != "" {
		c.deltas(text)
	}
}

var finishes = map[anthropic.StopReason]model.Finish{
	anthropic.StopReasonEndTurn: model.FinishStop, anthropic.StopReasonStopSequence: model.FinishStop,
	anthropic.StopReasonToolUse:   model.FinishCalls,
	anthropic.StopReasonMaxTokens: model.FinishLength, anthropic.StopReasonModelContextWindowExceeded: model.FinishLength,
	anthropic.StopReasonRefusal: model.FinishRefusal,
}

// answer returns the whole answer.
func (c *collector) answer(request model.Request) (model.Answer, error) {
	answer := model.Answer{Finish: finishes[c.finish], Model: c.model}
	if answer.Finish == "" {
		return model.Answer{}, &model.Error{Kind: model.BadAnswer, Billed: true, Detail: "the answer gives no known reason for its end"}
	}
	var pieces []model.Piece
	for _, b := range c.blocks {
		switch b.kind {
		case "text":
			answer.Text += string(b.text)
			pieces = append(pieces, model.Piece{Text: len(b.text)})
		case "tool_use":
			answer.Calls = append(answer.Calls, c.call(b))
			pieces = append(pieces, model.Piece{Call: true})
		default:
			answer.Reasoning += b.thought.Thinking
			if own, err := json.Marshal(b.thought); err == nil && b.thought.Signature+b.thought.Redacted != "" {
				pieces = append(pieces, model.Piece{Own: own})
			}
		}
	}
	answer.Thread = model.ThreadOf(pieces)
	answer.Usage = c.used(request, answer)
	return answer, nil
}

// call is a proposed call with its arguments. A tool without any is called
// without a piece of them.
func (c *collector) call(b *block) model.Proposed {
	call := b.call
	call.Name = c.names.From(call.Name)
	if len(call.Arguments) == 0 {
		call.Arguments = b.whole
	}
	if len(call.Arguments) == 0 {
		call.Arguments = []byte("{}")
	}
	return call
}

// maxCounted is more tokens than any request has.
const maxCounted = 1_000_000_000

// used returns what the server counted, if that can be true, and otherwise an
// estimate.
func (c *collector) used(request model.Request, answer model.Answer) model.Usage {
	thinking := c.usage.OutputTokensDetails.ThinkingTokens
	usage := model.Usage{
		Input:      c.usage.InputTokens,
		CacheRead:  c.usage.CacheReadInputTokens,
		CacheWrite: c.usage.CacheCreationInputTokens,
		Output:     c.usage.OutputTokens - thinking,
		Reasoning:  thinking,
	}
	all := []int64{usage.Input, usage.CacheRead, usage.CacheWrite, usage.Output, usage.Reasoning}
	for _, count := range all {
		if count < 0 || count > maxCounted {
			return model.Estimate(request, answer)
		}
	}
	if !c.counted || usage.Input+usage.CacheRead+usage.CacheWrite == 0 {
		return model.Estimate(request, answer)
	}
	return usage
}

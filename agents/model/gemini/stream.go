package gemini

import (
	"encoding/json"
	"math"

	"google.golang.org/genai"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
)

// signed is what Gemini wants back with a piece of an answer.
type signed struct {
	Signature []byte `json:"signature"`
}

// collector puts a stream together. What it holds is an answer only when the
// stream has given the reason for its end.
type collector struct {
	deltas func(text string)
	names  exchange.Names

	text, reasoning []byte
	calls           []model.Proposed
	pieces          []model.Piece
	finish          genai.FinishReason
	model           string
	usage           *genai.GenerateContentResponseUsageMetadata
}

// blocked is the finish of a prompt that the server does not let the model read.
const blocked = genai.FinishReasonProhibitedContent

func (c *collector) add(chunk *genai.GenerateContentResponse) error {
	if chunk.ModelVersion != "" {
		c.model = chunk.ModelVersion
	}
	if chunk.UsageMetadata != nil {
		c.usage = chunk.UsageMetadata // each is of the answer so far
	}
	if feedback := chunk.PromptFeedback; feedback != nil && feedback.BlockReason != "" {
		c.finish = blocked
	}
	if len(chunk.Candidates) > 1 {
		return &model.Error{Kind: model.BadAnswer, Billed: true, Detail: "more answers than were asked for"}
	}
	for _, candidate := range chunk.Candidates {
		if candidate == nil || candidate.Index != 0 {
			return exchange.Garbled()
		}
		if candidate.Content != nil {
			for _, part := range candidate.Content.Parts {
				if err := c.addPart(part); err != nil {
					return err
				}
			}
		}
		if candidate.FinishReason != "" {
			c.finish = candidate.FinishReason
		}
	}
	return nil
}

func (c *collector) addPart(part *genai.Part) error {
	if part == nil {
		return exchange.Garbled()
	}
	var own json.RawMessage
	if len(part.ThoughtSignature) > 0 {
		own, _ = json.Marshal(signed{part.ThoughtSignature}) // of bytes
	}
	switch {
	case part.FunctionCall != nil:
		call, err := c.call(part.FunctionCall)
		if err != nil {
			return err
		}
		c.calls = append(c.calls, call)
		c.pieces = append(c.pieces, model.Piece{Call: true, Own: own})
	case part.Thought:
		c.reasoning = append(c.reasoning, part.Text...)
		if own != nil {
			c.pieces = append(c.pieces, model.Piece{Own: own})
		}
	case part.Text != "" || own != nil:
		c.say(part.Text, own)
	case part.InlineData != nil || part.ExecutableCode != nil || part.CodeExecutionResult != nil || part.ToolCall != nil:
		return &model.Error{Kind: model.BadAnswer, Billed: true, Detail: "the answer holds something that was not asked for"}
	}
	return nil
}

// say adds text. A run of it ends where it is signed: what a signature stands
// on must not grow.
func (c *collector) say(text string, own json.RawMessage) {
	c.text = append(c.text, text...)
	if last := len(c.pieces) - 1; last >= 0 && c.pieces[last].Text > 0 && c.pieces[last].Own == nil && own == nil {
		c.pieces[last].Text += len(text)
	} else {
		c.pieces = append(c.pieces, model.Piece{Text: len(text), Own: own})
	}
	if c.deltas != nil && text != "" {
		c.deltas(text)
	}
}

// call is a proposed call. The SDK has read its arguments to floats: a number
// that one of them cannot have held to the last digit makes the arguments
// unreadable, so that the call is refused and not another one made.
func (c *collector) call(called *genai.FunctionCall) (model.Proposed, error) {
	call := model.Proposed{ProviderID: called.ID, Name: c.names.From(called.Name), Arguments: []byte("{}")}
	if called.Args == nil {
		return call, nil
	}
	raw, err := json.Marshal(called.Args)
	if err != nil {
		return call, exchange.Garbled()
	}
	call.Arguments = raw
	if !exact(called.Args) {
		call.Arguments = nil
	}
	return call, nil
}

// maxExact is the first whole number whose successor no float64 holds.
const maxExact = 1 << 53

func exact(value any) bool {
	switch value := value.(type) {
	case float64:
		return math.Abs(value) < maxExact
	case []any:
		for _, entry := range value {
			if !exact(entry) {
				return false
			}
		}
	case map[string]any:
		for _, entry := range value {
			if !exact(entry) {
				return false
			}
		}
	}
	return true
}

// answer returns the whole answer.
func (c *collector) answer(request model.Request) (model.Answer, error) {
	answer := model.Answer{Text: string(c.text), Reasoning: string(c.reasoning), Calls: c.calls, Model: c.model, Thread: model.ThreadOf(c.pieces)}
	switch c.finish {
	case genai.FinishReasonStop:
		answer.Finish = model.FinishStop
		if len(c.calls) > 0 {
			answer.Finish = model.FinishCalls
		}
	case genai.FinishReasonMaxTokens:
		answer.Finish = model.FinishLength
	case genai.FinishReasonMalformedFunctionCall, genai.FinishReasonUnexpectedToolCall, genai.FinishReasonTooManyToolCalls:
		answer.Finish, answer.Calls = model.FinishCalls, nil // calls that nobody can read
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonLanguage, genai.FinishReasonBlocklist, blocked, genai.FinishReasonSPII:
		answer.Finish = model.FinishRefusal
	default:
		return model.Answer{}, &model.Error{Kind: model.BadAnswer, Billed: true, Detail: "the answer gives no known reason for its end"}
	}
	answer.Usage = c.used(request, answer)
	return answer, nil
}

// used returns what the server counted, if that can be true, and otherwise an
// estimate.
func (c *collector) used(request model.Request, answer model.Answer) model.Usage {
	if c.usage == nil {
		return model.Estimate(request, answer)
	}
	u := c.usage
	usage := model.Usage{
		Input:     int64(u.PromptTokenCount) + int64(u.ToolUsePromptTokenCount) - int64(u.CachedContentTokenCount),
		CacheRead: int64(u.CachedContentTokenCount),
		Output:    int64(u.CandidatesTokenCount),
		Reasoning: int64(u.ThoughtsTokenCount),
	}
	if u.PromptTokenCount <= 0 || min(usage.Input, usage.CacheRead, usage.Output, usage.Reasoning) < 0 ||
		max(usage.Input, usage.Output, usage.Reasoning) > maxCounted {
		return model.Estimate(request, answer)
	}
	return usage
}

// maxCounted is more tokens than any request has.
const maxCounted = 1_000_000_000

// refusalOf writes an error of the SDK as the server sent it.
func refusalOf(said genai.APIError) []byte {
	raw, err := json.Marshal(map[string]any{"error": said})
	if err != nil {
		return nil // it says nothing
	}
	return raw
}

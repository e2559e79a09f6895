package perform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
	"gantry.dev/agents/model/modeltest"
	"gantry.dev/agents/model/openai"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// heard is a model server that gives one answer and keeps what it was sent.
type heard struct {
	answer string
	bodies []map[string]any
}

func (s *heard) RoundTrip(request *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	s.bodies = append(s.bodies, body)
	stream := modeltest.Stream(model.Answer{Finish: model.FinishStop, Text: s.answer, Usage: model.Usage{Input: 9, Output: 9}}, modeltest.Style{})
	return transport{bytes.NewReader(stream)}.RoundTrip(request)
}

// taker lets a provider of OpenAI's protocol answer from the server.
func (s *heard) taker(t *testing.T) take {
	t.Helper()
	provider, err := openai.New(openai.Config{Server: exchange.Server{BaseURL: "http://model.test/v1", Transport: s}})
	require.NoError(t, err)
	return func(ctx context.Context, request model.Request, deltas func(string)) (model.Answer, error) {
		return provider.Take(ctx, request, deltas)
	}
}

const amountForm = `{"type":"object","additionalProperties":false,"required":["amount"],"properties":{"amount":{"type":"integer"}}}`

// A model that can hold itself to a schema is told what the answer must be, one
// that cannot is not; the answer is checked in both cases.
func TestAModelThatCanIsHeldToTheFormOfTheAnswer(t *testing.T) {
	for name, row := range map[string]struct {
		schema bool
		output string
		held   bool
	}{
		"it can":             {true, amountForm, true},
		"it cannot":          {false, amountForm, false},
		"any answer will do": {true, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrganisation(answering)
			o.Agents[0].Models, o.Models[0].Schema = []string{"quick"}, row.schema
			if row.output != "" {
				o.Agents[0].Completion.Output = json.RawMessage(row.output)
			}
			inside(t, o, func(t *testing.T, h *house) {
				s := &heard{answer: `{"amount":"much"}`}
				h.take = s.taker(t)
				state := func() *run.State { id := h.start("go"); h.work(); return h.state(id) }()
				format, sent := s.bodies[0]["response_format"].(map[string]any)
				require.Equal(t, row.held, sent)
				if row.held {
					var want any
					require.NoError(t, json.Unmarshal([]byte(amountForm), &want))
					require.Equal(t, want, format["json_schema"].(map[string]any)["schema"])
					require.Equal(t, true, format["json_schema"].(map[string]any)["strict"])
				}
				require.Equal(t, row.output == "", state.Status == run.StatusCompleted, "what the model sends is checked in any case")
				require.Equal(t, model.PromptBytes(h.requests[0]), state.Turns[0].Context.Bytes, "the form is a part of the request")
			})
		})
	}
}

// What a parent wants of its child is the form of the child's answer.
func TestAChildIsHeldToTheFormThatItsParentWants(t *testing.T) {
	o := delegating()
	for i := range o.Models {
		o.Models[i].Schema = true
	}
	inside(t, o, func(t *testing.T, h *house) {
		h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
			switch {
			case !leads(request):
				return says(`{"amount":3}`), nil
			case len(request.Messages) == 2:
				return handOn(tool.Delegation{Agent: "clerk", Brief: "How much?", Result: json.RawMessage(amountForm)}), nil
			}
			return says("3"), nil
		}
		id := h.lead("go")
		h.work()
		require.Equal(t, run.StatusCompleted, h.state(id).Status)
		for _, request := range h.requests {
			if leads(request) {
				require.Nil(t, request.Output)
			} else {
				require.JSONEq(t, amountForm, string(request.Output))
			}
		}
	})
}

// What only looks at the answer itself is checked in the write of the answer;
// what looks outside is an effect of its own.
func TestAnAnswersFormIsCheckedAtOnce(t *testing.T) {
	for name, row := range map[string]struct {
		output string
		checks []agents.Check
	}{
		"any answer will do": {},
		"it has a form":      {output: amountForm},
		"a check looks outside": {checks: []agents.Check{{Name: "is-there", Tool: "things.read", Identity: agents.AsSubject,
			Arguments: []byte(`{"id":"a"}`), Expression: "result.done"}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrganisation(answering)
			o.Agents[0].Completion.Checks = row.checks
			if row.output != "" {
				o.Agents[0].Completion.Output = json.RawMessage(row.output)
			}
			inside(t, o, func(t *testing.T, h *house) {
				h.take = func(context.Context, model.Request, func(string)) (model.Answer, error) {
					return says(`{"amount":7}`), nil
				}
				id := h.start("go")
				h.work()
				var memory any
				view := engine.View{State: h.state(id), Rules: h.admitted.Rules, Memory: &memory,
					Texts: func(ctx context.Context, ids ...string) (map[string]engine.Payload, error) {
						return h.Payloads(ctx, ids)
					}}
				prepared, err := perform.New(h, h.source, h.tree(), h.delta).Prepare(t.Context(), view, run.Verify{Turn: 1})
				require.NoError(t, err)
				require.Equal(t, len(row.checks) > 0, prepared.Perform != nil)
				if prepared.Perform == nil {
					require.Equal(t, run.CheckPassed, prepared.Command.(run.ReportChecks).Checks[0].Verdict)
				}
			})
		})
	}
}

package perform_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

const yesNo = `{"type":"boolean"}`

// withPrivateSide lends the clerk to e, and lets it ask its private side, which
// reads what is secret.
func withPrivateSide(change func(o *agents.Organisation)) agents.Organisation {
	o := lent("def turn(ctx):\n    return {\"text\": \"x\"}\n", func(g *agents.Grant) {
		g.Ceiling.Tools = append(g.Ceiling.Tools, agents.ToolUse{Name: tool.DelegateName, Impact: policy.ImpactRead, Calls: 9})
		g.Ceiling.FanOut = 3
		g.Yields = []agents.Yield{{Name: "within", Description: "Whether it is within.", Schema: json.RawMessage(yesNo)}}
	})
	o.Tools = append(o.Tools, tool.NewDelegate("olga", "carl").Definition())
	o.Builtins.Agents = &agents.AgentTools{Owner: "olga", Contact: "carl"}
	clerk := &o.Agents[0]
	clerk.Tools = append([]agents.ToolUse{{Name: tool.DelegateName, Impact: policy.ImpactRead, Calls: 9}}, clerk.Tools...)
	clerk.Limits.Depth, clerk.Limits.FanOut, clerk.Limits.RunsAtOnce = 1, 3, 3
	clerk.Delegates = []agents.Delegate{{Agent: "clerk", As: []run.Kind{run.Sidecar}, MicroUSD: 50_000, Tokens: 50_000}}
	change(&o)
	return o
}

// consults is how the clerk asks its private side.
func consults(schema string) model.Answer {
	return handOn(tool.Delegation{Agent: "clerk", Brief: "PRIVATE: is it within?", As: "SIDECAR", Purpose: "MEMORY", Result: json.RawMessage(schema)})
}

// twoSided answers as the clerk for the borrower and as its private side, which
// reads and then says what answers makes of that.
func (h *house) twoSided(schema, secret string, answers func(read string) model.Answer) {
	h.does["things.read"] = func(_ context.Context, invocation tool.Invocation) (tool.Result, error) {
		if !invocation.Subject.Clearance.Has("secret") {
			return tool.Result{}, &tool.Failure{Code: "NOT_CLEARED"}
		}
		return tool.Result{Content: []byte(secret), MediaType: tool.MediaJSON, Marking: h.organisation.Tools[0].Result}, nil
	}
	h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
		private := strings.Contains(request.Messages[1].Text, "PRIVATE:")
		first := len(request.Messages) == 2
		switch {
		case private && first:
			return model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{{Name: "things.read", Arguments: json.RawMessage(`{"id":"1"}`)}}}, nil
		case private:
			return answers(last(request)), nil
		case first:
			return consults(schema), nil
		}
		return says("It says: " + last(request)), nil
	}
}

// outside are the prompts that were not of the private side.
func (h *house) outside() (requests []model.Request) {
	for _, request := range h.requests {
		if !strings.Contains(request.Messages[1].Text, "PRIVATE:") {
			requests = append(requests, request)
		}
	}
	return requests
}

func isHigh(read string) model.Answer {
	if strings.Contains(read, `"pay":9`) {
		return says("true")
	}
	return says(" false ")
}

// Two worlds that differ only in what the private side reads, and not in what it
// yields, are the same to the model, and to the borrower.
func TestPrivateSideTellsItsYieldAndNothingElse(t *testing.T) {
	var ends []run.ChildEnded
	seen := func(secret string, answers func(string) model.Answer) (requests []model.Request, answer, outcome string) {
		inside(t, withPrivateSide(func(*agents.Organisation) {}), func(t *testing.T, h *house) {
			h.twoSided(yesNo, secret, answers)
			admitted, err := h.borrowed("Is it within?")
			require.NoError(t, err)
			h.work()
			state := h.state(admitted.Run)
			require.Equal(t, run.StatusCompleted, state.Status)
			require.Empty(t, state.Marking.Labels)
			call := state.Call(1)
			outcome = string(call.Outcome) + " " + call.Code
			if call.Result != nil {
				require.Equal(t, policy.Marking{Integrity: policy.Untrusted}, call.Result.Marking)
			}
			child := h.state(run.ChildOfCall(admitted.Run, 1))
			end := *state.Children[0].Ended
			require.Equal(t, child.Head, end.Head)
			end.Head, end.Settled, end.Result = "", run.Amount{}, nil
			ends = append(ends, end)
			require.Equal(t, "s1", child.Started.Grant)
			require.Equal(t, policy.NewLabels("secret"), child.Started.Authority.Labels)
			require.Equal(t, policy.ImpactRead, child.Started.Authority.Tools["things.read"].Impact)
			require.NotContains(t, child.Started.Authority.Tools, "things.write", "a private side only reads")
			require.Equal(t, policy.NewLabels("secret"), child.Marking.Labels)
			require.Equal(t, "e", child.Started.Payer())
			requests, answer = h.outside(), h.text(state.Ended.Result)
		})
		return requests, answer, outcome
	}
	one, said, ok := seen(`{"pay":1111}`, isHigh)
	other, alike, _ := seen(`{"pay":2222}`, isHigh)
	require.Equal(t, "OK ", ok)
	require.Len(t, one, 2)
	require.True(t, reflect.DeepEqual(one, other), "every byte that the model gets")
	require.Equal(t, said, alike)
	require.Contains(t, said, "false")
	_, said, _ = seen(`{"pay":9999}`, isHigh)
	require.Contains(t, said, "true", "what was agreed to is told")

	leaks := map[string]func(string) model.Answer{
		"the text":        says,
		"a JSON text":     func(read string) model.Answer { raw, _ := json.Marshal(read); return says(string(raw)) },
		"by its length":   func(string) model.Answer { return says(strings.Repeat("x", 100_000)) },
		"a wider answer":  func(string) model.Answer { return says(`{"pay":true}`) },
		"refusing":        func(string) model.Answer { return model.Answer{Text: "no", Finish: model.FinishRefusal} },
		"asking for more": func(string) model.Answer { return consults(yesNo) },
	}
	first, firstSaid, _ := seen(`{"pay":1111}`, leaks["the text"])
	failed := len(ends) - 1
	for name, leak := range leaks {
		t.Run(name, func(t *testing.T) {
			requests, answer, outcome := seen(`{"pay":2222}`, leak)
			require.Equal(t, "FAILED "+run.ResultInvalid, outcome)
			require.True(t, reflect.DeepEqual(first, requests), "how it fails tells nothing either")
			require.Equal(t, firstSaid, answer)
			require.Equal(t, ends[failed], ends[len(ends)-1], "nor does what the borrower's journal has of it")
			require.NotContains(t, answer, "2222")
		})
	}
}

func TestPrivateSideAnswersOnlyInWhatWasDeclared(t *testing.T) {
	inside(t, withPrivateSide(func(*agents.Organisation) {}), func(t *testing.T, h *house) {
		h.twoSided(`{"type":"string","enum":["low","high"]}`, `{"pay":1}`, isHigh)
		admitted, err := h.borrowed("Is it within?")
		require.NoError(t, err)
		h.work()
		call := h.state(admitted.Run).Call(1)
		require.Equal(t, run.OutcomeRefused, call.Outcome)
		require.Equal(t, "RESULT_SCHEMA", call.Code)
		require.Zero(t, h.invoked["things.read"])
	})
}

func TestWhoIsOfTheAudienceHasNoPrivateSide(t *testing.T) {
	inside(t, withPrivateSide(func(*agents.Organisation) {}), func(t *testing.T, h *house) {
		h.twoSided(yesNo, `{"pay":9}`, isHigh)
		id := h.start("Is it within?")
		h.work()
		state := h.state(id)
		require.Equal(t, run.OutcomeOK, state.Call(1).Outcome)
		require.Empty(t, state.Children[0].Grant)
		require.Equal(t, policy.NewLabels("secret"), state.Call(1).Result.Marking.Labels, "what comes back to who may see it keeps its labels")
	})
}

func TestFault_P4_RecallStopsThePrivateSideUnderWay(t *testing.T) {
	inside(t, withPrivateSide(func(*agents.Organisation) {}), func(t *testing.T, h *house) {
		h.twoSided(yesNo, `{"pay":9}`, isHigh)
		answers := h.take
		h.take = func(ctx context.Context, request model.Request, deltas func(string)) (model.Answer, error) {
			if strings.Contains(request.Messages[1].Text, "PRIVATE:") {
				back := h.organisation
				back.Grants = []agents.Grant{back.Grants[0]}
				back.Grants[0].Recalled = &agents.Recalled{By: "olga", Reason: "over", AtMs: 2}
				h.change(back)
			}
			return answers(ctx, request, deltas)
		}
		admitted, err := h.borrowed("Is it within?")
		require.NoError(t, err)
		h.work()
		require.Zero(t, h.invoked["things.read"], "the next intent is not written any more")
		child := h.state(run.ChildOfCall(admitted.Run, 1))
		require.Equal(t, run.StatusFailed, child.Status)
		require.Equal(t, run.StatusParked, h.state(admitted.Run).Status)
	})
}

// narrow has, besides the clerk, the agent "narrow", which has no tool to write
// and may hand work to the clerk.
func narrow(grant bool) agents.Organisation {
	o := delegating()
	lead := &o.Agents[1]
	lead.Tools = lead.Tools[:1]
	lead.Clearance = nil
	if grant {
		o.Grants = []agents.Grant{{ID: "d1", Kind: agents.Delegation, Agent: "clerk", From: "lead", Reason: "help", Words: []agents.Word{{Person: "olga", AtMs: 1}}, AtMs: 1,
			Ceiling: agents.Ceiling{Tools: []agents.ToolUse{{Name: "things.write", Impact: policy.Reversible, Calls: 1}}, Stage: policy.Automate, MicroUSD: 50_000, Tokens: 50_000}}}
	}
	return o
}

// writer hands on, and the clerk writes.
func (h *house) writer(orders ...tool.Delegation) {
	h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
		first := len(request.Messages) == 2
		switch {
		case leads(request) && last(request) != "write" && first:
			return handOn(orders...), nil
		case first:
			return model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{{Name: "things.write", Arguments: json.RawMessage(`{"id":"1"}`)}}}, nil
		}
		return says("done"), nil
	}
}

func TestCase_34_AChildDoesNotGetByItsOwnDefinitionWhatItsParentLacks(t *testing.T) {
	borrowing := narrow(false)
	borrowing.Grants = []agents.Grant{{ID: "s1", Kind: agents.Share, Agent: "clerk", To: agents.Borrower{Person: "ada"}, Reason: "help",
		Ceiling: agents.Ceiling{Tools: borrowing.Agents[0].Tools, Models: borrowing.Agents[0].Models, Stage: policy.Automate, MicroUSD: 100_000, Tokens: 100_000},
		Words:   []agents.Word{{Person: "olga", AtMs: 1}}, AtMs: 1}}
	borrowing.Agents[0].Audience = []string{"e"}
	for name, o := range map[string]agents.Organisation{"own agent": narrow(false), "shared agent": borrowing} {
		t.Run(name, func(t *testing.T) {
			inside(t, o, func(t *testing.T, h *house) {
				h.writer(tool.Delegation{Agent: "clerk", Brief: "write"}, tool.Delegation{Agent: "clerk", Brief: "write", Tools: []string{"things.write"}})
				id := h.lead("go")
				h.work()
				require.Zero(t, h.invoked["things.write"])
				child := h.state(run.ChildOfCall(id, 1))
				require.NotContains(t, child.Started.Authority.Tools, "things.write")
				require.NotEqual(t, run.OutcomeOK, child.Call(1).Outcome)
				require.Equal(t, run.OutcomeRefused, h.state(id).Call(2).Outcome, "who asks for it is told so at once")
				require.Equal(t, run.RefusedWider, h.state(id).Call(2).Code)
			})
		})
	}
}

func TestCase_35_AGrantAloneGivesTheStrongerAgentItsTool(t *testing.T) {
	inside(t, narrow(true), func(t *testing.T, h *house) {
		h.writer(tool.Delegation{Agent: "clerk", Brief: "write"}, tool.Delegation{Agent: "lead", Brief: "write"})
		id := h.lead("go")
		h.work()
		child := h.state(run.ChildOfCall(id, 1))
		require.Equal(t, 1, h.invoked["things.write"])
		require.Equal(t, "d1", child.Started.Grant, "the grant is written down with what was done under it")
		require.Equal(t, 1, child.Started.Authority.Tools["things.write"].Calls, "no more than the grant gives")
		require.NotContains(t, child.Started.Authority.Tools, "things.read", "and nothing that neither has")
		require.NotContains(t, h.state(id).Authority.Tools, "things.write", "who hands on gets nothing of it")
		require.NotContains(t, h.state(run.ChildOfCall(id, 2)).Started.Authority.Tools, "things.write", "nor does a sibling")

		back := h.organisation
		back.Grants = []agents.Grant{back.Grants[0]}
		back.Grants[0].Recalled = &agents.Recalled{By: "olga", Reason: "over", AtMs: 2}
		h.change(back)
		h.lead("again")
		h.work()
		require.Equal(t, 1, h.invoked["things.write"], "without the grant it is as before")
	})
}

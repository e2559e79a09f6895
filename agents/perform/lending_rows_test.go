package perform_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// askingThenReading asks a person, then reads, then tells what it read.
const askingThenReading = `
def turn(ctx):
    if not ctx.results("ask.person"):
        return {"calls": [{"name": "ask.person", "arguments": {"question": "Shall I?"}}]}
    if not ctx.results("things.read"):
        return {"calls": [{"name": "things.read", "arguments": {"id": "1"}}]}
    return {"text": ctx.results("things.read")[0].text}`

// lent lends the clerk of d to e.
func lent(script string, change func(g *agents.Grant)) agents.Organisation {
	o := newOrganisation(script)
	clerk := o.Agents[0]
	g := agents.Grant{ID: "s1", Kind: agents.Share, Agent: "clerk", To: agents.Borrower{Department: "e"}, Reason: "help",
		Ceiling: agents.Ceiling{Tools: clerk.Tools, Labels: clerk.Clearance, Models: clerk.Models, Stage: policy.Automate, MicroUSD: 500_000, Tokens: 500_000, FanOut: 1},
		Words:   []agents.Word{{Person: "olga", AtMs: 1}}, AtMs: 1}
	change(&g)
	o.Grants = []agents.Grant{g}
	return o
}

// borrowed is an order of eve, whose department e borrows the clerk.
func (h *house) borrowed(goal string) (perform.Admitted, error) {
	h.t.Helper()
	for _, node := range h.organisation.Accounts("e", "", time.Now().UnixMilli()) {
		require.NoError(h.t, h.SetBudget(h.t.Context(), node, run.Amount{MicroUSD: 5_000_000, Tokens: 5_000_000}))
	}
	order := h.order(goal)
	order.Person, order.By = h.person("eve"), run.Identity{Principal: "eve"}
	return h.admission().Start(h.t.Context(), order)
}

// change puts another configuration in force.
func (h *house) change(o agents.Organisation) {
	h.t.Helper()
	h.admitted, h.organisation = h.kit(o), o
	require.NoError(h.t, h.SetGate(h.t.Context(), run.GateChange{Gate: run.ConfigGate("o"), Value: h.admitted.Digest}))
}

func (h *house) answered(id, by string) {
	h.t.Helper()
	question := h.state(id).Questions[0]
	text, payload := engine.Seal(h.source, id, by, policy.Marking{}, []byte("yes"))
	require.NoError(h.t, h.submit(id, run.AnswerQuestion{Question: question.Question, Answer: text, By: run.Identity{Principal: by}, Person: h.person(by)}, payload))
}

func TestFault_P4_RecalledShareStopsTheNextIntentOfARunUnderWay(t *testing.T) {
	inside(t, lent(askingThenReading, func(*agents.Grant) {}), func(t *testing.T, h *house) {
		admitted, err := h.borrowed("Read it.")
		require.NoError(t, err)
		h.work()
		require.Equal(t, run.StatusWaiting, h.state(admitted.Run).Status)
		back := h.organisation
		back.Grants = []agents.Grant{h.organisation.Grants[0]}
		back.Grants[0].Recalled = &agents.Recalled{By: "olga", Reason: "over", AtMs: 2}
		h.change(back)
		h.answered(admitted.Run, "eve")
		h.work()
		state := h.state(admitted.Run)
		require.Equal(t, run.StatusParked, state.Status)
		require.Equal(t, "AGENT_WITHDRAWN", state.Parked.Code)
		require.Len(t, state.Turns, 1, "no turn begins any more")
		require.Zero(t, h.invoked["things.read"])
		_, err = h.borrowed("Again.")
		require.ErrorContains(t, err, "NOT_FOUND")
	})
}

func TestFault_P4_NoRunBeginsUnderAShareThatRanOut(t *testing.T) {
	inside(t, lent(askingThenReading, func(g *agents.Grant) { g.UntilMs = time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC).UnixMilli() }), func(t *testing.T, h *house) {
		admitted, err := h.borrowed("Read it.")
		require.NoError(t, err)
		require.Equal(t, h.organisation.Grants[0].UntilMs, h.state(admitted.Run).Authority.DeadlineMs)
		h.work()
		h.later(2 * time.Hour)
		_, err = h.borrowed("Again.")
		require.ErrorContains(t, err, "NOT_FOUND")
		h.answered(admitted.Run, "eve")
		h.work()
		state := h.state(admitted.Run)
		require.Len(t, state.Turns, 1)
		require.Equal(t, run.LimitDeadline, state.Reached.Limit)
		require.NoError(t, h.submit(admitted.Run, run.Resume{By: run.Identity{Principal: "olga"}, Person: h.person("olga"), DeadlineMs: time.Now().Add(time.Hour).UnixMilli()}))
		h.work()
		require.Len(t, h.state(admitted.Run).Turns, 1, "who gives the run more time gives the share none")
	})
}

// What the borrower may not see leaves no trace in what the model gets or says.
func TestBorrowersRunIsTheSameWhateverThePrivateSideHolds(t *testing.T) {
	script := `
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": "things.read", "arguments": {"id": "1"}}]}
    return {"text": ctx.results("things.read")[0].text}`
	seen := func(who, secret string) (requests []model.Request, answer string) {
		inside(t, lent(script, func(*agents.Grant) {}), func(t *testing.T, h *house) {
			h.does["things.read"] = func(context.Context, tool.Invocation) (tool.Result, error) {
				return tool.Result{Content: []byte(secret), MediaType: tool.MediaJSON, Marking: h.organisation.Tools[0].Result}, nil
			}
			var id string
			if who == "eve" {
				admitted, err := h.borrowed("What does it say?")
				require.NoError(t, err)
				id = admitted.Run
			} else {
				id = h.start("What does it say?")
			}
			h.work()
			state := h.state(id)
			requests = h.requests
			if last := state.LastTurn(); last.Answer != nil && last.Answer.Text != nil {
				answer = h.text(last.Answer.Text)
			}
		})
		return requests, answer
	}
	one, said := seen("eve", `{"pay":4711}`)
	other, alike := seen("eve", `{"pay":1234}`)
	require.True(t, reflect.DeepEqual(one, other), "every byte that the model gets")
	require.Equal(t, said, alike)
	require.NotContains(t, fmt.Sprint(one, said), "4711")
	_, whole := seen("ada", `{"pay":4711}`)
	require.Contains(t, whole, "4711", "who is cleared for it is told")
}

func TestBorrowerPaysAndTheShareBoundsTheRun(t *testing.T) {
	inside(t, lent(askingThenReading, func(g *agents.Grant) {
		g.Ceiling.MicroUSD, g.Ceiling.Tools = 7_000, []agents.ToolUse{{Name: tool.AskName, Impact: policy.ImpactRead, Calls: 1}, {Name: "things.read", Impact: policy.ImpactRead, Calls: 1}}
	}), func(t *testing.T, h *house) {
		admitted, err := h.borrowed("Read it.")
		require.NoError(t, err)
		started := h.state(admitted.Run).Started
		require.Equal(t, h.organisation.Accounts("e", "", time.Now().UnixMilli()), started.Accounts)
		require.Equal(t, int64(7_000), started.Authority.MicroUSD)
		require.Empty(t, started.Authority.Labels)
		require.Len(t, started.Authority.Tools, 1, "and things.read would give what is secret")
	})
}

// A pinned revision stays what it was for who borrows it, whatever is published.
func TestBorrowerOfAPinnedRevisionKeepsIt(t *testing.T) {
	o := lent("def turn(ctx):\n    return {\"text\": \"x\"}\n", func(*agents.Grant) {})
	pinned := o.Agents[0]
	pinned.Instructions = "Keep them as before."
	o.Grants[0].Revision = &pinned
	inside(t, o, func(t *testing.T, h *house) {
		admitted, err := h.borrowed("Do it.")
		require.NoError(t, err)
		h.work()
		own := h.start("Do it.")
		h.work()
		require.Contains(t, h.requests[0].Messages[0].Text, "Keep them as before.")
		require.Contains(t, h.requests[1].Messages[0].Text, "Keep the things.")
		require.NotEqual(t, h.state(own).Started.Agent.Revision, h.state(admitted.Run).Started.Agent.Revision)
		require.Equal(t, run.StatusCompleted, h.state(admitted.Run).Status)
	})
}

// What a borrowed agent hands to itself is as its borrower sees it, unless it
// asks its private side.
func TestBorrowedAgentHandsWorkToItselfUnderItsBorrowersView(t *testing.T) {
	inside(t, withPrivateSide(func(o *agents.Organisation) {
		o.Agents[0].Delegates[0].As = []run.Kind{run.SubAgent, run.Sidecar}
	}), func(t *testing.T, h *house) {
		h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
			if len(request.Messages) == 2 && strings.Contains(request.Messages[1].Text, "split") {
				return handOn(tool.Delegation{Agent: "clerk", Brief: "half"}, tool.Delegation{Agent: "clerk", Brief: "half", As: "SIDECAR", Purpose: "RESEARCH"}), nil
			}
			return says("done"), nil
		}
		admitted, err := h.borrowed("split")
		require.NoError(t, err)
		h.work()
		for call := 1; call <= 2; call++ {
			require.Equal(t, run.OutcomeOK, h.state(admitted.Run).Call(call).Outcome)
			child := h.state(run.ChildOfCall(admitted.Run, call))
			require.Empty(t, child.Started.Grant)
			require.Empty(t, child.Started.Authority.Labels)
			require.NotContains(t, child.Started.Authority.Tools, "things.read")
		}
	})
}

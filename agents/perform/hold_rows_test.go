package perform_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// holding lets every write wait for the tool's owner.
const holding = `
@id("reads")
permit (principal, action in [Action::"things.read", Action::"ask.person"], resource);

@id("writes")
@hold("tool-owner")
permit (principal, action == Action::"things.write", resource);`

// held is an organisation in which writes wait for people.
func held(script string) agents.Organisation {
	o := newOrganisation(script)
	o.Policies = []agents.Source{{Name: "all", Text: holding}}
	return o
}

// controlled lets writes wait for somebody in the role of a controller.
func controlled(script string) agents.Organisation {
	o := newOrganisation(script)
	o.Roles = []string{"controller"}
	o.Policies = []agents.Source{{Name: "all", Text: `
@id("writes")
@hold("role:controller")
permit (principal, action == Action::"things.write", resource);`}}
	return o
}

// write returns the definition of things.write, to be changed.
func write(o *agents.Organisation) *tool.Definition { return &o.Tools[1] }

// word is a person's word on a call of a run.
func (h *house) word(id string, call int, by string, granted bool) run.DecideApproval {
	h.t.Helper()
	state := h.state(id)
	approval := state.Approval(state.Call(call).Approval)
	require.NotNil(h.t, approval)
	return run.DecideApproval{Approval: approval.Approval, Digest: approval.Digest, Granted: granted,
		By: run.Identity{Principal: by}, Person: h.person(by)}
}

func (h *house) submit(id string, command run.Command, payloads ...engine.Payload) error {
	_, err := h.engine.Submit(h.t.Context(), engine.Submission{Organisation: "o", Run: id, Command: command, Payloads: payloads})
	return err
}

func (h *house) decide(id string, call int, granted bool) {
	h.t.Helper()
	require.NoError(h.t, h.submit(id, h.word(id, call, "olga", granted)))
}

func (h *house) steer(id, words string, how run.Steer) {
	h.t.Helper()
	text, payload := engine.Seal(h.source, id, "ada", policy.Marking{}, []byte(words))
	how.Steer, how.By, how.Text = text.ID, run.Identity{Principal: "ada"}, text
	require.NoError(h.t, h.submit(id, how, payload))
}

// reconfigure puts another configuration in force.
func (h *house) reconfigure(o agents.Organisation) {
	h.t.Helper()
	h.organisation, h.admitted = o, h.kit(o)
	require.NoError(h.t, h.SetGate(h.t.Context(), run.GateChange{Gate: run.ConfigGate("o"), Value: h.admitted.Digest}))
}

// waiting are the kinds of what waits for a person.
func (h *house) waiting(who string) []engine.InboxKind {
	h.t.Helper()
	items, err := h.Inbox(h.t.Context(), h.person(who))
	require.NoError(h.t, err)
	var kinds []engine.InboxKind
	for _, item := range items {
		kinds = append(kinds, item.Kind)
	}
	return kinds
}

func refusalOf(t *testing.T, err error) run.Refusal {
	t.Helper()
	var refusal *run.Refusal
	require.ErrorAs(t, err, &refusal)
	return *refusal
}

// writing proposes one write and then says that it is done.
const writing = `
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": "things.write", "arguments": {"id": "b"}}]}
    return {"text": "done"}`

// Who asks does not decide: neither the person for whom the run acts, nor who
// acts for that person, nor the agent, whatever roles they hold. All of them
// are told what somebody who names no approval is told.
func TestFault_F4_WhoAsksDecidesNothingNorWhoActsForThem(t *testing.T) {
	o := controlled(writing)
	who := func(id string, kind policy.PrincipalKind, actsFor string) policy.Principal {
		return policy.Principal{ID: id, Kind: kind, Organisation: "o", Department: "d", Roles: []string{"controller"}, ActsFor: actsFor}
	}
	for i := range o.Principals {
		o.Principals[i].Roles = []string{"controller"}
	}
	o.Principals = append(o.Principals, who("dan", policy.Person, "ada"), who("dora", policy.Person, "dan"), who("robot", policy.Service, ""))
	inside(t, o, func(t *testing.T, h *house) {
		id := h.start("do it")
		h.work()
		absent := h.word(id, 1, "ada", true)
		absent.Approval = "none"
		nothing := refusalOf(t, h.submit(id, absent))
		for _, by := range []string{"ada", "dan", "dora", "robot", "agent:clerk"} {
			before := h.state(id).Version
			require.Equal(t, nothing, refusalOf(t, h.submit(id, h.word(id, 1, by, true))), by)
			require.Equal(t, nothing, refusalOf(t, h.submit(id, h.word(id, 1, by, false))), by)
			require.Equal(t, before, h.state(id).Version)
		}
		h.decide(id, 1, true)
		h.work()
		require.Equal(t, run.StatusCompleted, h.state(id).Status)
		require.Equal(t, 1, h.invoked["things.write"])
	})
}

// What was granted by somebody who may not any more is worth nothing: the call
// waits again, for those who may now.
func TestFault_F5_WhoLostTheRoleHasGrantedNothing(t *testing.T) {
	o := controlled(writing)
	o.Principals[1].Roles, o.Principals[2].Roles = []string{"controller"}, []string{"controller"} // olga, carl
	inside(t, o, func(t *testing.T, h *house) {
		id := h.start("do it")
		h.work()
		h.decide(id, 1, true)
		first := h.state(id).Approvals[0]
		require.Equal(t, run.ApprovalGranted, first.Status)
		changed := h.organisation
		changed.Principals = append([]policy.Principal{}, changed.Principals...)
		changed.Principals[1].Roles = nil
		h.reconfigure(changed)
		h.work()
		state := h.state(id)
		require.Equal(t, run.VoidNotEntitled, state.Approvals[0].Cause)
		require.Zero(t, state.Call(1).Intent)
		require.Empty(t, h.invoked)
		require.NotEqual(t, first.Digest, state.Approvals[1].Digest)
		require.Equal(t, []engine.InboxKind{engine.InboxApproval}, h.waiting("carl"))
		require.Empty(t, h.waiting("olga"))
		require.Equal(t, "NOT_FOUND", refusalOf(t, h.submit(id, h.word(id, 1, "olga", true))).Code)
		require.NoError(t, h.submit(id, h.word(id, 1, "carl", true)))
		h.work()
		require.Equal(t, run.StatusCompleted, h.state(id).Status)
		require.Equal(t, 1, h.invoked["things.write"])
	})
}

// What was approved is what is sent, byte for byte, whatever the model would
// say by now; and nobody asks it.
func TestFault_F9_TheStoredBytesAreSent(t *testing.T) {
	inside(t, held(writing), func(t *testing.T, h *house) {
		id := h.start("do it")
		h.work()
		approved := h.text(&h.state(id).Call(1).Arguments)
		other := newOrganisation(`
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": "things.write", "arguments": {"id": "other"}}]}
    return {"text": "done"}`)
		other.Policies = h.organisation.Policies
		config := h.state(id).Started.Snapshot.Config
		h.reconfigure(other)
		require.NotEqual(t, config, h.admitted.Digest)
		asked := len(h.requests)
		h.does["things.write"] = func(context.Context, tool.Invocation) (tool.Result, error) {
			require.Len(h.t, h.requests, asked, "the model is not asked between approval and effect")
			return tool.Result{Content: []byte("ok"), MediaType: tool.MediaText}, nil
		}
		h.decide(id, 1, true)
		h.work()
		require.Equal(t, `{"id":"b"}`, approved)
		require.Len(t, h.calls, 1)
		require.Equal(t, approved, string(h.calls[0].Arguments))
		require.Equal(t, approved, string(h.requests[asked].Messages[2].Calls[0].Arguments))
	})
}

// What ran beside a held call keeps its result until the turn is whole.
func TestCase_03_ResultsWaitForTheHeldCallAndComeInOrder(t *testing.T) {
	script := `
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": n, "arguments": {"id": i}} for n, i in [("things.read", "a"), ("things.write", "b"), ("things.read", "c")]]}
    return {"text": "done"}`
	inside(t, held(script), func(t *testing.T, h *house) {
		id := h.start("do it")
		h.work()
		require.Equal(t, map[string]int{"things.read": 2}, h.invoked, "what nothing holds is done")
		require.Len(t, h.requests, 1, "the model waits for the whole turn")
		h.later(time.Hour)
		h.decide(id, 2, true)
		h.work()
		require.Equal(t, map[string]int{"things.read": 2, "things.write": 1}, h.invoked, "each of them once")
		require.Equal(t, run.StatusCompleted, h.state(id).Status)
		var replies []string
		for _, message := range h.requests[1].Messages {
			replies = append(replies, message.CallID)
		}
		require.Equal(t, []string{"", "", "", "c1", "c2", "c3"}, replies)
	})
}

// An approval that is used up, and a person's word on it, restore nothing:
// not for the same call again, not in another run.
func TestCase_05_AnApprovalIsOfOneCallOfOneRun(t *testing.T) {
	inside(t, held(writing), func(t *testing.T, h *house) {
		first, second := h.start("do it"), h.start("do it")
		h.work()
		word := h.word(first, 1, "olga", true)
		require.Equal(t, "NOT_FOUND", refusalOf(t, h.submit(second, word)).Code)
		crossed := word
		crossed.Approval = h.state(second).Approvals[0].Approval
		require.Equal(t, "DIGEST_MISMATCH", refusalOf(t, h.submit(second, crossed)).Code)
		require.NoError(t, h.submit(first, word))
		h.work()
		require.Equal(t, 1, h.invoked["things.write"])
		require.Equal(t, run.StatusWaiting, h.state(second).Status)
		require.Equal(t, run.ApprovalSpent, h.state(first).Approvals[0].Status)
		require.Equal(t, "ALREADY_DECIDED", refusalOf(t, h.submit(first, word)).Code)
	})
}

// What a cancel or its time made void waits for nobody any more, ended without
// being done, and stops neither the run's reader nor the conversation.
func TestCase_11_WhatIsVoidIsNobodysAndTheConversationGoesOn(t *testing.T) {
	ends := map[string]func(h *house, id string){
		"a cancel": func(h *house, id string) {
			require.NoError(h.t, h.submit(id, run.Cancel{By: run.Identity{Principal: "ada"}}))
		},
		"its time": func(h *house, _ string) { h.later(48 * time.Hour) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			inside(t, held(writing), func(t *testing.T, h *house) {
				require.NoError(t, h.SetBudget(t.Context(), h.organisation.ConversationNode(), run.Amount{MicroUSD: 1 << 40, Tokens: 1 << 40}))
				require.NoError(t, h.Converse(t.Context(), "o", "talk"))
				order := h.order("do it")
				order.Conversation = "talk"
				first, err := h.admission().Start(t.Context(), order)
				require.NoError(t, err)
				h.work()
				require.Equal(t, []engine.InboxKind{engine.InboxApproval}, h.waiting("olga"))
				word, before := h.word(first.Run, 1, "olga", true), h.state(first.Run).Version
				end(h, first.Run)
				h.work()
				require.Empty(t, h.waiting("olga"))
				state := h.state(first.Run)
				require.Equal(t, run.ApprovalVoid, state.Approvals[0].Status)
				require.Len(t, recorded[run.CallEnded](h, first.Run), 1)
				require.Contains(t, []run.Outcome{run.OutcomeVoid, run.OutcomeExpired}, state.Call(1).Outcome)
				require.Zero(t, state.Call(1).Intent)
				require.Greater(t, state.Version, before, "readers are told by records, as of all else")
				require.Contains(t, []string{"RUN_ENDED", "APPROVAL_EXPIRED"}, refusalOf(t, h.submit(first.Run, word)).Code)
				require.True(t, state.Status.Ended())

				order.Goal = "rather do this"
				second, err := h.admission().Start(t.Context(), order)
				require.NoError(t, err)
				h.work()
				require.Equal(t, run.StatusWaiting, h.state(second.Run).Status)
				require.Empty(t, h.invoked)
			})
		})
	}
}

// An approval may wait for a month, while the configuration is changed three
// times in what it does not rest on: then it is as good as on the first day, or
// cleanly over where it may not wait so long.
func TestFault_F14_AnApprovalWaitsForAMonth(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for name, c := range map[string]struct {
		waits   time.Duration
		outcome run.Outcome
		acted   int
	}{"it still holds": {month + time.Hour, run.OutcomeOK, 1}, "it is over": {month - time.Hour, run.OutcomeExpired, 0}} {
		t.Run(name, func(t *testing.T) {
			o := held(writing)
			o.Agents[0].Limits.Approval, o.Agents[0].Limits.Duration = tool.Duration(c.waits), tool.Duration(2*month)
			inside(t, o, func(t *testing.T, h *house) {
				id := h.start("do it")
				h.work()
				word := h.word(id, 1, "olga", true)
				for i := range 3 {
					h.later(month / 3)
					changed := h.organisation
					changed.Title = fmt.Sprint("release ", i)
					changed.Principals = append(append([]policy.Principal{}, changed.Principals...), policy.Principal{ID: fmt.Sprint("new", i), Kind: policy.Person, Organisation: "o"})
					h.reconfigure(changed)
					h.engine = engine.New(h, h.rules)
					h.work()
				}
				err := h.submit(id, word)
				if c.acted == 0 {
					require.Equal(t, "APPROVAL_EXPIRED", refusalOf(t, err).Code)
				} else {
					require.NoError(t, err)
				}
				h.work()
				state := h.state(id)
				require.Equal(t, run.StatusCompleted, state.Status)
				require.Equal(t, c.outcome, state.Call(1).Outcome)
				require.Equal(t, c.acted, h.invoked["things.write"])
				require.Len(t, state.Approvals, 1, "nobody was asked twice")
				require.Equal(t, word.Digest, state.Approvals[0].Digest)
			})
		})
	}
}

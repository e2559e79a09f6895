package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// A call whose tool is kept back waits for the tool's owner, whatever policy
// says, and nobody's yes lets it happen.
func TestFault_E12_ACallOfAToolThatIsKeptBackWaits(t *testing.T) {
	for name, tool := range map[string]string{"that policy permits": "free", "that policy holds": "held"} {
		t.Run(name, func(t *testing.T) {
			w := begin(t)
			w.rules.quarantined = true
			w.turn(tool)
			call := w.s.Call(1)
			require.Equal(t, run.CallHeld, call.Phase)
			require.Equal(t, run.StatusWaiting, w.s.Status)
			approval := w.s.Approval(call.Approval)
			require.Equal(t, "olga", approval.Approvers[0].Principal)
			w.refused("TOOL_QUARANTINED", w.decide(call.Approval, true))
			w.refused("STALE", run.Reconsider{Call: 1})
			require.Equal(t, run.ApprovalOpen, w.s.Approval(call.Approval).Status)

			w.do(w.decide(call.Approval, false))
			require.Equal(t, run.OutcomeDenied, w.s.Call(1).Outcome, "no is an answer")
		})
	}
}

// What policy forbids is not kept back: it never happens.
func TestFault_E12_WhatIsForbiddenIsNotKeptBack(t *testing.T) {
	w := begin(t)
	w.rules.quarantined, w.rules.forbids = true, "free"
	w.turn("free")
	require.Equal(t, run.OutcomeForbidden, w.s.Call(1).Outcome)
}

// A yes that was given before the tool was kept back is void, and so is a
// request that is open; both say why.
func TestFault_E12_AnApprovalDoesNotOutliveItsDefinition(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	w.rules.quarantined = true
	decision := w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	require.Equal(t, []run.Event{run.ApprovalVoided{Approval: "ap-held-1-0", Cause: run.VoidToolChanged}}, decision.Events)
	require.Zero(t, w.s.Call(1).Intent)

	w = begin(t)
	w.turn("held")
	w.rules.quarantined = true
	w.do(run.Reconsider{Call: 1})
	require.Equal(t, run.VoidToolChanged, w.s.Approval("ap-held-1-0").Cause)
	w.do(run.Judge{Call: 1, Inputs: noArguments, Approval: "again", Nonce: "n"})
	require.Equal(t, run.CallHeld, w.s.Call(1).Phase)
}

// A repeat of what was approved before is kept back like anything else.
func TestFault_E12_ASpentApprovalDoesNotRepeatAToolThatIsKeptBack(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	w.do(run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeUnknown, Code: "TOOL_REPLY_BROKEN"})
	w.rules.quarantined = true
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	require.Equal(t, 1, w.s.Call(1).Intent, "no second attempt")
	require.Equal(t, []run.Effect{run.RejudgeCall{Call: 1}}, w.pending())
}

// When people pinned the tool anew the same run goes on with it, on a new
// approval that is bound to the new definition.
func TestFault_E12_TheSameRunGoesOnWithWhatWasPinnedAnew(t *testing.T) {
	w := begin(t)
	w.turn("held")
	first := w.s.Approval("ap-held-1-0").Digest
	w.rules.quarantined = true
	w.do(run.Reconsider{Call: 1})
	w.do(run.Judge{Call: 1, Inputs: noArguments, Approval: "kept", Nonce: "n1"})

	was := w.rules.tool
	w.rules.quarantined, w.rules.tool, w.rules.replaces = false, "t2", []string{was}
	w.do(run.Reconsider{Call: 1})
	w.do(run.Judge{Call: 1, Inputs: noArguments, Approval: "new", Nonce: "n2"})
	require.Equal(t, run.CallHeld, w.s.Call(1).Phase)
	require.NotEqual(t, first, w.s.Approval("new").Digest)
	w.refused("STALE", run.Reconsider{Call: 1})
	w.do(w.decide("new", true))
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	require.Equal(t, run.CallInFlight, w.s.Call(1).Phase)

	// Without that word another definition is another tool.
	w = begin(t)
	w.turn("held")
	w.rules.tool = "t2"
	w.do(run.Reconsider{Call: 1})
	w.do(run.Judge{Call: 1, Inputs: noArguments, Approval: "new", Nonce: "n2"})
	require.Equal(t, run.OutcomeForbidden, w.s.Call(1).Outcome)
}

// Only what was replaced is succeeded, and nothing of its bounds changes.
func TestWhatWasReplacedIsSucceeded(t *testing.T) {
	had := policy.Authority{Tools: map[string]policy.ToolGrant{
		"a": {Revision: "a1", Impact: policy.Draft, Calls: 2}, "b": {Revision: "b1", Impact: policy.Draft, Calls: 2}, "c": {Revision: "c1"}}}
	got := policy.Succeeded(had, func(name string) (policy.ToolFacts, bool) {
		return policy.ToolFacts{Name: name, Revision: name + "2", Replaces: map[string][]string{"a": {"a0", "a1"}, "b": {"b0"}}[name]}, name != "c"
	})
	require.Equal(t, policy.ToolGrant{Revision: "a2", Impact: policy.Draft, Calls: 2}, got.Tools["a"])
	require.Equal(t, "b1", got.Tools["b"].Revision)
	require.Equal(t, "c1", got.Tools["c"].Revision)
	require.Equal(t, "a1", had.Tools["a"].Revision, "what was given is not changed")
}

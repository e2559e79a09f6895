package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Whoever approves what no longer holds is told so, also when asking again;
// what changed is recorded, nothing runs, and people are asked anew.
func TestCase_08_ApprovingWhatNoLongerHoldsSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fixedRules)
		cause  run.Void
		then   run.CallPhase // after the call was judged anew
	}{
		"the policies changed":  {func(r *fixedRules) { r.policy = "p2" }, run.VoidPolicyChanged, run.CallHeld},
		"the tool changed":      {func(r *fixedRules) { r.tool = "t2" }, run.VoidToolChanged, run.CallDone},
		"the grant was revoked": {func(r *fixedRules) { r.revoked = true }, run.VoidPolicyChanged, run.CallDone},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t)
			w.turn("held")
			wish := w.decide("ap-held-1-0", true)
			c.change(w.rules)
			decision := w.do(wish)
			require.Equal(t, []run.Event{run.ApprovalVoided{Approval: "ap-held-1-0", Cause: c.cause}}, decision.Events)
			require.NotNil(t, decision.Unmet)
			require.Equal(t, "APPROVAL_STALE", decision.Unmet.Code)
			require.Contains(t, decision.Unmet.Detail, c.cause)
			w.refused("APPROVAL_STALE", wish)
			require.Equal(t, []run.Effect{run.RejudgeCall{Call: 1}}, w.pending())
			w.do(run.Judge{Call: 1, Inputs: noArguments, Approval: "again", Nonce: "n"})
			require.Equal(t, c.then, w.s.Call(1).Phase)
			require.Zero(t, w.s.Call(1).Intent)
		})
	}
}

func TestAWordThatIsTakenIsNeverUnmet(t *testing.T) {
	w := begin(t)
	w.turn("held", "held")
	require.Nil(t, w.do(w.decide("ap-held-1-0", true)).Unmet)
	w.rules.policy = "p2"
	require.Nil(t, w.do(w.decide("ap-held-1-1", false)).Unmet, "no is no under any policy")
	require.Equal(t, run.OutcomeDenied, w.s.Call(2).Outcome)
}

func TestAnApprovalThatRanOutSaysSo(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.nowMs = 6000
	w.refused("APPROVAL_EXPIRED", w.decide("ap-held-1-0", true))
	w.do(run.Fire{})
	w.refused("APPROVAL_EXPIRED", w.decide("ap-held-1-0", true))
}

func TestASecondPersonIsToldThatTheFirstLostTheRole(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	w.rules.retired = "olga"
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	require.Equal(t, run.VoidNotEntitled, w.s.Approval("ap-held-1-0").Cause)
	w.rules.retired = ""
	second := w.decide("ap-held-1-0", true)
	second.Person = policy.Principal{ID: "olga"}
	w.refused("APPROVAL_STALE", second)
}

package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run"
)

// underReview is a run whose first call is being reviewed.
func underReview(t *testing.T, tools ...string) *world {
	w := begin(t)
	w.besides()
	w.do(run.ReportSidecar{Number: 1, Sidecar: "side", Agent: "b", Purpose: run.ForMonitor})
	w.turn(tools...)
	w.do(beginReview(w, run.ReviewOfCall(1)))
	return w
}

func beginReview(w *world, of string) run.BeginReview {
	return run.BeginReview{Of: of, Child: *reviewing(w.s, of, run.Amount{MicroUSD: 9, Tokens: 9})}
}

func TestOnlyTheReviewerThatIsNamedReviews(t *testing.T) {
	w := begin(t)
	w.besides()
	w.turn("free", "opaque")
	other, agent := beginReview(w, run.ReviewOfCall(1)), beginReview(w, run.ReviewOfCall(1))
	other.Child.Child, agent.Child.Agent = "other", "c"
	w.refused("NOT_DUE", other)
	w.refused("NOT_DUE", agent)
	w.refused("NOT_DUE", beginReview(w, run.ReviewOfCall(2)))
	w.do(beginReview(w, run.ReviewOfCall(1)))
	w.refused("NOT_DUE", beginReview(w, run.ReviewOfCall(1)))
	w.refused("NOT_DUE", run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
}

// A review is a child like others: its money is carved, and the run does not
// end before it.
func TestACancelWaitsForAReview(t *testing.T) {
	w := underReview(t, "free")
	require.Equal(t, books{1000, 9, 0, 0}, w.books())
	require.Equal(t, run.StatusWaiting, w.s.Status)
	w.do(run.Cancel{By: by("ada")})
	require.Equal(t, run.StatusCancelling, w.s.Status)
	require.Equal(t, []run.Outcome{run.OutcomeVoid}, w.outcomes())
	w.do(run.ReportChildren{Ends: []run.ChildEnd{reviewEnd(w.s, run.ReviewOfCall(1), true)}})
	require.Equal(t, run.StatusCancelled, w.s.Status)
	require.Equal(t, books{1000, 0, 3, 0}, w.books())
}

// The word of a reviewer counts also while the run waits at a limit.
func TestAReviewThatSpeaksAgainstACallAtALimitHoldsIt(t *testing.T) {
	w := begin(t)
	w.besides()
	w.s.Limits.NoProgress = 1
	w.turn("free", "checkable")
	w.do(beginReview(w, run.ReviewOfCall(1)))
	w.do(run.BeginCall{Epoch: 1, Call: 2, Key: "k", Inputs: noArguments})
	w.do(run.ReportCall{Call: 2, Intent: 1, Outcome: run.OutcomeOK})
	require.NotNil(t, w.s.Reached)
	w.do(run.ReportChildren{Ends: []run.ChildEnd{reviewEnd(w.s, run.ReviewOfCall(1), false)}})
	require.Equal(t, run.CallProposedPhase, w.s.Call(1).Phase)
	w.do(run.Judge{Call: 1, Inputs: noArguments, Approval: "ap", Nonce: "n"})
	require.Equal(t, run.CallHeld, w.s.Call(1).Phase)
}

// Where no further run may live, a reviewed call that another agent is to do
// waits for people, and does not break the run.
func TestAReviewForWhichThereIsNoRoomIsDeclined(t *testing.T) {
	w := begin(t)
	started := w.s.Started
	started.Authority.RunsAtOnce = 1
	started.Reviewers = []run.Reviewer{{Of: "delegate-held", Agent: "b"}, {Of: "delegate", Agent: "b"}}
	w.restart(started)
	w.turn("delegate", "delegate")
	w.do(beginReview(w, run.ReviewOfCall(1)))
	require.Equal(t, run.StatusRunning, w.s.Status, "the other one's review is due")
	w.do(beginReview(w, run.ReviewOfCall(2)))
	require.Equal(t, []run.ReviewDeclined{{Of: run.ReviewOfCall(2), Code: run.RefusedRuns}}, w.s.Declined)
	require.Equal(t, run.CallProposedPhase, w.s.Call(2).Phase)
}

func TestAnAnswerIsNotCheckedWhileItIsReviewed(t *testing.T) {
	w := begin(t)
	w.besides()
	w.do(run.ReportSidecar{Number: 1, Sidecar: "side", Agent: "b", Purpose: run.ForMonitor})
	w.refused("STALE", run.ReportSidecar{Number: 1, Sidecar: "another", Agent: "b"})
	w.refused("STALE", run.ReportSidecar{Sidecar: "side", Agent: "b"})
	w.turn()
	w.do(beginReview(w, run.ReviewOfAnswer(1)))
	w.refused("STALE", checked(1, run.CheckPassed))
	w.refused("STALE", run.DeclineReview{Of: run.ReviewOfAnswer(1), Code: "LATE"})
	w.do(run.ReportChildren{Ends: []run.ChildEnd{reviewEnd(w.s, run.ReviewOfAnswer(1), true)}})
	w.do(checked(1, run.CheckPassed))
	require.Equal(t, run.StatusCompleted, w.s.Status)
}

// keys name the effects that the run asks for.
func (w *world) keys() (keys []string) {
	for _, effect := range w.pending() {
		keys = append(keys, effect.Key())
	}
	return keys
}

// A guard has spoken before any call of its turn is attempted, also of those
// that it does not review.
func TestCase_22_AGuardEndsBeforeAnyCallOfItsTurnBegins(t *testing.T) {
	for name, passed := range map[string]bool{"nothing speaks against it": true, "it is held": false} {
		t.Run(name, func(t *testing.T) {
			w := begin(t)
			started := w.s.Started
			started.Reviewers = []run.Reviewer{{Of: "free", Agent: "b", Guards: true}}
			w.restart(started)
			w.turn("opaque", "free", "checkable")
			require.Equal(t, []string{"review/" + run.ReviewOfCall(2)}, w.keys(), "nothing but the review is due")
			w.refused("NOT_DUE", run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
			w.do(beginReview(w, run.ReviewOfCall(2)))
			require.Equal(t, run.StatusWaiting, w.s.Status)
			require.Equal(t, []string{"children"}, w.keys())
			w.refused("NOT_DUE", run.BeginCall{Epoch: 1, Call: 3, Key: "k", Inputs: noArguments})
			w.do(run.ReportChildren{Ends: []run.ChildEnd{reviewEnd(w.s, run.ReviewOfCall(2), passed)}})
			require.Contains(t, w.keys(), "call/1/1")
			require.Contains(t, w.keys(), "call/3/1")
			require.Equal(t, passed, w.s.Call(2).Phase == run.CallReady)
			w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
		})
	}
}

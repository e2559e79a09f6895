package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// item is a remembered item with at most one label.
func item(id, etag string, label policy.Label) run.Recalled {
	recalled := run.Recalled{Item: id, Space: "organisation", Etag: etag, Digest: "d" + id + etag}
	if label != "" {
		recalled.Marking.Labels = policy.NewLabels(label)
	}
	return recalled
}

func remembers(cause run.RecallCause, items ...run.Recalled) run.BeginTurn {
	return run.BeginTurn{Epoch: 1, Model: "m", Memory: &run.Remembrance{Cause: cause, Items: items}}
}

func TestWhatIsRecalledMarksTheRun(t *testing.T) {
	w := begin(t)
	poisoned := item("m1", "1", "")
	poisoned.Marking.Integrity = policy.Untrusted
	w.do(remembers(run.RecallNews, poisoned))
	require.Equal(t, policy.Marking{Integrity: policy.Untrusted}, w.s.Marking, "before anything is answered")

	started := w.s.Started
	started.Snapshot.Memory = []run.Recalled{item("m1", "1", "hr")}
	started.Authority.Labels = policy.NewLabels("hr")
	s := &run.State{ID: "r2"}
	require.NoError(t, run.Apply(s, started))
	require.Equal(t, policy.NewLabels("hr"), s.Marking.Labels)
}

func TestNothingIsRecalledTwiceOrBeyondTheRun(t *testing.T) {
	w := begin(t)
	w.refused("STALE", remembers(run.RecallNews, item("m1", "1", "hr")))
	w.refused("STALE", remembers(run.RecallNews, item("m1", "1", ""), item("m1", "1", "")))
	w.do(remembers(run.RecallNews, item("m1", "1", "")))
	w.do(run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassCut})
	w.refused("STALE", remembers(run.RecallNews, item("m1", "1", "")))
	w.do(remembers(run.RecallNews, item("m1", "2", ""))) // it changed, and is something new
	require.Equal(t, []run.Recalled{item("m1", "1", ""), item("m1", "2", "")}, w.s.Recalled())
}

func TestARunThatRecallsMoreThanItMayReadIsNotStarted(t *testing.T) {
	started := begin(t).s.Started
	for name, items := range map[string][]run.Recalled{
		"a label": {item("m1", "1", "hr")}, "the same twice": {item("m1", "1", ""), item("m1", "1", "")},
	} {
		t.Run(name, func(t *testing.T) {
			started.Snapshot.Memory = items
			_, refusal := run.Decide(&run.State{ID: "r1"}, run.Start{Started: started}, run.Env{NowMs: 1, Rules: &fixedRules{policy: "p1", tool: "t1"}})
			require.NotNil(t, refusal)
			require.Equal(t, "AUTHORITY", refusal.Code)
		})
	}
}

func TestARecallIsSealedToItsRunAndNothingIsWrittenForNothing(t *testing.T) {
	w := begin(t)
	w.do(run.BeginTurn{Epoch: 1, Model: "m", Memory: &run.Remembrance{Cause: run.RecallNews}})
	require.Empty(t, w.s.Turns[0].Memory)
	w.do(run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassCut})
	w.do(remembers(run.RecallNews, item("m1", "1", "")))
	recalled := w.s.Turns[1].Memory[0]
	require.True(t, recalled.Sealed(w.s.Started.SnapshotDigest))
	require.False(t, recalled.Sealed("of another run"))
	recalled.Cause = run.RecallGoal
	require.False(t, recalled.Sealed(w.s.Started.SnapshotDigest))
}

func TestTheGoalIsAskedAboutUntilMemoryAnswers(t *testing.T) {
	s := &run.State{}
	require.True(t, s.GoalAsked())
	s.Started.Snapshot.MemoryMissing = []string{run.MemoryOut}
	require.False(t, s.GoalAsked())
	s.Turns = []run.Turn{{Memory: []run.Remembrance{{Cause: run.RecallNews}, {Cause: run.RecallGoal, Missing: []string{"DENSE"}}}}}
	require.False(t, s.GoalAsked())
	s.Turns[0].Memory[1].Missing = nil
	require.True(t, s.GoalAsked())
}

func TestACloneRecallsForItself(t *testing.T) {
	w := begin(t)
	w.do(remembers(run.RecallNews, item("m1", "1", "")))
	w.do(run.ReportTurn{Turn: 1, Attempt: 1, Failure: &run.TurnFailure{Cause: "OUTAGE", Retryable: true, RetryAfterMs: 1}})
	w.nowMs += 10
	one, other := w.s.Clone(), w.s.Clone()
	for s, id := range map[*run.State]string{one: "m2", other: "m3"} {
		decision, refusal := run.Decide(s, remembers(run.RecallNews, item(id, "1", "")), run.Env{NowMs: w.nowMs, Rules: w.rules})
		require.Nil(t, refusal)
		require.NoError(t, run.Apply(s, decision.Events[0]))
	}
	require.Equal(t, "m2", one.Recalled()[1].Item)
	require.Equal(t, "m3", other.Recalled()[1].Item)
	require.Len(t, w.s.Recalled(), 1)
}

package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run"
)

var noArguments = run.CallInputs{Arguments: []byte("{}")}

func TestAStaleEpochIsFenced(t *testing.T) {
	head := run.Head{Version: 5, Epoch: 2}
	require.ErrorIs(t, run.Admit(head, 5, 1), run.ErrFenced)
	require.ErrorIs(t, run.Admit(head, 4, 2), run.ErrConflict)
	require.NoError(t, run.Admit(head, 5, 2))
	require.NoError(t, run.Admit(head, 5, 0), "from outside")
}

func TestARunIsTakenOverWhenItsLeaseEnds(t *testing.T) {
	head := run.Head{Status: run.StatusRunning, DueMs: 10, Owner: "dead", LeaseUntil: 100}
	require.False(t, run.Claimable(head, 99))
	require.True(t, run.Claimable(head, 100))
}

func TestNoOutcomeWithoutAnIntent(t *testing.T) {
	w := begin(t)
	w.turn("free")
	w.refused("STALE", run.ReportCall{Call: 1, Intent: 0, Outcome: run.OutcomeOK})
	w.refused("STALE", run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeOK})
}

func TestFault_B2_OnlySafeClassesAreRepeatedBlindly(t *testing.T) {
	for _, tool := range []string{"opaque", "checkable"} {
		w := begin(t)
		w.turn(tool)
		w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
		w.do(run.Recover{Epoch: 2})
		for _, effect := range run.Pending(w.s, w.nowMs) {
			require.NotEqual(t, run.DispatchCall{Call: 1, Intent: 2}, effect, tool)
		}
	}
}

func TestAbsentIsNoProof(t *testing.T) {
	w := begin(t)
	w.turn("checkable")
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	w.do(run.Recover{Epoch: 2})
	require.Equal(t, []run.Effect{run.ProbeCall{Call: 1, Intent: 1}}, run.Pending(w.s, w.nowMs))
	w.do(run.ReportProbe{Call: 1})
	require.True(t, w.s.Call(1).AskPerson)
	require.Empty(t, run.Pending(w.s, w.nowMs))
	require.Equal(t, run.StatusWaiting, w.s.Status)
}

func TestAnIntentMakesItsConditions(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	decision := w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	var root, expiry bool
	for _, guard := range decision.Guards {
		root = root || guard.Gate == run.RootGate("r1") && guard.Value == ""
		expiry = expiry || guard.BeforeMs == w.s.Approval("ap-held-1-0").NotAfterMs
	}
	require.True(t, root, "a cancel anywhere in the tree stops the intent")
	require.True(t, expiry, "the approval has not expired by the database clock")
}

func TestFault_H4_ATurnIsSettledOnce(t *testing.T) {
	w := begin(t)
	w.do(run.BeginTurn{Epoch: 1, Model: "m", Reserve: run.Amount{MicroUSD: 5}})
	answer := run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassText, Cost: run.Amount{MicroUSD: 3}}
	w.do(answer)
	w.refused("STALE", answer)
	require.Equal(t, run.Amount{MicroUSD: 3}, w.s.Budget.Committed())
}

func TestResultsKeepTheModelsOrder(t *testing.T) {
	w := begin(t)
	w.turn("free", "held", "free")
	w.attempt(3)
	w.attempt(1)
	require.Equal(t, "free-1-0", w.s.Call(1).Arguments.ID)
	require.Equal(t, "held-1-1", w.s.Call(2).Arguments.ID)
	require.Equal(t, "result1", w.s.Call(1).Result.ID)
}

func TestADueRunKeepsSinceWhen(t *testing.T) {
	for _, c := range []struct{ before, wanted, due int64 }{
		{10, 20, 10}, // still due
		{0, 20, 20},  // due now
		{10, 0, 0},   // not any more
		{10, 60, 60}, // at a time to come
		{60, 20, 20}, // before that time
	} {
		require.Equal(t, c.due, run.KeepDue(c.before, c.wanted, 50), "%+v", c)
	}
}

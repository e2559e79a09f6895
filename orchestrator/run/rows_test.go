package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// A yes that does not say to what is no yes, and what was decided before does
// not happen again.
func TestCase_01_ABareAnswerIsRefusedAndADecidedCallRunsOnce(t *testing.T) {
	w := begin(t)
	w.turn("held", "held", "held")
	bare := w.decide("ap-held-1-1", true)
	bare.Approval = ""
	w.refused("NOT_FOUND", bare)
	undigested := w.decide("ap-held-1-1", true)
	undigested.Digest = ""
	w.refused("DIGEST_MISMATCH", undigested)
	crossed := w.decide("ap-held-1-1", true)
	crossed.Approval = "ap-held-1-2"
	w.refused("DIGEST_MISMATCH", crossed)
	w.do(w.decide("ap-held-1-1", true))
	w.attempt(2)
	w.do(w.decide("ap-held-1-0", true))
	require.Equal(t, []run.Effect{run.DispatchCall{Call: 1, Intent: 1}}, w.pending())
	w.refused("NOT_DUE", run.BeginCall{Epoch: 1, Call: 2, Key: "k", Inputs: noArguments})
	w.refused("NOT_DUE", run.BeginCall{Epoch: 1, Call: 3, Key: "k", Inputs: noArguments})
}

// What may have happened is told from what was refused and what never began.
func TestCase_20_WhatIsUnknownIsToldFromWhatNeverBegan(t *testing.T) {
	w := begin(t)
	w.turn("opaque", "held", "unknown", "free", "held")
	w.do(w.decide("ap-held-1-4", false))
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	w.do(run.Cancel{By: by("ada")})
	require.Equal(t, run.StatusCancelling, w.s.Status)
	w.do(run.Recover{Epoch: 2})
	require.Equal(t, run.StatusCancelled, w.s.Status)
	require.Equal(t, []run.Outcome{run.OutcomeUnknown, run.OutcomeVoid, run.OutcomeForbidden, run.OutcomeVoid, run.OutcomeDenied}, w.outcomes())
	require.Equal(t, []string{run.Lost, string(run.VoidCancelled)}, []string{w.s.Call(1).Code, w.s.Call(4).Code})
	ends := map[int]int{}
	for _, record := range w.kept {
		if event, err := run.Decode(record); err == nil && record.Kind == run.KindCallEnded {
			ends[event.(run.CallEnded).Call]++
		}
	}
	require.Equal(t, map[int]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 1}, ends)
}

// A deadline that passes while somebody decides stops the call, not the word:
// the run asks for more time, or ends, and nothing is done late.
func TestFault_H7_AfterTheDeadlineAGrantedCallDoesNotBegin(t *testing.T) {
	waiting := func(onLimit run.OnLimit) *world {
		w := begin(t)
		w.s.Limits.ApprovalMs, w.s.Limits.OnLimit = 5_000_000, onLimit
		w.turn("held", "free")
		w.nowMs = w.s.Authority.DeadlineMs
		w.do(w.decide("ap-held-1-0", true))
		decision := w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
		for _, event := range decision.Events {
			require.NotEqual(t, run.KindCallIntended, event.Kind())
		}
		return w
	}
	w := waiting(run.AskOnLimit)
	require.Equal(t, run.LimitDeadline, w.s.Reached.Limit)
	require.Equal(t, run.StatusWaiting, w.s.Status)
	require.Empty(t, w.pending(), "neither the call nor what stands beside it")
	w.refused("NOT_DUE", run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	w.refused("RAISE_DEADLINE", run.Resume{By: by("olga"), Person: olga(), DeadlineMs: w.nowMs})
	w.do(run.Resume{By: by("olga"), Person: olga(), DeadlineMs: w.nowMs + 10})
	decision := w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	require.Contains(t, decision.Guards, run.Guard{Gate: run.RootGate("r1"), BeforeMs: w.nowMs + 10}, "the write itself checks the new time")

	w = waiting(run.AskOnLimit)
	w.nowMs = w.s.Approvals[0].NotAfterMs
	w.do(run.Fire{})
	require.Equal(t, run.OutcomeExpired, w.s.Call(1).Outcome, "the word ends in its own time")
	require.Equal(t, run.StatusWaiting, w.s.Status)

	w = waiting(run.FailOnLimit)
	require.Equal(t, run.StatusFailed, w.s.Status)
	require.Equal(t, []string{string(run.EndLimit), string(run.LimitDeadline)}, []string{string(w.s.Ended.Reason), w.s.Ended.Code})
	require.Equal(t, run.VoidLimit, w.s.Approvals[0].Cause)
	require.Equal(t, []run.Outcome{run.OutcomeVoid, run.OutcomeVoid}, w.outcomes())
}

// An approval that the first version asked for and nobody answered for a month:
// its digest is what this version computes of the same call, and it is over.
func TestFault_F14_AnApprovalOfTheFirstVersionEndsCleanlyAfterAMonth(t *testing.T) {
	w := begin(t)
	fresh := w.s.Started
	w.s, w.kept = &run.State{ID: "r1"}, readStored(t, storedPath("held"))
	w.last = w.kept[len(w.kept)-1]
	require.NoError(t, run.Replay(w.s, w.kept))
	asked := w.s.Approvals[0]
	w.nowMs = w.last.AtMs + 30*24*60*60*1000
	w.refused("APPROVAL_EXPIRED", w.decide(asked.Approval, true))
	w.do(run.Fire{})
	require.Equal(t, run.ApprovalVoid, w.s.Approvals[0].Status)
	require.Equal(t, []run.Outcome{run.OutcomeExpired}, w.outcomes())
	require.Equal(t, []run.Effect{run.TakeTurn{Turn: 2, Attempt: 1}}, w.pending(), "the run goes on, as far as its deadline lets it")
	w.refused("APPROVAL_EXPIRED", w.decide(asked.Approval, true))

	again := begin(t)
	require.Equal(t, fresh.SnapshotDigest, again.s.Started.SnapshotDigest)
	again.turn("held")
	require.Equal(t, asked.Digest, again.s.Approvals[0].Digest, "the same call has the same digest in every version")
}

// A role that was lost between the word and the effect makes the word void, in
// the very decision that would have spent it; those who may now are asked.
func TestFault_F5_AWordIsWeighedAgainWhenItIsSpent(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	w.rules.retired = "olga"
	decision := w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	require.Equal(t, []run.Event{run.ApprovalVoided{Approval: "ap-held-1-0", Cause: run.VoidNotEntitled}}, decision.Events)
	require.Equal(t, []run.Effect{run.RejudgeCall{Call: 1}}, w.pending())
	w.do(run.Judge{Call: 1, Inputs: noArguments, Approval: "again", Nonce: "n"})
	require.Equal(t, run.CallHeld, w.s.Call(1).Phase)
	require.NotEqual(t, w.s.Approvals[0].Digest, w.s.Approvals[1].Digest)
	require.Equal(t, policy.Hold, w.s.Call(1).Verdict.Answer)
	require.Zero(t, w.s.Call(1).Intent)
}

// A run that is parked still hears what its model answered: it is paid for. What
// the answer asks for waits for the operator, as its end does.
func TestAnAnswerToAParkedRunIsKept(t *testing.T) {
	resume := run.Resume{By: by("olga"), Person: olga()}
	parked := func(report run.ReportTurn, repairs int) *world {
		w := begin(t)
		w.s.Limits.RepairTurns = repairs
		w.do(run.BeginTurn{Epoch: 1, Model: "m", Reserve: usd(9)})
		w.do(run.Park{Code: "OPERATOR"})
		report.Turn, report.Attempt = 1, 1
		w.do(report)
		require.Equal(t, run.StatusParked, w.s.Status)
		require.Empty(t, w.pending())
		require.Zero(t, run.DueMs(w.s, w.nowMs))
		require.Zero(t, w.s.Budget.Reserved)
		w.refused("STALE", report)
		return w
	}
	free := run.Proposal{Tool: "free", Revision: "t1", Text: run.Text{ID: "a"}, Class: policy.ClassRead, Impact: policy.ImpactRead, Inputs: noArguments}
	held := run.Proposal{Tool: "held", Revision: "t1", Text: run.Text{ID: "b"}, Class: policy.Keyed, Impact: policy.Reversible, Approval: "ap", Inputs: noArguments}

	w := parked(run.ReportTurn{Class: run.ClassCalls, Calls: []run.Proposal{free, held}, Cost: usd(4)}, 2)
	require.Equal(t, usd(4), w.s.Budget.Settled)
	w.refused("NOT_DUE", run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	w.do(w.decide("ap", true))
	w.refused("NOT_DUE", run.BeginCall{Epoch: 1, Call: 2, Key: "k", Inputs: noArguments})
	w.do(resume)
	w.attempt(1)
	w.attempt(2)
	require.Equal(t, []run.Effect{run.TakeTurn{Turn: 2, Attempt: 1}}, w.pending(), "the model is not asked the same again")

	for class, reason := range map[run.Class]run.EndReason{run.ClassRefusal: run.EndRefused, run.ClassEmpty: run.EndUnusable} {
		w = parked(run.ReportTurn{Class: class, Text: &run.Text{ID: "no"}}, 0)
		w.do(resume)
		require.Equal(t, run.StatusFailed, w.s.Status)
		require.Equal(t, reason, w.s.Ended.Reason)
	}
	w = parked(run.ReportTurn{Class: run.ClassCalls, Calls: []run.Proposal{{Tool: "free", Text: run.Text{ID: "x"}, Refusal: "ARGUMENTS_NOT_JSON"}}}, 0)
	w.do(resume)
	require.Equal(t, run.EndUnusable, w.s.Ended.Reason)
	w = parked(run.ReportTurn{Class: run.ClassEmpty}, 1)
	w.do(resume)
	require.Equal(t, []run.Effect{run.TakeTurn{Turn: 2, Attempt: 1}}, w.pending())
	w = parked(run.ReportTurn{Failure: &run.TurnFailure{Cause: "REJECTED"}}, 2)
	require.Equal(t, run.Amount{}, w.s.Budget.Unknown)
	w.do(resume)
	require.Equal(t, []run.Effect{run.TakeTurn{Turn: 1, Attempt: 2}}, w.pending())
}

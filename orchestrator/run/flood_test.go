package run_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// flooding is a run with a turn under way that may ask so often; 0 for the default.
func flooding(t *testing.T, often int) *world {
	t.Helper()
	w := begin(t)
	started := w.s.Started
	started.Limits.Approvals, started.Limits.CallsPerTurn = often, 1000
	w.restart(started)
	w.do(run.BeginTurn{Epoch: 1, Model: "m", Reserve: run.Amount{Tokens: 10}})
	return w
}

// judgeAll asks for a verdict on all that waits for one.
func (w *world) judgeAll() {
	w.t.Helper()
	for {
		effects := run.Pending(w.s, w.nowMs)
		next := slices.IndexFunc(effects, func(e run.Effect) bool { _, judges := e.(run.RejudgeCall); return judges })
		if next < 0 {
			return
		}
		call := effects[next].(run.RejudgeCall).Call
		w.do(run.Judge{Call: call, Inputs: noArguments, Approval: run.ReviewOfCall(call), Nonce: "n"})
	}
}

func proposals(n int) (calls []run.Proposal) {
	for i := range n {
		p := held("held")
		p.Approval, p.Impact, p.Class = "first/"+run.ReviewOfCall(i+1), policy.Reversible, policy.Keyed
		calls = append(calls, p)
	}
	return calls
}

// What asks for too many approvals is parked: nobody looks at hundreds of them
// one by one. What was asked can be decided, and an operator lets the run ask
// for as many again.
func TestFault_F15_WhatAsksForTooManyApprovalsIsParked(t *testing.T) {
	for often, most := range map[int]int{0: run.DefaultApprovals, 7: 7} {
		w := flooding(t, often)
		w.do(run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassCalls, Calls: proposals(2*most + 1)})
		require.Equal(t, run.StatusParked, w.s.Status)
		require.Equal(t, run.ParkedFlood, w.s.Parked.Code)
		require.Len(t, w.s.Approvals, most)
		require.Empty(t, run.Pending(w.s, w.nowMs))
		require.Equal(t, run.CallProposedPhase, w.s.Call(most+1).Phase)
		first := w.s.Approvals[0]
		by := run.Identity{Principal: "olga"}
		w.do(run.DecideApproval{Approval: first.Approval, Digest: first.Digest, Granted: true, By: by, Person: policy.Principal{ID: "olga"}})
		require.Equal(t, run.StatusParked, w.s.Status)

		w.do(run.Resume{By: by, Person: policy.Principal{ID: "olga"}})
		w.judgeAll()
		require.Equal(t, run.StatusParked, w.s.Status)
		require.Len(t, w.s.Approvals, 2*most)
		w.do(run.Resume{By: by, Person: policy.Principal{ID: "olga"}})
		w.judgeAll()
		require.Len(t, w.s.Approvals, 2*most+1)
		require.Equal(t, run.StatusRunning, w.s.Status, "one of them was granted")
	}
}

// One after the other is as many.
func TestFault_F15_AskingOneAfterTheOtherCountsAlike(t *testing.T) {
	w := flooding(t, 2)
	by := run.Identity{Principal: "olga"}
	for turn := 1; turn <= 3; turn++ {
		if turn > 1 {
			w.do(run.BeginTurn{Epoch: 1, Model: "m", Reserve: run.Amount{Tokens: 10}})
		}
		calls := proposals(1)
		calls[0].Approval = run.ReviewOfAnswer(turn)
		w.do(run.ReportTurn{Turn: turn, Attempt: 1, Class: run.ClassCalls, Calls: calls})
		if turn > 2 {
			break
		}
		approval := w.s.Approvals[turn-1]
		w.do(run.DecideApproval{Approval: approval.Approval, Digest: approval.Digest, By: by, Person: policy.Principal{ID: "olga"}})
	}
	require.Equal(t, run.ParkedFlood, w.s.Parked.Code)
	w.do(run.Cancel{By: by})
	require.Equal(t, run.StatusCancelled, w.s.Status)
}

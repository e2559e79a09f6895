package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// What the table leaves out cannot happen: Decide refuses the command, and
// Apply refuses the event even where its fold would fit the state.
func TestTheTableRefusesWhatNoCommandGives(t *testing.T) {
	for name, c := range map[string]struct {
		state    func(*testing.T) *world
		commands map[string]run.Command // by the code of their refusal
		event    run.Event
	}{
		"an attempt begins at a limit": {atLimitWithReadyCall,
			map[string]run.Command{"NOT_DUE": run.BeginCall{Epoch: 1, Call: 2, Key: "k", Inputs: noArguments}},
			run.CallIntended{Call: 2, Intent: 1, Epoch: 1, Key: "k"}},
		"a ready call is judged at a limit": {atLimitWithReadyCall,
			map[string]run.Command{"STALE": run.Judge{Call: 2, Inputs: noArguments}},
			run.CallJudged{Call: 2, Verdict: policy.Verdict{Answer: policy.Permit}}},
		"a ready call asks at a limit": {atLimitWithReadyCall,
			map[string]run.Command{"STALE": run.Judge{Call: 2, Inputs: noArguments}},
			run.QuestionAsked{Question: "q", Call: 2}},
		"a turn begins beside an open call": {atLimitWithReadyCall,
			map[string]run.Command{"NOT_DUE": run.BeginTurn{Epoch: 1, Model: "m"}},
			run.TurnStarted{Turn: 3, Attempt: 1}},
		"a run that waits for people answers a turn": {uncertainForPeople,
			map[string]run.Command{"STALE": run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassText}},
			run.TurnAnswered{Turn: 1, Class: run.ClassText}},
		"what a person must settle is uncertain again": {uncertainForPeople,
			map[string]run.Command{"STALE": run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeUnknown}},
			run.CallUncertain{Call: 1, Intent: 1, Cause: run.Lost, Ask: true}},
		"what a person must settle is probed": {uncertainForPeople,
			map[string]run.Command{"STALE": run.ReportProbe{Call: 1}},
			run.CallUncertain{Call: 1, Intent: 1, Cause: run.Lost}},
		"what a person must settle is held": {uncertainForPeople,
			map[string]run.Command{"STALE": run.Judge{Call: 1, Inputs: noArguments}},
			run.ApprovalRequested{Approval: "a", Call: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.state(t)
			require.Equal(t, run.StatusWaiting, w.s.Status)
			for code, command := range c.commands {
				w.refused(code, command)
			}
			require.ErrorIs(t, run.Apply(w.s, c.event), run.ErrBroken)
		})
	}
}

// atLimitWithReadyCall is a run whose first call made no progress while the
// second was approved.
func atLimitWithReadyCall(t *testing.T) *world {
	w := begin(t)
	w.s.Limits.NoProgress = 1
	w.turn("free", "held")
	w.attempt(1)
	w.do(w.decide("ap-held-1-1", true))
	require.NotNil(t, w.s.Reached)
	require.Equal(t, run.CallReady, w.s.Call(2).Phase)
	return w
}

// uncertainForPeople is a run whose only call may have happened.
func uncertainForPeople(t *testing.T) *world {
	w := begin(t)
	w.turn("opaque")
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	w.do(run.Recover{Epoch: 2})
	require.True(t, w.s.Call(1).AskPerson)
	return w
}

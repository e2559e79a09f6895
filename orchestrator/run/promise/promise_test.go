package promise_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/promise"
)

// held is a call that people allowed until the time 100 under the policy "p1".
func held() []promise.Step {
	return steps(
		run.CallJudged{Call: 1, Verdict: policy.Verdict{Answer: policy.Hold}},
		run.ApprovalRequested{Approval: "a", Call: 1, Policy: "p1", NotAfterMs: 100},
		run.ApprovalDecided{Approval: "a", Granted: true, Complete: true})
}

func steps(events ...run.Event) []promise.Step {
	list := make([]promise.Step, len(events))
	for i, event := range events {
		list[i] = promise.Step{Event: event, AtMs: 50, Policy: "p1"}
	}
	return list
}

func ask(intent int) run.QuestionAsked {
	return run.QuestionAsked{Question: "q" + strconv.Itoa(intent), Call: 1, Ask: &run.Ask{Intent: intent}}
}

// often is a call whose server asks n times.
func often(n int) []promise.Step {
	var list []promise.Step
	for i := 1; i <= n; i++ {
		if i > 1 {
			list = append(list, steps(run.QuestionAnswered{Question: "q" + strconv.Itoa(i-1), Action: run.Accept})...)
		}
		list = append(list, steps(run.CallIntended{Call: 1, Intent: i, Key: "k"}, ask(i))...)
	}
	return list
}

func recalled() []run.Recalled {
	return []run.Recalled{{Item: "m", Etag: "1", Marking: policy.Marking{Integrity: policy.Untrusted}}}
}

func intent(call int) run.CallIntended {
	return run.CallIntended{Call: call, Intent: 1, Key: "k", Approval: "a"}
}

// Every journal here is kept but for its last record, which breaks one promise.
func TestBrokenPromisesAreNamed(t *testing.T) {
	other := intent(1)
	other.Approval = "b"
	late, outdated := steps(intent(1)), steps(intent(1))
	late[0].AtMs, outdated[0].Policy = 100, "p2"
	for name, test := range map[string]struct {
		code    promise.Code
		journal []promise.Step
	}{
		"after the end":        {promise.AfterEnd, steps(run.Ended{}, run.TurnStarted{Turn: 2})},
		"turn after cancel":    {promise.AfterCancel, steps(run.CancelAccepted{}, run.TurnStarted{Turn: 2})},
		"call after cancel":    {promise.AfterCancel, steps(run.CancelAccepted{}, intent(1))},
		"two results":          {promise.ResultTwice, steps(intent(1), run.CallEnded{Call: 1}, run.CallEnded{Call: 1})},
		"effect, no intent":    {promise.IntentMissing, steps(run.CallEnded{Call: 1, Outcome: run.OutcomeOK})},
		"unknown, no intent":   {promise.IntentMissing, steps(run.CallUncertain{Call: 1, Intent: 1})},
		"late, no intent":      {promise.IntentMissing, steps(intent(1), run.LateOutcome{Call: 1, Intent: 2})},
		"shared key":           {promise.KeyShared, steps(intent(1), intent(2))},
		"approval not given":   {promise.ApprovalMissing, append(held()[:2], steps(intent(1))...)},
		"approval of another":  {promise.ApprovalMissing, append(held(), steps(other)...)},
		"one request too many": {promise.Flooded, append(steps(run.Started{Limits: run.Limits{Approvals: 1}}), append(held(), held()[1:2]...)...)},
		"approval spent":       {promise.ApprovalSpent, append(held(), steps(intent(1), intent(1))...)},
		"approval void":        {promise.ApprovalSpent, append(held(), steps(run.ApprovalVoided{Approval: "a"}, intent(1))...)},
		"approval expired":     {promise.ApprovalExpired, append(held(), late...)},
		"approval outdated":    {promise.ApprovalOutdated, append(held(), outdated...)},
		"steer absorbed":       {promise.SteerAbsorbed, steps(run.TurnStarted{Turn: 1}, run.SteerSettled{Steer: "s", Disposition: run.Absorbed})},
		"outage, in haste":     {promise.OutageHaste, steps(run.ModelsOut{Turn: 1, RetryAtMs: 51}, run.TurnStarted{Turn: 1})},
		"outage, in flight":    {promise.OutageHaste, steps(run.TurnStarted{Turn: 1}, run.ModelsOut{Turn: 1, RetryAtMs: 60})},
		"recalled twice":       {promise.RecalledTwice, steps(run.Started{Snapshot: run.Snapshot{Memory: recalled()}}, run.TurnStarted{Turn: 1, Memory: &run.Remembrance{Items: recalled()}})},
		"brief again longer":   {promise.BriefLonger, steps(run.TurnAnswered{Turn: 3}, run.Compacted{Brief: run.Brief{Through: 2}}, run.Compacted{Brief: run.Brief{Through: 1}})},
		"brief to the end":     {promise.BriefLonger, steps(run.TurnAnswered{Turn: 3}, run.Compacted{Brief: run.Brief{Through: 3}})},
		"brief, not marked": {promise.BriefUnmarked, steps(run.TurnAnswered{Turn: 1, Text: &run.Text{ID: "t", Marking: policy.Marking{Labels: policy.NewLabels("secret")}}},
			run.TurnAnswered{Turn: 2}, run.Compacted{Brief: run.Brief{Through: 1}})},
		"result in brief, not marked": {promise.BriefUnmarked, steps(run.CallProposed{Call: 1, Turn: 1}, intent(1), run.CallEnded{Call: 1, Result: &run.Text{ID: "t", Marking: policy.Marking{Integrity: policy.Untrusted}}},
			run.TurnAnswered{Turn: 2}, run.Compacted{Brief: run.Brief{Through: 1}})},
		"too long again": {promise.TooLongAgain, steps(run.Started{Snapshot: run.Snapshot{Compiler: run.CompactingCompiler}}, run.TurnStarted{Turn: 1, Attempt: 1, Model: "m"},
			run.TurnFailed{Turn: 1, Attempt: 1, Cause: run.TooLong}, run.TurnStarted{Turn: 1, Attempt: 2, Model: "m"})},
		"recall unsealed":                    {promise.RecallUnsealed, steps(run.TurnStarted{Turn: 1, Memory: &run.Remembrance{Items: recalled(), Amendment: "other"}})},
		"a call beside what its server asks": {promise.AskOpen, steps(intent(1), ask(1), run.CallIntended{Call: 1, Intent: 2, Key: "k"})},
		"an end before its answer":           {promise.AskOpen, steps(intent(1), ask(1), run.CallEnded{Call: 1})},
		"asked by no attempt":                {promise.AskOpen, steps(intent(1), run.CallUncertain{Call: 1, Intent: 1}, ask(1))},
		"asked twice by an attempt":          {promise.AskOpen, steps(intent(1), ask(1), run.QuestionVoided{Question: "q1", Cause: run.VoidNotShown}, ask(1))},
		"asked too often":                    {promise.AskedTooOften, often(run.MaxAsks + 1)},
	} {
		t.Run(name, func(t *testing.T) {
			tally, last := promise.NewTally(), len(test.journal)-1
			for _, step := range test.journal[:last] {
				require.Nil(t, tally.Note(step))
			}
			found := tally.Note(test.journal[last])
			require.NotNil(t, found)
			require.Equal(t, test.code, found.Code, found.Text)
		})
	}
}

func TestAnApprovedCallAndALateOutcomeKeepEveryPromise(t *testing.T) {
	tally := promise.NewTally()
	for _, step := range append(held(), steps(intent(1), run.CallUncertain{Call: 1, Intent: 1},
		run.CallEnded{Call: 1, Outcome: run.OutcomeUnknown}, run.Ended{}, run.LateOutcome{Call: 1, Intent: 1}, run.UncertainResolved{Call: 1})...) {
		require.Nil(t, tally.Note(step))
	}
}

func TestTheStateIsHeldAgainstTheTally(t *testing.T) {
	for name, test := range map[string]struct {
		code  promise.Code
		state run.State
	}{
		"call order":     {promise.CallOrder, run.State{Calls: []run.Call{{CallProposed: run.CallProposed{Call: 2}}}}},
		"over the limit": {promise.RunBudget, run.State{Budget: run.Budget{Limit: money(1), Reserved: money(2)}}},
		"negative":       {promise.RunBudget, run.State{Budget: run.Budget{Reserved: money(-1)}}},
		"never paid":     {promise.RunBudget, run.State{Budget: run.Budget{Limit: money(5), Settled: money(5)}}},
		"open call":      {promise.EndOpen, run.State{Ended: &run.Ended{}, Calls: []run.Call{{CallProposed: run.CallProposed{Call: 1}}}}},
		"open steer":     {promise.EndOpen, run.State{Ended: &run.Ended{}, Steers: []run.SteerState{{}}}},
		"reservation":    {promise.EndOpen, run.State{Ended: &run.Ended{}, Budget: run.Budget{Limit: money(5), Reserved: money(5)}}},
	} {
		t.Run(name, func(t *testing.T) {
			found := promise.NewTally().Check(&test.state)
			require.NotNil(t, found)
			require.Equal(t, test.code, found.Code, found.Text)
		})
	}
	require.Nil(t, promise.NewTally().Check(&run.State{}))
}

func TestWhatEntersARunMarksIt(t *testing.T) {
	secret := run.Text{ID: "t", Marking: policy.Marking{Labels: policy.NewLabels("hr")}}
	for _, step := range steps(run.Started{Snapshot: run.Snapshot{Memory: recalled()}}, run.TurnAnswered{Text: &secret}) {
		tally := promise.NewTally()
		require.Nil(t, tally.Note(step))
		require.Equal(t, promise.MarkingLost, tally.Check(&run.State{}).Code)
		require.Nil(t, tally.Check(&run.State{Marking: policy.Marking{Labels: policy.NewLabels("hr"), Integrity: policy.Untrusted}}))
	}
}

func TestAUsedApprovalIsNotLeftToBeUsedAgain(t *testing.T) {
	tally := promise.NewTally()
	for _, step := range append(held(), steps(intent(1))...) {
		require.Nil(t, tally.Note(step))
	}
	state := run.State{Approvals: []run.Approval{{ApprovalRequested: run.ApprovalRequested{Approval: "a"}, Status: run.ApprovalSpent}}}
	require.Nil(t, tally.Check(&state))
	state.Approvals[0].Status = run.ApprovalGranted
	require.Equal(t, promise.ApprovalSpent, tally.Check(&state).Code)
}

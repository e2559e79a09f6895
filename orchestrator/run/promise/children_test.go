package promise_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/promise"
)

func money(amount int64) run.Amount { return run.Amount{MicroUSD: amount} }

// parent is a run with 100 micro-dollars that may have two children, three runs
// below it at once, and has three calls for them. Events follow its begin.
func parent(events ...run.Event) []promise.Step {
	begin := []run.Event{run.Started{Authority: policy.Authority{MicroUSD: 100, FanOut: 2, RunsAtOnce: 3}}}
	for call := range 3 {
		begin = append(begin, run.CallProposed{Call: call + 1, Delegate: "b", Class: policy.ClassRead})
	}
	return steps(append(begin, events...)...)
}

func begins(call int) run.CallIntended {
	return run.CallIntended{Call: call, Intent: 1, Key: string(rune('a' + call))}
}

func child(call int) run.ChildStarted {
	return run.ChildStarted{Child: string(rune('A' + call)), Call: call, Carve: money(30), Runs: 1}
}

func TestBrokenPromisesAboutChildrenAreNamed(t *testing.T) {
	one := []run.Event{begins(1), child(1)}
	two := append(slices.Clone(one), begins(2), child(2))
	end := run.ChildEnded{Child: "B", Settled: money(10), Unknown: money(5)}
	many, none, costly, negative, again := child(2), child(2), child(2), child(2), child(2)
	many.Runs, none.Runs, costly.Carve, negative.Carve, again.Child = 3, 0, money(71), money(-1), "B"
	plain := child(1)
	plain.Call = 4
	for name, test := range map[string]struct {
		code   promise.Code
		events []run.Event
	}{
		"an intent without its child":         {promise.IntentMissing, []run.Event{begins(1), run.TurnStarted{Turn: 2}}},
		"an intent with another call's child": {promise.IntentMissing, []run.Event{begins(1), child(2)}},
		"a child for a call of a tool":        {promise.IntentMissing, []run.Event{run.CallProposed{Call: 4}, plain}},
		"a second child for a call":           {promise.IntentMissing, append(slices.Clone(one), run.ChildStarted{Child: "C", Call: 1, Runs: 1})},
		"started twice":                       {promise.ChildTwice, append(slices.Clone(one), begins(2), again)},
		"ended twice":                         {promise.ChildTwice, append(slices.Clone(one), end, end)},
		"ended before it started":             {promise.ChildTwice, []run.Event{end}},
		"stopped after its end":               {promise.ChildTwice, append(slices.Clone(one), end, run.ChildStopped{Child: "B"})},
		"after the cancel":                    {promise.AfterCancel, []run.Event{run.CancelAccepted{}, child(0)}},
		"a call before its child":             {promise.ChildOpen, append(slices.Clone(one), run.CallEnded{Call: 1, Outcome: run.OutcomeOK})},
		"one child too many":                  {promise.FanOut, append(slices.Clone(two), end, begins(3), child(3))},
		"runs too many":                       {promise.RunsAtOnce, append(slices.Clone(one), begins(2), many)},
		"a child that takes up no run":        {promise.RunsAtOnce, append(slices.Clone(one), begins(2), none)},
		"a budget that is not there":          {promise.RunBudget, append(slices.Clone(one), begins(2), costly)},
		"a negative budget":                   {promise.RunBudget, append(slices.Clone(one), begins(2), negative)},
		"a turn beside the children's money":  {promise.RunBudget, append(slices.Clone(two), run.TurnStarted{Turn: 2, Reserve: money(41)})},
		"a call beside the children's money":  {promise.RunBudget, append(slices.Clone(two), run.CallProposed{Call: 4}, run.CallIntended{Call: 4, Intent: 1, Key: "k", Reserve: money(41)})},
		"what nobody knows is not left":       {promise.RunBudget, append(slices.Clone(one), end, run.TurnStarted{Turn: 2, Reserve: money(86)})},
	} {
		t.Run(name, func(t *testing.T) {
			journal := parent(test.events...)
			tally, last := promise.NewTally(), len(journal)-1
			for _, step := range journal[:last] {
				require.Nil(t, tally.Note(step))
			}
			found := tally.Note(journal[last])
			require.NotNil(t, found)
			require.Equal(t, test.code, found.Code, found.Text)
		})
	}
	tally := promise.NewTally()
	for _, step := range parent(append(slices.Clone(two), run.ChildStopped{Child: "B"}, end, run.CallEnded{Call: 1, Outcome: run.OutcomeOK},
		run.TurnStarted{Turn: 2, Reserve: money(55)})...) {
		require.Nil(t, tally.Note(step))
	}
}

// The money of children is counted apart from the state, and so is who lives.
func TestTheStateIsHeldAgainstItsChildren(t *testing.T) {
	noted := func(events ...run.Event) *promise.Tally {
		tally := promise.NewTally()
		for _, step := range parent(events...) {
			require.Nil(t, tally.Note(step))
		}
		return tally
	}
	calls := make([]run.Call, 3)
	for i := range calls {
		calls[i].CallProposed.Call = i + 1
	}
	state := run.State{Calls: calls, Children: []run.Child{{ChildStarted: child(1)}}, Budget: run.Budget{Limit: money(100), Reserved: money(30)}}
	live := noted(begins(1), child(1))
	require.Nil(t, live.Check(&state))

	require.Equal(t, promise.IntentMissing, noted(begins(1)).Check(&run.State{Calls: calls, Budget: run.Budget{Limit: money(100)}}).Code)

	released := state
	released.Budget.Reserved = money(0)
	require.Equal(t, promise.RunBudget, live.Check(&released).Code)

	forgotten := state
	forgotten.Children = nil
	require.Equal(t, promise.ChildTwice, live.Check(&forgotten).Code)

	folded := state
	folded.Children = []run.Child{{ChildStarted: child(1), Ended: &run.ChildEnded{}}}
	require.Equal(t, promise.ChildTwice, live.Check(&folded).Code, "it takes up no run any more and has not ended")

	orphaning := noted(child(0), run.CallEnded{Call: 1}, run.CallEnded{Call: 2}, run.CallEnded{Call: 3})
	left := run.State{Calls: calls, Children: state.Children, Budget: run.Budget{Limit: money(100)}, Ended: &run.Ended{}}
	require.Equal(t, "1 children live at the end", orphaning.Check(&left).Error())
	require.Equal(t, promise.EndOpen, orphaning.Check(&left).Code)

	end := run.ChildEnded{Child: "B", Settled: money(10), Unknown: money(5)}
	paid := noted(begins(1), child(1), end)
	over := run.State{Calls: calls, Children: folded.Children, Budget: run.Budget{Limit: money(100), Settled: money(10), Unknown: money(5)}}
	require.Nil(t, paid.Check(&over))
	over.Budget.Unknown = money(0)
	require.Equal(t, promise.RunBudget, paid.Check(&over).Code, "what nobody knows stays held")
	over.Budget.Unknown, over.Budget.Settled = money(5), money(15)
	require.Equal(t, promise.RunBudget, paid.Check(&over).Code)
}

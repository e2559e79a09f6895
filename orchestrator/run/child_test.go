package run_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// within begins a run whose authority is changed as told.
func within(t *testing.T, change func(*policy.Authority)) *world {
	w := begin(t)
	started := w.s.Started
	change(&started.Authority)
	w.restart(started)
	return w
}

// A child is there with the intent of its call and with its budget, or not at
// all; the write depends on everything above it.
func TestAChildStartsInTheWriteOfItsIntent(t *testing.T) {
	w := begin(t)
	w.under()
	w.turn("delegate", "free")
	require.Equal(t, []run.Effect{run.DispatchCall{Call: 1, Intent: 1}, run.DispatchCall{Call: 2, Intent: 1}}, w.pending())
	decision := w.delegates(1, 40)
	require.Len(t, decision.Events, 2)
	require.Equal(t, run.CallIntended{Call: 1, Intent: 1, Epoch: 1, Key: "1"}, decision.Events[0], "the child's budget is all that it reserves")
	require.Equal(t, run.ChildStarted{Child: run.ChildOfCall("r1", 1), RunKind: run.SubAgent, Call: 1, Agent: "b", Revision: "b1", Snapshot: "inputs",
		Carve: run.Amount{MicroUSD: 40, Tokens: 10}, Runs: 1, DeadlineMs: 1_000_000}, decision.Events[1])
	require.Equal(t, []run.Guard{{Gate: run.ConfigGate("o"), Value: "configp1t1"}, {Gate: run.RootGate("r0"), BeforeMs: 1_000_000}}, decision.Guards)
	require.Equal(t, run.Amount{MicroUSD: 40, Tokens: 10}, w.s.Budget.Reserved)
	require.Zero(t, w.s.InFlight, "a child takes up no place among the calls in flight")
	require.Equal(t, []run.Effect{run.CollectChildren{}, run.DispatchCall{Call: 2, Intent: 1}}, w.pending())
	w.attempt(2)
	require.Equal(t, run.StatusWaiting, w.s.Status)
	require.Equal(t, w.s.Authority.DeadlineMs, run.DueMs(w.s, w.nowMs), "it waits without a worker")
	w.do(run.Recover{Epoch: 2})
	require.Equal(t, run.CallDelegated, w.s.Call(1).Phase, "a new owner changes nothing")
	w.refused("STALE", run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeOK})
	w.do(run.ReportChildren{Ends: []run.ChildEnd{ended(w.s, 1, run.StatusCompleted, usd(4))}})
	require.Equal(t, []run.Effect{run.TakeTurn{Turn: 2, Attempt: 1}}, w.pending())
}

func TestOnlyAnIntentOnARunDependsOnEveryoneAbove(t *testing.T) {
	w := begin(t)
	started := below(w.s.Started)
	started.Lineage = []run.Link{{Run: "r0", Agent: "above"}, {Run: "between", Agent: "between"}}
	gates := []run.Guard{{Gate: run.ConfigGate("o"), Value: "configp1t1"}, {Gate: run.RootGate("r0")}, {Gate: run.RootGate("between")}}
	decision := w.restart(started)
	require.Equal(t, gates, decision.Guards)
	require.Empty(t, decision.Budget, "its parent carries it")
	gates[1].BeforeMs = w.s.Authority.DeadlineMs
	require.Equal(t, gates, w.do(run.BeginTurn{Epoch: 1, Model: "m"}).Guards)
	require.Equal(t, []run.GateChange{{Gate: run.RootGate("r1"), Value: run.GateClosed}}, w.do(run.Cancel{By: by("ada")}).Gates, "what is above it goes on")
}

func TestWhatABadStartOfAChildIsTold(t *testing.T) {
	for name, change := range map[string]func(*run.Started){
		"no task":             func(e *run.Started) { e.Task = nil },
		"nobody above":        func(e *run.Started) { e.Lineage = nil },
		"a limit may ask":     func(e *run.Started) { e.Limits.OnLimit = run.AskOnLimit },
		"accounts of its own": func(e *run.Started) { e.Accounts = []string{"acme"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t)
			started := below(w.s.Started)
			change(&started)
			w.s = &run.State{ID: "r1"}
			w.refused("INVALID", run.Start{Started: started})
		})
	}
}

// Whatever bounds a child is looked at when it is to start; a call that cannot
// be delegated has one outcome with a code, and gives back what was granted.
func TestFault_G9_ACallThatCannotBeDelegatedIsRefusedWithACode(t *testing.T) {
	spent := run.Amount{MicroUSD: 40, Tokens: 10}
	for code, test := range map[string]struct {
		authority func(*policy.Authority)
		child     func(*run.Spawn)
	}{
		run.RefusedDepth:    {func(a *policy.Authority) { a.Depth = 0 }, nil},
		run.RefusedFanOut:   {func(a *policy.Authority) { a.FanOut = 0 }, nil},
		run.RefusedRuns:     {func(a *policy.Authority) { a.RunsAtOnce = 0 }, nil},
		run.RefusedWider:    {nil, func(c *run.Spawn) { c.Authority.Depth = 2 }},
		run.RefusedBudget:   {func(a *policy.Authority) { a.MicroUSD = 79 }, nil},
		run.RefusedDeadline: {nil, func(c *run.Spawn) { c.Authority.DeadlineMs = 1000 }},
	} {
		t.Run(code, func(t *testing.T) {
			w := begin(t)
			if test.authority != nil {
				w = within(t, test.authority)
			}
			w.do(run.BeginTurn{Epoch: 1, Model: "m", Reserve: usd(40)})
			w.do(answered(40, held("delegate-held"))(w))
			w.do(w.decide("ap", true))
			command := delegated(1, spent.MicroUSD)(w).(run.BeginCall)
			if test.child != nil {
				test.child(command.Child)
			}
			w.do(command)
			require.Equal(t, []string{string(run.OutcomeRefused), code}, []string{string(w.s.Call(1).Outcome), w.s.Call(1).Code})
			require.Equal(t, run.ApprovalVoid, w.s.Approvals[0].Status)
			require.Empty(t, w.s.Children)
			require.Zero(t, w.s.Budget.Reserved)
		})
	}
	for name, wrong := range map[string]func(*run.Spawn){
		"more than its authority says": func(c *run.Spawn) { c.Carve.MicroUSD++ },
		"negative":                     func(c *run.Spawn) { c.Carve.MicroUSD, c.Authority.MicroUSD = -1, -1 },
		"no tokens":                    func(c *run.Spawn) { c.Carve.Tokens, c.Authority.Tokens = 0, 0 },
		"no turn":                      func(c *run.Spawn) { c.Authority.Turns = 0 },
	} {
		w := begin(t)
		w.turn("delegate")
		command := delegated(1, 40)(w).(run.BeginCall)
		wrong(command.Child)
		w.do(command)
		require.Equal(t, run.RefusedBudget, w.s.Call(1).Code, name)
	}
}

func held(tool string) run.Proposal {
	facts, _ := (&fixedRules{tool: "t1"}).Tool(tool)
	return run.Proposal{Tool: tool, Text: run.Text{ID: "args"}, Revision: "t1", Impact: facts.Impact, Class: facts.Class, Delegate: delegateOf(tool),
		Approval: "ap", Inputs: noArguments}
}

// Only the agent that was proposed, and allowed, does the call, and only once.
func TestNoOtherAgentDoesACall(t *testing.T) {
	w := begin(t)
	w.turn("delegate", "free", "delegate")
	other := delegated(1, 40)(w).(run.BeginCall)
	other.Child.Agent = "c"
	w.refused("NOT_DUE", other)
	w.refused("NOT_DUE", run.BeginCall{Epoch: 1, Call: 1, Key: "1", Inputs: noArguments})
	w.refused("NOT_DUE", delegated(2, 40)(w))
	w.delegates(1, 40)
	w.refused("NOT_DUE", delegated(1, 40)(w))
	again := delegated(3, 40)(w).(run.BeginCall)
	again.Child.Child = run.ChildOfCall("r1", 1)
	w.refused("NOT_DUE", again)
	w.refused("STALE", run.DeclineCall{Call: 1, Code: "NOT_FOUND"})
	w.refused("STALE", run.DeclineCall{Call: 2, Code: "NOT_FOUND"})
	w.refused("STALE", run.DeclineCall{Call: 9, Code: "NOT_FOUND"})
	w.do(run.DeclineCall{Call: 3, Code: "NOT_FOUND"})
	require.Equal(t, run.OutcomeRefused, w.s.Call(3).Outcome)
}

func TestTheEndOfAChildIsTheOneResultOfItsCall(t *testing.T) {
	for name, test := range map[string]struct {
		end     run.ChildEnd
		outcome run.Outcome
		code    string
		result  bool
	}{
		"completed":     {run.ChildEnd{ChildEnded: run.ChildEnded{Status: run.StatusCompleted}}, run.OutcomeOK, "", true},
		"in part":       {run.ChildEnd{ChildEnded: run.ChildEnded{Status: run.StatusPartial}}, run.OutcomeOK, "PARTIAL", true},
		"cancelled":     {run.ChildEnd{ChildEnded: run.ChildEnded{Status: run.StatusCancelled}}, run.OutcomeFailed, "CANCELLED", true},
		"at a limit":    {run.ChildEnd{ChildEnded: run.ChildEnded{Status: run.StatusFailed, Code: "TURNS"}}, run.OutcomeFailed, "TURNS", true},
		"without words": {run.ChildEnd{ChildEnded: run.ChildEnded{Status: run.StatusFailed, Reason: run.EndUnusable}}, run.OutcomeFailed, "UNUSABLE_ANSWER", true},
		"too large":     {run.ChildEnd{ChildEnded: run.ChildEnded{Status: run.StatusCompleted}, Fault: run.ResultTooLarge}, run.OutcomeFailed, "RESULT_TOO_LARGE", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t)
			w.turn("delegate")
			w.delegates(1, 40)
			end := test.end
			end.Child, end.Result, end.Settled, end.Unknown = w.s.Call(1).Child, &run.Text{ID: "result"}, usd(9), usd(2)
			w.do(run.ReportChildren{Ends: []run.ChildEnd{end, end}})
			call := w.s.Call(1)
			require.Equal(t, []string{string(test.outcome), test.code}, []string{string(call.Outcome), call.Code})
			require.Equal(t, test.result, call.Result != nil)
			require.Equal(t, books{1000, 0, 9, 2}, w.books(), "what the child left comes back once, what nobody knows stays held")
			w.refused("STALE", run.ReportChildren{Ends: []run.ChildEnd{end}})
			require.Equal(t, test.end.Status, w.s.Child(call.Child).Ended.Status)
		})
	}
	w := begin(t)
	w.turn("delegate")
	w.delegates(1, 40)
	living, stranger, negative := ended(w.s, 1, run.StatusRunning, usd(1)), ended(w.s, 7, run.StatusCompleted, usd(1)), ended(w.s, 1, run.StatusCompleted, usd(-1))
	w.refused("STALE", run.ReportChildren{Ends: []run.ChildEnd{living, stranger, negative}})
	w.refused("STALE", run.ReportStopped{Child: "nobody"})
	w.do(run.ReportStopped{Child: w.s.Call(1).Child})
	w.refused("STALE", run.ReportStopped{Child: w.s.Call(1).Child})
	require.Nil(t, w.s.Child("nobody"))
}

// Children wait for each other where only so many may live at once.
func TestFault_G9_RunsAtOnceAreReservedWhenAChildStarts(t *testing.T) {
	w := begin(t)
	w.turn("delegate", "delegate", "delegate")
	wide := delegated(1, 40)(w).(run.BeginCall)
	wide.Child.Authority.RunsAtOnce, wide.Child.Authority.Depth = 1, 1
	w.do(wide)
	require.Equal(t, 2, w.s.LiveRuns(), "itself and what it may have below it")
	w.delegates(2, 40)
	require.Equal(t, run.StatusWaiting, w.s.Status)
	require.Equal(t, []run.Effect{run.CollectChildren{}}, w.pending())
	w.refused("NOT_DUE", delegated(3, 40)(w))
	w.do(run.ReportChildren{Ends: []run.ChildEnd{ended(w.s, 2, run.StatusCompleted, usd(1))}})
	require.Equal(t, run.StatusRunning, w.s.Status)
	w.delegates(3, 40)
	require.Equal(t, 3, w.s.LiveRuns())
}

// A run whose time is over ends as soon as what is in flight is told of,
// whatever that is.
func TestFault_H7_AChildWhoseTimeIsOverEndsByItself(t *testing.T) {
	overdue := func() *world {
		w := begin(t)
		w.under()
		w.do(run.BeginTurn{Epoch: 1, Model: "m", Reserve: usd(9)})
		w.nowMs = w.s.Authority.DeadlineMs
		require.Equal(t, w.nowMs, run.DueMs(w.s, w.nowMs))
		w.do(run.Fire{})
		require.Equal(t, run.LimitDeadline, w.s.Reached.Limit)
		w.refused("LIMIT_FINAL", run.Steer{Steer: "s", By: by("ada"), Text: run.Text{ID: "s"}, Interrupt: true})
		return w
	}
	for name, command := range map[string]run.Command{
		"answered": run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassCalls, Calls: []run.Proposal{bounded("free", 1)}, Cost: usd(4)},
		"failed":   run.ReportTurn{Turn: 1, Attempt: 1, Failure: &run.TurnFailure{Cause: "OUTAGE", Retryable: true}},
		"rejected": run.ReportTurn{Turn: 1, Attempt: 1, Failure: &run.TurnFailure{Cause: "REJECTED"}},
		"lost":     run.Recover{Epoch: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := overdue()
			w.do(command)
			require.Equal(t, run.StatusFailed, w.s.Status)
			require.Equal(t, []string{string(run.EndLimit), string(run.LimitDeadline)}, []string{string(w.s.Ended.Reason), w.s.Ended.Code})
			require.Empty(t, w.s.Calls)
		})
	}
	w := begin(t)
	w.under()
	require.Equal(t, w.s.Authority.DeadlineMs, run.DueMs(&run.State{Version: 1, Started: w.s.Started, Authority: w.s.Authority, Turns: []run.Turn{{Phase: run.TurnRetry, RetryAtMs: 2_000_000}}}, w.nowMs))
	w.nowMs = w.s.Authority.DeadlineMs
	w.do(run.Fire{})
	require.Equal(t, run.StatusFailed, w.s.Status, "it need not have begun")

	w = begin(t)
	w.nowMs = w.s.Authority.DeadlineMs
	w.do(run.Fire{})
	require.Nil(t, w.s.Reached, "a root is asked about when it wants something")
}

// A killed or withdrawn agent anywhere above ends a child, which nobody may
// raise; its parent hears of it.
func TestFault_P4_AChildWhoseAgentsMayNotActEnds(t *testing.T) {
	w := begin(t)
	w.under()
	w.rules.withdrawn = true
	w.do(run.BeginTurn{Epoch: 1, Model: "m"})
	require.Equal(t, run.StatusFailed, w.s.Status)
	require.Equal(t, string(run.LimitAuthority), w.s.Ended.Code)
}

func TestARunWithLiveChildrenWaitsForThemBeforeItEnds(t *testing.T) {
	w := begin(t)
	w.s.Limits.NoProgress = 1
	w.turn("delegate", "free")
	w.delegates(1, 40)
	w.attempt(2)
	require.Equal(t, run.LimitNoProgress, w.s.Reached.Limit)
	w.refused("CALLS_OPEN", run.Resume{By: by("olga"), Person: olga(), End: true})
	w.do(run.Steer{Steer: "s", By: by("ada"), Text: run.Text{ID: "s"}, Void: true})
	require.Equal(t, run.CallDelegated, w.s.Call(1).Phase, "guidance voids what waits for people, not what is done")
	w.do(run.ReportChildren{Ends: []run.ChildEnd{ended(w.s, 1, run.StatusCompleted, usd(1))}})
	require.Equal(t, run.StatusWaiting, w.s.Status)
	w.do(run.Resume{By: by("olga"), Person: olga(), End: true})

	w = begin(t)
	w.turn("delegate", "opaque")
	w.delegates(1, 40)
	w.do(run.BeginCall{Epoch: 1, Call: 2, Key: "k", Inputs: noArguments})
	w.do(run.Cancel{By: by("ada")})
	require.Equal(t, []run.Effect{run.CollectChildren{}, run.StopChild{Child: w.s.Call(1).Child}}, w.pending())
	require.Equal(t, w.nowMs, run.DueMs(w.s, w.nowMs))
	w.do(run.ReportCall{Call: 2, Intent: 1, Outcome: run.OutcomeOK})
	w.do(run.ReportStopped{Child: w.s.Call(1).Child})
	require.Zero(t, run.DueMs(w.s, w.nowMs), "its end wakes it")
	require.Equal(t, run.StatusCancelling, w.s.Status)
	w.do(run.ReportChildren{Ends: []run.ChildEnd{ended(w.s, 1, run.StatusCompleted, usd(1))}})
	require.Equal(t, run.StatusCancelled, w.s.Status)
	require.Equal(t, []run.Outcome{run.OutcomeOK, run.OutcomeOK}, w.outcomes(), "what came back in time counts")
}

func TestAHeadWithNewsIsDue(t *testing.T) {
	head := run.Head{Status: run.StatusWaiting, DueMs: 900, News: 2, Heard: 1}
	require.Equal(t, int64(50), head.Due(50))
	head.Heard = 2
	require.Equal(t, int64(900), head.Due(50))
	for _, still := range []run.Status{run.StatusParked, run.StatusCompleted} {
		head.Status, head.News = still, 3
		require.Zero(t, head.Due(50))
	}
}

func TestAChildsIdIsAlwaysTheSameAndSortsBesideItsParent(t *testing.T) {
	const parent = "019ae2b4-7c11-7a53-9f3e-3b1c5a7d9e10"
	id := run.ChildOfCall(parent, 3)
	require.Equal(t, id, run.ChildOfCall(parent, 3))
	require.NotEqual(t, id, run.ChildOfCall(parent, 4))
	require.Regexp(t, `^019ae2b4-7c11-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$`, id)
	require.True(t, strings.HasPrefix(run.ChildID(parent, run.ReviewOfAnswer(2)), parent[:13]))
	require.NotEqual(t, run.ChildID(parent, run.ReviewOfAnswer(2)), run.ChildID(parent, run.ReviewOfCall(2)))
}

func TestWhoPaysForARun(t *testing.T) {
	started := run.Started{Agent: policy.AgentFacts{Department: "finance"}}
	require.Equal(t, "finance", started.Payer())
	started.Borrower = "sales"
	require.Equal(t, "sales", started.Payer())
	require.Empty(t, started.Acting())
	started.Chain = []string{"ada", "agent:a"}
	require.Equal(t, "agent:a", started.Acting())
}

// Events about children that do not fit break the run, whoever wrote them.
func TestEventsThatNoChildExplainsBreakTheRun(t *testing.T) {
	w := begin(t)
	w.turn("delegate", "delegate")
	w.delegates(1, 40)
	child := w.s.Call(1).Child
	for name, event := range map[string]run.Event{
		"a second start":          run.ChildStarted{Child: child, Call: 2},
		"a call not in flight":    run.ChildStarted{Child: "other", Call: 2},
		"no such call":            run.ChildStarted{Child: "other", Call: 9},
		"a stop of nobody":        run.ChildStopped{Child: "other"},
		"an end of nobody":        run.ChildEnded{Child: "other"},
		"a second intent":         run.CallIntended{Call: 1, Intent: 2},
		"a verdict on delegation": run.CallJudged{Call: 1},
	} {
		require.ErrorIs(t, run.Apply(w.s.Clone(), event), run.ErrBroken, name)
	}
	require.NoError(t, run.Apply(w.s, run.ChildEnded{Child: child, Status: run.StatusCompleted}))
	require.ErrorIs(t, run.Apply(w.s.Clone(), run.ChildEnded{Child: child}), run.ErrBroken)
	require.ErrorIs(t, run.Apply(w.s.Clone(), run.ChildStopped{Child: child}), run.ErrBroken)
}

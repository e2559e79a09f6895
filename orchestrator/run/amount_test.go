package run_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// books is what a run's budget says, in micro-dollars.
type books struct{ limit, reserved, settled, unknown int64 }

func (w *world) books() books {
	b := w.s.Budget
	return books{b.Limit.MicroUSD, b.Reserved.MicroUSD, b.Settled.MicroUSD, b.Unknown.MicroUSD}
}

// move is one step of a scenario: what is asked, the code of its refusal or
// the limit it meets, and the books after it.
type move struct {
	name    string
	do      func(*world) run.Command
	refused string
	reached run.Limit
	books   books
}

func usd(amount int64) run.Amount { return run.Amount{MicroUSD: amount} }

func reserve(amount int64) func(*world) run.Command {
	return func(*world) run.Command { return run.BeginTurn{Epoch: 1, Model: "m", Reserve: usd(amount)} }
}

// answered settles the turn in flight, or the last one once more.
func answered(cost int64, calls ...run.Proposal) func(*world) run.Command {
	return func(w *world) run.Command {
		report := run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassCut, Cost: usd(cost), Calls: calls}
		if turn := w.s.LastTurn(); turn != nil {
			report.Turn, report.Attempt = turn.Number, turn.Attempt
		}
		if len(calls) > 0 {
			report.Class = run.ClassCalls
		}
		return report
	}
}

func failed(billed bool) func(*world) run.Command {
	return func(w *world) run.Command {
		turn := w.s.LastTurn()
		return run.ReportTurn{Turn: turn.Number, Attempt: turn.Attempt, Failure: &run.TurnFailure{Cause: "OUTAGE", Retryable: true, Unknown: billed}}
	}
}

func bounded(tool string, bound int64) run.Proposal {
	facts, _ := (&fixedRules{tool: "t1"}).Tool(tool)
	return run.Proposal{Tool: tool, Text: run.Text{ID: "args"}, Revision: "t1", Impact: facts.Impact, Class: facts.Class, CostBound: bound, Inputs: noArguments}
}

func attempt(call int) func(*world) run.Command {
	return func(*world) run.Command {
		return run.BeginCall{Epoch: 1, Call: call, Key: fmt.Sprint(call), Inputs: noArguments}
	}
}

func outcome(call, intent int, outcome run.Outcome, cost int64) func(*world) run.Command {
	return func(*world) run.Command {
		return run.ReportCall{Call: call, Intent: intent, Outcome: outcome, Cost: usd(cost)}
	}
}

func found(call int, resolution run.Resolution) func(*world) run.Command {
	return func(*world) run.Command {
		return run.ResolveUncertain{Call: call, By: run.Identity{Principal: "olga"}, Person: policy.Principal{ID: "olga"}, Resolution: resolution,
			Override: true, Evidence: run.Text{ID: "evidence"}}
	}
}

func raised(amount int64) func(*world) run.Command {
	return func(*world) run.Command {
		return run.Resume{By: run.Identity{Principal: "olga"}, Person: policy.Principal{ID: "olga"}, Amount: usd(amount)}
	}
}

func always(command run.Command) func(*world) run.Command {
	return func(*world) run.Command { return command }
}

// Each scenario begins with a limit of 100 micro-dollars.
var amountScenarios = map[string][]move{
	"the worst case is reserved, the cost settled, the rest released": {
		{"reserve", reserve(40), "", "", books{100, 40, 0, 0}},
		{"settle", answered(25), "", "", books{100, 0, 25, 0}},
		{"reserve all that is left", reserve(75), "", "", books{100, 75, 25, 0}},
		{"settle all of it", answered(75), "", "", books{100, 0, 100, 0}},
		{"nothing is left, nothing fits", reserve(1), "", run.LimitBudget, books{100, 0, 100, 0}},
	},
	"a reservation at the limit fits, one above it does not": {
		{"over by one", reserve(101), "", run.LimitBudget, books{100, 0, 0, 0}},
		{"raise by one", raised(1), "", "", books{101, 0, 0, 0}},
		{"exactly", reserve(101), "", "", books{101, 101, 0, 0}},
	},
	"zero reserves nothing and costs nothing": {
		{"reserve nothing", reserve(0), "", "", books{100, 0, 0, 0}},
		{"settle nothing", answered(0), "", "", books{100, 0, 0, 0}},
	},
	"negative amounts are refused": {
		{"reserve", reserve(-1), "INVALID_AMOUNT", "", books{100, 0, 0, 0}},
		{"reserve for good", reserve(10), "", "", books{100, 10, 0, 0}},
		{"settle", answered(-1), "INVALID_AMOUNT", "", books{100, 10, 0, 0}},
		{"settle for good", answered(10, bounded("free", 5)), "", "", books{100, 0, 10, 0}},
		{"attempt", attempt(1), "", "", books{100, 5, 10, 0}},
		{"a tool that pays back", outcome(1, 1, run.OutcomeOK, -5), "INVALID_AMOUNT", "", books{100, 5, 10, 0}},
	},
	"amounts that no journal can hold are refused": {
		{"reserve", reserve(1 << 53), "INVALID_AMOUNT", "", books{100, 0, 0, 0}},
		{"over by one", reserve(101), "", run.LimitBudget, books{100, 0, 0, 0}},
		{"raise", raised(1 << 53), "INVALID_AMOUNT", run.LimitBudget, books{100, 0, 0, 0}},
		{"raise beyond with what is there", raised(1<<53 - 100), "INVALID_AMOUNT", run.LimitBudget, books{100, 0, 0, 0}},
		{"raise to the most", raised(1<<53 - 101), "", "", books{1<<53 - 1, 0, 0, 0}},
		{"reserve it all", reserve(1<<53 - 1), "", "", books{1<<53 - 1, 1<<53 - 1, 0, 0}},
		{"settle", answered(1 << 53), "INVALID_AMOUNT", "", books{1<<53 - 1, 1<<53 - 1, 0, 0}},
	},
	"a cost above its reservation is booked whole and stops the next": {
		{"reserve", reserve(100), "", "", books{100, 100, 0, 0}},
		{"settle above it", answered(130), "", "", books{100, 0, 130, 0}},
		{"not even nothing fits", reserve(0), "", run.LimitBudget, books{100, 0, 130, 0}},
		{"raise too little", raised(29), "", "", books{129, 0, 130, 0}},
		{"still over", reserve(0), "", run.LimitBudget, books{129, 0, 130, 0}},
		{"raise enough", raised(2), "", "", books{131, 0, 130, 0}},
		{"one is left", reserve(1), "", "", books{131, 1, 130, 0}},
	},
	"a turn is settled once": {
		{"settle before it began", answered(10), "STALE", "", books{100, 0, 0, 0}},
		{"reserve", reserve(40), "", "", books{100, 40, 0, 0}},
		{"settle", answered(30), "", "", books{100, 0, 30, 0}},
		{"settle again", answered(30), "STALE", "", books{100, 0, 30, 0}},
	},
	"a failed turn releases, one that may be billed keeps its hold": {
		{"reserve", reserve(40), "", "", books{100, 40, 0, 0}},
		{"it was not billed", failed(false), "", "", books{100, 0, 0, 0}},
		{"reserve again", reserve(40), "", "", books{100, 40, 0, 0}},
		{"it may be billed", failed(true), "", "", books{100, 0, 0, 40}},
		{"reserve what the hold leaves", reserve(60), "", "", books{100, 60, 0, 40}},
		{"settle", answered(60), "", "", books{100, 0, 60, 40}},
	},
	"a lost turn keeps its hold and is never settled late": {
		{"reserve", reserve(70), "", "", books{100, 70, 0, 0}},
		{"its worker is gone", always(run.Recover{Epoch: 2}), "", "", books{100, 0, 0, 70}},
		{"its answer comes late", answered(50), "STALE", "", books{100, 0, 0, 70}},
		{"the same turn does not fit again", reserve(70), "", run.LimitBudget, books{100, 0, 0, 70}},
	},
	"a call reserves its bound and settles its cost once": {
		{"reserve", reserve(10), "", "", books{100, 10, 0, 0}},
		{"a call is proposed", answered(10, bounded("opaque", 90)), "", "", books{100, 0, 10, 0}},
		{"the bound fits exactly", attempt(1), "", "", books{100, 90, 10, 0}},
		{"it cost less", outcome(1, 1, run.OutcomeOK, 80), "", "", books{100, 0, 90, 0}},
		{"told again", outcome(1, 1, run.OutcomeOK, 80), "STALE", "", books{100, 0, 90, 0}},
		{"told otherwise: kept, not booked", outcome(1, 1, run.OutcomeFailed, 80), "", "", books{100, 0, 90, 0}},
	},
	"two calls at once share what is left": {
		{"reserve", reserve(0), "", "", books{100, 0, 0, 0}},
		{"two are proposed", answered(0, bounded("free", 60), bounded("free", 60)), "", "", books{100, 0, 0, 0}},
		{"the first fits", attempt(1), "", "", books{100, 60, 0, 0}},
		{"the second does not", attempt(2), "", run.LimitBudget, books{100, 60, 0, 0}},
		{"the first cost less", outcome(1, 1, run.OutcomeOK, 30), "", run.LimitBudget, books{100, 0, 30, 0}},
		{"raise nothing", raised(0), "RAISE_BUDGET", run.LimitBudget, books{100, 0, 30, 0}},
		{"raise", raised(1), "", "", books{101, 0, 30, 0}},
		{"now it fits", attempt(2), "", "", books{101, 60, 30, 0}},
	},
	"an uncertain call keeps its reservation until somebody finds out": {
		{"reserve", reserve(0), "", "", books{100, 0, 0, 0}},
		{"three are proposed", answered(0, bounded("opaque", 30), bounded("opaque", 30), bounded("opaque", 30)), "", "", books{100, 0, 0, 0}},
		{"attempt", attempt(1), "", "", books{100, 30, 0, 0}},
		{"attempt", attempt(2), "", "", books{100, 60, 0, 0}},
		{"attempt", attempt(3), "", "", books{100, 90, 0, 0}},
		{"all are lost", always(run.Recover{Epoch: 2}), "", "", books{100, 90, 0, 0}},
		{"it happened: the bound is settled", found(1, run.Happened), "", "", books{100, 60, 30, 0}},
		{"it did not: released", found(2, run.NotHappened), "", "", books{100, 30, 30, 0}},
		{"repeat: kept as unknown", found(3, run.Repeat), "", "", books{100, 0, 30, 30}},
		{"the repeat reserves for itself", attempt(3), "", "", books{100, 30, 30, 30}},
		{"and settles for itself", outcome(3, 2, run.OutcomeOK, 20), "", "", books{100, 0, 50, 30}},
	},
	"a lost read is repeated, each attempt with its own reservation": {
		{"reserve", reserve(0), "", "", books{100, 0, 0, 0}},
		{"a read is proposed", answered(0, bounded("free", 45)), "", "", books{100, 0, 0, 0}},
		{"attempt", attempt(1), "", "", books{100, 45, 0, 0}},
		{"lost", always(run.Recover{Epoch: 2}), "", "", books{100, 0, 0, 45}},
		{"attempt again", attempt(1), "", "", books{100, 45, 0, 45}},
		{"done", outcome(1, 2, run.OutcomeOK, 45), "", "", books{100, 0, 45, 45}},
		{"the first one's word comes late", outcome(1, 1, run.OutcomeOK, 45), "", "", books{100, 0, 45, 45}},
	},
	"a cancelled run keeps what may have been spent": {
		{"reserve", reserve(5), "", "", books{100, 5, 0, 0}},
		{"two are proposed", answered(5, bounded("opaque", 30), bounded("free", 20)), "", "", books{100, 0, 5, 0}},
		{"attempt", attempt(1), "", "", books{100, 30, 5, 0}},
		{"cancel: what did not begin reserves nothing", always(run.Cancel{By: run.Identity{Principal: "ada"}}), "", "", books{100, 30, 5, 0}},
		{"nobody knows", outcome(1, 1, run.OutcomeUnknown, 0), "", "", books{100, 0, 5, 30}},
		{"a finding after the end moves no money", found(1, run.NotHappened), "", "", books{100, 0, 5, 30}},
	},
}

func TestFault_H4_AmountsToTheMicroDollar(t *testing.T) {
	for name, moves := range amountScenarios {
		t.Run(name, func(t *testing.T) {
			w := begin(t)
			started := w.s.Started
			started.Authority.MicroUSD, started.Accounts = 100, []string{"acme"}
			w.s, w.last = &run.State{ID: "r1"}, run.Record{}
			w.do(run.Start{Started: started})
			for i, m := range moves {
				at := fmt.Sprintf("%d: %s", i+1, m.name)
				w.nowMs += 5_000 // whatever waits for its time has come
				_, refusal := w.try(m.do(w))
				code := ""
				if refusal != nil {
					code = refusal.Code
				}
				require.Equal(t, m.refused, code, at)
				require.Equal(t, m.books, w.books(), at)
				var limit run.Limit
				if w.s.Reached != nil {
					limit = w.s.Reached.Limit
				}
				require.Equal(t, m.reached, limit, at)
			}
		})
	}
}

// What the accounts above a run are told, to the micro-dollar.
func TestFault_H5_AnAccountGetsBackWhatWasNotSpent(t *testing.T) {
	w := begin(t)
	started := w.s.Started
	started.Authority.MicroUSD, started.Authority.Tokens, started.Accounts = 100, 10, []string{"run", "acme"}
	w.s, w.last = &run.State{ID: "r1"}, run.Record{}
	carve := run.Amount{MicroUSD: 100, Tokens: 10}
	require.Equal(t, []run.BudgetMove{{Node: "run", Reserve: carve}, {Node: "acme", Reserve: carve}}, w.do(run.Start{Started: started}).Budget)
	w.do(run.BeginTurn{Epoch: 1, Model: "m", Reserve: run.Amount{MicroUSD: 60, Tokens: 6}})
	w.do(run.Recover{Epoch: 2})
	require.Empty(t, w.do(run.BeginTurn{Epoch: 2, Model: "m", Reserve: usd(41)}).Budget)
	more := run.Amount{MicroUSD: 20, Tokens: 2}
	resume := raised(0)(w).(run.Resume)
	resume.Amount = more
	require.Equal(t, []run.BudgetMove{{Node: "run", Reserve: more}, {Node: "acme", Reserve: more}}, w.do(resume).Budget)
	w.do(run.BeginTurn{Epoch: 2, Model: "m", Reserve: run.Amount{MicroUSD: 41, Tokens: 4}})
	end := w.do(run.ReportTurn{Turn: 1, Attempt: 2, Class: run.ClassRefusal, Cost: run.Amount{MicroUSD: 30, Tokens: 3}}).Budget
	back := run.BudgetMove{Node: "run", Reserve: run.Amount{MicroUSD: -120, Tokens: -12}, Settle: run.Amount{MicroUSD: 30, Tokens: 3}, Unknown: run.Amount{MicroUSD: 60, Tokens: 6}}
	above := back
	above.Node = "acme"
	require.Equal(t, []run.BudgetMove{back, above}, end)
}

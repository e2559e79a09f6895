package run_test

import (
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// ledger books every reservation of a run by its attempt, apart from the run's
// own budget: each is held, kept as unknown, or given back. What was reported
// above its reservation is the overrun.
type ledger struct {
	turn    run.Amount
	second  *run.Hedge // of the turn
	calls   map[int]run.Amount
	carves  map[string]run.Amount // by child
	settled run.Amount
	unknown run.Amount
	overrun run.Amount
	account run.BudgetMove // the sum of all moves
}

func newLedger() ledger { return ledger{calls: map[int]run.Amount{}, carves: map[string]run.Amount{}} }

// note books one event by the state that it comes to.
func (l *ledger) note(t *rapid.T, s *run.State, event run.Event) {
	switch e := event.(type) {
	case run.TurnStarted:
		l.turn, l.second = e.Reserve, e.Hedge
	case run.TurnAnswered:
		var kept run.Amount
		if e.Hedged != nil && e.Hedged.Unknown {
			if kept = l.second.Reserve; e.Hedged.By == l.second.Model {
				kept = l.turn.Minus(kept)
			}
		}
		l.unknown = l.unknown.Plus(kept)
		l.settle(e.Cost, l.turn.Minus(kept))
		l.turn = run.Amount{}
	case run.TurnFailed:
		l.unknown = l.unknown.Plus(keptOf(e, l.turn, l.second))
		l.turn = run.Amount{}
	case run.CallIntended:
		require.Zero(t, l.calls[e.Call], "two reservations for one call")
		l.calls[e.Call] = e.Reserve
	case run.QuestionAsked:
		if e.Ask != nil {
			delete(l.calls, e.Call) // given back
		}
	case run.CallUncertain:
		class := s.Call(e.Call).Class
		if again := class == policy.ClassRead || class == policy.Keyed; again && !e.Ask && !s.Closing() {
			l.keep(e.Call)
		}
	case run.UncertainResolved:
		if e.Resolution == run.Repeat && s.Call(e.Call).Phase != run.CallDone {
			l.keep(e.Call)
		}
	case run.CallEnded:
		if e.Unknown {
			l.keep(e.Call)
			return
		}
		l.settle(e.Cost, l.calls[e.Call])
		delete(l.calls, e.Call)
	case run.ChildStarted:
		require.NotContains(t, l.carves, e.Child, "two budgets for one child")
		l.carves[e.Child] = e.Carve
	case run.ChildEnded:
		require.Contains(t, l.carves, e.Child, "an end that nothing was carved for")
		l.unknown = l.unknown.Plus(e.Unknown)
		l.settle(e.Settled, l.carves[e.Child].Minus(e.Unknown))
		delete(l.carves, e.Child)
	}
}

// keptOf is what stays held of a turn's reservation when it failed.
func keptOf(e run.TurnFailed, reserve run.Amount, second *run.Hedge) run.Amount {
	var kept run.Amount
	switch {
	case second == nil || e.Second == run.SecondUnsaid:
		if e.Unknown {
			kept = reserve
		}
	default:
		if e.Unknown {
			kept = reserve.Minus(second.Reserve)
		}
		if e.Second == run.SecondUnknown {
			kept = kept.Plus(second.Reserve)
		}
	}
	return kept
}

func (l *ledger) keep(call int) {
	l.unknown = l.unknown.Plus(l.calls[call])
	delete(l.calls, call)
}

func (l *ledger) settle(cost, reserve run.Amount) {
	l.settled = l.settled.Plus(cost)
	l.overrun = l.overrun.Plus(run.Amount{MicroUSD: max(cost.MicroUSD-reserve.MicroUSD, 0), Tokens: max(cost.Tokens-reserve.Tokens, 0)})
}

// hold compares the budget with the books after one event.
func (l *ledger) hold(t *rapid.T, s *run.State, event run.Event) {
	reserved := l.turn
	for _, reserve := range l.calls {
		reserved = reserved.Plus(reserve)
	}
	for _, carve := range l.carves {
		reserved = reserved.Plus(carve)
	}
	b := s.Budget
	require.Equal(t, run.Budget{Limit: b.Limit, Reserved: reserved, Settled: l.settled, Unknown: l.unknown}, b)
	for _, amount := range []run.Amount{b.Limit, b.Reserved, b.Settled, b.Unknown} {
		require.GreaterOrEqual(t, amount.MicroUSD, int64(0))
		require.GreaterOrEqual(t, amount.Tokens, int64(0))
	}
	switch event.(type) {
	case run.TurnStarted, run.CallIntended, run.ChildStarted:
		require.True(t, b.Committed().Within(b.Limit), "a reservation that does not fit: %+v", b)
	default:
		require.True(t, b.Committed().Within(b.Limit.Plus(l.overrun)), "committed more than the overrun explains: %+v", b)
	}
}

func (l *ledger) move(moves []run.BudgetMove) {
	for _, m := range moves {
		l.account.Reserve = l.account.Reserve.Plus(m.Reserve)
		l.account.Settle = l.account.Settle.Plus(m.Settle)
		l.account.Unknown = l.account.Unknown.Plus(m.Unknown)
	}
}

// close compares the account that carries the run with the run after one write.
func (l *ledger) close(t *rapid.T, s *run.State) {
	want := run.BudgetMove{Reserve: s.Budget.Limit}
	if s.Ended != nil {
		want = run.BudgetMove{Settle: s.Budget.Settled, Unknown: s.Budget.Unknown}
		require.Zero(t, s.Budget.Reserved, "the end leaves a reservation")
		require.Equal(t, s.Budget.Settled, s.Ended.Settled)
		require.Equal(t, s.Budget.Unknown, s.Ended.Unknown)
	}
	if len(s.Started.Accounts) == 0 {
		want = run.BudgetMove{} // who waits for it carries it
	}
	require.Equal(t, want, l.account)
}

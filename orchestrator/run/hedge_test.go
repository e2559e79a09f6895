package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run"
)

// both is the intent of a turn with the model m, for which n may be asked too.
func both() run.BeginTurn {
	return run.BeginTurn{Epoch: 1, Model: "m", Reserve: usd(9 + 7), Hedge: &run.Hedge{Model: "n", AfterMs: 2000, Reserve: usd(7)}}
}

func (w *world) hedges() { w.do(both()) }

// What nobody knows of a request that was made stays held, and no more than
// that; what was not made gives back what was reserved for it.
func TestEachOfTwoRequestsIsSettledByItself(t *testing.T) {
	answer := func(by string, unknown bool, late int64) func(*run.ReportTurn) {
		return func(r *run.ReportTurn) {
			r.Class, r.Text, r.Cost = run.ClassText, &run.Text{ID: "done"}, usd(3+late)
			r.Hedged = &run.Hedged{By: by, Unknown: unknown, Cost: usd(late)}
		}
	}
	failure := func(unknown bool, second run.Second) func(*run.ReportTurn) {
		return func(r *run.ReportTurn) {
			r.Failure = &run.TurnFailure{Cause: "OVERLOADED", Retryable: true, Unknown: unknown, Second: second}
		}
	}
	for name, row := range map[string]struct {
		report           func(*run.ReportTurn)
		settled, unknown int64
		by               string
	}{
		"the second was not asked": {func(r *run.ReportTurn) { r.Class, r.Text, r.Cost = run.ClassText, &run.Text{ID: "done"}, usd(3) }, 3, 0, "m"},
		"the first answers":        {answer("m", true, 0), 3, 7, "m"},
		"the second answers":       {answer("n", true, 0), 3, 9, "n"},
		"the first was not billed": {answer("n", false, 0), 3, 0, "n"},
		"both answer":              {answer("n", false, 2), 5, 0, "n"},
		"both fail":                {failure(true, run.SecondUnknown), 0, 16, "m"},
		"both fail, one is billed": {failure(false, run.SecondUnknown), 0, 7, "m"},
		"both fail, neither is":    {failure(false, run.SecondFailed), 0, 0, "m"},
		"the first fails alone":    {failure(true, run.SecondUnasked), 0, 9, "m"},
		"nobody can say":           {failure(true, run.SecondUnsaid), 0, 16, "m"},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t)
			w.hedges()
			require.Equal(t, usd(16), w.s.Budget.Reserved)
			report := run.ReportTurn{Turn: 1, Attempt: 1}
			row.report(&report)
			w.do(report)
			require.Equal(t, run.Budget{Limit: w.s.Budget.Limit, Settled: usd(row.settled), Unknown: usd(row.unknown)}, w.s.Budget)
			require.Equal(t, row.by, w.s.LastTurn().Model)
			require.Equal(t, "m", w.s.LastTurn().First)
		})
	}
}

// An end that comes with the report counts what stays held too.
func TestTheEndCountsWhatIsHeldOfTwoRequests(t *testing.T) {
	for _, report := range []run.ReportTurn{
		{Class: run.ClassRefusal, Cost: usd(3), Hedged: &run.Hedged{By: "n", Unknown: true}},
		{Failure: &run.TurnFailure{Cause: "OVERLOADED", Unknown: true, Second: run.SecondUnasked}},
	} {
		w := begin(t)
		w.hedges()
		if report.Failure != nil {
			w.do(run.Cancel{By: by("ada")})
		}
		report.Turn, report.Attempt = 1, 1
		w.do(report)
		require.NotNil(t, w.s.Ended)
		require.Equal(t, usd(9), w.s.Ended.Unknown)
		require.Equal(t, w.s.Budget.Unknown, w.s.Ended.Unknown)
	}
}

func TestWhoIsGoneOrInterruptedLeavesBothHeld(t *testing.T) {
	for cause, command := range map[string]run.Command{
		run.Lost:        run.Recover{Epoch: 2},
		run.Interrupted: run.Steer{Steer: "s", By: by("ada"), Text: run.Text{ID: "steer"}, Interrupt: true},
	} {
		w := begin(t)
		w.hedges()
		w.do(command)
		require.Equal(t, cause, w.s.LastTurn().Cause)
		require.Equal(t, usd(16), w.s.Budget.Unknown)
	}
}

// Both models that failed are left alone, and both are asked again in time.
func TestTwoModelsThatFailedRest(t *testing.T) {
	w := begin(t)
	w.hedges()
	w.do(run.ReportTurn{Turn: 1, Attempt: 1, Failure: &run.TurnFailure{Cause: "OVERLOADED", Retryable: true, Elsewhere: true, RetryAfterMs: 700, Second: run.SecondFailed}})
	rests := []run.Rest{{Model: "m", UntilMs: w.nowMs + 700}, {Model: "n", UntilMs: w.nowMs + 700}}
	require.Equal(t, rests, w.s.LastTurn().Rests)
	w.nowMs += 700
	w.hedges()
	w.do(run.ReportTurn{Turn: 1, Attempt: 2, Failure: &run.TurnFailure{Cause: "OVERLOADED", Retryable: true, RetryAfterMs: 900, Second: run.SecondUnknown}})
	require.Equal(t, w.nowMs+900, w.s.LastTurn().RetryAtMs, "none of them is asked before")
}

// A second model is never a reason to ask a person for money.
func TestWhatDoesNotCoverTwoRequestsRefusesTheSecondOnly(t *testing.T) {
	w := begin(t)
	dear := both()
	dear.Reserve, dear.Hedge.Reserve = usd(1001), usd(900)
	w.refused("HEDGE_BUDGET", dear)
	require.Nil(t, w.s.Reached)
	dear.Hedge, dear.Reserve = nil, usd(101)
	w.do(dear)
	require.Equal(t, run.TurnInFlight, w.s.LastTurn().Phase)
}

func TestWhatDoesNotFitATurnOfTwoModelsIsRefused(t *testing.T) {
	for name, change := range map[string]func(*run.BeginTurn){
		"the same model":       func(b *run.BeginTurn) { b.Hedge.Model = "m" },
		"at once":              func(b *run.BeginTurn) { b.Hedge.AfterMs = 0 },
		"more than the turn's": func(b *run.BeginTurn) { b.Hedge.Reserve = usd(17) },
		"below nothing":        func(b *run.BeginTurn) { b.Hedge.Reserve = usd(-1) },
	} {
		begun := both()
		change(&begun)
		_, refusal := run.Decide(begin(t).s, begun, run.Env{NowMs: 1000, Rules: &fixedRules{policy: "p1", tool: "t1"}})
		require.NotNil(t, refusal, name)
	}
	w := begin(t)
	w.hedges()
	report := run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassText, Cost: usd(3)}
	for _, hedged := range []run.Hedged{{By: "x"}, {By: "n", Cost: usd(4)}, {By: "n", Cost: usd(-1)}} {
		report.Hedged = &hedged
		_, refusal := run.Decide(w.s, report, run.Env{NowMs: 1000, Rules: w.rules})
		require.NotNil(t, refusal, "%+v", hedged)
	}
	w.refused("INVALID_HEDGE", run.ReportTurn{Turn: 1, Attempt: 1, Failure: &run.TurnFailure{Second: "SOON"}})
	w = begin(t)
	w.do(run.BeginTurn{Epoch: 1, Model: "m", Reserve: usd(9)})
	w.refused("INVALID_HEDGE", run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassText, Hedged: &run.Hedged{By: "m"}})
	w.refused("INVALID_HEDGE", run.ReportTurn{Turn: 1, Attempt: 1, Failure: &run.TurnFailure{Second: run.SecondUnasked}})
}

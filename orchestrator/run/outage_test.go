package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run"
)

// goesOut fails an attempt of the turn in flight as an outage does.
func (w *world) goesOut(elsewhere bool, retryAfterMs int64) {
	turn := w.s.LastTurn()
	w.do(run.ReportTurn{Turn: turn.Number, Attempt: turn.Attempt,
		Failure: &run.TurnFailure{Cause: "OVERLOADED", Retryable: true, Out: true, Elsewhere: elsewhere, RetryAfterMs: retryAfterMs}})
}

func (w *world) takesWith(model string) { w.do(run.BeginTurn{Epoch: 1, Model: model}) }

// An outage burns no attempt, asks nobody, and is waited for longer each time;
// the spread is the run's own.
func TestFault_D2_AnOutageIsWaitedForWithoutAnAttempt(t *testing.T) {
	w := begin(t)
	w.s.Authority.DeadlineMs = 1 << 40
	var waits []int64
	for nth := 1; nth <= 12; nth++ {
		w.do(run.AwaitModels{Turn: 1, Attempt: 1})
		require.Equal(t, run.StatusWaiting, w.s.Status)
		require.Equal(t, nth, w.s.Outage.Wait)
		require.Nil(t, w.s.Reached)
		require.Empty(t, w.pending(), "nothing to do before its time")
		require.Equal(t, w.s.Outage.RetryAtMs, run.DueMs(w.s, w.nowMs), "it goes on by itself")
		waits = append(waits, w.s.Outage.RetryAtMs-w.nowMs)
		w.nowMs = w.s.Outage.RetryAtMs
	}
	for nth, wait := range waits {
		base := int64(1000) << min(nth+1, 8)
		require.GreaterOrEqual(t, wait, base)
		require.Less(t, wait, base+base/2, "the growth is bounded")
	}
	w.takesWith("m")
	require.Equal(t, 1, w.s.LastTurn().Attempt)
	require.Nil(t, w.s.Outage)
	w.do(run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassText, Text: &run.Text{ID: "done"}})
	require.Zero(t, w.s.Outages, "the next outage begins anew")
}

func TestRunsDoNotComeBackFromAnOutageTogether(t *testing.T) {
	met := map[int64]bool{}
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		s := &run.State{ID: id}
		w := begin(t)
		require.NoError(t, run.Apply(s, w.s.Started))
		decision, refusal := run.Decide(s, run.AwaitModels{Turn: 1, Attempt: 1}, run.Env{NowMs: w.nowMs, Rules: w.rules})
		require.Nil(t, refusal)
		met[decision.Events[0].(run.ModelsOut).RetryAtMs] = true
	}
	require.Greater(t, len(met), 6)
}

// Attempts that fail because a provider is out end in a wait, not at a limit;
// what failed before counts anew after it, and one probe that fails waits again.
func TestFault_D2_AttemptsThatGoOutEndInAWait(t *testing.T) {
	w := begin(t)
	for attempt := 1; attempt <= w.s.Limits.TurnAttempts; attempt++ {
		w.takesWith("m")
		w.goesOut(false, 0)
		w.nowMs = run.DueMs(w.s, w.nowMs)
	}
	require.Equal(t, 1, w.s.Outage.Wait)
	require.Equal(t, "OVERLOADED", w.s.Outage.Cause)
	w.takesWith("m")
	w.goesOut(false, 0)
	require.Equal(t, 2, w.s.Outage.Wait, "a probe is enough")
	w.nowMs = w.s.Outage.RetryAtMs
	w.takesWith("m")
	w.do(run.ReportTurn{Turn: 1, Attempt: w.s.LastTurn().Attempt, Failure: &run.TurnFailure{Cause: "UNAUTHORISED"}})
	require.Equal(t, run.LimitModel, w.s.Reached.Limit, "what no time mends asks a person")
	require.Nil(t, w.s.Outage)
}

func TestWhatAProviderAsksForIsWaitedFor(t *testing.T) {
	w := begin(t)
	w.s.Authority.DeadlineMs = 1 << 40
	for range w.s.Limits.TurnAttempts {
		w.takesWith("m")
		w.goesOut(false, 3_600_000)
		w.nowMs += 3_600_000
	}
	require.Equal(t, w.nowMs, w.s.Outage.RetryAtMs)
	w.do(run.AwaitModels{Turn: 1, Attempt: w.s.LastTurn().Attempt + 1, BackMs: w.nowMs + 1_800_000})
	require.Equal(t, w.nowMs+1_800_000, w.s.Outage.RetryAtMs)
}

// Another model is asked at once; one that rests is left alone until its time.
func TestFault_D2_TheNextModelIsAskedAtOnce(t *testing.T) {
	w := begin(t)
	w.takesWith("a")
	w.goesOut(true, 60_000)
	require.Equal(t, run.StatusRunning, w.s.Status)
	require.Equal(t, []string{"turn/1/2"}, keysOf(w))
	rest := run.Rest{Model: "a", UntilMs: w.nowMs + 60_000}
	require.Equal(t, []run.Rest{rest}, w.s.LastTurn().Rests)
	w.takesWith("b")
	w.goesOut(false, 90_000)
	turn := w.s.LastTurn()
	require.Equal(t, rest.UntilMs, turn.RetryAtMs, "as soon as one of them may be asked")
	require.Equal(t, []run.Rest{rest, {Model: "b", UntilMs: w.nowMs + 90_000}}, turn.Rests)
}

func keysOf(w *world) (keys []string) {
	for _, effect := range w.pending() {
		keys = append(keys, effect.Key())
	}
	return keys
}

func TestAnOutageIsBoundedByTheDeadlineAndEndsWithACancel(t *testing.T) {
	w := begin(t)
	w.do(run.AwaitModels{Turn: 1, Attempt: 1, BackMs: w.s.Authority.DeadlineMs + 5})
	require.Equal(t, min(w.nowMs+24*60*60*1000, w.s.Authority.DeadlineMs), w.s.Outage.RetryAtMs)
	w.nowMs = w.s.Authority.DeadlineMs
	w.do(run.AwaitModels{Turn: 1, Attempt: 1})
	require.Equal(t, run.LimitDeadline, w.s.Reached.Limit)
	require.Nil(t, w.s.Outage)

	w = begin(t)
	w.do(run.AwaitModels{Turn: 1, Attempt: 1})
	w.do(run.Steer{Steer: "s", By: by("ada"), Text: run.Text{ID: "steer"}})
	require.Equal(t, run.StatusWaiting, w.s.Status, "guidance waits with it")
	w.refused("NOT_DUE", run.AwaitModels{Turn: 1, Attempt: 1})
	w.refused("NOT_DUE", run.BeginTurn{Epoch: 1, Model: "m"})
	w.do(run.Cancel{By: by("ada")})
	require.Equal(t, run.StatusCancelled, w.s.Status)
	require.Equal(t, run.Deferred, w.s.Steers[0].Disposition)
}

func TestWhoMayNotActAnyMoreDoesNotWaitForAModel(t *testing.T) {
	w := begin(t)
	w.rules.withdrawn = true
	w.do(run.AwaitModels{Turn: 1, Attempt: 1})
	require.Equal(t, "AGENT_WITHDRAWN", w.s.Parked.Code)
}

package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run"
)

// slowly lets what passes a site next take so long.
func (b *bench) slowly(site string, ms int64) {
	b.at(site, func(context.Context) error {
		<-time.After(time.Duration(ms) * time.Millisecond)
		return nil
	})
}

// The write of an intent takes longer than the lease holds, and stands. Another
// worker has the run by then: the effect must not begin behind its back.
func TestFault_B7_AnEffectWhoseIntentWasWrittenTooSlowlyDoesNotBegin(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.work("w1")
		b.slowly("after call_intended", 2*leaseMs)
		r := b.start("r1", []string{"opaque"})
		b.reach("after call_intended")
		b.work("w2")
		b.until("a person is asked", func() bool { return len(b.inbox("carl")) == 1 })
		b.later(2 * leaseMs)
		require.Zero(t, b.attempted("r1/1"), "it was never begun")
		require.EqualValues(t, 2, r.head().Epoch)
		require.NoError(t, r.finding("carl", 1, run.NotHappened))
		r.ends(run.StatusCompleted)
		require.Empty(t, b.effects)
	})
}

// Where nobody took the run meanwhile, the lease is renewed first, however often
// that fails, and then the effect begins.
func TestFault_B7_AnEffectWhoseIntentWasWrittenSlowlyWaitsForTheRenewal(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.blockRenewal(errStore)
		b.work("w1")
		b.slowly("after call_intended", leaseMs*7/10)
		r := b.start("r1", []string{"opaque"})
		b.reach("after call_intended")
		b.later(leaseMs * 8 / 10)
		require.Zero(t, b.attempted("r1/1"), "not while the lease is not renewed")
		b.blockRenewal(nil)
		state := r.ends(run.StatusCompleted)
		require.EqualValues(t, 1, r.head().Epoch)
		require.Equal(t, run.OutcomeOK, state.Call(1).Outcome)
		require.Equal(t, 1, b.attempted("r1/1"))
	})
}

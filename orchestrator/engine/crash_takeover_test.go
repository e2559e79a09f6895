package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run"
)

// A worker dies with a hundred runs under way: when its leases are over, and no
// later than the next look after that, another one has them all.
func TestFault_A12_AllThatADeadWorkerHadIsTakenOverInTime(t *testing.T) {
	const many, slackMs = 100, 1000
	within(t, func(t *testing.T, b *bench) {
		b.runs = many
		gate := make(chan struct{})
		b.opening = append(b.opening, func() { close(gate) })
		const site = "done call/1/1"
		b.each(site, func(context.Context) error { <-gate; return nil })
		first := b.work("w1")
		for i := range many {
			b.start(fmt.Sprint("r", i), []string{"keyed"})
		}
		b.until("all act", func() bool { return b.count(site) == many })
		first.world.kill()
		b.runs = 0
		b.work("w2")
		b.later(leaseMs + slackMs)
		for i := range many {
			head, _, err := b.Load(t.Context(), fmt.Sprint("r", i), 0)
			require.NoError(t, err)
			require.Equal(t, uint64(2), head.Epoch, head.Run)
			require.Equal(t, run.StatusCompleted, head.Status)
		}
		require.Len(t, b.effects, many, "each effect is there once")
	})
}

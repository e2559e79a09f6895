package engine_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

const hourMs = 3_600_000

// askew is a world whose clock is off by so much, and may jump ahead.
type askew struct {
	engine.RealWorld
	offMs atomic.Int64
}

func (a *askew) NowMs() int64 { return a.RealWorld.NowMs() + a.offMs.Load() }

func (a *askew) Wait(ctx context.Context, box *engine.Mailbox, untilMs int64) {
	a.RealWorld.Wait(ctx, box, untilMs-a.offMs.Load())
}

// workAskew starts a worker whose clock is off.
func (b *bench) workAskew(name string, offMs int64) *askew {
	world := &askew{}
	world.offMs.Store(offMs)
	ctx, cancel := context.WithCancel(b.t.Context())
	worker := engine.NewWorker(engine.WorkerConfig{Name: name, Journal: b, Claims: b, Rules: b.sourceOfRules, Performer: performer{b},
		World: world, Log: slog.New(slog.DiscardHandler), LeaseMs: leaseMs, PollMs: pollMs})
	world.Go(func() { _ = worker.Work(ctx) }) // always nil
	b.stations = append(b.stations, &station{worker: worker, world: &mortal{}, stop: func() { cancel(); world.Close() }})
	return world
}

// The clocks of two workers are hours apart. Neither takes over what the other
// one holds, however long its effect takes, and neither loses what it has.
func TestFault_B4_WorkersWhoseClocksAreHoursApartKeepTheirLeases(t *testing.T) {
	for name, offMs := range map[string][2]int64{"both right": {0, 0}, "ahead and behind": {hourMs, -hourMs}, "behind and ahead": {-hourMs, hourMs}} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				b.workAskew("w1", offMs[0])
				let := b.hold("done call/1/1")
				r := b.start("r1", []string{"opaque"})
				b.reach("done call/1/1")
				require.Equal(t, "w1", r.head().Owner)
				b.workAskew("w2", offMs[1])
				for range 10 {
					b.later(leaseMs / 2)
					require.Equal(t, "w1", r.head().Owner)
					require.EqualValues(t, 1, r.head().Epoch, "nobody took it over")
				}
				let()
				state := r.ends(run.StatusCompleted)
				require.Equal(t, run.OutcomeOK, state.Call(1).Outcome)
				require.Equal(t, 1, b.attempted("r1/1"))
			})
		})
	}
}

// A worker whose lease does end is followed at once when the store says so,
// whatever the follower's clock shows.
func TestFault_B4_ATakeoverKeepsToTheClockOfTheStore(t *testing.T) {
	for name, offMs := range map[string]int64{"ahead": hourMs, "behind": -hourMs} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				dead := b.work("w1")
				b.at("done call/1/1", func(context.Context) error { dead.world.kill(); return errDead })
				r := b.start("r1", []string{"keyed"})
				b.reach("done call/1/1")
				untilMs := r.head().LeaseUntil
				b.workAskew("w2", offMs)
				for now() < untilMs-pollMs {
					b.later(pollMs)
					require.EqualValues(t, 1, r.head().Epoch, "not while the lease holds")
				}
				b.later(3 * pollMs)
				require.EqualValues(t, 2, r.head().Epoch, "and not long after")
				r.ends(run.StatusCompleted)
				require.Len(t, b.effects, 1)
			})
		})
	}
}

// A clock that jumps an hour ahead makes its worker renew at once and begin
// nothing before it has.
func TestFault_B4_AClockThatJumpsAheadLosesNoLease(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		world := b.workAskew("w1", 0)
		b.at("done call/1/1", func(context.Context) error { world.offMs.Store(hourMs); return nil })
		b.at("done call/2/1", func(context.Context) error { world.offMs.Store(2 * hourMs); return nil })
		r := b.start("r1", []string{"opaque"}, []string{"opaque"}, []string{"opaque"})
		b.reach("begin turn/1/1")
		b.workAskew("w2", 0)
		state := r.ends(run.StatusCompleted)
		require.EqualValues(t, 1, r.head().Epoch)
		require.Equal(t, 2, b.count("renew"), "once for each jump")
		for i := range state.Calls {
			require.Equal(t, run.OutcomeOK, state.Calls[i].Outcome)
		}
		require.Equal(t, []int{1, 1, 1}, []int{b.attempted("r1/1"), b.attempted("r1/2"), b.attempted("r1/3")})
	})
}

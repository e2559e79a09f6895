package engine

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/sourcegraph/conc"
)

// RealWorld blocks, runs goroutines and reads the machine's clock.
type RealWorld struct {
	tasks conc.WaitGroup
	clock onward
}

// NowMs returns the machine's time. It never goes back: a clock that is set back
// would let a worker put off the renewal of its leases.
func (w *RealWorld) NowMs() int64 { return w.clock.ms(time.Now()) }

// onward is a clock that goes at least as fast as time passes. What the machine's
// clock jumps ahead it follows, since a machine that slept has lost its leases.
type onward struct {
	mu    sync.Mutex
	began time.Time
	ahead time.Duration // of what passed since it began
}

// ms takes the machine's clock, with its monotonic reading.
func (o *onward) ms(now time.Time) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.began.IsZero() {
		o.began = now
	}
	return o.at(now.Round(0), now.Sub(o.began))
}

// at takes the machine's clock, and what has passed since the clock began.
func (o *onward) at(wall time.Time, passed time.Duration) int64 {
	steady := o.began.Round(0).Add(passed)
	o.ahead = max(o.ahead, wall.Sub(steady))
	return steady.Add(o.ahead).UnixMilli()
}

// Await runs the operation.
func (*RealWorld) Await(ctx context.Context, _ string, operation func(context.Context) error) error {
	return operation(ctx)
}

// Go runs the task in a goroutine of its own.
func (w *RealWorld) Go(task func()) { w.tasks.Go(task) }

// Close waits for all tasks.
func (w *RealWorld) Close() { w.tasks.Wait() }

// Wait blocks until the mailbox rings, the time comes or the context is done.
func (w *RealWorld) Wait(ctx context.Context, box *Mailbox, untilMs int64) {
	timer := time.NewTimer(time.Duration(untilMs-w.NowMs()) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-box.Signal():
		box.ring()
		letJoin(box)
	case <-timer.C:
	case <-ctx.Done():
	}
}

// A report is held back for those that are on their way for less than the commit
// takes that is saved where they come: for so many rounds, and for so long.
const (
	joinRounds = 512
	joinWithin = 100 * time.Microsecond
)

// letJoin lets what is about to end beside what the mailbox holds be recorded in
// the same write. It sleeps for nothing: it only lets others go first.
func letJoin(box *Mailbox) {
	began := time.Now()
	for round := 0; round < joinRounds && box.expects() && time.Since(began) < joinWithin; round++ {
		runtime.Gosched()
	}
}

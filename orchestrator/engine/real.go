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
	clock onward
	tasks conc.WaitGroup // the goroutines that do them
	begin sync.Once
	end   sync.Once
	next  chan func()   // where a goroutine that is free takes its next task
	free  chan struct{} // room for those that are
	over  chan struct{} // closed: none waits for a task any more
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

// mostFree bounds the goroutines that wait for their next task.
const mostFree = 128

func (w *RealWorld) open() {
	w.begin.Do(func() {
		w.next, w.free, w.over = make(chan func()), make(chan struct{}, mostFree), make(chan struct{})
	})
}

// Go runs the task in a goroutine, in one that is free where there is one: its
// stack has grown already, and effects use much of it.
func (w *RealWorld) Go(task func()) {
	w.open()
	select {
	case w.next <- task:
	default:
		w.tasks.Go(func() { w.work(task) })
	}
}

// work does one task after the other, as long as few others wait for one.
func (w *RealWorld) work(task func()) {
	for {
		task()
		select {
		case w.free <- struct{}{}:
		default:
			return
		}
		select {
		case task = <-w.next:
			<-w.free
		case <-w.over:
			return
		}
	}
}

// Close waits for all tasks. The world is used no more after it.
func (w *RealWorld) Close() {
	w.open()
	w.end.Do(func() { close(w.over) })
	w.tasks.Wait()
}

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

package engine

import (
	"context"
	"time"

	"github.com/sourcegraph/conc"
)

// RealWorld blocks, runs goroutines and reads the machine's clock.
type RealWorld struct{ tasks conc.WaitGroup }

// NowMs returns the machine's time.
func (*RealWorld) NowMs() int64 { return time.Now().UnixMilli() }

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
	case <-timer.C:
	case <-ctx.Done():
	}
}

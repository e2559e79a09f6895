package bench

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc/pool"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// Paused is what runs cost that wait for a person.
type Paused struct {
	Runs int `json:"runs"`
	// HeapBytesPerRun is what the heap grew by, after garbage collection.
	HeapBytesPerRun float64 `json:"heapBytesPerRun"`
	HeapBefore      uint64  `json:"heapBefore"`
	HeapAfter       uint64  `json:"heapAfter"`
	// GoroutinesBefore and After say whether a waiting run keeps any.
	GoroutinesBefore int `json:"goroutinesBefore"`
	GoroutinesAfter  int `json:"goroutinesAfter"`
	// RoundsRatio is rounds per second with the paused runs in the store over
	// those without them.
	RoundsRatio float64 `json:"roundsRatio"`
}

// lookEvery is how often it is looked whether the last run was let go.
const lookEvery = 20 * time.Millisecond

// pause leaves runs waiting for an approval and weighs them.
func (b *bench) pause(ctx context.Context) (*Paused, error) {
	sample := min(b.config.Runs, max(b.config.Runs/4, b.config.Concurrency))
	without, err := b.load(ctx, sample)
	if err != nil {
		return nil, err
	}
	paused := &Paused{Runs: b.config.Paused}
	paused.HeapBefore, paused.GoroutinesBefore = weigh()
	if err := b.hold(ctx, b.config.Paused); err != nil {
		return nil, err
	}
	paused.HeapAfter, paused.GoroutinesAfter = weigh()
	paused.HeapBytesPerRun = (float64(paused.HeapAfter) - float64(paused.HeapBefore)) / float64(paused.Runs)
	with, err := b.load(ctx, sample)
	paused.RoundsRatio = over(with.RoundsPerSecond, without.RoundsPerSecond)
	return paused, err
}

// weigh returns the bytes of the heap that are in use, and the goroutines.
func weigh() (uint64, int) {
	debug.FreeOSMemory() // collects first
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc, runtime.NumGoroutine()
}

// hold starts runs and returns when all wait for a person and nobody owns one.
func (b *bench) hold(ctx context.Context, runs int) error {
	var started atomic.Int64
	starters := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError()
	for range min(b.config.Concurrency, runs) {
		starters.Go(func(ctx context.Context) error {
			for started.Add(1) <= int64(runs) {
				if err := b.untilHeld(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := starters.Wait(); err != nil {
		return err
	}
	return b.untilFree(ctx)
}

func (b *bench) untilHeld(ctx context.Context) error {
	id, err := b.start(ctx, "One call is held.")
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	tail, err := b.platform.Hub.Tail(ctx, id, 0)
	if err != nil {
		return err
	}
	waits, calls := false, 0
	for record := range tail.Items() {
		switch record.Kind {
		case run.KindApprovalRequested:
			waits = true
		case run.KindCallEnded:
			calls++
		}
		if waits && calls == 1 { // the call beside it is over
			return nil
		}
	}
	return fmt.Errorf("run %s was not held: %w", id, tail.Err())
}

// untilFree waits until every waiting run was given back.
func (b *bench) untilFree(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		owned, err := b.owned(ctx)
		if err != nil || owned == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func (b *bench) owned(ctx context.Context) (count int, err error) {
	filter := journal.Filter{Organisation: organisationName, Status: run.StatusWaiting}
	const page = 1000
	for {
		heads, err := b.platform.Store.Heads(ctx, filter, page)
		if err != nil {
			return 0, err
		}
		for i := range heads {
			filter.Before = heads[i].Run
			if heads[i].Owner != "" {
				count++
			}
		}
		if len(heads) < page || count > 0 {
			return count, nil
		}
	}
}

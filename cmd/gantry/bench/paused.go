package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/sourcegraph/conc/pool"

	"gantry.dev/cmd/gantry/bench/machine"
	"gantry.dev/orchestrator/run"
)

// woken is how many runs are woken, of which the 99th percentile is told.
const woken = 200

// tellable is how many paused runs it takes to tell what they cost. Of fewer,
// what memory and rates do by themselves is more.
const tellable = 10_000

// lookEvery is how often it is looked whether something is so.
const lookEvery = 10 * time.Millisecond

// paused measures what runs cost that wait for a person: P10 and P11. Those
// that are woken came to wait by themselves; the others are copies of one of
// them, row by row.
func paused(ctx context.Context, c Config, report *Report) error {
	if c.Paused == 0 {
		return nil
	}
	for _, dsn := range c.stores() {
		if err := c.pausedOn(ctx, dsn, report); err != nil {
			return fmt.Errorf("paused: %w", err)
		}
	}
	return nil
}

func (c Config) pausedOn(ctx context.Context, dsn string, report *Report) (err error) {
	empty, err := build(ctx, c.Folder, dsn, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, empty.raze()) }()
	full, err := build(ctx, c.Folder, dsn, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, full.raze()) }()
	store := full.database.Name()
	c.say(fmt.Sprintf("%s, %d paused runs", store, c.Paused))
	held, err := full.hold(ctx, min(woken, c.Paused))
	if err != nil {
		return err
	}
	if err := full.weighed(ctx, c.Paused, held[0], report); err != nil {
		return err
	}
	with, without, ratios := []float64(nil), []float64(nil), []float64(nil)
	w := work{concurrency: slices.Max(c.Concurrency), order: order{rounds: c.Rounds}, duration: c.For}
	for range c.Repeat {
		for _, h := range []*house{empty, full} {
			load, err := h.drive(ctx, w)
			if err != nil {
				return err
			}
			if h == empty {
				without = append(without, load.RoundsPerSecond())
				continue
			}
			with = append(with, load.RoundsPerSecond())
			ratios = append(ratios, machine.Over(with[len(with)-1], without[len(without)-1]))
		}
	}
	report.add(Figure{ID: "P10", Store: store, Name: fmt.Sprintf("rounds a second with %d paused runs to without", c.Paused), Goal: atLeast(0.9, 0.95), few: c.Paused < tellable}, ratios...)
	report.add(Figure{ID: "paused", Store: store, Name: "rounds a second with them", Unit: "1/s"}, with...)
	report.add(Figure{ID: "paused", Store: store, Name: "rounds a second without", Unit: "1/s"}, without...)
	times, err := full.wake(ctx, held)
	if err != nil {
		return err
	}
	quantiles := machine.QuantilesOf(times)
	report.add(Figure{ID: "P11", Store: store, Name: fmt.Sprintf("wake one of %d, p99 of %d", c.Paused, quantiles.Count), Unit: "ms", Goal: atMost(10, 5), few: c.Paused < tellable}, quantiles.P99)
	report.add(Figure{ID: "paused", Store: store, Name: "wake one of them, median", Unit: "ms"}, quantiles.P50)
	return nil
}

// weighed fills the store with copies and tells what the process that works on
// it keeps of them. It is opened twice the same way, so that what opening costs
// is on both sides.
func (h *house) weighed(ctx context.Context, number int, original string, report *Report) error {
	if err := h.reopen(ctx); err != nil {
		return err
	}
	heap, resident, goroutines := weigh()
	if err := h.close(); err != nil {
		return err
	}
	db, err := h.database.Connect(false)
	if err != nil {
		return err
	}
	store := h.database.Name()
	if err := errors.Join(machine.Copies(ctx, db, store == "PostgreSQL", original, number), db.Close()); err != nil {
		return err
	}
	begin := time.Now()
	if err := h.open(ctx); err != nil {
		return err
	}
	opened := time.Since(begin)
	heapAfter, residentAfter, goroutinesAfter := weigh()
	each := func(before, after uint64) float64 { return (float64(after) - float64(before)) / float64(number) }
	report.add(Figure{ID: "P10", Store: store, Name: fmt.Sprintf("resident memory of one of %d paused runs", number), Unit: "bytes", Goal: atMost(1000, 200), few: number < tellable}, each(resident, residentAfter))
	report.add(Figure{ID: "paused", Store: store, Name: "heap of one paused run", Unit: "bytes"}, each(heap, heapAfter))
	report.add(Figure{ID: "paused", Store: store, Name: "goroutines of all paused runs"}, float64(goroutinesAfter-goroutines))
	report.add(Figure{ID: "paused", Store: store, Name: "from start to ready with them", Unit: "ms"}, opened.Seconds()*1000)
	return nil
}

func (h *house) reopen(ctx context.Context) error {
	if err := h.close(); err != nil {
		return err
	}
	return h.open(ctx)
}

// weigh returns the bytes of the heap that are in use, those of the process
// that are resident, and the goroutines.
func weigh() (heap, resident uint64, goroutines int) {
	debug.FreeOSMemory() // collects first
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc, machine.Resident(os.Getpid()), runtime.NumGoroutine()
}

// hold starts runs and returns when all wait for a person and nobody owns one.
func (h *house) hold(ctx context.Context, number int) ([]string, error) {
	starters := pool.NewWithResults[string]().WithContext(ctx).WithCancelOnError().WithFirstError().WithMaxGoroutines(64)
	for range number {
		starters.Go(func(ctx context.Context) (string, error) {
			id, err := h.start(ctx, order{rounds: 1, held: true})
			if err != nil {
				return id, err
			}
			waits, calls := false, 0
			return id, h.follow(ctx, id, func(record run.Record) (bool, error) {
				waits = waits || record.Kind == run.KindApprovalRequested
				if record.Kind == run.KindCallEnded {
					calls++
				}
				return !waits || calls == 0, nil // the call beside it is over
			})
		})
	}
	ids, err := starters.Wait()
	if err != nil {
		return ids, err
	}
	return ids, until(ctx, lookEvery, func() (bool, error) {
		for _, id := range ids {
			head, _, err := h.platform.Store.Load(ctx, id, 0)
			if err != nil || head.Owner != "" {
				return false, err
			}
		}
		return true, nil
	})
}

// wake grants what each run waits for, one after the other, and returns how
// long each took from the decision to its next step.
func (h *house) wake(ctx context.Context, ids []string) (times []time.Duration, err error) {
	for _, id := range ids {
		took, err := h.wakeOne(ctx, id)
		if err != nil {
			return times, err
		}
		times = append(times, took)
	}
	return times, nil
}

func (h *house) wakeOne(ctx context.Context, id string) (time.Duration, error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	head, records, err := h.platform.Store.Load(ctx, id, 0)
	if err != nil {
		return 0, err
	}
	at := slices.IndexFunc(records, func(r run.Record) bool { return r.Kind == run.KindApprovalRequested })
	if at < 0 {
		return 0, fmt.Errorf("run %s waits for nobody", id)
	}
	tail, err := h.platform.Hub.Tail(ctx, id, head.Version)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := h.grant(ctx, records[at]); err != nil {
		return 0, err
	}
	for record := range tail.Items() {
		if record.Kind == run.KindCallIntended {
			return time.Since(begin), nil
		}
	}
	return 0, errors.Join(fmt.Errorf("run %s was not woken", id), tail.Err())
}

package bench

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/sourcegraph/conc/pool"

	"gantry.dev/cmd/gantry/bench/machine"
	"gantry.dev/orchestrator/run"
)

// Load is what runs at once came to in some seconds. A round is a turn with its
// two calls; the turn that answers at the end of a run counts as none.
type Load struct {
	Concurrency int     `json:"concurrency"`
	Runs        int     `json:"runs"`
	Rounds      int     `json:"rounds"`
	Records     int     `json:"records"` // of the journal
	RecordBytes int     `json:"recordBytes"`
	Seconds     float64 `json:"seconds"`
	Held        int     `json:"held"`
	// RoundMs is from the commit of one turn's intent to that of the next, as a
	// follower of the run is told.
	RoundMs machine.Quantiles `json:"roundMs"`
	// CPU is milliseconds a round, user and system: of this process with the
	// model, the tools and the followers, and of the database's server.
	CPUMs         float64 `json:"cpuMs"`
	DatabaseCPUMs float64 `json:"databaseCpuMs"`
	// Foreign is how many cores others had meanwhile.
	Foreign float64 `json:"foreignCores"`

	// Of the database's log, with the opening and closing of the store; a round
	// is one of Rounds or of the warming up.
	RecordsPerCommit     float64 `json:"recordsPerCommit"`
	SyncsPerRound        float64 `json:"syncsPerRound"`
	LogBytesPerRound     float64 `json:"logBytesPerRound"`     // PostgreSQL
	WrittenBytesPerRound float64 `json:"writtenBytesPerRound"` // SQLite, with checkpoints
}

// RoundsPerSecond of all runs together.
func (l Load) RoundsPerSecond() float64 { return machine.Over(float64(l.Rounds), l.Seconds) }

// RecordsPerSecond of all runs together.
func (l Load) RecordsPerSecond() float64 { return machine.Over(float64(l.Records), l.Seconds) }

// work says what to drive.
type work struct {
	concurrency int
	order       order
	heldShare   float64
	duration    time.Duration // no run is started after it
	followers   int           // of each run, beside the one that drives it
}

// tally gathers what the followers of all runs see.
type tally struct {
	mu   sync.Mutex
	load Load
	size int
	took []time.Duration
}

// drive keeps as many runs going as are wanted, and lets the last ones end.
func (h *house) drive(ctx context.Context, w work) (Load, error) {
	gathered := tally{load: Load{Concurrency: w.concurrency}}
	own, server, busy, begin := machine.ProcessCPU(), h.database.CPU(), machine.BusyCPU(), time.Now()
	followers := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError()
	for range w.concurrency {
		followers.Go(func(ctx context.Context) error {
			for {
				if err := h.one(ctx, w, &gathered); err != nil || time.Since(begin) >= w.duration {
					return err
				}
			}
		})
	}
	if err := followers.Wait(); err != nil {
		return Load{}, err
	}
	seconds := time.Since(begin)
	own, server, busy = machine.ProcessCPU()-own, h.database.CPU()-server, machine.BusyCPU()-busy
	l := gathered.load
	perRound := func(d time.Duration) float64 { return machine.Over(d.Seconds()*1000, float64(l.Rounds)) }
	l.Seconds, l.RoundMs = seconds.Seconds(), machine.QuantilesOf(gathered.took)
	l.CPUMs, l.DatabaseCPUMs = perRound(own), perRound(server)
	l.Foreign = max(0, (busy-own-server).Seconds()/l.Seconds)
	l.RecordBytes = gathered.size / max(1, l.Records)
	return l, nil
}

// holds reports whether the run of a number waits for an approval: the share is
// spread evenly.
func holds(share float64, number int64) bool {
	return int64(float64(number)*share) != int64(float64(number-1)*share)
}

// one starts one run, decides what it asks, and reads it to its end.
func (h *house) one(ctx context.Context, w work, into *tally) error {
	o := w.order
	o.held = holds(w.heldShare, h.number.Load()+1)
	id, err := h.start(ctx, o)
	if err != nil {
		return err
	}
	var others conc.WaitGroup
	defer others.Wait()
	for range w.followers {
		others.Go(func() {
			_ = h.follow(ctx, id, func(record run.Record) (bool, error) { return record.Kind != run.KindEnded, nil }) // what breaks breaks the driver's too
		})
	}
	var turn time.Time
	var took []time.Duration
	records, size, waited := 0, 0, false
	err = h.follow(ctx, id, func(record run.Record) (bool, error) {
		records++
		size += len(record.Body)
		switch record.Kind {
		case run.KindTurnStarted:
			now := time.Now()
			if !turn.IsZero() && !waited {
				took = append(took, now.Sub(turn))
			}
			turn, waited = now, false
		case run.KindApprovalRequested:
			waited = true
			return true, h.grant(ctx, record)
		case run.KindEnded:
			return false, nil
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	into.mu.Lock()
	defer into.mu.Unlock()
	into.took = append(into.took, took...)
	into.size += size
	into.load.Runs++
	into.load.Rounds += o.rounds
	into.load.Records += records
	if o.held {
		into.load.Held++
	}
	return nil
}

// sample drives a load with everything that a database counts of it: the store
// is opened before and closed after, since only then all is counted.
func (h *house) sample(ctx context.Context, w work) (load Load, err error) {
	if err := h.close(); err != nil {
		return load, err
	}
	before, err := h.database.Counters(ctx)
	if err != nil {
		return load, err
	}
	if err := h.open(ctx); err != nil {
		return load, err
	}
	warm := w
	warm.duration, warm.heldShare = 0, 0
	warmed, err := h.drive(ctx, warm)
	if err != nil {
		return load, err
	}
	if load, err = h.drive(ctx, w); err != nil {
		return load, err
	}
	if err := h.close(); err != nil {
		return load, err
	}
	after, err := h.database.Counters(ctx)
	if err != nil {
		return load, errors.Join(err, h.open(ctx))
	}
	made, rounds := after.Since(before), float64(load.Rounds+warmed.Rounds)
	load.RecordsPerCommit = machine.Over(float64(load.Records+warmed.Records), float64(made.Commits))
	load.SyncsPerRound = machine.Over(float64(made.Syncs), rounds)
	load.LogBytesPerRound, load.WrittenBytesPerRound = machine.Over(float64(made.LogBytes), rounds), machine.Over(float64(made.WrittenBytes), rounds)
	return load, h.open(ctx)
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc/pool"

	"gantry.dev/agents/perform"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Load is what the measured runs came to.
type Load struct {
	Runs             int     `json:"runs"`
	Concurrency      int     `json:"concurrency"`
	Held             int     `json:"held"`
	Seconds          float64 `json:"seconds"`
	RunsPerSecond    float64 `json:"runsPerSecond"`
	RoundsPerSecond  float64 `json:"roundsPerSecond"`  // a turn with its calls
	RecordsPerSecond float64 `json:"recordsPerSecond"` // of the journal
	RecordBytes      int     `json:"recordBytes"`      // mean size of a body
	// CommitsPerSecond counts write transactions of the database: on SQLite
	// all of them, also those that take and give back leases; on PostgreSQL
	// those with records.
	CommitsPerSecond float64 `json:"commitsPerSecond"`
	// RecordsPerCommit is how many records share a commit.
	RecordsPerCommit float64 `json:"recordsPerCommit"`
	CPUMsPerRound    float64 `json:"cpuMsPerRound"` // of this process, user and system
	// CPUShare is how much of all cores this process had: the rest waited for
	// the disk, or was the database's or somebody else's.
	CPUShare float64 `json:"cpuShare"`
	// StepMs is from the commit of an intent, of a turn or of a call, to the
	// commit of its outcome, as a follower of the run is told.
	StepMs Quantiles `json:"stepMs"`
	// RoundMs is from the commit of one turn's intent to that of the next.
	RoundMs Quantiles `json:"roundMs"`
	// SubmitToHeldMs is from the request to start a run to the news that a
	// call of its first turn waits for a person.
	SubmitToHeldMs Quantiles `json:"submitToHeldMs"`
}

// Quantiles are of one set of times, in milliseconds.
type Quantiles struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
}

func quantiles(times []time.Duration) Quantiles {
	if len(times) == 0 {
		return Quantiles{}
	}
	slices.Sort(times)
	at := func(share float64) float64 {
		return float64(times[min(int(share*float64(len(times))), len(times)-1)].Microseconds()) / 1000
	}
	return Quantiles{Count: len(times), P50: at(0.50), P95: at(0.95), P99: at(0.99)}
}

// tally gathers what the followers of all runs see.
type tally struct {
	mu                   sync.Mutex
	steps, rounds, holds []time.Duration
	records, turns, held int
	bytes                int
}

// load drives runs to their ends.
func (b *bench) load(ctx context.Context, runs int) (Load, error) {
	var gathered tally
	var started atomic.Int64
	commits, err := b.store.commits(ctx)
	if err != nil {
		return Load{}, err
	}
	cpu, begin := processCPU(), time.Now()
	followers := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError()
	for range min(b.config.Concurrency, runs) {
		followers.Go(func(ctx context.Context) error {
			for number := started.Add(1); number <= int64(runs); number = started.Add(1) {
				if err := b.follow(ctx, number, &gathered); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := followers.Wait(); err != nil {
		return Load{}, err
	}
	seconds, used := time.Since(begin).Seconds(), processCPU()-cpu
	after, err := b.store.commits(ctx)
	if err != nil {
		return Load{}, err
	}
	made := float64(after - commits)
	return Load{
		Runs: runs, Concurrency: b.config.Concurrency, Held: gathered.held, Seconds: seconds, RunsPerSecond: float64(runs) / seconds,
		RoundsPerSecond: float64(gathered.turns) / seconds, RecordsPerSecond: float64(gathered.records) / seconds,
		RecordBytes: gathered.bytes / gathered.records, CommitsPerSecond: made / seconds, RecordsPerCommit: over(float64(gathered.records), made),
		CPUMsPerRound: used.Seconds() * 1000 / float64(gathered.turns), CPUShare: used.Seconds() / seconds / float64(runtime.GOMAXPROCS(0)),
		StepMs: quantiles(gathered.steps), RoundMs: quantiles(gathered.rounds), SubmitToHeldMs: quantiles(gathered.holds),
	}, nil
}

// holds reports whether the run of a number waits for an approval: the share is
// spread evenly.
func (c Config) holds(number int64) bool {
	return int64(float64(number)*c.Held) != int64(float64(number-1)*c.Held)
}

// follow starts one run, decides what it asks, and reads it to its end.
func (b *bench) follow(ctx context.Context, number int64, into *tally) error {
	watch := watch{bench: b, submitted: time.Now(), intents: map[int]time.Time{}}
	goal := "Read the files."
	if b.config.holds(number) {
		goal = "Read the files; one call is held."
	}
	id, err := b.start(ctx, goal)
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	tail, err := b.platform.Hub.Tail(ctx, id, 0)
	if err != nil {
		return err
	}
	for record := range tail.Items() {
		if err := watch.see(ctx, record); err != nil {
			return err
		}
		if watch.status != "" {
			break
		}
	}
	if watch.status != run.StatusCompleted {
		return errors.Join(fmt.Errorf("run %s ended as %q", id, watch.status), tail.Err())
	}
	watch.add(into)
	return nil
}

func (b *bench) start(ctx context.Context, goal string) (string, error) {
	admitted, err := b.platform.Admission.Start(ctx, perform.Order{Person: b.people.asker, By: run.Identity{Principal: asker}, Agent: agent, Goal: goal})
	return admitted.Run, err
}

// watch is one run as its follower sees it.
type watch struct {
	bench                *bench
	submitted            time.Time
	turn                 time.Time // commit of the turn's intent
	intents              map[int]time.Time
	waited               bool // a person was asked since the turn began
	steps, rounds, holds []time.Duration
	turns, records       int
	bytes                int
	status               run.Status
}

// see notes when a record was told. The first turn may be over before the
// follower is there, so its steps do not count.
func (w *watch) see(ctx context.Context, record run.Record) error {
	now := time.Now()
	w.records++
	w.bytes += len(record.Body)
	event, err := run.Decode(record)
	if err != nil {
		return err
	}
	switch e := event.(type) {
	case run.TurnStarted:
		if w.turns > 1 && !w.waited {
			w.rounds = append(w.rounds, now.Sub(w.turn))
		}
		w.turns, w.turn, w.waited = w.turns+1, now, false
	case run.TurnAnswered:
		if w.turns > 1 {
			w.steps = append(w.steps, now.Sub(w.turn))
		}
	case run.CallIntended:
		w.intents[e.Call] = now
	case run.CallEnded:
		if began, known := w.intents[e.Call]; known && w.turns > 1 {
			w.steps = append(w.steps, now.Sub(began))
		}
	case run.ApprovalRequested:
		w.holds, w.waited = append(w.holds, now.Sub(w.submitted)), true
		return w.bench.grant(ctx, record.Run, e)
	case run.Ended:
		w.status = e.Status
	case run.Parked, run.LimitReached, run.TurnFailed:
		return fmt.Errorf("%s at record %d of run %s: %s", event.Kind(), record.Seq, record.Run, record.Body)
	}
	return nil
}

func (w *watch) add(into *tally) {
	into.mu.Lock()
	defer into.mu.Unlock()
	into.steps, into.rounds, into.holds = append(into.steps, w.steps...), append(into.rounds, w.rounds...), append(into.holds, w.holds...)
	into.records, into.turns, into.bytes = into.records+w.records, into.turns+w.turns, into.bytes+w.bytes
	into.held += len(w.holds)
}

func (b *bench) grant(ctx context.Context, id string, e run.ApprovalRequested) error {
	reason, payload := engine.Seal(b.platform.Source, id, approver, policy.Marking{Integrity: policy.Trusted}, []byte("the benchmark goes on"))
	_, err := b.platform.Engine.Submit(ctx, engine.Submission{Organisation: organisationName, Run: id, Payloads: []engine.Payload{payload},
		Command: run.DecideApproval{Approval: e.Approval, Digest: e.Digest, Granted: true, By: run.Identity{Principal: approver}, Person: b.people.approver, Reason: &reason}})
	return err
}

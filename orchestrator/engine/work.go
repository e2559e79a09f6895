package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"gantry.dev/orchestrator/run"
)

// WorkerConfig is what a worker needs.
type WorkerConfig struct {
	Name      string // names the worker in its leases; unique per process
	Journal   Journal
	Claims    Claims
	Rules     RuleSource
	Performer Performer
	World     World
	Log       *slog.Logger
	LeaseMs   int64 // how long a lease holds; renewed at a third of it
	PollMs    int64 // how often to look for due runs when nobody rings
	DrainMs   int64 // how long model requests may go on when the worker stops; 0: 10 s
	Runs      int   // runs advanced side by side
}

func (c WorkerConfig) withDefaults() WorkerConfig {
	if c.LeaseMs == 0 {
		c.LeaseMs = 15_000
	}
	if c.PollMs == 0 {
		c.PollMs = 500
	}
	if c.DrainMs == 0 {
		c.DrainMs = 10_000
	}
	if c.Runs == 0 {
		c.Runs = 64
	}
	return c
}

// Worker claims runs that are due and performs what they ask for.
type Worker struct {
	config WorkerConfig
	bell   *Mailbox

	left   *Mailbox // rings when an owner is done
	mu     sync.Mutex
	owned  map[string]*actor
	owners int // that are not done, also those that were replaced
	// kept are runs as they were when they began to wait for children: each end of
	// a child wakes them, and only what came since is read then.
	kept map[string]*run.State
}

// maxKept bounds the runs that are kept; of more, some are read from their
// beginning again.
const maxKept = 256

// NewWorker returns a worker that does nothing until Work is called.
func NewWorker(config WorkerConfig) *Worker {
	return &Worker{config: config.withDefaults(), bell: NewMailbox(), left: NewMailbox(), owned: map[string]*actor{}, kept: map[string]*run.State{}}
}

// Ring tells the worker that a run moved on or became due. It may be called
// from anywhere and loses nothing but time when it is not called.
func (w *Worker) Ring(runID string) {
	if !w.Rouse(runID) {
		w.bell.Wake()
	}
}

// Rouse tells the worker that somebody else wrote to a run; it matters only to
// the run's owner. It reports whether this worker is.
func (w *Worker) Rouse(runID string) bool {
	w.mu.Lock()
	owner := w.owned[runID]
	w.mu.Unlock()
	if owner != nil {
		owner.box.Wake()
	}
	return owner != nil
}

// Work claims and advances runs until the context is done; then it drains: it
// claims nothing more, lets no new effect begin, waits for what is in flight,
// for model requests no longer than DrainMs, and gives its leases back.
func (w *Worker) Work(ctx context.Context) error {
	for ctx.Err() == nil {
		w.bell.drain()
		claimed, err := w.claim(ctx)
		if err != nil && ctx.Err() == nil {
			w.config.Log.Warn("claiming failed", "worker", w.config.Name, "error", err)
		}
		for _, owner := range claimed {
			w.config.World.Go(func() {
				defer w.leave()
				w.advance(ctx, owner)
			})
		}
		if len(claimed) == 0 || w.free() == 0 {
			w.config.World.Wait(ctx, w.bell, w.config.World.NowMs()+w.config.PollMs)
		}
	}
	for !w.idle() {
		w.config.World.Wait(context.WithoutCancel(ctx), w.left, w.config.World.NowMs()+w.config.PollMs)
	}
	return nil
}

// idle reports whether every owner is done.
func (w *Worker) idle() bool {
	w.left.drain()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owners == 0
}

func (w *Worker) leave() {
	w.mu.Lock()
	w.owners--
	w.mu.Unlock()
	w.left.Wake()
}

func (w *Worker) free() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.config.Runs - len(w.owned)
}

func (w *Worker) claim(ctx context.Context) (owners []*actor, err error) {
	free := w.free()
	if free <= 0 {
		return nil, nil
	}
	var leases []Lease
	err = w.config.World.Await(ctx, "claim", func(ctx context.Context) error {
		leases, err = w.config.Claims.Claim(ctx, w.config.Name, free, w.config.LeaseMs)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, lease := range leases {
		owners = append(owners, w.own(lease))
	}
	return owners, nil
}

// own makes the owner of a run, also where an earlier one of this worker, whose
// lease ended, has not noticed yet.
func (w *Worker) own(lease Lease) *actor {
	w.mu.Lock()
	defer w.mu.Unlock()
	owner := newActor(w.config, lease)
	if state := w.kept[lease.Run]; state != nil {
		delete(w.kept, lease.Run)
		owner.state, owner.kept = state, true
		owner.box.Wake() // somebody else may have written since
	}
	w.owned[lease.Run] = owner
	w.owners++
	return owner
}

// disown forgets the owner of a run, but for the state of one that has children
// to wait for.
func (w *Worker) disown(owner *actor, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.owned[owner.lease.Run] != owner {
		return
	}
	delete(w.owned, owner.lease.Run)
	if err != nil || owner.state == nil || owner.state.LiveRuns() == 0 {
		return
	}
	if len(w.kept) >= maxKept {
		delete(w.kept, slices.Min(slices.Collect(maps.Keys(w.kept)))) // the oldest
	}
	w.kept[owner.lease.Run] = owner.state
}

func (w *Worker) advance(ctx context.Context, owner *actor) {
	err := owner.drive(ctx)
	w.disown(owner, err)
	lease := owner.lease
	log := w.config.Log.With("run", lease.Run, "epoch", lease.Epoch)
	switch {
	case err == nil, ctx.Err() != nil:
	case errors.Is(err, run.ErrFenced):
		log.Info("lease was taken over")
		w.reportLate(ctx, owner)
		return
	case errors.Is(err, run.ErrGuard):
		log.Info("run held back") // tried again when the lease ends
		return
	default:
		// The lease is kept until it ends, so that a run that cannot be advanced
		// is tried again at its pace.
		log.Warn("run not advanced", "error", err)
		return
	}
	// The lease goes back even when the worker stops.
	back := context.WithoutCancel(ctx)
	if err := w.config.World.Await(back, "release", func(ctx context.Context) error {
		return w.config.Claims.Release(ctx, w.config.Name, owner.lease)
	}); err != nil {
		log.Warn("lease not released", "error", err)
	}
	// A run that is due and yet yields nothing is looked at again at the pace of
	// the poll.
	if owner.wrote {
		w.bell.Wake()
	}
}

// reportLate hands on what a fenced owner's effects gave: the successor's
// record keeps it, as the outcome of an uncertain attempt or as a late one.
func (w *Worker) reportLate(ctx context.Context, owner *actor) {
	ctx = context.WithoutCancel(ctx)
	engine := New(w.config.Journal, w.config.Rules)
	for _, r := range owner.gather(ctx) {
		if _, isCall := r.command.(run.ReportCall); !isCall || owner.organisation == "" {
			continue
		}
		_, err := engine.Submit(ctx, Submission{
			Organisation: owner.organisation, Run: owner.lease.Run, Command: r.command, Payloads: r.payloads, Links: r.links})
		if err != nil && !refused(err) {
			w.config.Log.Warn("late outcome not recorded", "run", owner.lease.Run, "error", err)
		}
	}
}

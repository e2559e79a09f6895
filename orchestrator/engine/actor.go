package engine

import (
	"context"
	"errors"

	"gantry.dev/orchestrator/run"
)

// actor owns one run under a lease: it alone assigns the run's sequence
// numbers while the lease holds, and writes from outside meet it as conflicts.
type actor struct {
	config       WorkerConfig
	lease        Lease
	box          *Mailbox
	state        *run.State
	organisation string // known once the run was read
	rules        run.Rules
	texts        map[string]Payload
	kept         bool // the state is one that was kept, and not held against the journal yet
	memory       any  // the performer's
	reports      []report
	flying       map[string]flight // effects in flight by key
	unready      error             // why an effect could not be prepared in the last step
	renewedMs    int64             // local clock at the last renewal
	renewAtMs    int64             // local clock of the next one
	stoppedMs    int64             // local clock when the worker was seen to stop, 0 before
	wrote        bool              // the run moved on under this lease
	heldBack     int               // writes in a row whose conditions did not hold
	news, heard  uint64            // of children; see run.Head
}

// guardPauseMs is how long an actor waits after the conditions of its write did
// not hold: what they depend on is not in its run.
const guardPauseMs = 100

// mostHeldBack is after how many such writes an actor without anything in flight
// lets go of its run for as long as the lease lasts: of a tree that was cancelled
// many runs may still want to begin, and what has to tell them needs a place.
const mostHeldBack = 3

func newActor(config WorkerConfig, lease Lease) *actor {
	nowMs := config.World.NowMs()
	return &actor{config: config, lease: lease, box: NewMailbox(), texts: map[string]Payload{},
		flying: map[string]flight{}, renewedMs: nowMs, renewAtMs: nowMs + config.LeaseMs/3}
}

// drive advances the run until it asks for nothing, the lease is lost or the
// context is done. What is in flight is always waited for, so that an outcome
// that is known is recorded.
func (a *actor) drive(ctx context.Context) error {
	a.reports = append(a.reports, report{command: run.Recover{Epoch: a.lease.Epoch}})
	for {
		idle, err := a.step(ctx)
		if err != nil {
			a.abandon()
			return err
		}
		if idle && len(a.flying) == 0 {
			return a.unready
		}
		if len(a.flying) > 0 && len(a.reports) == 0 && a.state != nil {
			a.rest(ctx)
		}
		if err := a.renew(ctx); err != nil {
			a.abandon()
			return err
		}
	}
}

// rest waits for reports and wake-ups. Model requests get some time when the
// worker stops, and are then given up: they can take minutes and may be made
// again, which is not so for calls.
func (a *actor) rest(ctx context.Context) {
	if ctx.Err() == nil {
		a.config.World.Wait(ctx, a.box, a.renewAtMs)
		return
	}
	untilMs, nowMs := a.renewAtMs, a.config.World.NowMs()
	if a.stoppedMs == 0 {
		a.stoppedMs = nowMs
	}
	if endMs := a.stoppedMs + a.config.DrainMs; nowMs < endMs {
		untilMs = min(untilMs, endMs)
	} else {
		a.giveUpTurns("")
	}
	a.config.World.Wait(context.WithoutCancel(ctx), a.box, untilMs)
}

// step records what was reported, asks the state what it wants, records the
// intents of that in the same write, and begins it. It reports whether the run
// asked for nothing.
func (a *actor) step(ctx context.Context) (idle bool, err error) {
	arrived, woken := a.box.drain()
	a.reports = append(a.reports, arrived...)
	record := context.WithoutCancel(ctx)
	if a.state == nil || woken {
		if err := a.reload(record); err != nil {
			return false, err
		}
	}
	nowMs, err := a.now(record)
	if err != nil {
		return false, err
	}
	a.unready = nil
	d := newDraft(a.state, nowMs, a.lease.Epoch)
	if err := a.decideReports(d); err != nil {
		return false, a.park(record, err)
	}
	var begun []beginning
	// What came back is recorded by itself where nothing new may begin.
	reportsOnly := a.heldBack > 0 && len(a.reports) > 0
	if ctx.Err() == nil && !a.selfFenced() && !reportsOnly {
		if begun, err = a.decideEffects(ctx, d); err != nil {
			return false, a.park(record, err)
		}
	}
	if err := a.flush(record, d); err != nil {
		return false, a.afterFailure(record, err)
	}
	if !d.empty() {
		a.heldBack = 0
	}
	for i := range a.reports {
		a.land(a.reports[i].effect)
	}
	a.reports = nil
	a.interrupt()
	if len(begun) > 0 {
		if err := a.assure(ctx); err != nil {
			return false, err
		}
	}
	for _, b := range begun {
		a.begin(ctx, b)
	}
	return len(begun) == 0 && d.empty() && !reportsOnly, nil
}

// afterFailure says how a failed write goes on: after a conflict or a moved
// gate the run is read and decided again, with the same reports. It returns
// run.ErrGuard where the run is to be left alone for a while.
func (a *actor) afterFailure(ctx context.Context, err error) error {
	a.state = nil
	switch {
	case errors.Is(err, run.ErrConflict):
		return nil
	case errors.Is(err, run.ErrGuard):
		if a.heldBack++; a.heldBack >= mostHeldBack && len(a.flying) == 0 && len(a.reports) == 0 {
			return err
		}
		a.config.World.Wait(ctx, a.box, a.config.World.NowMs()+guardPauseMs)
		return nil
	}
	return err
}

func (a *actor) now(ctx context.Context) (nowMs int64, err error) {
	err = a.config.World.Await(ctx, "now", func(ctx context.Context) error {
		nowMs, err = a.config.Journal.Now(ctx)
		return err
	})
	return nowMs, err
}

// reload reads what the run's journal holds beyond the state; a state that was
// dropped is folded from the beginning.
func (a *actor) reload(ctx context.Context) error {
	if a.state == nil {
		a.state, a.memory = &run.State{ID: a.lease.Run}, nil
	}
	var head run.Head
	var records []run.Record
	err := a.config.World.Await(ctx, "load", func(ctx context.Context) error {
		var err error
		head, records, err = a.config.Journal.Load(ctx, a.lease.Run, a.state.Version)
		return err
	})
	if err != nil {
		return err
	}
	err = fold(a.state, head, records)
	if err != nil && a.kept {
		a.state, a.kept = nil, false // the journal itself says whether it can be read
		return a.reload(ctx)
	}
	if a.kept = false; err != nil {
		return a.park(ctx, err)
	}
	a.news, a.heard = head.News, head.Heard
	a.organisation = a.state.Started.Organisation
	a.rules, err = a.config.Rules(ctx, a.organisation)
	return err
}

// decideReports decides what came back from effects. A report that is refused
// is out of date and dropped.
func (a *actor) decideReports(d *draft) error {
	commands := append([]report{}, a.reports...)
	if due := run.DueMs(a.state, d.nowMs); due != 0 && due <= d.nowMs {
		commands = append(commands, report{command: run.Fire{}})
	}
	for _, r := range commands {
		for _, payload := range r.payloads {
			a.texts[payload.Text.ID] = payload
		}
		_, err := d.add(r.command, a.rules, r.payloads)
		if err != nil && !refused(err) {
			return err
		}
		if err == nil {
			d.write.Links = append(d.write.Links, r.links...)
		}
	}
	return nil
}

func refused(err error) bool {
	var refusal *run.Refusal
	return errors.As(err, &refusal)
}

func (a *actor) flush(ctx context.Context, d *draft) error {
	if d.empty() {
		return nil
	}
	write := d.finish()
	err := a.config.World.Await(ctx, "append", func(ctx context.Context) error {
		return a.config.Journal.Append(ctx, write)
	})
	a.wrote = a.wrote || err == nil
	return err
}

// selfFenced reports whether so much of the lease has passed on the local
// clock that beginning an effect would not be safe.
func (a *actor) selfFenced() bool {
	return a.config.World.NowMs() > a.renewedMs+a.config.LeaseMs*2/3
}

// assure holds back what is to begin while so much of the lease has passed: a
// write that took long stands, and yet somebody else may have the run by now.
func (a *actor) assure(ctx context.Context) error {
	for a.selfFenced() {
		if err := a.renew(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err // the lease goes back, and the next owner settles the intents
		}
		if a.selfFenced() {
			a.config.World.Wait(ctx, NewMailbox(), a.renewAtMs)
		}
	}
	return nil
}

func (a *actor) renew(ctx context.Context) error {
	nowMs := a.config.World.NowMs()
	if nowMs < a.renewAtMs {
		return nil
	}
	var held []Lease
	err := a.config.World.Await(context.WithoutCancel(ctx), "renew", func(ctx context.Context) error {
		var err error
		held, err = a.config.Claims.Renew(ctx, a.config.Name, []Lease{a.lease}, a.config.LeaseMs)
		return err
	})
	if err != nil {
		// The store may be back before the lease ends; until then the worker
		// fences itself.
		a.renewAtMs = nowMs + a.config.LeaseMs/10
		return nil //nolint:nilerr // tried again
	}
	if len(held) == 0 {
		return run.ErrFenced
	}
	a.lease, a.renewedMs, a.renewAtMs = held[0], nowMs, nowMs+a.config.LeaseMs/3
	return nil
}

// park stops the run for an operator when its record cannot be read or a rule
// broke, and returns why.
func (a *actor) park(ctx context.Context, cause error) error {
	if !unreadable(cause) {
		return cause
	}
	err := park(ctx, a.config.Journal, a.lease.Run, a.lease.Epoch, cause)
	a.config.Log.Error("run parked", "run", a.lease.Run, "error", err)
	return err
}

package engine

import (
	"context"
	"errors"
	"fmt"

	"gantry.dev/orchestrator/run"
)

// beginning is an effect whose intent is part of the write under way.
type beginning struct {
	effect   run.Effect
	prepared Prepared
}

// flight is an effect that acts.
type flight struct {
	effect run.Effect
	cancel context.CancelFunc
}

// decideEffects readies what the state asks for and decides the intents. What
// an intent leads to is asked again, so that one write takes a run as far as it
// goes without the world.
func (a *actor) decideEffects(ctx context.Context, d *draft) ([]beginning, error) {
	var begun []beginning
	tried := map[string]bool{}
	for {
		progressed := false
		for _, effect := range run.Pending(a.state, d.nowMs) {
			key := effect.Key()
			if _, flies := a.flying[key]; flies || tried[key] || a.nothingNew(effect) {
				continue
			}
			tried[key] = true
			b, moved, err := a.decideEffect(ctx, d, effect)
			if err != nil {
				return nil, err
			}
			if b != nil {
				begun = append(begun, *b)
			}
			progressed = progressed || moved
			if moved {
				break // the state moved: ask it again
			}
		}
		if !progressed {
			return begun, nil
		}
	}
}

func (a *actor) decideEffect(ctx context.Context, d *draft, effect run.Effect) (*beginning, bool, error) {
	view := View{State: a.state, NowMs: d.nowMs, Epoch: a.lease.Epoch, Texts: a.open, Rules: a.rules, Memory: &a.memory}
	prepared, err := a.config.Performer.Prepare(ctx, view, effect)
	if errors.Is(err, ErrHopeless) {
		a.config.Log.Error("run parked", "run", a.lease.Run, "effect", effect.Key(), "error", err)
		events, err := d.add(run.Park{Code: "UNPREPARED", Detail: "Its next step, " + effect.Key() + ", cannot be prepared; see the log."}, a.rules, nil)
		if refused(err) {
			err = nil
		}
		return nil, len(events) > 0, err
	}
	if err != nil {
		// What else is decided must not be lost over it.
		a.unready = errors.Join(a.unready, fmt.Errorf("prepare %s: %w", effect.Key(), err))
		return nil, false, nil
	}
	moved := false
	if prepared.Command != nil {
		events, err := a.decide(d, prepared)
		if err != nil {
			return nil, false, err
		}
		moved = len(events) > 0
		if !intends(events) {
			return nil, moved, nil
		}
	}
	if prepared.Perform == nil {
		return nil, moved, nil
	}
	return &beginning{effect: effect, prepared: prepared}, moved, nil
}

// decide adds what an effect begins with. A child that is to begin with it is
// decided first: where it may not, the call that it would do is declined.
func (a *actor) decide(d *draft, prepared Prepared) ([]run.Event, error) {
	for _, payload := range prepared.Payloads {
		a.texts[payload.Text.ID] = payload
	}
	command, birth, err := a.bear(d, prepared)
	if err != nil {
		return nil, err
	}
	events, err := d.add(command, a.rules, prepared.Payloads)
	if err != nil {
		if refused(err) {
			err = nil
		}
		return nil, err
	}
	if prepared.Heard > 0 {
		d.write.Heard, a.heard = prepared.Heard, prepared.Heard
	}
	for _, event := range events {
		if _, starts := event.(run.ChildStarted); starts && birth != nil {
			first := birth.finish()
			d.write.Births = append(d.write.Births, &first)
		}
	}
	return events, nil
}

func (a *actor) bear(d *draft, prepared Prepared) (run.Command, *draft, error) {
	if prepared.Birth == nil {
		return prepared.Command, nil, nil
	}
	birth := newDraft(&run.State{ID: prepared.Birth.Run}, d.nowMs, 0)
	_, err := birth.add(run.Start{Started: prepared.Birth.Started}, a.rules, prepared.Birth.Payloads)
	var refusal *run.Refusal
	if errors.As(err, &refusal) {
		switch begin := prepared.Command.(type) {
		case run.BeginCall:
			return run.DeclineCall{Call: begin.Call, Code: refusal.Code}, nil, nil
		case run.BeginReview:
			return run.DeclineReview{Of: begin.Of, Code: refusal.Code}, nil, nil
		}
	}
	return prepared.Command, birth, err
}

// nothingNew reports whether an effect only asks for news of which there is none.
func (a *actor) nothingNew(effect run.Effect) bool {
	switch effect.(type) {
	case run.CollectChildren, run.WatchMain:
		return a.news == a.heard
	}
	return false
}

func intends(events []run.Event) bool {
	for _, event := range events {
		switch event.(type) {
		case run.TurnStarted, run.CallIntended:
			return true
		}
	}
	return false
}

// begin lets an effect act; its intent is recorded. Its outcome comes back by
// the mailbox, a panic as a failure.
func (a *actor) begin(ctx context.Context, b beginning) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	key := b.effect.Key()
	a.flying[key] = flight{effect: b.effect, cancel: cancel}
	a.box.expect()
	a.config.World.Go(func() {
		var performed Performed
		err := a.config.World.Await(work, "effect:"+key, func(ctx context.Context) (err error) {
			defer func() {
				if recover() != nil {
					err = fmt.Errorf("effect %s panicked", key)
				}
			}()
			performed = b.prepared.Perform(ctx)
			return nil
		})
		if err != nil {
			performed = Performed{Command: broken(b.effect)}
		}
		a.box.put(report{effect: key, command: performed.Command, payloads: performed.Payloads, links: performed.Links})
	})
}

// broken reports an effect whose performer broke: what it did is not known.
func broken(effect run.Effect) run.Command {
	const code = "INTERNAL"
	switch e := effect.(type) {
	case run.TakeTurn:
		return run.ReportTurn{Turn: e.Turn, Attempt: e.Attempt, Failure: &run.TurnFailure{Cause: code, Unknown: true}}
	case run.DispatchCall:
		return run.ReportCall{Call: e.Call, Intent: e.Intent, Outcome: run.OutcomeUnknown, Code: code}
	case run.ProbeCall:
		return run.ReportProbe{Call: e.Call}
	case run.Verify:
		return run.ReportChecks{Turn: e.Turn} // a check that is missing was not made
	}
	return nil
}

// land forgets an effect whose report is recorded.
func (a *actor) land(key string) {
	if f, flies := a.flying[key]; flies {
		f.cancel()
		delete(a.flying, key)
	}
}

// interrupt stops the model requests whose answers nothing waits for any more:
// a steer interrupted the turn, or the run closes.
func (a *actor) interrupt() {
	var awaited string
	if turn := a.state.LastTurn(); turn != nil && turn.Phase == run.TurnInFlight && !a.state.Closing() {
		awaited = run.TakeTurn{Turn: turn.Number, Attempt: turn.Attempt}.Key()
	}
	a.giveUpTurns(awaited)
}

// giveUpTurns stops all model requests but one.
func (a *actor) giveUpTurns(but string) {
	for key, f := range a.flying {
		if _, isTurn := f.effect.(run.TakeTurn); isTurn && key != but {
			f.cancel()
		}
	}
}

// abandon stops all effects; their outcomes are settled by the next owner.
func (a *actor) abandon() {
	for _, f := range a.flying {
		f.cancel()
	}
}

// gather waits for the last words of effects that were abandoned.
func (a *actor) gather(ctx context.Context) []report {
	for {
		arrived, _ := a.box.drain()
		a.reports = append(a.reports, arrived...)
		for _, r := range a.reports {
			a.land(r.effect)
		}
		if len(a.flying) == 0 {
			return a.reports
		}
		a.config.World.Wait(ctx, a.box, a.config.World.NowMs()+a.config.LeaseMs)
	}
}

// open gives texts of the run, from memory where they were met before.
func (a *actor) open(ctx context.Context, ids ...string) (map[string]Payload, error) {
	found := make(map[string]Payload, len(ids))
	var missing []string
	for _, id := range ids {
		if payload, known := a.texts[id]; known {
			found[id] = payload
		} else {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	var loaded map[string]Payload
	err := a.config.World.Await(ctx, "payloads", func(ctx context.Context) error {
		var err error
		loaded, err = a.config.Journal.Payloads(ctx, missing)
		return err
	})
	for id, payload := range loaded {
		found[id], a.texts[id] = payload, payload
	}
	return found, err
}

package engine

import (
	"context"
	"fmt"

	"gantry.dev/orchestrator/run"
)

// beginning is an effect whose intent is part of the write under way.
type beginning struct {
	key      string
	prepared Prepared
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
			if _, flies := a.flying[key]; flies || tried[key] {
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
	view := View{State: a.state, NowMs: d.nowMs, Epoch: a.lease.Epoch, Texts: a.open}
	prepared, err := a.config.Performer.Prepare(ctx, view, effect)
	if err != nil {
		return nil, false, fmt.Errorf("prepare %s: %w", effect.Key(), err)
	}
	moved := false
	if prepared.Command != nil {
		for _, payload := range prepared.Payloads {
			a.texts[payload.Text.ID] = payload
		}
		events, err := d.add(prepared.Command, a.rules, prepared.Payloads)
		if err != nil && !refused(err) {
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
	return &beginning{key: effect.Key(), prepared: prepared}, moved, nil
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
	a.flying[b.key] = cancel
	a.config.World.Go(func() {
		var performed Performed
		err := a.config.World.Await(work, "effect:"+b.key, func(ctx context.Context) (err error) {
			defer func() {
				if recover() != nil {
					err = fmt.Errorf("effect %s panicked", b.key)
				}
			}()
			performed = b.prepared.Perform(ctx)
			return nil
		})
		if err != nil {
			performed = Performed{Command: run.Recover{Epoch: a.lease.Epoch + 1}}
		}
		a.box.put(report{effect: b.key, command: performed.Command, payloads: performed.Payloads})
	})
}

// land forgets an effect whose report is recorded.
func (a *actor) land(key string) {
	if cancel, flies := a.flying[key]; flies {
		cancel()
		delete(a.flying, key)
	}
}

// interrupt stops the model request of a turn that is not in flight any more:
// a steer interrupted it, or the run is being cancelled.
func (a *actor) interrupt() {
	turn := a.state.LastTurn()
	if turn == nil {
		return
	}
	key := run.TakeTurn{Turn: turn.Number, Attempt: turn.Attempt}.Key()
	if cancel, flies := a.flying[key]; flies && (turn.Phase != run.TurnInFlight || a.state.Cancel != nil) {
		cancel()
	}
}

// abandon stops all effects; their outcomes are settled by the next owner.
func (a *actor) abandon() {
	for _, cancel := range a.flying {
		cancel()
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

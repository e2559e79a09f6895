package wire

import (
	"context"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// boundedPerformer breaks off the effects that are still in flight when the
// time to drain is over. What became of them is settled as after a crash.
type boundedPerformer struct {
	engine.Performer
	whenOver func(then func()) (stop func() bool)
}

// Prepare bounds an effect.
func (p boundedPerformer) Prepare(ctx context.Context, view engine.View, effect run.Effect) (engine.Prepared, error) {
	prepared, err := p.Performer.Prepare(ctx, view, effect)
	if err != nil || prepared.Perform == nil {
		return prepared, err
	}
	perform := prepared.Perform
	prepared.Perform = func(ctx context.Context) engine.Performed {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer p.whenOver(cancel)()
		return perform(ctx)
	}
	return prepared, nil
}

// boundEffects bounds what a performer does, and returns what ends the bound.
func boundEffects(ctx context.Context, performer engine.Performer) (engine.Performer, context.CancelFunc) {
	over, end := context.WithCancel(context.WithoutCancel(ctx))
	return boundedPerformer{performer, func(then func()) func() bool { return context.AfterFunc(over, then) }}, end
}

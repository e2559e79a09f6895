package wire

import (
	"context"
	"strings"

	"gantry.dev/agents/perform"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Site is called at each named point of a run's way: "writes KIND+KIND" before a
// write with all its kinds of event and of the runs that it starts, then "before KIND" and "after KIND" around
// it; "effect begins" and "effect done" around an effect above READ; "model
// speaks" at each piece of an answer. Crash tests stop the process there; it is
// nil otherwise.
type Site func(name string)

// deltas passes the point of each piece of an answer before it is told.
func (s Site) deltas(tell func(perform.Delta)) func(perform.Delta) {
	if s == nil {
		return tell
	}
	return func(d perform.Delta) {
		s("model speaks")
		tell(d)
	}
}

type sitedJournal struct {
	engine.Journal
	site Site
}

// Append passes the points before and after the write.
func (j sitedJournal) Append(ctx context.Context, write engine.Write) error {
	var kinds []string
	for _, one := range append([]*engine.Write{&write}, write.Births...) {
		for _, record := range one.Records {
			kinds = append(kinds, string(record.Kind))
		}
	}
	j.site("writes " + strings.Join(kinds, "+"))
	for _, kind := range kinds {
		j.site("before " + kind)
	}
	err := j.Journal.Append(ctx, write)
	if err == nil {
		for _, kind := range kinds {
			j.site("after " + kind)
		}
	}
	return err
}

type sitedPerformer struct {
	engine.Performer
	site Site
}

// Prepare puts the points around an effect above READ.
func (p sitedPerformer) Prepare(ctx context.Context, view engine.View, effect run.Effect) (engine.Prepared, error) {
	prepared, err := p.Performer.Prepare(ctx, view, effect)
	dispatch, calls := effect.(run.DispatchCall)
	if err != nil || !calls || view.State.Call(dispatch.Call).Impact == policy.ImpactRead {
		return prepared, err
	}
	perform := prepared.Perform
	prepared.Perform = func(ctx context.Context) engine.Performed {
		p.site("effect begins")
		performed := perform(ctx)
		p.site("effect done")
		return performed
	}
	return prepared, nil
}

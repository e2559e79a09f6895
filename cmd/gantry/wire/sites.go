package wire

import (
	"context"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Site is called at each named point of a run's way: "before KIND" and "after
// KIND" around the write that holds an event of the kind, "effect begins" and
// "effect done" around an effect above READ. Crash tests stop the process
// there; it is nil otherwise.
type Site func(name string)

type sitedJournal struct {
	engine.Journal
	site Site
}

// Append passes the points before and after the write.
func (j sitedJournal) Append(ctx context.Context, write engine.Write) error {
	for _, record := range write.Records {
		j.site("before " + string(record.Kind))
	}
	err := j.Journal.Append(ctx, write)
	if err == nil {
		for _, record := range write.Records {
			j.site("after " + string(record.Kind))
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

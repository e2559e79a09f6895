package explore

import (
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/promise"
)

// check reads the journal from its beginning and holds every promise against
// it and against what happened outside.
func (w *world) check(cells map[run.Transition]bool) error {
	tally, state := promise.NewTally(), run.State{ID: "run"}
	for _, e := range w.events {
		from := state.Status
		if err := run.Apply(&state, e.event); err != nil {
			return broken("%v", err)
		}
		cells[run.Transition{From: from, Kind: e.event.Kind(), To: state.Status}] = true
		if found := tally.Note(promise.Step{Event: e.event, AtMs: e.atMs, Policy: e.policy}); found != nil {
			return broken("%s", found.Text)
		}
	}
	if err := w.checkOutside(&state); err != nil {
		return err
	}
	if found := tally.Check(&state); found != nil {
		return broken("%s", found.Text)
	}
	return nil
}

// checkOutside counts attempts: a call that the other side cannot recognise is
// attempted once, and once more for each time a person asked for it.
func (w *world) checkOutside(state *run.State) error {
	for call, attempts := range w.attempts {
		c := state.Call(call)
		class := c.Class.OrWorst()
		if class != policy.ClassRead && class != policy.Keyed && attempts > 1+c.Repeats {
			return broken("call %d of class %s acted %d times", call, class, attempts)
		}
	}
	return nil
}

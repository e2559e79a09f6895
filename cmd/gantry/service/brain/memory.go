package service

import (
	"context"

	"gantry.dev/graph"
	"gantry.dev/memory/view"
)

// Memory says as whom callers meet what is remembered.
type Memory struct{ *Service }

// Reader returns the caller as the configuration in force has them. Of the
// conversations those count that the caller takes part in; the others are as if
// they were not named.
func (m Memory) Reader(ctx context.Context, caller graph.Caller, conversations ...string) (view.Reader, error) {
	o, person, err := m.fresh(ctx, caller)
	if err != nil {
		return view.Reader{}, err
	}
	var takes []string
	for _, id := range conversations {
		part, err := m.participates(ctx, person, id)
		if err != nil {
			return view.Reader{}, err
		}
		if part {
			takes = append(takes, id)
		}
	}
	return o.Reader(person, takes...), nil
}

// Package brain answers the ports of the GraphQL interface that are about
// memory: as whom callers meet it, the documents that are kept in it, and what
// changes.
package brain

import (
	"context"

	"gantry.dev/cmd/gantry/service"
	"gantry.dev/graph"
	"gantry.dev/memory/view"
)

var (
	_ graph.Readers   = Memory{}
	_ graph.Documents = Documents{}
	_ service.Feed    = (*Feed)(nil)
)

// Memory says as whom callers meet what is remembered.
type Memory struct{ *service.Service }

// Reader returns the caller as the configuration in force has them. Of the
// conversations those count that the caller takes part in; the others are as if
// they were not named.
func (m Memory) Reader(ctx context.Context, caller graph.Caller, conversations ...string) (view.Reader, error) {
	o, person, err := m.Fresh(ctx, caller)
	if err != nil {
		return view.Reader{}, err
	}
	var takes []string
	for _, id := range conversations {
		part, err := m.Participates(ctx, person, id)
		if err != nil {
			return view.Reader{}, err
		}
		if part {
			takes = append(takes, id)
		}
	}
	return o.Reader(person, takes...), nil
}

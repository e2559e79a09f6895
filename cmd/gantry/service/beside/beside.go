// Package beside answers for what goes on beside runs: it starts it for people,
// and lets it see what happens in the run that it is for.
package beside

import (
	"context"

	"gantry.dev/agents/perform"
	"gantry.dev/agents/tool/watch"
	"gantry.dev/cmd/gantry/service"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/run"
)

// Sidecars answers for runs that people start beside another one.
type Sidecars struct{ *service.Service }

var _ graph.Sidecars = Sidecars{}

// Dispatch starts a run beside one that the caller may see and guide.
func (s Sidecars) Dispatch(ctx context.Context, caller graph.Caller, in graph.SidecarInput) (graph.Outcome, error) {
	main, err := service.Runs{Service: s.Service}.State(ctx, caller, in.Main)
	if err != nil {
		return graph.Outcome{}, err
	}
	_, person, err := s.Fresh(ctx, caller)
	if err != nil {
		return graph.Outcome{}, err
	}
	if err := s.MayAsk(ctx, person, main, run.Steer{}); err != nil {
		return graph.Outcome{}, err
	}
	order := perform.Dispatch{Main: in.Main, Person: person, By: caller.Identity, Kind: in.Kind, Agent: in.Agent,
		Purpose: in.Purpose, Brief: in.Brief, Lands: in.Lands, Outlives: in.Outlives, CommandID: in.CommandID}
	if talk := main.Started.Conversation; talk != "" {
		conversation, err := s.Store.Conversation(ctx, person.Organisation, talk)
		if err != nil {
			return graph.Outcome{}, err
		}
		order.Participants = conversation.Participants
	}
	admitted, err := s.Admission.Dispatch(ctx, order)
	return graph.Outcome{Run: admitted.Run, Replayed: admitted.Replayed}, err
}

// Watch shows sidecars what happens in their main run.
type Watch struct{ *service.Service }

var _ watch.Journal = Watch{}

// State folds a run.
func (w Watch) State(ctx context.Context, id string) (*run.State, error) {
	return w.Engine.State(ctx, id)
}

// Records returns what is recorded of a run after a number, and whether it has
// ended.
func (w Watch) Records(ctx context.Context, id string, after uint64) ([]run.Record, bool, error) {
	head, records, err := w.Store.Load(ctx, id, after)
	return records, head.Status.Ended(), err
}

// Texts opens texts by id; one that was erased is absent.
func (w Watch) Texts(ctx context.Context, ids []string) (map[string]watch.Text, error) {
	quoted, err := w.Store.Quoted(ctx, ids) // before they are opened: what is erased in between is absent
	if err != nil {
		return nil, err
	}
	opened, err := w.Store.Payloads(ctx, ids)
	if err != nil {
		return nil, err
	}
	texts := make(map[string]watch.Text, len(opened))
	for id, payload := range opened {
		texts[id] = watch.Text{Bytes: payload.Bytes, Items: quoted[id]}
	}
	return texts, nil
}

// Moves signals that something is recorded of a run.
func (w Watch) Moves(ctx context.Context, id string) (<-chan struct{}, error) {
	moves, err := w.Hub.Moves(ctx)
	if err != nil {
		return nil, err
	}
	moves.Also(id)
	return moves.Signals(), nil
}

// Now is the clock of the journal, UTC ms.
func (w Watch) Now(ctx context.Context) (int64, error) { return w.Store.Now(ctx) }

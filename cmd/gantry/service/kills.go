package service

import (
	"context"
	"errors"
	"slices"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// Kills stops things and lets them go on.
type Kills struct{ *Service }

// List returns what is stopped of what the caller may know of.
func (k Kills) List(ctx context.Context, caller graph.Caller) ([]agents.Kill, error) {
	o, err := k.Organisation(ctx, caller.Principal.Organisation)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(o.Kills), func(kill agents.Kill) bool { return !o.Knows(caller.Principal, kill.Scope, kill.Name) }), nil
}

// Stop stops new intents at once.
func (k Kills) Stop(ctx context.Context, caller graph.Caller, commandID string, scope agents.KillScope, name, reason string) (graph.Change, error) {
	nowMs, err := k.Store.Now(ctx)
	if err != nil {
		return graph.Change{}, err
	}
	return k.Alter(ctx, caller, commandID, []any{"kill", scope, name, reason}, func(o agents.Organisation) (Step, bool, error) {
		if !o.Knows(caller.Principal, scope, name) {
			return Step{}, false, engine.ErrNotFound
		}
		next, err := agents.Stop(o, agents.Kill{Scope: scope, Name: name, By: caller.Principal.ID, Reason: reason, AtMs: nowMs})
		return Step{Next: &next}, false, err
	})
}

// Lift proposes to end a kill, or ends the one whose end another person
// proposed. A proposal is about that very kill: it does not end a later one.
func (k Kills) Lift(ctx context.Context, caller graph.Caller, commandID string, scope agents.KillScope, name string) (graph.Change, error) {
	return k.Alter(ctx, caller, commandID, []any{"lift", scope, name}, func(o agents.Organisation) (Step, bool, error) {
		at := slices.IndexFunc(o.Kills, func(kill agents.Kill) bool { return kill.Scope == scope && kill.Name == name })
		if at < 0 || !o.Knows(caller.Principal, scope, name) {
			return Step{}, false, engine.ErrNotFound
		}
		digest, err := canon.DigestOf(o.Kills[at])
		if err != nil {
			return Step{}, false, err
		}
		proposal := journal.Proposal{Kind: proposedLift, Name: string(scope) + " " + name, Digest: digest, By: caller.Principal.ID, Body: []byte("{}")}
		return k.second(ctx, o, with(o, o.SecondToLift(caller.Principal.ID, scope, name)), proposal,
			func(o agents.Organisation, by, approvedBy string, _ journal.Proposal) (agents.Organisation, error) {
				return agents.Lift(o, scope, name, by, approvedBy)
			})
	})
}

// Pins says what tools of servers are.
type Pins struct{ *Service }

// Quarantines returns the tools whose calls are kept back that the caller may
// know of.
func (p Pins) Quarantines(ctx context.Context, caller graph.Caller) (list []graph.Quarantined, err error) {
	o, err := p.Organisation(ctx, caller.Principal.Organisation)
	if err != nil {
		return nil, err
	}
	for _, q := range o.Quarantines {
		if !o.Knows(caller.Principal, agents.KillTool, q.Tool) {
			continue
		}
		kept := graph.Quarantined{Quarantine: q}
		if d, known := o.Tool(q.Tool); known {
			offered, _ := tool.ReadOffered(d) // a validated one can be read
			kept.Seen = offered.Seen
		}
		list = append(list, kept)
	}
	return list, nil
}

// Pin proposes that a tool is what its server gives now, or puts that in force
// when another person proposed the same. Runs that wait for it go on.
func (p Pins) Pin(ctx context.Context, caller graph.Caller, commandID, name, pin string) (graph.Change, error) {
	nowMs, err := p.Store.Now(ctx)
	if err != nil {
		return graph.Change{}, err
	}
	change, err := p.Alter(ctx, caller, commandID, []any{"pin", name, pin}, func(o agents.Organisation) (Step, bool, error) {
		if _, kept := o.Quarantined(name); !kept || !o.Knows(caller.Principal, agents.KillTool, name) {
			return Step{}, false, engine.ErrNotFound
		}
		proposal := journal.Proposal{Kind: proposedPin, Name: name, Digest: pin, By: caller.Principal.ID, Body: []byte("{}")}
		return p.second(ctx, o, with(o, o.SecondToPin(caller.Principal.ID, name)), proposal,
			func(o agents.Organisation, by, approvedBy string, _ journal.Proposal) (agents.Organisation, error) {
				return agents.Repin(o, name, pin, by, approvedBy, nowMs)
			})
	})
	if err == nil && !change.Pending {
		err = p.Reconsider(ctx, caller.Principal.Organisation)
	}
	return change, err
}

// Reconsider has every call of an organisation that waits for an approval looked
// at again where its tool is not what it was when people were asked. It may be
// called at any time: what still holds stays as it is.
func (s *Service) Reconsider(ctx context.Context, organisation string) error {
	items, err := s.Notices.Open(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, item := range items {
		if item.Organisation == organisation && item.Kind == engine.InboxApproval {
			faults = append(faults, s.reconsider(ctx, organisation, item.Run))
		}
	}
	return errors.Join(faults...)
}

func (s *Service) reconsider(ctx context.Context, organisation, runID string) error {
	state, err := s.Engine.State(ctx, runID)
	if err != nil {
		return err
	}
	for _, call := range state.Calls {
		if call.Phase != run.CallHeld {
			continue
		}
		_, err := s.Engine.Submit(ctx, engine.Submission{Organisation: organisation, Run: runID, Command: run.Reconsider{Call: call.CallProposed.Call}})
		var refused *run.Refusal
		if err != nil && !errors.As(err, &refused) {
			return err
		}
	}
	return nil
}

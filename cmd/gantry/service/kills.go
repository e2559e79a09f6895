package service

import (
	"context"
	"slices"

	"gantry.dev/agents"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
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

package service

import (
	"context"
	"slices"

	"gantry.dev/agents"
	"gantry.dev/graph"
)

// Personas returns the voices of the agents that the caller may know of, and
// the caller's own.
func (a Agents) Personas(ctx context.Context, caller graph.Caller) ([]graph.Persona, error) {
	o, err := a.organisation(ctx, caller.Principal.Organisation)
	if err != nil {
		return nil, err
	}
	var list []graph.Persona
	for _, p := range o.Personas {
		speaks := func(r agents.Revision) bool { return r.Persona == p.Name && o.Sees(caller.Principal, r.Name) }
		if p.VoiceOf == caller.Principal.ID || slices.ContainsFunc(o.Agents, speaks) {
			list = append(list, graph.Persona{Persona: p, Lent: !o.Silent(p)})
		}
	}
	return list, nil
}

// LendVoice lets agents speak in the caller's own voice from now on, or no more.
func (a Agents) LendVoice(ctx context.Context, caller graph.Caller, commandID, persona string, lend bool) (graph.Change, error) {
	nowMs, err := a.Store.Now(ctx)
	if err != nil {
		return graph.Change{}, err
	}
	return a.alter(ctx, caller, commandID, []any{"voice", persona, lend}, func(o agents.Organisation) (step, bool, error) {
		next, err := agents.WithdrawVoice(o, persona, caller.Principal.ID)
		if lend {
			next, err = agents.GiveVoice(o, persona, caller.Principal.ID, nowMs)
		}
		if err != nil {
			return step{}, false, err
		}
		unchanged, err := same(o, next)
		if err != nil || unchanged {
			return step{}, false, err
		}
		return step{next: &next}, false, nil
	})
}

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
	o, err := a.Organisation(ctx, caller.Principal.Organisation)
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
	return a.Alter(ctx, caller, commandID, []any{"voice", persona, lend}, func(o agents.Organisation) (Step, bool, error) {
		next, err := agents.WithdrawVoice(o, persona, caller.Principal.ID)
		if lend {
			next, err = agents.GiveVoice(o, persona, caller.Principal.ID, nowMs)
		}
		if err != nil {
			return Step{}, false, err
		}
		unchanged, err := same(o, next)
		if err != nil || unchanged {
			return Step{}, false, err
		}
		return Step{Next: &next}, false, nil
	})
}

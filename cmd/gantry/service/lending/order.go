package lending

import (
	"gantry.dev/agents"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// formed is the grant that an order asks for. What the order leaves open of the
// ceiling is as the agent's revision has it, but for what has to be said: labels
// are never lent by default, nor is writing, nor a tool that does more than read.
func formed(o agents.Organisation, person policy.Principal, order graph.GrantOrder, id string) (agents.Grant, error) {
	revision, known := o.Agent(order.Agent)
	if !known {
		return agents.Grant{}, engine.ErrNotFound
	}
	g := agents.Grant{ID: id, Kind: order.Kind, Agent: order.Agent, From: order.From, To: order.To, Yields: order.Yields,
		Reason: order.Reason, UntilMs: order.UntilMs, Ceiling: ceiling(o, revision, order.Ceiling)}
	if order.Kind == agents.Share && g.To == (agents.Borrower{}) {
		g.To = agents.Borrower{Person: person.ID}
	}
	if order.Revision == "" {
		return g, nil
	}
	pinned, known := o.RevisionAt(order.Agent, order.Revision)
	if !known {
		return agents.Grant{}, &run.Refusal{Code: "REVISION", Detail: "Only the agent's current revision can be pinned; take its digest from the agent."}
	}
	g.Revision = &pinned
	return g, nil
}

func ceiling(o agents.Organisation, revision agents.Revision, order graph.CeilingOrder) agents.Ceiling {
	limits := revision.Limits
	c := agents.Ceiling{Labels: order.Labels, WriteSpaces: order.WriteSpaces, Tools: order.Tools,
		ReadSpaces: or(order.ReadSpaces, revision.Spaces.Read), Models: or(order.Models, revision.Models), Stage: o.Stage(revision),
		MicroUSD: limits.MicroUSD, Tokens: limits.Tokens, FanOut: limits.FanOut}
	if order.Tools == nil {
		for _, use := range revision.Tools {
			if definition, known := o.Tool(use.Name); known && definition.Impact == policy.ImpactRead {
				use.Impact = policy.ImpactRead
				c.Tools = append(c.Tools, use)
			}
		}
	}
	if order.Stage != nil {
		c.Stage = *order.Stage
	}
	if order.MicroUSD != nil {
		c.MicroUSD = *order.MicroUSD
	}
	if order.Tokens != nil {
		c.Tokens = *order.Tokens
	}
	if order.FanOut != nil {
		c.FanOut = *order.FanOut
	}
	return c
}

// or is the list, or where it was not given the other one.
func or[S ~[]E, E any](list, otherwise S) S {
	if list == nil {
		return otherwise
	}
	return list
}

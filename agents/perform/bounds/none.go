//go:build insecure_nopolicy

// Package bounds says within which bounds the agents of an organisation work:
// in this build, which serves nobody, within none.
package bounds

import (
	"slices"

	"gantry.dev/agents"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Of is the organisation with every tool given to every agent without bounds,
// every space to write to, and everybody to hand work to.
func Of(o agents.Organisation) agents.Organisation {
	o.Agents = slices.Clone(o.Agents)
	for i := range o.Agents {
		revision := &o.Agents[i]
		revision.Tools = nil
		for _, definition := range o.Tools {
			revision.Tools = append(revision.Tools, agents.ToolUse{Name: definition.Name, Impact: policy.Irreversible, Calls: 1 << 20})
		}
		revision.Spaces.Write = append(slices.Clone(revision.Spaces.Write), "subject", "agent", "conversation")
		revision.Stage = policy.Automate
		revision.Delegates = nil
		for _, other := range o.Agents {
			revision.Delegates = append(revision.Delegates, agents.Delegate{Agent: other.Name, As: []run.Kind{run.SubAgent, run.Sidecar}})
		}
		revision.Limits.Depth, revision.Limits.FanOut, revision.Limits.RunsAtOnce = 4, 1000, 1000
	}
	return o
}

//go:build insecure_nopolicy

// Package bounds says within which bounds the agents of an organisation work:
// in this build, which serves nobody, within none.
package bounds

import (
	"slices"

	"gantry.dev/agents"
	"gantry.dev/orchestrator/policy"
)

// Of is the organisation with every tool given to every agent without bounds,
// and every space to write to.
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
	}
	return o
}

package explore

import (
	"errors"
	"math"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// firstPolicy is the policy set that the run starts under.
const firstPolicy = "p1"

// errNotNamed refuses a person that no approver names.
var errNotNamed = errors.New("not named")

// rules are an organisation's rules with as many revisions as a walk needs:
// every tool of the scope exists, and those that are held stay held.
type rules struct {
	scope  Scope
	policy string
}

var _ run.Rules = rules{}

// Revision is the configuration's digest.
func (r rules) Revision() string { return "config-" + r.policy }

// PolicyRevision is the policy set's digest.
func (r rules) PolicyRevision() string { return r.policy }

// Judge holds what the scope holds and permits the rest.
func (r rules) Judge(request policy.Request) policy.Verdict {
	verdict := policy.Verdict{Answer: policy.Permit, Revision: r.policy}
	if r.policy != firstPolicy && r.scope.Becomes != "" {
		verdict.Answer = r.scope.Becomes
		return verdict
	}
	for _, call := range r.scope.Calls {
		if call.Tool == request.Tool.Name && call.Held {
			verdict.Answer, verdict.Quorum = policy.Hold, 1
			verdict.Approvers = []policy.Approver{{Principal: "owner", Why: "tool owner"}}
		}
	}
	return verdict
}

// Tool returns what the scope says of a tool.
func (r rules) Tool(name string) (policy.ToolFacts, bool) {
	for _, call := range r.scope.Calls {
		if call.Tool == name || call.wanted() == name {
			revision := "r1"
			if r.scope.Retools && r.policy != firstPolicy {
				revision = "r2"
			}
			return policy.ToolFacts{Name: name, Revision: revision, Owner: "owner", Impact: policy.Reversible, Class: call.Class}, true
		}
	}
	return policy.ToolFacts{}, false
}

// Ceiling is the authority that every run of the walk starts with, and what its
// owner gives it.
func (r rules) Ceiling(acting run.Acting) policy.Authority {
	ceiling := r.scope.authority(r.policy == firstPolicy) // a change of policy takes back what was given
	ceiling.DeadlineMs = math.MaxInt64                    // a run keeps its own
	if acting.Under != nil {
		return policy.Meet(*acting.Under, ceiling)
	}
	return ceiling
}

// Voices names people by id alone, each for itself.
func (r rules) Voices(approvers []policy.Approver, person policy.Principal, _ []string, _ int64) ([]string, error) {
	for _, approver := range approvers {
		if approver.Principal == person.ID && person.ID != "" {
			return []string{person.ID}, nil
		}
	}
	return nil, errNotNamed
}

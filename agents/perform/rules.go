package perform

import (
	"math"
	"strings"
	"sync"

	"gantry.dev/agents"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// rules are the rules of one configuration.
type rules struct {
	organisation agents.Organisation
	digest       string
	set          *policy.Set
	directory    policy.Directory
	tools        map[string]policy.ToolFacts // of those that no kill stops

	mu       sync.Mutex
	ceilings map[[2]string]policy.Authority // by agent and subject
}

var _ run.Rules = (*rules)(nil)

func newRules(o agents.Organisation, digest string, set *policy.Set) *rules {
	r := &rules{organisation: o, digest: digest, set: set, directory: o.Directory(), tools: map[string]policy.ToolFacts{},
		ceilings: map[[2]string]policy.Authority{}}
	for _, d := range o.Tools {
		if _, stopped := o.StoppedTool(d.Name); !stopped {
			r.tools[d.Name] = policy.ToolFacts{Name: d.Name, Revision: d.Digest(), Owner: d.Owner, Impact: d.Impact, Class: d.Class}
		}
	}
	return r
}

// Revision is the configuration's digest.
func (r *rules) Revision() string { return r.digest }

// PolicyRevision is the policy set's digest.
func (r *rules) PolicyRevision() string { return r.set.Revision() }

// Judge is the verdict of policy and stage.
func (r *rules) Judge(request policy.Request) policy.Verdict {
	request.Chain = []policy.Principal{request.Subject, {ID: agents.AgentID(request.Agent.Name), Kind: policy.Agent, Organisation: r.organisation.Name}}
	return policy.Decide(request, r.set, r.directory)
}

// Tool returns what the registry says of a tool, unless a kill stops it.
func (r *rules) Tool(name string) (policy.ToolFacts, bool) {
	facts, known := r.tools[name]
	return facts, known
}

// Ceiling is the agent's authority for the subject. The run's own deadline
// bounds it in time. It is the same as long as the configuration is.
func (r *rules) Ceiling(agent, subject string) policy.Authority {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ceiling, known := r.ceilings[[2]string{agent, subject}]; known {
		return ceiling
	}
	person, found := r.organisation.Principal(subject)
	revision, _, served := r.organisation.Serves(agent, person, 0)
	if !found || !served {
		return policy.Authority{}
	}
	ceiling := r.organisation.Authority(revision, person, 0)
	ceiling.DeadlineMs = math.MaxInt64
	r.ceilings[[2]string{agent, subject}] = ceiling
	return ceiling
}

// Voices says on whose behalf a person may decide for the approvers.
func (r *rules) Voices(approvers []policy.Approver, person policy.Principal, chain []string, atMs int64) ([]string, error) {
	acting := make([]policy.Principal, 0, len(chain))
	for _, id := range chain {
		principal, known := r.organisation.Principal(id)
		if !known {
			kind := policy.Person
			if strings.HasPrefix(id, agents.AgentID("")) {
				kind = policy.Agent
			}
			principal = policy.Principal{ID: id, Kind: kind, Organisation: r.organisation.Name}
		}
		acting = append(acting, principal)
	}
	return policy.Voices(approvers, person, acting, r.directory, atMs)
}

package perform

import (
	"encoding/binary"
	"math"
	"slices"
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

	ends  []int64         // when grants end by themselves (UTC ms), sorted
	named map[string]bool // runs and conversations that a grant is for

	mu          sync.Mutex
	authorities map[[3]string]policy.Authority // by agent, subject and grant
	ceilings    map[line]policy.Authority      // at most mostLines
}

// line is all that a ceiling depends on besides the configuration.
type line struct {
	subject, conversation string
	links                 string
	ended                 int // how many grants have ended by themselves; -1 where the time is not said
}

// mostLines is how many ceilings are kept: people times the ways to an agent.
const mostLines = 4096

var _ run.Rules = (*rules)(nil)

func newRules(o agents.Organisation, digest string, set *policy.Set) *rules {
	r := &rules{organisation: o, digest: digest, set: set, directory: o.Directory(), tools: map[string]policy.ToolFacts{},
		authorities: map[[3]string]policy.Authority{}, ceilings: map[line]policy.Authority{}, named: map[string]bool{}}
	for _, g := range o.Grants {
		r.named[g.Run], r.named[g.Conversation] = true, true
		r.ends = append(r.ends, g.UntilMs)
	}
	slices.Sort(r.ends)
	for _, d := range o.Tools {
		if _, stopped := o.StoppedTool(d.Name); !stopped {
			_, quarantined := o.Quarantined(d.Name)
			r.tools[d.Name] = policy.ToolFacts{Name: d.Name, Revision: d.Digest(), Owner: d.Owner, Impact: d.Impact, Class: d.Class,
				Quarantined: quarantined, Replaces: o.Replaces(d)}
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
	return policy.Decide(request, r.set, r.directory)
}

// Tool returns what the registry says of a tool, unless a kill stops it.
func (r *rules) Tool(name string) (policy.ToolFacts, bool) {
	facts, known := r.tools[name]
	return facts, known
}

// Ceiling is what the last agent of the line may do for the subject: no more
// than each one above it, except what a grant in force adds. The run's own
// deadline bounds it in time. Nobody may change it: others get the same.
func (r *rules) Ceiling(acting run.Acting) policy.Authority {
	if acting.Under != nil {
		return r.ceiling(acting)
	}
	line := r.line(acting)
	r.mu.Lock()
	ceiling, known := r.ceilings[line]
	r.mu.Unlock()
	if known {
		return ceiling
	}
	ceiling = r.ceiling(acting)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ceilings) >= mostLines {
		clear(r.ceilings)
	}
	r.ceilings[line] = ceiling
	return ceiling
}

// line leaves out the runs and the conversation that no grant is for, so that
// all like them have one ceiling.
func (r *rules) line(acting run.Acting) line {
	of := func(id string) string {
		if r.named[id] {
			return id
		}
		return ""
	}
	at := line{subject: acting.Subject, conversation: of(acting.Conversation), ended: -1}
	if acting.AtMs > 0 {
		at.ended, _ = slices.BinarySearch(r.ends, acting.AtMs+1)
	}
	var links []byte
	for _, link := range acting.Links {
		for _, part := range [...]string{link.Agent, link.Grant, of(link.Run)} {
			links = append(binary.AppendUvarint(links, uint64(len(part))), part...)
		}
	}
	at.links = string(links)
	return at
}

func (r *rules) ceiling(acting run.Acting) policy.Authority {
	var ceiling policy.Authority
	for i, link := range acting.Links {
		above, own := ceiling, r.own(link, acting.Subject)
		var given policy.Authority
		if i == 0 || above.Turns > 0 { // whose line may not act any more is given nothing
			given = r.given(link, acting, own)
			above, own = policy.Widen(above, given), policy.Widen(own, given)
		}
		switch {
		case i > 0:
			above.Depth = max(above.Depth-1, 0)
		case acting.Under != nil:
			above = policy.Widen(policy.Succeeded(*acting.Under, r.Tool), given)
		default:
			above = own
		}
		if link.Grant != "" && (i > 0 || acting.Under != nil) {
			given, inForce := r.organisation.GrantCeiling(link.Grant, 0)
			if !inForce {
				return policy.Authority{} // what it was started by is gone
			}
			if own = policy.Widen(given, own); r.organisation.IsShare(link.Grant) {
				own = given // a private side has what its share gives, and nothing that it has for the subject
			}
			above = policy.Widen(above, given)
		}
		ceiling = policy.Meet(above, own)
	}
	return ceiling
}

// given is what people let one run of the line use besides, or its agent in the
// conversation, while it may act at all. What works under a share has what the
// share gives, and no more.
func (r *rules) given(link run.Link, acting run.Acting, own policy.Authority) policy.Authority {
	if own.Turns == 0 || r.organisation.IsShare(link.Grant) {
		return policy.Authority{}
	}
	person, _ := r.organisation.Principal(acting.Subject)
	return r.organisation.GivenTo(link, acting.Conversation, person, acting.AtMs)
}

// own is an agent's authority for a subject. It is the same as long as the
// configuration is.
func (r *rules) own(link run.Link, subject string) policy.Authority {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [3]string{link.Agent, subject, link.Grant}
	if own, known := r.authorities[key]; known {
		return own
	}
	o := r.organisation
	if lent, known := o.Grant(link.Grant); known && lent.Kind == agents.Share {
		o.Grants = []agents.Grant{lent} // what began under one share goes on under no other
	}
	person, found := o.Principal(subject)
	revision, share, served := o.Serves(link.Agent, person, 0)
	if !found || !served {
		return policy.Authority{}
	}
	own := o.Authority(revision, person, 0)
	own.DeadlineMs = math.MaxInt64
	if share.UntilMs > 0 {
		own.DeadlineMs = share.UntilMs
	}
	r.authorities[key] = own
	return own
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

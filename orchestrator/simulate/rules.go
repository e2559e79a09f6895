package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

const (
	organisation = "acme"
	account      = "department:acme/d"
	turnCost     = 4 // at most, tokens and micro-dollars
	callCost     = 2
)

var classes = map[string]policy.EffectClass{"read": policy.ClassRead, "keyed": policy.Keyed, "checkable": policy.Checkable,
	"delegate": policy.ClassRead, "held.delegate": policy.ClassRead,
	"opaque": policy.Opaque, "held": policy.Keyed, "held.opaque": policy.Opaque, "pair": policy.Checkable, "ask": policy.ClassRead,
	wanted: policy.Keyed, asking: policy.Keyed, asking + ".opaque": policy.Opaque, served: policy.Keyed,
	request: policy.ClassRead, request + ".budget": policy.ClassRead}

// rules are one configuration of the organisation. One of its people owns the
// held tools, and the calls of "pair" need a second one.
type rules struct {
	config, policies, tools int
	barred                  map[bar]bool // never changed in place

	consents map[string]string // definition of the wanted tool that a run was given, by run; never changed in place
	pinned   int               // definitions of the served tool that people have looked at
	kept     bool              // and it gives another one now
}

var _ run.Rules = rules{}

// Revision is the digest of the configuration.
func (r rules) Revision() string { return fmt.Sprint("c", r.config) }

// PolicyRevision is the digest of the policies.
func (r rules) PolicyRevision() string { return fmt.Sprint("p", r.policies) }

// Judge holds what is to be held and permits the rest.
func (r rules) Judge(q policy.Request) policy.Verdict {
	verdict := policy.Verdict{Answer: policy.Permit, Revision: r.PolicyRevision()}
	if held := strings.HasPrefix(q.Tool.Name, "held"); held || q.Tool.Name == "pair" {
		verdict.Answer, verdict.Quorum = policy.Hold, 1
		verdict.Approvers = []policy.Approver{{Principal: "olga", Why: "tool owner"}}
		if !held {
			verdict.Quorum = 2
			verdict.Approvers = append(verdict.Approvers, policy.Approver{Principal: "petra", Why: "second person"})
		}
	}
	return verdict
}

// Tool returns what the registry says of a tool. One tool changes with the
// revision of the tools.
func (r rules) Tool(name string) (policy.ToolFacts, bool) {
	class, known := classes[name]
	facts := policy.ToolFacts{Name: name, Revision: "t0", Owner: "olga", Impact: policy.Reversible, Class: class}
	if class == policy.ClassRead {
		facts.Impact = policy.ImpactRead
	}
	switch name {
	case "held.opaque", wanted:
		facts.Revision = fmt.Sprint("t", r.tools)
	case served:
		facts.Revision, facts.Quarantined = fmt.Sprint("t", r.pinned), r.kept
		for earlier := range r.pinned {
			facts.Replaces = append(facts.Replaces, fmt.Sprint("t", earlier))
		}
	}
	return facts, known
}

// Ceiling is what every run starts with, and more, but for the tools that one of
// those who act is kept from.
func (r rules) Ceiling(acting run.Acting) policy.Authority {
	ceiling := policy.Succeeded(authority(1<<52), r.Tool)
	if id := acting.Links[len(acting.Links)-1].Run; r.consented(id) {
		ceiling = policy.Widen(ceiling, r.given())
	}
	for _, link := range acting.Links {
		for name := range ceiling.Tools {
			if r.barred[bar{link.Agent, name}] {
				delete(ceiling.Tools, name)
			}
		}
	}
	if acting.Under != nil {
		return policy.Meet(*acting.Under, ceiling)
	}
	return ceiling
}

// Voices names people by id, each for itself, and never who asked.
func (r rules) Voices(approvers []policy.Approver, who policy.Principal, chain []string, _ int64) ([]string, error) {
	named := func(a policy.Approver) bool { return a.Principal == who.ID }
	if who.ID == chain[0] || !slices.ContainsFunc(approvers, named) {
		return nil, fmt.Errorf("%s may not", who.ID)
	}
	return []string{who.ID}, nil
}

func authority(money int64) policy.Authority {
	tools := map[string]policy.ToolGrant{}
	for name := range classes {
		if name == wanted {
			continue
		}
		tools[name] = policy.ToolGrant{Revision: "t0", Impact: policy.Reversible, Calls: 100}
	}
	return policy.Authority{Tools: tools, MicroUSD: money, Tokens: money, DeadlineMs: 1 << 50, Turns: 1 << 20, CallsAtOnce: 8,
		Depth: 8, FanOut: 1_000, RunsAtOnce: 1_000, Stage: policy.Automate}
}

func (s *simulation) rulesNow(context.Context, string) (run.Rules, error) { return s.rules, nil }

// reconfigure puts another configuration in force, now and then.
func (s *simulation) reconfigure() {
	if s.calm {
		return
	}
	s.at(s.nowMs+s.between(1, 2_000), s.reconfigure)
	if !s.hit(s.plan.change) {
		return
	}
	s.faults++
	s.rules.config++
	if s.plan.wanting && s.hit(0.5) {
		s.changeHands()
	}
	switch s.IntN(5) {
	case 0:
		s.rules.tools++
	case 4:
		s.barAnother()
	case 1, 2:
		s.rules.policies++
	}
	_ = s.store.SetGate(context.Background(), run.GateChange{Gate: run.ConfigGate(organisation), Value: s.rules.Revision()}) // memory never fails
}

func person(id string) policy.Principal {
	return policy.Principal{ID: id, Kind: policy.Person, Organisation: organisation}
}

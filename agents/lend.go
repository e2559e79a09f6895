package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gantry.dev/agents/bounded"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
)

// Grant lets an agent serve, or do, what by itself it may not: a recorded word
// of those who answer for it and for what it gives. The configuration has those
// in force, and every version of it is kept.
type Grant struct {
	ID       string    `json:"id"`
	Kind     GrantKind `json:"kind"`
	Agent    string    `json:"agent"`              // name of the agent that is lent, or that does the work
	Revision *Revision `json:"revision,omitempty"` // pinned, whole; nil: the current one, whichever that is
	From     string    `json:"from,omitempty"`     // DELEGATION: name of the agent whose runs may hand work to it
	To       Borrower  `json:"to,omitzero"`        // SHARE: who borrows
	Ceiling  Ceiling   `json:"ceiling"`
	Yields   []Yield   `json:"yields,omitempty"` // all that a private side may ever answer
	Reason   string    `json:"reason"`
	Words    []Word    `json:"words"`             // who agreed, in that order
	AtMs     int64     `json:"atMs"`              // when it came into force; UTC, milliseconds since 1970
	UntilMs  int64     `json:"untilMs,omitempty"` // UTC ms, no longer from then on; 0: until it is recalled
	Recalled *Recalled `json:"recalled,omitempty"`

	Run string `json:"run,omitempty"` // ACCESS: run id of the one run that it is for, which acts for To; or
	Pin string `json:"pin,omitempty"` // ACCESS to a tool: digest of the definition that was seen; it is no grant of another one

	Conversation string `json:"conversation,omitempty"` // ACCESS: id of the one in which every run of Agent for To has it
}

// Recalled says who ended a grant. The grant stays, so that it can be read who
// had what.
type Recalled struct {
	By     string `json:"by"` // principal id
	Reason string `json:"reason"`
	AtMs   int64  `json:"atMs"` // UTC, milliseconds since 1970
}

// GrantKind says what a grant does.
type GrantKind string

// The kinds of grant.
const (
	Share      GrantKind = "SHARE"      // lends an agent to a department or a person
	Delegation GrantKind = "DELEGATION" // lets a narrow agent hand work to a stronger one
	Access     GrantKind = "ACCESS"     // lets one run, or the runs of one conversation, use what was asked for
)

// Borrower is a department or a person; exactly one is set.
type Borrower struct {
	Department string `json:"department,omitempty"`
	Person     string `json:"person,omitempty"` // principal id
}

// Covers reports whether a principal borrows.
func (b Borrower) Covers(p policy.Principal) bool {
	return b.Person != "" && b.Person == p.ID || b.Department != "" && b.Department == p.Department
}

// Ceiling bounds what is done under a grant, on every dimension; what it does
// not name is not allowed. The agent's own revision bounds it as well.
type Ceiling struct {
	Tools       []ToolUse     `json:"tools,omitempty"`
	Labels      policy.Labels `json:"labels,omitempty"`
	ReadSpaces  []string      `json:"readSpaces,omitempty"`
	WriteSpaces []string      `json:"writeSpaces,omitempty"`
	Models      []string      `json:"models,omitempty"`
	Stage       policy.Stage  `json:"stage"`    // freest stage
	MicroUSD    int64         `json:"microUsd"` // micro-dollars of one run
	Tokens      int64         `json:"tokens"`   // of one run
	FanOut      int           `json:"fanOut"`   // children of one run: of a share, how often it may ask the private side
}

// Yield is one kind of answer that a private side may give to whoever may not
// see what it was made from.
type Yield struct {
	Name        string          `json:"name"`
	Description string          `json:"description"` // for the people who agree to it
	Schema      json.RawMessage `json:"schema"`      // JSON Schema of a bounded type
	Template    string          `json:"template,omitempty"`
}

// Type compiles the yield. Errors: bounded.ErrNotBounded.
func (y Yield) Type() (bounded.Type, error) { return bounded.Compile(y.Schema, y.Template) }

// Word is somebody's consent to a grant.
type Word struct {
	Person string `json:"person"`       // principal id
	AtMs   int64  `json:"atMs"`         // UTC, milliseconds since 1970
	By     string `json:"by,omitempty"` // principal id of the deputy who gave it; empty: the person
}

// Party is who must agree to a grant: one of these people.
type Party struct {
	For    string   // "agent:NAME", "label:NAME", "tool:NAME"; "second" for anybody besides
	People []string // principal ids; empty for "second"
}

// ErrNotAgreed means that somebody whose word a grant needs has not given it.
var ErrNotAgreed = errors.New("somebody who must agree to it has not")

// Pinned returns the revision that a grant is about now: the pinned one, else
// the agent's current one.
func (o Organisation) Pinned(g Grant) (Revision, bool) {
	if g.Revision != nil {
		return *g.Revision, true
	}
	return o.Agent(g.Agent)
}

// Missing returns whose words a grant lacks. Its agent's owner or that of the
// agent's department agrees, and the owner of every label and every tool that
// it gives. Who gives labels, tools that do more than read or a delegation needs
// a second person who does not profit. Nobody agrees to what they borrow
// themselves.
func (o Organisation) Missing(g Grant) []Party {
	disinterested := map[string]bool{}
	for _, word := range g.Words {
		if p, known := o.Principal(word.Person); known && p.Kind == policy.Person && !g.To.Covers(p) {
			disinterested[word.Person] = true
		}
	}
	var missing []Party
	for _, party := range o.grantors(g) {
		if !slices.ContainsFunc(g.Words, func(w Word) bool { return w.Person != g.To.Person && slices.Contains(party.People, w.Person) }) {
			missing = append(missing, party)
		}
	}
	if o.grave(g) && len(disinterested) < 2 && len(missing) == 0 {
		missing = append(missing, Party{For: "second"})
	}
	return missing
}

// grantors are who must agree, besides a second person.
func (o Organisation) grantors(g Grant) []Party {
	if g.Kind == Access {
		return o.givers(g)
	}
	var parties []Party
	if r, known := o.Agent(g.Agent); known {
		parties = append(parties, Party{For: "agent:" + g.Agent, People: o.owners(r)})
	}
	if r, known := o.Agent(g.From); known && g.Kind == Delegation {
		parties = append(parties, Party{For: "agent:" + g.From, People: o.owners(r)})
	}
	for _, label := range g.Ceiling.Labels {
		rule, _ := o.Label(label)
		parties = append(parties, Party{For: "label:" + string(label), People: []string{rule.Owner}})
	}
	for _, use := range g.Ceiling.Tools {
		definition, _ := o.Tool(use.Name)
		parties = append(parties, Party{For: "tool:" + use.Name, People: []string{definition.Owner}})
	}
	return parties
}

// grave reports whether a grant needs two people whoever they are.
func (o Organisation) grave(g Grant) bool {
	if g.Kind == Access {
		return false // every call under it is still judged
	}
	return g.Kind == Delegation || len(g.Ceiling.Labels) > 0 || slices.ContainsFunc(g.Ceiling.Tools, func(u ToolUse) bool {
		definition, _ := o.Tool(u.Name)
		return min(definition.Impact.OrWorst(), u.Impact.OrWorst()) > policy.ImpactRead
	})
}

// Agrees reports whether a person answers for something that a grant is about:
// its agent, a label or a tool.
func (o Organisation) Agrees(g Grant, person policy.Principal) bool {
	return slices.ContainsFunc(o.grantors(g), func(p Party) bool { return slices.Contains(p.People, person.ID) })
}

// MayAgree reports whether a person's word counts for something that a grant
// still lacks.
func (o Organisation) MayAgree(g Grant, person policy.Principal) bool {
	if person.Kind != policy.Person || person.Organisation != o.Name || g.To.Person == person.ID ||
		slices.ContainsFunc(g.Words, func(w Word) bool { return w.Person == person.ID }) {
		return false
	}
	return slices.ContainsFunc(o.Missing(g), func(p Party) bool {
		return slices.Contains(p.People, person.ID) || p.For == "second" && !g.To.Covers(person) && o.Sees(person, g.Agent)
	})
}

// Lend puts a grant in force that everybody agreed to whose word it needs.
// Errors: ErrNotAgreed, ErrNotAPerson, ErrUnknown for an agent that is not
// there; Faults for what does not fit the organisation.
func Lend(current Organisation, g Grant) (Organisation, error) {
	g = g.completed()
	if _, known := current.Agent(g.Agent); !known {
		return Organisation{}, fmt.Errorf("agent %q: %w", g.Agent, ErrUnknown)
	}
	if definition, known := current.Tool(g.tool()); g.Pin != "" && (!known || definition.Digest() != g.Pin) {
		return Organisation{}, fmt.Errorf("tool %q: %w", g.tool(), ErrUnknown)
	}
	if slices.ContainsFunc(g.Words, func(w Word) bool { return !current.isPerson(w.Person) }) {
		return Organisation{}, ErrNotAPerson
	}
	if missing := current.Missing(g); len(missing) > 0 {
		return Organisation{}, fmt.Errorf("%s: %w", missing[0].For, ErrNotAgreed)
	}
	next := current
	next.Grants = append(slices.Clone(current.Grants), g)
	return next.checked()
}

// Fits returns Faults with what keeps a grant from coming into force whoever
// agrees to it, or nil.
func Fits(o Organisation, g Grant) error {
	v := &validation{o: o}
	if v.grant(g.completed()); len(v.faults) > 0 {
		return v.faults
	}
	return nil
}

// RecallGrant ends a grant. It is urgent: one person suffices who agreed to it
// or could have, who may stop the agent, or who borrows and gives back. To
// anybody else, and once it was recalled, there is no such grant.
func RecallGrant(current Organisation, id string, recalled Recalled) (Organisation, error) {
	g, found := current.Grant(id)
	person, known := current.Principal(recalled.By)
	if !found || g.Recalled != nil || !known || !current.Concerned(g, person) {
		return Organisation{}, fmt.Errorf("grant %q: %w", id, ErrUnknown)
	}
	g.Recalled = &recalled
	next := current
	next.Grants = replaced(current.Grants, g, func(other Grant) string { return other.ID })
	return next.checked()
}

// Concerned reports whether a person may recall a grant.
func (o Organisation) Concerned(g Grant, person policy.Principal) bool {
	if person.Kind != policy.Person || person.Organisation != o.Name {
		return false
	}
	if o.Answers(person, g.Agent) || g.Kind == Delegation && o.Answers(person, g.From) || g.To.Person == person.ID {
		return true
	}
	if d, known := o.Department(g.To.Department); known && d.Owner == person.ID {
		return true
	}
	return o.Agrees(g, person)
}

// Grant returns a grant; it may have run out or been recalled.
func (o Organisation) Grant(id string) (Grant, bool) {
	return find(o.Grants, func(g Grant) bool { return g.ID == id })
}

// IsShare reports whether a grant lends an agent.
func (o Organisation) IsShare(id string) bool {
	g, known := o.Grant(id)
	return known && g.Kind == Share
}

// Holds reports whether a grant was not recalled and has not run out at nowMs
// (UTC ms).
func (g Grant) Holds(nowMs int64) bool {
	return g.Recalled == nil && (g.UntilMs == 0 || nowMs < g.UntilMs)
}

// completed puts a grant's lists in the one order that its bytes have.
func (g Grant) completed() Grant {
	if g.Revision != nil {
		pinned := g.Revision.completed()
		g.Revision = &pinned
	}
	c := &g.Ceiling
	c.Labels = policy.NewLabels(c.Labels...)
	c.ReadSpaces, c.WriteSpaces, c.Models = ordered(c.ReadSpaces), ordered(c.WriteSpaces), ordered(c.Models)
	c.Tools = byName(c.Tools, func(u ToolUse) string { return u.Name })
	g.Yields = byName(g.Yields, func(y Yield) string { return y.Name })
	return g
}

// Serves returns the revision of an agent that serves a person at nowMs (UTC
// ms): the current one where the person is of its audience, else that of the
// share under which they borrow it. The share is zero where nothing is borrowed.
func (o Organisation) Serves(agent string, person policy.Principal, nowMs int64) (Revision, Grant, bool) {
	current, known := o.Agent(agent)
	if !known || person.Organisation != o.Name {
		return Revision{}, Grant{}, false
	}
	if current.Serves(person) {
		return current, Grant{}, true
	}
	share, found := o.shareOf(agent, person, nowMs)
	if !found {
		return Revision{}, Grant{}, false
	}
	revision, known := o.Pinned(share)
	return revision, share, known
}

// Payer is the department that pays for a run of a revision for a person under
// the grant: who borrows. The zero grant stands for none.
func (g Grant) Payer(revision Revision, person policy.Principal) string {
	if g.Kind == Share {
		return person.Department
	}
	return revision.Department
}

// shareOf returns the share by which a person has an agent: one to the person
// before one to their department, the earlier id before the later.
func (o Organisation) shareOf(agent string, person policy.Principal, nowMs int64) (best Grant, found bool) {
	for _, g := range o.Grants {
		if g.Kind != Share || g.Agent != agent || !g.To.Covers(person) || !g.Holds(nowMs) {
			continue
		}
		if !found || best.To.Person == "" && g.To.Person != "" {
			best, found = g, true
		}
	}
	return best, found
}

// RevisionAt returns the revision of an agent with a digest: the current one or
// one that a grant pins.
func (o Organisation) RevisionAt(agent, digest string) (Revision, bool) {
	is := func(r Revision) bool {
		d, err := r.Digest()
		return err == nil && r.Name == agent && d == digest
	}
	if r, known := o.Agent(agent); known && is(r) {
		return r, true
	}
	for _, g := range o.Grants {
		if g.Revision != nil && is(*g.Revision) {
			return *g.Revision, true
		}
	}
	return Revision{}, false
}

// Granting returns the grant under which a run of one agent hands work to
// another at nowMs (UTC ms): a delegation between the two, or, where an agent
// asks itself, the share by which the person borrows it: that is its private
// side. There is none between agents that need none.
func (o Organisation) Granting(from, to string, subject policy.Principal, nowMs int64) (Grant, bool) {
	if from == to {
		if r, known := o.Agent(to); !known || r.Serves(subject) {
			return Grant{}, false
		}
		share, found := o.shareOf(to, subject, nowMs)
		return share, found && len(share.Yields) > 0
	}
	return find(o.Grants, func(g Grant) bool {
		return g.Kind == Delegation && g.From == from && g.Agent == to && g.Holds(nowMs) && o.current(g)
	})
}

// current reports whether the revision that a delegation was agreed on is still
// the agent's; without a pinned one any is.
func (o Organisation) current(g Grant) bool {
	r, known := o.Agent(g.Agent)
	if !known || g.Revision == nil {
		return known
	}
	same, err := sameRevision(r, *g.Revision)
	return err == nil && same
}

// GrantCeiling returns what a grant gives to the agent that works under it: of
// a share to its private side, which only reads and asks nobody, and of a
// delegation to the agent that work is handed to. Its deadline is when the grant runs out. A grant
// that was recalled, has run out at nowMs (UTC ms) or was agreed on another
// revision gives nothing, nor does one whose agent is stopped.
func (o Organisation) GrantCeiling(id string, nowMs int64) (policy.Authority, bool) {
	g, found := o.Grant(id)
	revision, known := o.Pinned(g)
	if !found || !known || !g.Holds(nowMs) || g.Kind == Delegation && !o.current(g) {
		return policy.Authority{}, false
	}
	if _, stopped := o.Stopped(revision); stopped {
		return policy.Authority{}, false
	}
	given := o.cleared(policy.Meet(o.full(revision), o.bound(g)))
	if g.Kind == Share {
		given.WriteSpaces = nil
		for name, use := range given.Tools {
			definition, _ := o.Tool(name)
			use.Impact = min(use.Impact, policy.ImpactRead)
			given.Tools[name] = use
			if definition.Impact.OrWorst() > policy.ImpactRead || name == tool.AskName || name == tool.DelegateName {
				delete(given.Tools, name)
			}
		}
	}
	return given.Normal(), true
}

// YieldOf returns the bounded type that a grant declares by a JSON Schema: all
// that may come back from what was done under it, without its labels. A grant
// that was recalled declares nothing.
func (o Organisation) YieldOf(id string, schema json.RawMessage) (bounded.Type, bool) {
	g, _ := o.Grant(id)
	if g.Recalled != nil {
		return bounded.Type{}, false
	}
	for _, yield := range g.Yields {
		if kind, err := yield.Type(); err == nil && kind.Is(schema) {
			return kind, true
		}
	}
	return bounded.Type{}, false
}

// full is everything that a revision may do for whom nothing is held back.
func (o Organisation) full(revision Revision) policy.Authority {
	whole := o.authority(revision, revision.Clearance)
	whole.DeadlineMs = math.MaxInt64
	return whole
}

// cleared leaves out the tools whose results always have a label that the
// authority may not read: who works under a grant does not even ask for them.
func (o Organisation) cleared(may policy.Authority) policy.Authority {
	for name := range may.Tools {
		if definition, known := o.Tool(name); !known || !definition.Result.Labels.Within(may.Labels) {
			delete(may.Tools, name)
		}
	}
	return may
}

// bound is a grant's ceiling as authority has it. What it does not speak of,
// for example turns, it does not bound.
func (o Organisation) bound(g Grant) policy.Authority {
	c, until := g.Ceiling, int64(math.MaxInt64)
	if g.UntilMs > 0 {
		until = g.UntilMs
	}
	return policy.Authority{
		Tools: o.grants(Revision{Tools: c.Tools}), Labels: c.Labels, ReadSpaces: c.ReadSpaces, WriteSpaces: c.WriteSpaces,
		Models: c.Models, MicroUSD: c.MicroUSD, Tokens: c.Tokens, DeadlineMs: until, Turns: math.MaxInt, Depth: math.MaxInt,
		FanOut: c.FanOut, RunsAtOnce: math.MaxInt, CallsAtOnce: math.MaxInt, Stage: c.Stage,
	}
}

// lending finds what does not fit in the grants.
func (v *validation) lending() {
	unique(v, "grants", "[%d].id", v.o.Grants, func(g Grant) string { return g.ID })
	for _, g := range v.o.Grants {
		v.grant(g)
	}
}

func (v *validation) grant(g Grant) {
	object := "grants/" + g.ID
	v.require(plainID.MatchString(g.ID), object, "id", "must be lower-case letters, digits, dots and dashes")
	_, known := v.o.Agent(g.Agent)
	v.require(known, object, "agent", "there is no agent %q", g.Agent)
	_, known = v.o.Agent(g.From)
	v.require(known == (g.Kind == Delegation) && g.From != g.Agent, object, "from", "a delegation is from another agent that exists, a share from none")
	_, department := v.o.Department(g.To.Department)
	person := v.o.isPerson(g.To.Person)
	one := (g.To.Department == "" || department) && (g.To.Person == "" || person) && department != person
	v.require(one == (g.Kind != Delegation) && (one || g.To == Borrower{}), object, "to", "a share is to one department or one person that exists, a delegation to none")
	v.require(slices.Contains([]GrantKind{Share, Delegation, Access}, g.Kind), object, "kind", "must be %s, %s or %s", Share, Delegation, Access)
	v.access(object, g, person)
	v.require(strings.TrimSpace(g.Reason) != "" && len(g.Reason) <= 1000, object, "reason", "say why in 1 to 1000 bytes")
	v.require(g.UntilMs == 0 || g.UntilMs > g.AtMs, object, "until", "must be later than now")
	if r := g.Recalled; r != nil {
		v.require(len(r.Reason) <= 1000, object, "recalled.reason", "say why in up to 1000 bytes")
	}
	if r := g.Revision; r != nil {
		v.require(r.Name == g.Agent, object, "revision", "must be one of %s", g.Agent)
		v.agent(*r)
	}
	for i, use := range g.Ceiling.Tools {
		v.use(object, fmt.Sprintf("ceiling.tools[%d].", i), use)
	}
	unique(v, object, "ceiling.tools[%d].name", g.Ceiling.Tools, func(u ToolUse) string { return u.Name })
	v.knownLabels(object, "ceiling.labels", g.Ceiling.Labels)
	v.spaces(object, Revision{Spaces: Spaces{Read: g.Ceiling.ReadSpaces, Write: g.Ceiling.WriteSpaces}})
	for i, name := range g.Ceiling.Models {
		_, known := v.o.Model(name)
		v.require(known, object, fmt.Sprintf("ceiling.models[%d]", i), "there is no model %q", name)
	}
	v.require(g.Ceiling.MicroUSD >= 0 && g.Ceiling.Tokens >= 0 && g.Ceiling.FanOut >= 0, object, "ceiling", "must not be negative")
	unique(v, object, "yields[%d].name", g.Yields, func(y Yield) string { return y.Name })
	for i, yield := range g.Yields {
		at := fmt.Sprintf("yields[%d].", i)
		v.require(plainID.MatchString(yield.Name), object, at+"name", "must be lower-case letters, digits, dots and dashes")
		v.require(strings.TrimSpace(yield.Description) != "", object, at+"description", "say what it tells")
		_, err := yield.Type()
		v.require(err == nil, object, at+"schema", "%v", err)
	}
}

// keptGrants are the grants that still fit after files were loaded; what they
// do not fit any more is recalled.
func keptGrants(current, loaded Organisation) []Grant {
	return slices.DeleteFunc(slices.Clone(current.Grants), func(g Grant) bool {
		return Fits(loaded, g) != nil
	})
}

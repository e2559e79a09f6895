package agents

import (
	"fmt"
	"slices"
	"strings"

	"gantry.dev/agents/manifest"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Answers reports whether a person answers for runs of an agent: its owner, its
// contact, the owner of its department, that of the organisation, an operator.
func (o Organisation) Answers(person policy.Principal, agent string) bool {
	if person.Organisation != o.Name {
		return false
	}
	people, _ := o.answering(KillAgent, agent)
	return slices.Contains(people, person.ID)
}

// Granted reports whether a run works under a grant that gives it more than the
// one above it had, or below one that does; private that it is of the private
// side of a share. Only who answers for the agent sees what happens there.
func (o Organisation) Granted(started run.Started) (granted, private bool) {
	for i, link := range append(slices.Clone(started.Lineage), run.Link{Grant: started.Grant}) {
		if i == 0 || link.Grant == "" {
			continue // who begins a tree has a share at most, and that gives no more
		}
		grant, known := o.Grant(link.Grant)
		granted, private = true, private || !known || grant.Kind == Share
	}
	return granted, private
}

// Concerns reports whether a run is open to a person by what its row says: it
// runs for them, or they answer for its agent. Who was asked to decide in it,
// or takes part in its conversation, may see it too.
func (o Organisation) Concerns(person policy.Principal, head run.Head) bool {
	return person.Organisation == o.Name && head.Organisation == o.Name && (head.Subject == person.ID || o.Answers(person, head.Agent))
}

// ReadRevision reads one agent's revision as a file of agents/ has it. Errors:
// Faults with every fault found in its form; what it says is checked when it is
// published.
func ReadRevision(name string, raw []byte) (Revision, error) {
	revision := Revision{Limits: DefaultLimits()}
	document, faults := manifest.Parse(name, raw)
	if len(faults) == 0 {
		faults = document.Decode(&revision)
	}
	if len(faults) > 0 {
		return Revision{}, Faults(faults)
	}
	return revision.completed(), nil
}

// SecondPerson returns somebody other than the given person with whose word
// the person could publish a revision: with them it can be tried out whether
// two people could. Where nobody's word suffices it is anybody else.
func (o Organisation) SecondPerson(by string, change Revision) string {
	return o.second(by, o.parties(change))
}

// SecondToLift is SecondPerson for the end of a kill.
func (o Organisation) SecondToLift(by string, scope KillScope, name string) string {
	people, _ := o.answering(scope, name)
	return o.second(by, [][]string{people})
}

// SecondToPin is SecondPerson for what a tool is pinned to.
func (o Organisation) SecondToPin(by, name string) string {
	d, _ := o.Tool(name)
	return o.second(by, [][]string{{d.Owner}})
}

func (o Organisation) second(by string, parties [][]string) string {
	anybody := ""
	for _, p := range o.Principals {
		if p.ID == by || p.Kind != policy.Person {
			continue
		}
		anybody = p.ID
		if !slices.ContainsFunc(parties, func(party []string) bool { return !slices.Contains(party, by) && !slices.Contains(party, p.ID) }) {
			return p.ID
		}
	}
	return anybody
}

// Sees reports whether a person may know of an agent: it serves them, or they
// answer for it.
func (o Organisation) Sees(person policy.Principal, agent string) bool {
	revision, exists := o.Agent(agent)
	return exists && (person.Organisation == o.Name && revision.Serves(person) || o.Answers(person, agent))
}

// Knows reports whether a person may know that there is what a kill can stop:
// they answer for it, it is their department, or an agent that they see is of
// it or uses it.
func (o Organisation) Knows(person policy.Principal, scope KillScope, name string) bool {
	people, exists := o.answering(scope, name)
	if !exists || person.Organisation != o.Name {
		return false
	}
	if scope == KillAll || slices.Contains(people, person.ID) || scope == KillDepartment && person.Department == name {
		return true
	}
	return slices.ContainsFunc(o.Agents, func(r Revision) bool { return r.reaches(scope, name) && o.Sees(person, r.Name) })
}

// reaches reports whether who sees the agent sees this, too.
func (r Revision) reaches(scope KillScope, name string) bool {
	switch scope {
	case KillAgent:
		return r.Name == name
	case KillDepartment:
		return r.Department == name
	case KillTool:
		return slices.ContainsFunc(r.Tools, func(use ToolUse) bool { return use.Name == name })
	}
	return false
}

// Proposable returns the organisation as the proposal of a revision is tried
// out for a person: without an agent of its name that they may not know of, so
// that the name answers like a free one. Errors: ErrNotAPerson; ErrNotEntitled
// for who neither knows the agent nor is of the department that would get it.
func (o Organisation) Proposable(person policy.Principal, change Revision) (Organisation, error) {
	if !o.isPerson(person.ID) {
		return Organisation{}, ErrNotAPerson
	}
	if o.Sees(person, change.Name) {
		return o, nil
	}
	people, known := o.answering(KillDepartment, change.Department)
	if !known || person.Department != change.Department && !slices.Contains(people, person.ID) {
		return Organisation{}, ErrNotEntitled
	}
	o.Agents = slices.DeleteFunc(slices.Clone(o.Agents), func(r Revision) bool { return r.Name == change.Name })
	o.Stages = slices.DeleteFunc(slices.Clone(o.Stages), func(d StageDecision) bool { return d.Agent == change.Name })
	o.Kills = slices.DeleteFunc(slices.Clone(o.Kills), func(k Kill) bool { return k.Scope == KillAgent && k.Name == change.Name })
	return o, nil
}

// OwnerOf is who decides whether somebody's run may use a thing: its owner. Where
// that is the person for whom the run acts, or nobody, it is the owner of the
// organisation. A budget is named by its department.
func (o Organisation) OwnerOf(thing run.Thing, name, subject string) policy.Approver {
	var owner, why string
	switch thing {
	case run.ThingTool:
		definition, _ := o.Tool(name)
		owner, why = definition.Owner, "tool owner"
	case run.ThingSpace:
		department, _ := o.Department(strings.TrimPrefix(name, "department:"))
		owner, why = department.Owner, "owner of space "+name
	case run.ThingLabel:
		rule, _ := o.Label(policy.Label(name))
		owner, why = rule.Owner, "owner of label "+name
	case run.ThingBudget:
		department, _ := o.Department(name)
		owner, why = department.BudgetOwner, "budget owner of "+name
	case run.ThingModel: // the catalogue is the organisation's
	}
	if owner == "" || owner == subject {
		return policy.Approver{Principal: o.Owner, Why: "organisation owner"}
	}
	return policy.Approver{Principal: owner, Why: why}
}

// givers are who must agree to an access: of each thing its owner.
func (o Organisation) givers(g Grant) (parties []Party) {
	party := func(thing run.Thing, name string) {
		parties = append(parties, Party{For: strings.ToLower(string(thing)) + ":" + name, People: []string{o.OwnerOf(thing, name, g.To.Person).Principal}})
	}
	for _, use := range g.Ceiling.Tools {
		party(run.ThingTool, use.Name)
	}
	for _, space := range g.Ceiling.ReadSpaces {
		party(run.ThingSpace, space)
	}
	for _, label := range g.Ceiling.Labels {
		party(run.ThingLabel, string(label))
	}
	for _, model := range g.Ceiling.Models {
		party(run.ThingModel, model)
	}
	return parties
}

// tool is the tool that an access is to; empty for none.
func (g Grant) tool() string {
	if len(g.Ceiling.Tools) == 0 {
		return ""
	}
	return g.Ceiling.Tools[0].Name
}

// Want is what a run of a revision for a person would get if it were given a
// thing; false for what is not there, what the revision may not ask for, and
// what the person may not read: all of them look alike.
func (o Organisation) Want(r Revision, subject policy.Principal, asked Asked) (run.Want, bool) {
	may := r.MayRequest
	if may == nil {
		return run.Want{}, false
	}
	ceiling, granted := may.ceiling(asked)
	if !granted {
		return run.Want{}, false
	}
	want := run.Want{Thing: asked.Thing, Name: asked.Name, Gives: policy.Authority{
		Tools: o.grants(Revision{Tools: ceiling.Tools}), ReadSpaces: ceiling.ReadSpaces, Labels: subject.Clearance.Meet(ceiling.Labels),
		Models: ceiling.Models, MicroUSD: ceiling.MicroUSD, Tokens: ceiling.Tokens}.Normal()}
	if asked.Thing == run.ThingBudget {
		want.Name = ""
		return want, want.Gives.MicroUSD > 0 || want.Gives.Tokens > 0
	}
	if definition, known := o.Tool(asked.Name); known && asked.Thing == run.ThingTool {
		want.Class, want.CostBound = definition.Class, definition.CostBound
	}
	given := want.Gives
	return want, len(given.Tools)+len(given.ReadSpaces)+len(given.Labels)+len(given.Models) == 1
}

// Asked is what a run asks for, in words of a model.
type Asked struct {
	Thing            run.Thing
	Name             string
	MicroUSD, Tokens int64 // of a BUDGET; micro-dollars
}

// ceiling is what is asked for as a grant has it, within what may be asked for.
func (m Requestable) ceiling(asked Asked) (c Ceiling, may bool) {
	switch asked.Thing {
	case run.ThingTool:
		use, found := find(m.Tools, func(u ToolUse) bool { return u.Name == asked.Name })
		return Ceiling{Tools: []ToolUse{use}}, found
	case run.ThingSpace:
		return Ceiling{ReadSpaces: []string{asked.Name}}, slices.Contains(m.Spaces, asked.Name)
	case run.ThingLabel:
		return Ceiling{Labels: policy.Labels{policy.Label(asked.Name)}}, slices.Contains(m.Labels, policy.Label(asked.Name))
	case run.ThingModel:
		return Ceiling{Models: []string{asked.Name}}, slices.Contains(m.Models, asked.Name)
	case run.ThingBudget:
		return Ceiling{MicroUSD: asked.MicroUSD, Tokens: asked.Tokens}, asked.MicroUSD <= m.MicroUSD && asked.Tokens <= m.Tokens
	}
	return Ceiling{}, false
}

// AccessGrant is the grant that a yes to a request puts in force, in the words of
// its owner: for the run that asked, or where a conversation is named for every
// run of the agent in it for the same person, until untilMs (UTC ms, 0 for no
// end). The revision is the one that the run was admitted with. Errors:
// ErrUnknown for what that may not ask for.
func AccessGrant(revision Revision, state *run.State, access run.Access, conversation string, untilMs int64, word Word) (Grant, error) {
	started, want := state.Started, access.Want
	if revision.MayRequest == nil {
		return Grant{}, ErrUnknown
	}
	ceiling, may := revision.MayRequest.ceiling(Asked{Thing: want.Thing, Name: want.Name})
	if !may {
		return Grant{}, ErrUnknown
	}
	ceiling.Stage = policy.Automate // nothing of it: what is counted or lasts is not given
	g := Grant{ID: "access-" + strings.ToLower(access.AccessRequested.Access), Kind: Access, Agent: started.Agent.Name, To: Borrower{Person: started.Subject.ID},
		Pin: want.Gives.Tools[want.Name].Revision, Ceiling: ceiling, Reason: "asked for by run " + state.ID, Words: []Word{word}, AtMs: word.AtMs,
		Conversation: conversation, UntilMs: untilMs}
	if conversation == "" {
		g.Run = state.ID
	}
	return g, nil
}

// Revised is the current revision of an agent with what its runs may ask for as
// its own: a tool within the same bounds, a space to read, a label or a model. Its
// stage is no freer than the agent's is. Errors: ErrUnknown for what the current
// revision may not ask for.
func (o Organisation) Revised(agent string, want run.Want) (Revision, error) {
	r, known := o.Agent(agent)
	if !known || r.MayRequest == nil {
		return Revision{}, ErrUnknown
	}
	ceiling, may := r.MayRequest.ceiling(Asked{Thing: want.Thing, Name: want.Name})
	if !may || want.Thing == run.ThingBudget {
		return Revision{}, ErrUnknown
	}
	r.Stage = o.Stage(r)
	left := *r.MayRequest
	left.Tools = slices.DeleteFunc(slices.Clone(left.Tools), func(u ToolUse) bool { return want.Thing == run.ThingTool && u.Name == want.Name })
	left.Spaces = slices.DeleteFunc(slices.Clone(left.Spaces), func(s string) bool { return slices.Contains(ceiling.ReadSpaces, s) })
	left.Labels = slices.DeleteFunc(slices.Clone(left.Labels), func(l policy.Label) bool { return slices.Contains(ceiling.Labels, l) })
	left.Models = slices.DeleteFunc(slices.Clone(left.Models), func(m string) bool { return slices.Contains(ceiling.Models, m) })
	r.MayRequest = &left
	r.Tools = append(slices.Clone(r.Tools), ceiling.Tools...)
	r.Spaces.Read = append(slices.Clone(r.Spaces.Read), ceiling.ReadSpaces...)
	r.Clearance = append(slices.Clone(r.Clearance), ceiling.Labels...)
	r.Models = append(slices.Clone(r.Models), ceiling.Models...)
	return r.completed(), nil
}

// access finds what does not fit in whom an access is for, and in what it names.
func (v *validation) access(object string, g Grant, person bool) {
	is := g.Kind == Access
	v.require((g.Run != "" || g.Conversation != "") == is && (g.Run == "" || g.Conversation == "") && (!is || person), object, "run",
		"only what was asked for is for one run or one conversation, and that acts for a person")
	v.require((g.Pin != "") == (is && len(g.Ceiling.Tools) > 0), object, "pin", "access to a tool names its definition")
}

// Standing returns the grant in force at nowMs (UTC ms) that gives the same as
// another one in the same conversation, to the same agent for the same person.
func (o Organisation) Standing(like Grant, nowMs int64) (Grant, bool) {
	return find(o.Grants, func(g Grant) bool {
		return g.Kind == Access && g.Conversation != "" && g.Conversation == like.Conversation && g.Agent == like.Agent && g.To == like.To &&
			g.Pin == like.Pin && g.Holds(nowMs) && (g.UntilMs == 0 || like.UntilMs != 0 && like.UntilMs <= g.UntilMs) && o.asked(g) && o.bound(g).Includes(o.bound(like))
	})
}

// asked reports whether the agent of a consent for a conversation may still ask
// for as much: each run of it has what its own revision lets it have.
func (o Organisation) asked(g Grant) bool {
	r, known := o.Agent(g.Agent)
	if !known || r.MayRequest == nil {
		return false
	}
	may := *r.MayRequest
	return o.bound(Grant{Ceiling: Ceiling{Tools: may.Tools, ReadSpaces: may.Spaces, Labels: may.Labels, Models: may.Models}}).Includes(o.bound(g))
}

// gives reports whether an access lets a run use something now: that one run, or
// every run of its agent in its conversation. It does not look at whom the run
// acts for.
func (o Organisation) gives(g Grant, link run.Link, conversation string, atMs int64) bool {
	switch {
	case g.Kind != Access || g.Recalled != nil:
		return false
	case g.Run != "":
		return g.Run == link.Run
	}
	inTime := g.UntilMs == 0 || atMs > 0 && atMs < g.UntilMs
	return g.Conversation != "" && g.Conversation == conversation && g.Agent == link.Agent && inTime && o.asked(g)
}

// GivenTo returns what grants in force at atMs (UTC ms) let one run use, which
// acts for a person in a conversation or none; never more than that person may
// read.
func (o Organisation) GivenTo(link run.Link, conversation string, subject policy.Principal, atMs int64) policy.Authority {
	var given policy.Authority
	for _, g := range o.Grants {
		if !o.gives(g, link, conversation, atMs) || g.To.Person != subject.ID {
			continue
		}
		if definition, _ := o.Tool(g.tool()); g.Pin != "" && definition.Digest() != g.Pin {
			continue
		}
		given = policy.Widen(given, o.bound(g))
	}
	given.Labels = subject.Clearance.Meet(given.Labels)
	return given
}

// Consented lists the grants of a conversation that a run which begins in it now
// has from its start.
func (o Organisation) Consented(link run.Link, conversation string, subject policy.Principal, atMs int64) (ids []string) {
	for _, g := range o.Grants {
		if g.Run == "" && g.To.Person == subject.ID && o.gives(g, link, conversation, atMs) && !o.IsShare(link.Grant) {
			ids = append(ids, g.ID)
		}
	}
	return ids
}

// requestable finds what does not fit in what an agent's runs may ask for.
func (v *validation) requestable(object string, r Revision) {
	m := r.MayRequest
	if m == nil {
		return
	}
	unique(v, object, "mayRequest.tools[%d].name", m.Tools, func(u ToolUse) string { return u.Name })
	for i, use := range m.Tools {
		at := fmt.Sprintf("mayRequest.tools[%d].", i)
		v.use(object, at, use)
		v.require(!uses(r, use.Name), object, at+"name", "the agent has the tool already")
	}
	for i, space := range m.Spaces {
		department, ofDepartment := strings.CutPrefix(space, "department:")
		_, known := v.o.Department(department)
		v.require(space == "organisation" || ofDepartment && known, object, fmt.Sprintf("mayRequest.spaces[%d]", i),
			"must be organisation or department:NAME of a department that exists")
	}
	v.knownLabels(object, "mayRequest.labels", m.Labels)
	for i, name := range m.Models {
		_, known := v.o.Model(name)
		v.require(known, object, fmt.Sprintf("mayRequest.models[%d]", i), "there is no model %q", name)
	}
	v.require(m.MicroUSD >= 0 && m.Tokens >= 0, object, "mayRequest.microUsd", "must not be negative")
}

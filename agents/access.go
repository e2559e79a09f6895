package agents

import (
	"slices"

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

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

// SecondPerson returns somebody other than the given person whose word
// suffices to change an agent: with whom it can be tried out whether two people
// could. It is empty where there is none.
func (o Organisation) SecondPerson(by string, change Revision) string {
	if current, exists := o.Agent(change.Name); exists {
		change = current
	}
	for _, other := range o.owners(change) {
		if other != by {
			return other
		}
	}
	return o.Owner
}

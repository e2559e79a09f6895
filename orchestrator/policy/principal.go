// Package policy says who may do what and who may see what. It is pure: it
// reads no clock, no file and no network, so every verdict can be computed
// again from the same inputs.
//
// An Authority is what a run may do at most; Meet makes a child's from its
// parent's. Decide gives the Verdict on one call: what the organisation's Cedar
// policies say (Parse, Set), made stricter by rules that no policy can loosen.
// Entitled and Settled say who may decide a held call and when enough have.
// Marking is what travels with a text: why it is secret and how far to trust it.
//
// The schema is Gantry's own (Schema); an organisation writes only policies. The
// principal is the agent that calls, with its subject as attributes; the action
// is the tool, in the group of its impact; the resource is what the call is
// about; the context holds the facts that the tool declares, what influenced the
// arguments, cost, stage and time. docs/policy.md has the whole shape.
package policy

import (
	"maps"
	"slices"
)

// PrincipalKind says what kind of actor a principal is.
type PrincipalKind string

// The kinds of principal.
const (
	Person  PrincipalKind = "PERSON"
	Service PrincipalKind = "SERVICE"
	Agent   PrincipalKind = "AGENT"
)

// Principal is somebody or something that can act inside one organisation.
// Its fields come from the organisation's directory, never from a request.
type Principal struct {
	ID           string        `json:"id"` // unique within the organisation
	Kind         PrincipalKind `json:"kind"`
	Organisation string        `json:"organisation"`
	Department   string        `json:"department"`
	Name         string        `json:"name"`
	Roles        []string      `json:"roles,omitempty"`   // sorted
	Manager      string        `json:"manager,omitempty"` // principal id, empty for none
	Clearance    Labels        `json:"clearance,omitempty"`
	ActsFor      string        `json:"actsFor,omitempty"` // principal id on whose behalf it always acts, empty for none
}

// RoleOperator is the role of those who look after the installation.
const RoleOperator = "operator"

// HasRole reports whether the principal holds the role.
func (p Principal) HasRole(role string) bool {
	for _, r := range p.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// Sees reports whether the principal is cleared for a text with these labels.
func (p Principal) Sees(labels Labels) bool { return labels.Within(p.Clearance) }

// Directory answers who somebody is now, and who answers for what. It speaks
// of one organisation, from memory: a verdict waits for nothing.
type Directory interface {
	// Principal returns the principal with this id.
	Principal(id string) (Principal, bool)
	// Holders returns the ids of the principals that hold a role, sorted.
	Holders(role string) []string
	// BudgetOwner returns the id of whom a department's budget belongs to.
	BudgetOwner(department string) (string, bool)
	// LabelOwner returns the id of who may let a labelled text go further.
	LabelOwner(label Label) (string, bool)
	// StandsFor returns the ids of those whose deputy a person is at atMs (UTC
	// ms), sorted.
	StandsFor(id string, atMs int64) []string
}

// Deputy is somebody who decides and answers for a person for a while.
type Deputy struct {
	Person  string `json:"person"`  // principal id: for whom
	Deputy  string `json:"deputy"`  // principal id: who does
	FromMs  int64  `json:"fromMs"`  // UTC ms, the first
	UntilMs int64  `json:"untilMs"` // UTC ms, no longer
}

// Holds reports whether it is in force at atMs (UTC ms).
func (d Deputy) Holds(atMs int64) bool { return d.FromMs <= atMs && atMs < d.UntilMs }

// Roster is a Directory of plain maps. The zero value knows nobody.
type Roster struct {
	People       map[string]Principal `json:"people"`       // by id
	BudgetOwners map[string]string    `json:"budgetOwners"` // department to principal id
	LabelOwners  map[Label]string     `json:"labelOwners"`  // label to principal id
	Deputies     []Deputy             `json:"deputies,omitempty"`
}

var _ Directory = Roster{}

// Principal returns the principal with this id.
func (r Roster) Principal(id string) (Principal, bool) {
	principal, found := r.People[id]
	return principal, found
}

// Holders returns the ids of the principals that hold the role, sorted.
func (r Roster) Holders(role string) []string {
	var holders []string
	for _, id := range slices.Sorted(maps.Keys(r.People)) {
		if r.People[id].HasRole(role) {
			holders = append(holders, id)
		}
	}
	return holders
}

// BudgetOwner returns the id of whom the department's budget belongs to.
func (r Roster) BudgetOwner(department string) (string, bool) {
	owner, found := r.BudgetOwners[department]
	return owner, found
}

// LabelOwner returns the id of who owns the label.
func (r Roster) LabelOwner(label Label) (string, bool) {
	owner, found := r.LabelOwners[label]
	return owner, found
}

// StandsFor returns the ids of those whose deputy a person is at atMs, sorted.
func (r Roster) StandsFor(id string, atMs int64) []string {
	var people []string
	for _, d := range r.Deputies {
		if d.Deputy == id && d.Holds(atMs) {
			people = append(people, d.Person)
		}
	}
	slices.Sort(people)
	return slices.Compact(people)
}

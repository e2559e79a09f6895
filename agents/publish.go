package agents

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
)

// Why a change of the organisation is refused. A change that would leave the
// organisation invalid is refused with Faults.
var (
	ErrSecondPerson = errors.New("a second person must approve it")
	ErrNotEntitled  = errors.New("nobody of those who answer for it takes part")
	ErrNotAPerson   = errors.New("only people of the organisation change it")
	ErrNoEvidence   = errors.New("evidence must be given")
	ErrUnknown      = errors.New("there is no such thing in the organisation")
	ErrFreerStage   = errors.New("a stage is not made freer by publishing; decide the stage with evidence")
)

// StageDecision is a recorded change of an agent's rollout stage.
type StageDecision struct {
	Agent      string       `json:"agent"`
	Revision   string       `json:"revision"` // digest of the revision that was current; set by SetStage
	From       policy.Stage `json:"from"`     // set by SetStage
	Stage      policy.Stage `json:"stage"`
	Evidence   string       `json:"evidence"`             // where what was observed can be read
	By         string       `json:"by"`                   // principal id
	ApprovedBy string       `json:"approvedBy,omitempty"` // principal id; needed to make the stage freer
	AtMs       int64        `json:"atMs"`                 // UTC, milliseconds since 1970
}

// KillScope says what a kill stops.
type KillScope string

// The scopes of a kill.
const (
	KillAll        KillScope = "ALL"
	KillDepartment KillScope = "DEPARTMENT"
	KillAgent      KillScope = "AGENT"
	KillTool       KillScope = "TOOL"
)

// RoleOperator is the role whose holders may stop and start anything.
const RoleOperator = policy.RoleOperator

// Kill stops new intents until it is lifted.
type Kill struct {
	Scope  KillScope `json:"scope"`
	Name   string    `json:"name,omitempty"` // empty for ALL
	By     string    `json:"by"`             // principal id
	Reason string    `json:"reason"`
	AtMs   int64     `json:"atMs"` // UTC, milliseconds since 1970
}

// Publish makes a revision the current one of its agent. By wrote it, another
// person approves it, and one of the two answers for the agent as it is now:
// its owner or that of its department. Where a department gets an agent, a new
// one or another's, the department's owner must be one of the two as well: it
// pays from then on, and whom a manifest names as owner says nothing yet. Its
// stage must not be freer than the agent's is now; a new agent starts no freer
// than APPROVE. Publishing what is current already changes nothing.
func Publish(current Organisation, change Revision, by, approvedBy string) (Organisation, error) {
	change = change.completed()
	stage := policy.Approve
	if earlier, exists := current.Agent(change.Name); exists {
		if same, err := sameRevision(earlier, change); err != nil || same {
			return current, err
		}
		stage = current.Stage(earlier)
	}
	for _, accountable := range current.parties(change) {
		if err := current.twoPeople(by, approvedBy, accountable); err != nil {
			return Organisation{}, fmt.Errorf("publish %s: %w", change.Name, err)
		}
	}
	if change.Stage > stage {
		return Organisation{}, fmt.Errorf("publish %s: %w", change.Name, ErrFreerStage)
	}
	next := current
	next.Agents = replaced(current.Agents, change, func(r Revision) string { return r.Name })
	return next.checked()
}

// SetStage changes how much an agent may do by itself. Anyone who answers for
// the agent makes it stricter; a freer stage needs evidence and a second
// person. AUTOMATE is refused while an effect has no read-back check.
func SetStage(current Organisation, decision StageDecision) (Organisation, error) {
	revision, exists := current.Agent(decision.Agent)
	if !exists {
		return Organisation{}, fmt.Errorf("agent %q: %w", decision.Agent, ErrUnknown)
	}
	digest, err := revision.Digest()
	if err != nil {
		return Organisation{}, err
	}
	decision.Revision, decision.From = digest, current.Stage(revision)
	if decision.Stage > decision.From {
		if strings.TrimSpace(decision.Evidence) == "" {
			return Organisation{}, fmt.Errorf("stage of %s: %w", decision.Agent, ErrNoEvidence)
		}
		err = current.twoPeople(decision.By, decision.ApprovedBy, current.owners(revision))
	} else {
		err = current.onePerson(decision.By, append(current.owners(revision), revision.Contact))
	}
	if err != nil {
		return Organisation{}, fmt.Errorf("stage of %s: %w", decision.Agent, err)
	}
	next := current
	next.Stages = replaced(current.Stages, decision, func(d StageDecision) string { return d.Agent })
	return next.checked()
}

// Stop records a kill. Stopping is urgent: one person suffices who answers for
// what is stopped, is told of its incidents or is an operator.
func Stop(current Organisation, kill Kill) (Organisation, error) {
	people, known := current.answering(kill.Scope, kill.Name)
	if !known {
		return Organisation{}, fmt.Errorf("kill %s %q: %w", kill.Scope, kill.Name, ErrUnknown)
	}
	if err := current.onePerson(kill.By, people); err != nil {
		return Organisation{}, fmt.Errorf("kill %s %q: %w", kill.Scope, kill.Name, err)
	}
	next := current
	next.Kills = replaced(current.Kills, kill, Kill.key)
	return next.checked()
}

// Lift ends a kill. By and another person agree, and one of them answers for
// what was stopped.
func Lift(current Organisation, scope KillScope, name, by, approvedBy string) (Organisation, error) {
	if _, stopped := current.killed(scope, name); !stopped {
		return Organisation{}, fmt.Errorf("kill %s %q: %w", scope, name, ErrUnknown)
	}
	people, _ := current.answering(scope, name)
	if err := current.twoPeople(by, approvedBy, people); err != nil {
		return Organisation{}, fmt.Errorf("kill %s %q: %w", scope, name, err)
	}
	next := current
	next.Kills = slices.DeleteFunc(slices.Clone(current.Kills), func(k Kill) bool { return k.Scope == scope && k.Name == name })
	return next.checked()
}

// Apply returns what the organisation is after its files were loaded: the
// loaded configuration with the stages, kills, consents and deputies that people decided,
// which no file undoes. What was pinned since stands until the files pin something else, and so
// does a quarantine. Both organisations are valid; the result may not be, because a
// decided stage can ask for what the new files lack, and then it is Faults.
func Apply(current, loaded Organisation) (Organisation, error) {
	loaded.Stages = slices.DeleteFunc(slices.Clone(current.Stages), func(d StageDecision) bool {
		_, exists := loaded.Agent(d.Agent)
		return !exists
	})
	loaded.Kills = slices.Clone(current.Kills)
	loaded.Consents = slices.DeleteFunc(slices.Clone(current.Consents), func(c Consent) bool {
		_, exists := loaded.Persona(c.Persona)
		return !exists
	})
	loaded.Deputies = keptDeputies(current, loaded)
	loaded.Grants = keptGrants(current, loaded)
	var err error
	if loaded, err = keptPins(current, loaded); err != nil {
		return Organisation{}, err
	}
	loaded.Quarantines = slices.DeleteFunc(slices.Clone(current.Quarantines), func(q server.Quarantine) bool { return !loaded.stands(q) })
	return loaded.checked()
}

// Keep records that calls of a tool are kept back. Nobody's word is needed: it
// only ever stops. It changes nothing where the tool is kept back already, or
// is no longer the one that was looked at.
func Keep(current Organisation, q server.Quarantine) (Organisation, error) {
	if _, kept := current.Quarantined(q.Tool); kept || !current.stands(q) {
		return current, nil
	}
	next := current
	next.Quarantines = append(slices.Clone(current.Quarantines), q)
	return next.checked()
}

// Repin records that a quarantined tool is what its server gives now, which has
// the given pin. By and another person have looked at it, and one of them
// answers for the tool. Nothing else of the tool changes: runs that were
// admitted with it go on with it.
func Repin(current Organisation, name, pin, by, approvedBy string, nowMs int64) (Organisation, error) {
	q, kept := current.Quarantined(name)
	d, known := current.Tool(name)
	if !kept || !known || q.Live == nil || q.Live.Pin() != pin {
		return Organisation{}, fmt.Errorf("pin of %s: %w", name, ErrUnknown)
	}
	if err := current.twoPeople(by, approvedBy, []string{d.Owner}); err != nil {
		return Organisation{}, fmt.Errorf("pin of %s: %w", name, err)
	}
	next, err := pinned(d, q.Pin, *q.Live)
	if err != nil {
		return Organisation{}, fmt.Errorf("pin of %s: %w", name, err)
	}
	p := server.Pinning{Tool: name, From: q.Pin, Offer: *q.Live, Was: append(current.Replaces(d), d.Digest()), Is: next.Digest(), By: by, ApprovedBy: approvedBy, AtMs: nowMs}
	if earlier, decided := find(current.Pins, func(p server.Pinning) bool { return p.Tool == name }); decided {
		p.From = earlier.From // that of the files
	}
	o := current
	o.Tools = replaced(current.Tools, next, func(d tool.Definition) string { return d.Name })
	o.Pins = replaced(current.Pins, p, func(p server.Pinning) string { return p.Tool })
	o.Quarantines = slices.DeleteFunc(slices.Clone(current.Quarantines), func(q server.Quarantine) bool { return q.Tool == name })
	return o.checked()
}

// pinned is a definition with another pin in place of the given one.
func pinned(d tool.Definition, from string, offer server.Offer) (tool.Definition, error) {
	offered, err := tool.ReadOffered(d)
	if err != nil {
		return d, err
	}
	if offered.Pin != from {
		return d, ErrUnknown
	}
	offered.Pin, offered.Seen = offer.Pin(), &offer
	d.Server, err = canon.Marshal(offered)
	return d, err
}

// keptPins puts what was pinned by decision into files that still pin what was
// there before.
func keptPins(current, loaded Organisation) (Organisation, error) {
	loaded.Tools, loaded.Pins = slices.Clone(loaded.Tools), nil
	for _, p := range current.Pins {
		at := slices.IndexFunc(loaded.Tools, func(d tool.Definition) bool { return d.Name == p.Tool })
		if at < 0 || loaded.Tools[at].Kind != tool.KindMCP {
			continue
		}
		next, err := pinned(loaded.Tools[at], p.From, p.Offer)
		if errors.Is(err, ErrUnknown) {
			continue // the files moved on
		}
		if err != nil {
			return loaded, err
		}
		loaded.Tools[at], loaded.Pins = next, append(loaded.Pins, p)
	}
	return loaded, nil
}

// Replaces lists the digests of the definitions in whose place people put this
// one, knowing both.
func (o Organisation) Replaces(d tool.Definition) []string {
	p, decided := find(o.Pins, func(p server.Pinning) bool { return p.Tool == d.Name })
	if !decided || p.Is != d.Digest() {
		return nil
	}
	return slices.Clone(p.Was)
}

// stands reports whether a tool is still pinned as it was when it was kept back.
func (o Organisation) stands(q server.Quarantine) bool {
	d, known := o.Tool(q.Tool)
	if !known || d.Kind != tool.KindMCP {
		return false
	}
	offered, err := tool.ReadOffered(d)
	if err != nil || offered.Pin != q.Pin {
		return false
	}
	s, known := o.Server(offered.Server)
	digest, err := s.Digest()
	return known && err == nil && digest == q.Server
}

func (o Organisation) checked() (Organisation, error) {
	o = o.sorted()
	if err := o.Validate(); err != nil {
		return Organisation{}, err
	}
	return o, nil
}

// owners returns who answers for a revision.
func (o Organisation) owners(r Revision) []string {
	department, _ := o.Department(r.Department)
	return slices.Compact([]string{r.Owner, department.Owner})
}

// parties returns who must have a say in publishing a revision: of each list one.
func (o Organisation) parties(change Revision) [][]string {
	var parties [][]string
	earlier, exists := o.Agent(change.Name)
	if exists {
		parties = append(parties, o.owners(earlier))
	}
	if !exists || earlier.Department != change.Department {
		department, _ := o.Department(change.Department)
		parties = append(parties, []string{department.Owner})
	}
	return parties
}

// answering returns who may stop something, and whether it exists.
func (o Organisation) answering(scope KillScope, name string) ([]string, bool) {
	people := []string{o.Owner, o.Contact}
	for _, p := range o.Principals {
		if p.HasRole(RoleOperator) {
			people = append(people, p.ID)
		}
	}
	switch scope {
	case KillAll:
		return people, name == ""
	case KillDepartment:
		d, known := o.Department(name)
		return append(people, d.Owner, d.Contact), known
	case KillAgent:
		r, known := o.Agent(name)
		return append(append(people, o.owners(r)...), r.Contact), known
	case KillTool:
		d, known := o.Tool(name)
		return append(people, d.Owner, d.Contact), known
	}
	return nil, false
}

func (o Organisation) onePerson(by string, accountable []string) error {
	if !o.isPerson(by) {
		return ErrNotAPerson
	}
	if !slices.Contains(accountable, by) {
		return ErrNotEntitled
	}
	return nil
}

func (o Organisation) twoPeople(by, approvedBy string, accountable []string) error {
	switch {
	case !o.isPerson(by):
		return ErrNotAPerson
	case approvedBy == "" || approvedBy == by:
		return ErrSecondPerson
	case !o.isPerson(approvedBy):
		return ErrNotAPerson
	case !slices.Contains(accountable, by) && !slices.Contains(accountable, approvedBy):
		return ErrNotEntitled
	}
	return nil
}

func (o Organisation) isPerson(id string) bool {
	p, found := o.Principal(id)
	return found && p.Kind == policy.Person
}

func (k Kill) key() string { return string(k.Scope) + " " + k.Name }

// replaced returns the list with the item in place of the one of its name.
func replaced[T any](list []T, item T, name func(T) string) []T {
	list = slices.DeleteFunc(slices.Clone(list), func(other T) bool { return name(other) == name(item) })
	return append(list, item)
}

func sameRevision(a, b Revision) (bool, error) {
	before, err := a.Digest()
	if err != nil {
		return false, err
	}
	after, err := b.Digest()
	return before == after, err
}

package policy

import (
	"fmt"
	"maps"
	"slices"
)

// Authority is what a run may do at most. Values are ordered: a is below b
// when everything a allows, b allows too. Zero means deny on every dimension.
type Authority struct {
	Tools       map[string]ToolGrant `json:"tools,omitempty"`       // by qualified tool name
	Labels      Labels               `json:"labels,omitempty"`      // labels that may be read
	ReadSpaces  []string             `json:"readSpaces,omitempty"`  // sorted
	WriteSpaces []string             `json:"writeSpaces,omitempty"` // sorted
	Models      []string             `json:"models,omitempty"`      // sorted
	MicroUSD    int64                `json:"microUsd"`              // money, in micro-dollars
	Tokens      int64                `json:"tokens"`                // model tokens, in and out
	DeadlineMs  int64                `json:"deadlineMs"`            // UTC, milliseconds since 1970
	Turns       int                  `json:"turns"`                 // model turns
	Depth       int                  `json:"depth"`                 // levels of sub-agents below
	FanOut      int                  `json:"fanOut"`                // children of one run
	RunsAtOnce  int                  `json:"runsAtOnce"`            // live descendants
	CallsAtOnce int                  `json:"callsAtOnce"`           // calls in flight
	Stage       Stage                `json:"stage"`
}

// ToolGrant bounds the use of one tool.
type ToolGrant struct {
	Revision    string       `json:"revision"`              // digest of the tool's definition
	Impact      Impact       `json:"impact"`                // highest impact
	Calls       int          `json:"calls"`                 // calls over the whole run
	Constraints []Constraint `json:"constraints,omitempty"` // all must hold; sorted by path
}

// Constraint bounds one argument, found by its JSON pointer. Every part that
// is set must hold; an argument that is absent meets no constraint.
type Constraint struct {
	Path   string    `json:"path"`             // JSON pointer, RFC 6901
	Enum   *[]string `json:"enum,omitempty"`   // allowed values as canonical JSON; sorted
	Min    *string   `json:"min,omitempty"`    // least number, decimal
	Max    *string   `json:"max,omitempty"`    // greatest number, decimal
	Prefix *string   `json:"prefix,omitempty"` // how a string must begin
}

// DeniedCode says in a stable word why an authority does not allow something.
type DeniedCode string

// The codes of a Denied.
const (
	ToolNotGranted  DeniedCode = "TOOL_NOT_GRANTED" // no grant for this tool
	ToolChanged     DeniedCode = "TOOL_CHANGED"     // the grant is for another definition
	ImpactTooHigh   DeniedCode = "IMPACT_TOO_HIGH"  // the call matters more than the grant allows
	ArgumentsDenied DeniedCode = "ARGUMENTS_DENIED" // an argument breaks a constraint
)

// Denied is the error of a call outside an authority.
type Denied struct {
	Code DeniedCode
	Tool string
	Path string // JSON pointer of the constraint that failed, only for ArgumentsDenied
}

// Error names the code, the tool and the path, and quotes no argument.
func (d *Denied) Error() string {
	text := "the authority denies this call: " + string(d.Code) + " " + d.Tool
	if d.Code == ArgumentsDenied {
		text += fmt.Sprintf(" at %q", d.Path)
	}
	return text
}

// Normal returns the one value that stands for everything with a's meaning:
// sets sorted, grants that allow nothing left out, negative limits zero, values
// outside a scale the strictest of it. Two authorities that are Below each
// other have equal normal forms. It shares nothing with a.
func (a Authority) Normal() Authority {
	a = a.normal()
	a.Tools = maps.Clone(a.Tools)
	a.Labels, a.ReadSpaces, a.WriteSpaces, a.Models = slices.Clone(a.Labels), slices.Clone(a.ReadSpaces), slices.Clone(a.WriteSpaces), slices.Clone(a.Models)
	return a
}

// normal is Normal, but may share with a what is normal there already.
func (a Authority) normal() Authority {
	a.Tools = normalTools(a.Tools)
	a.Labels = normalSet(a.Labels)
	a.ReadSpaces = normalSet(a.ReadSpaces)
	a.WriteSpaces = normalSet(a.WriteSpaces)
	a.Models = normalSet(a.Models)
	a.MicroUSD = max(a.MicroUSD, 0)
	a.Tokens = max(a.Tokens, 0)
	a.DeadlineMs = max(a.DeadlineMs, 0)
	a.Turns = max(a.Turns, 0)
	a.Depth = max(a.Depth, 0)
	a.FanOut = max(a.FanOut, 0)
	a.RunsAtOnce = max(a.RunsAtOnce, 0)
	a.CallsAtOnce = max(a.CallsAtOnce, 0)
	if a.Stage > Automate {
		a.Stage = Observe
	}
	return a
}

// Meet returns the greatest authority that is below both, in normal form. A
// child's authority is the Meet of what its parent has and what it asks for,
// so no chain of spawns can widen.
func Meet(a, b Authority) Authority {
	a, b = a.normal(), b.normal()
	return Authority{
		Tools:       meetTools(a.Tools, b.Tools),
		Labels:      meetSets(a.Labels, b.Labels),
		ReadSpaces:  meetSets(a.ReadSpaces, b.ReadSpaces),
		WriteSpaces: meetSets(a.WriteSpaces, b.WriteSpaces),
		Models:      meetSets(a.Models, b.Models),
		MicroUSD:    min(a.MicroUSD, b.MicroUSD),
		Tokens:      min(a.Tokens, b.Tokens),
		DeadlineMs:  min(a.DeadlineMs, b.DeadlineMs),
		Turns:       min(a.Turns, b.Turns),
		Depth:       min(a.Depth, b.Depth),
		FanOut:      min(a.FanOut, b.FanOut),
		RunsAtOnce:  min(a.RunsAtOnce, b.RunsAtOnce),
		CallsAtOnce: min(a.CallsAtOnce, b.CallsAtOnce),
		Stage:       min(a.Stage, b.Stage),
	}
}

// Widen returns an authority that has, besides its own, the tools, labels,
// spaces and models of a delegation grant. Everything that is counted or lasts
// (money, tokens, time, turns, depth, children, stage) stays as it is: a grant
// never adds to it. Where both have a tool, the wider of the two bounds holds;
// where neither is wider, those of the grant.
func Widen(a, grant Authority) Authority {
	a, grant = a.Normal(), grant.Normal()
	for name, wider := range grant.Tools {
		own, has := a.Tools[name]
		if has && wider.below(own) {
			continue
		}
		tools := make(map[string]ToolGrant, len(a.Tools)+1)
		for known, bounds := range a.Tools {
			tools[known] = bounds
		}
		tools[name] = wider
		a.Tools = tools
	}
	a.Labels = normalSet(slices.Concat(a.Labels, grant.Labels))
	a.ReadSpaces = normalSet(slices.Concat(a.ReadSpaces, grant.ReadSpaces))
	a.WriteSpaces = normalSet(slices.Concat(a.WriteSpaces, grant.WriteSpaces))
	a.Models = normalSet(slices.Concat(a.Models, grant.Models))
	return a
}

// Succeeded returns an authority whose tools are as people pinned them since:
// what it has of a revision that was replaced, it has of the one in its place.
func Succeeded(a Authority, tool func(name string) (ToolFacts, bool)) Authority {
	var tools map[string]ToolGrant
	for name, grant := range a.Tools {
		facts, known := tool(name)
		if !known || !slices.Contains(facts.Replaces, grant.Revision) {
			continue
		}
		if tools == nil {
			tools = maps.Clone(a.Tools)
		}
		grant.Revision = facts.Revision
		tools[name] = grant
	}
	if tools != nil {
		a.Tools = tools
	}
	return a
}

// Below reports whether everything that a allows, b allows too. It is
// reflexive, transitive and, on normal forms, antisymmetric.
func (a Authority) Below(b Authority) bool {
	a, b = a.normal(), b.normal()
	return toolsBelow(a.Tools, b.Tools) &&
		setWithin(a.Labels, b.Labels) &&
		setWithin(a.ReadSpaces, b.ReadSpaces) &&
		setWithin(a.WriteSpaces, b.WriteSpaces) &&
		setWithin(a.Models, b.Models) &&
		a.limitsBelow(b) &&
		a.Stage <= b.Stage
}

func (a Authority) limitsBelow(b Authority) bool {
	return a.MicroUSD <= b.MicroUSD &&
		a.Tokens <= b.Tokens &&
		a.DeadlineMs <= b.DeadlineMs &&
		a.Turns <= b.Turns &&
		a.Depth <= b.Depth &&
		a.FanOut <= b.FanOut &&
		a.RunsAtOnce <= b.RunsAtOnce &&
		a.CallsAtOnce <= b.CallsAtOnce
}

// Includes reports whether an authority has the tools, labels, spaces and models
// of a grant. What is counted or lasts is not looked at.
func (a Authority) Includes(grant Authority) bool {
	a, grant = a.normal(), grant.normal()
	return toolsBelow(grant.Tools, a.Tools) && setWithin(grant.Labels, a.Labels) && setWithin(grant.ReadSpaces, a.ReadSpaces) &&
		setWithin(grant.WriteSpaces, a.WriteSpaces) && setWithin(grant.Models, a.Models)
}

// AllowsTool returns nil when the authority has a grant for this definition of
// the tool at this impact, else a *Denied. Arguments are not looked at: see
// ToolGrant.Allows.
func (a Authority) AllowsTool(name, revision string, impact Impact) error {
	grant, known := a.Tools[name]
	if known {
		grant, known = grant.normal()
	}
	switch {
	case !known:
		return &Denied{Code: ToolNotGranted, Tool: name}
	case grant.Revision != revision:
		return &Denied{Code: ToolChanged, Tool: name}
	case impact.OrWorst() > grant.Impact:
		return &Denied{Code: ImpactTooHigh, Tool: name}
	}
	return nil
}

// AllowsCall is AllowsTool and the constraints on the arguments, which are
// canonical JSON.
func (a Authority) AllowsCall(name, revision string, impact Impact, args []byte) error {
	if err := a.AllowsTool(name, revision, impact); err != nil {
		return err
	}
	if ok, path := a.Tools[name].Allows(args); !ok {
		return &Denied{Code: ArgumentsDenied, Tool: name, Path: path}
	}
	return nil
}

func normalSet[S ~[]E, E ~string](set S) S {
	if len(set) == 0 {
		return nil
	}
	if ascending(set) {
		return set
	}
	sorted := slices.Clone(set)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// ascending reports whether a set is sorted and has nothing twice.
func ascending[S ~[]E, E ~string](set S) bool {
	for i := 1; i < len(set); i++ {
		if set[i-1] >= set[i] {
			return false
		}
	}
	return true
}

// meetSets and setWithin work on sorted sets.
func meetSets[S ~[]E, E ~string](a, b S) S {
	var both S
	for _, element := range a {
		if _, found := slices.BinarySearch(b, element); found {
			both = append(both, element)
		}
	}
	return both
}

func setWithin[S ~[]E, E ~string](a, b S) bool {
	for _, element := range a {
		if _, found := slices.BinarySearch(b, element); !found {
			return false
		}
	}
	return true
}

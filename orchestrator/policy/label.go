package policy

import (
	"slices"
	"strings"

	"gantry.dev/orchestrator/policy/guard"
)

// Label names one reason why a text is confidential, for example "hr-salary".
type Label string

// Labels is a set of confidentiality labels: sorted, without repeats. More
// labels mean fewer readers. The zero value is the public set.
type Labels []Label

// NewLabels returns the set of the given labels.
func NewLabels(labels ...Label) Labels {
	set := slices.Clone(labels)
	slices.Sort(set)
	return Labels(slices.Compact(set))
}

// Join returns the union of both sets: who reads the result must be cleared
// for every label of either.
func (l Labels) Join(other Labels) Labels {
	if l.Within(other) {
		return other
	}
	if other.Within(l) {
		return l
	}
	return NewLabels(append(slices.Clone(l), other...)...)
}

// Meet returns the labels that both sets hold.
func (l Labels) Meet(other Labels) Labels {
	var both Labels
	for _, label := range l {
		if other.Has(label) {
			both = append(both, label)
		}
	}
	return both
}

// Has reports whether the set holds the label.
func (l Labels) Has(label Label) bool {
	_, found := slices.BinarySearch(l, label)
	return found
}

// Within reports whether every label of l is also in outer.
func (l Labels) Within(outer Labels) bool {
	if !guard.Up {
		return true
	}
	for _, label := range l {
		if !outer.Has(label) {
			return false
		}
	}
	return true
}

// String returns the labels joined by commas.
func (l Labels) String() string {
	parts := make([]string, len(l))
	for i, label := range l {
		parts[i] = string(label)
	}
	return strings.Join(parts, ",")
}

// Integrity says how far a text may be trusted. Higher values are trusted less.
type Integrity uint8

// The levels of integrity, from people and policy down to text from outside.
const (
	Trusted   Integrity = iota // people with a verified identity, and policy
	FromTool                   // output of a registered tool
	Untrusted                  // text that somebody outside may have written
)

var integrityNames = [...]string{"TRUSTED", "TOOL", "UNTRUSTED"}

// String returns the name used in the journal and the API.
func (i Integrity) String() string { return nameOf(integrityNames[:], int(i)) }

// MarshalText writes the name of the level.
func (i Integrity) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads a level by name; an unknown name is an error.
func (i *Integrity) UnmarshalText(text []byte) error {
	n, err := parseName("integrity", integrityNames[:], string(text))
	*i = Integrity(n)
	return err
}

// Marking travels with every text: its confidentiality and its integrity.
// What is derived from several texts carries the Join of their markings.
type Marking struct {
	Labels    Labels    `json:"labels,omitempty"`
	Integrity Integrity `json:"integrity"`
}

// Join returns the least marking that is at least as strict as both.
func (m Marking) Join(other Marking) Marking {
	return Marking{Labels: m.Labels.Join(other.Labels), Integrity: max(m.Integrity, other.Integrity)}
}

// Within reports whether m is at most as strict as outer.
func (m Marking) Within(outer Marking) bool {
	return m.Labels.Within(outer.Labels) && m.Integrity <= outer.Integrity
}

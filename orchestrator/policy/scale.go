package policy

import "fmt"

// Impact says how much a call matters. The owner of a tool sets it; what is
// not set counts as Irreversible.
type Impact uint8

// The impacts, from harmless to final.
const (
	ImpactUnset  Impact = iota
	ImpactRead          // reads only
	Draft               // writes what nobody outside acts on yet
	Reversible          // can be undone by a known second call
	Irreversible        // cannot be undone
)

var impactNames = [...]string{"", "READ", "DRAFT", "REVERSIBLE", "IRREVERSIBLE"}

// OrWorst returns the impact, or Irreversible where none is set.
func (i Impact) OrWorst() Impact {
	if i == ImpactUnset || i > Irreversible {
		return Irreversible
	}
	return i
}

// String returns the name used in the journal and the API.
func (i Impact) String() string { return nameOf(impactNames[:], int(i)) }

// MarshalText writes the name of the impact.
func (i Impact) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads an impact by name; an unknown name is an error.
func (i *Impact) UnmarshalText(text []byte) error {
	n, err := parseName("impact", impactNames[:], string(text))
	*i = Impact(n)
	return err
}

// EffectClass says how a call with an unknown outcome is recovered. It comes
// from the organisation's registry, never from a tool's own hints.
type EffectClass uint8

// The effect classes. What is not set counts as Opaque.
const (
	ClassUnset EffectClass = iota
	ClassRead              // repeat freely
	Keyed                  // the other side deduplicates on our key: repeat with the same key
	Checkable              // the outcome can be queried; "absent" is no proof
	Opaque                 // one attempt; a broken one goes to a person
)

var classNames = [...]string{"", "READ", "KEYED", "CHECKABLE", "OPAQUE"}

// OrWorst returns the class, or Opaque where none is set.
func (c EffectClass) OrWorst() EffectClass {
	if c == ClassUnset || c > Opaque {
		return Opaque
	}
	return c
}

// String returns the name used in the journal and the API.
func (c EffectClass) String() string { return nameOf(classNames[:], int(c)) }

// MarshalText writes the name of the class.
func (c EffectClass) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a class by name; an unknown name is an error.
func (c *EffectClass) UnmarshalText(text []byte) error {
	n, err := parseName("effect class", classNames[:], string(text))
	*c = EffectClass(n)
	return err
}

// Stage says how much an agent may do by itself. Higher values are freer.
type Stage uint8

// The four rollout stages. The zero value is the strictest one.
const (
	Observe   Stage = iota // everything above READ is simulated
	Constrain              // listed tools only, impact up to DRAFT
	Approve                // everything above READ is held for a person
	Automate               // policy alone decides
)

var stageNames = [...]string{"OBSERVE", "CONSTRAIN", "APPROVE", "AUTOMATE"}

// String returns the name used in the journal and the API.
func (s Stage) String() string { return nameOf(stageNames[:], int(s)) }

// MarshalText writes the name of the stage.
func (s Stage) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a stage by name; an unknown name is an error.
func (s *Stage) UnmarshalText(text []byte) error {
	n, err := parseName("stage", stageNames[:], string(text))
	*s = Stage(n)
	return err
}

func nameOf(names []string, n int) string {
	if n < 0 || n >= len(names) {
		return "UNKNOWN"
	}
	return names[n]
}

func parseName(what string, names []string, name string) (int, error) {
	for n, known := range names {
		if known == name {
			return n, nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q", what, name)
}

package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"gantry.dev/orchestrator/canon"
)

// A constraint in normal form is one of four kinds of set, each told by the
// only parts that are set: any value that is present (no part), a list of
// values (Enum), the numbers of a range (Min, Max), the strings with a prefix
// (Prefix). Each pair of them meets in one of them again, or in nothing; that
// is what makes Meet exact.

// normal returns the constraint in normal form, or false when no value meets it.
func (c Constraint) normal() (Constraint, bool) {
	if c.Path != "" && !strings.HasPrefix(c.Path, "/") {
		return Constraint{}, false
	}
	form := Constraint{Path: c.Path}
	for _, part := range c.parts() {
		met, satisfiable := form.meet(part)
		if !satisfiable {
			return Constraint{}, false
		}
		form = met
	}
	return form, true
}

// parts splits the constraint into the normal forms it is a conjunction of. A
// part that cannot be read is a list of no values: it allows nothing.
func (c Constraint) parts() []Constraint {
	var parts []Constraint
	if c.Enum != nil {
		parts = append(parts, enumOf(c.Path, *c.Enum))
	}
	if c.Min != nil {
		low, ok := decimalText(*c.Min)
		parts = append(parts, orNothing(Constraint{Path: c.Path, Min: &low}, ok))
	}
	if c.Max != nil {
		high, ok := decimalText(*c.Max)
		parts = append(parts, orNothing(Constraint{Path: c.Path, Max: &high}, ok))
	}
	if c.Prefix != nil {
		prefix := *c.Prefix
		parts = append(parts, orNothing(Constraint{Path: c.Path, Prefix: &prefix}, utf8.ValidString(prefix)))
	}
	return parts
}

func orNothing(c Constraint, ok bool) Constraint {
	if ok {
		return c
	}
	return enumOf(c.Path, nil)
}

// enumOf lists the values in canonical form, sorted, without repeats. What is
// no JSON is left out: no argument equals it.
func enumOf(path string, values []string) Constraint {
	list := make([]string, 0, len(values))
	for _, value := range values {
		if canonical, err := canon.JSON([]byte(value)); err == nil {
			list = append(list, string(canonical))
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return Constraint{Path: path, Enum: &list}
}

func (c Constraint) isRange() bool { return c.Min != nil || c.Max != nil }

func (c Constraint) isAny() bool { return c.Enum == nil && c.Prefix == nil && !c.isRange() }

// meet returns what both normal forms admit, or false when that is nothing.
func (c Constraint) meet(other Constraint) (Constraint, bool) {
	switch {
	case c.isAny():
		return other, other.Enum == nil || len(*other.Enum) > 0
	case other.isAny():
		return c, true
	case c.Enum != nil:
		return c.filter(other)
	case other.Enum != nil:
		return other.filter(c)
	case c.isRange() && other.isRange():
		return meetRanges(c, other)
	case c.Prefix != nil && other.Prefix != nil:
		return meetPrefixes(c, other)
	}
	return Constraint{}, false // no value is both a number and a string
}

// filter keeps the listed values that other admits.
func (c Constraint) filter(other Constraint) (Constraint, bool) {
	kept := []string{}
	for _, value := range *c.Enum {
		if other.admits([]byte(value)) {
			kept = append(kept, value)
		}
	}
	return Constraint{Path: c.Path, Enum: &kept}, len(kept) > 0
}

func meetRanges(a, b Constraint) (Constraint, bool) {
	both := Constraint{Path: a.Path, Min: tighter(a.Min, b.Min, 1), Max: tighter(a.Max, b.Max, -1)}
	if both.Min == nil || both.Max == nil {
		return both, true
	}
	switch compareDecimals(*both.Min, *both.Max) {
	case -1:
		return both, true
	case 0: // one number: the same set as a list of it, so it gets the same form
		one := enumOf(a.Path, []string{*both.Min})
		return one, len(*one.Enum) > 0
	}
	return Constraint{}, false
}

// tighter returns the bound that cuts off more: the greater one for sign 1, the
// lesser one for sign -1. A bound that is not set cuts off nothing.
func tighter(a, b *string, sign int) *string {
	if a == nil || b != nil && compareDecimals(*b, *a) == sign {
		return b
	}
	return a
}

func meetPrefixes(a, b Constraint) (Constraint, bool) {
	switch {
	case strings.HasPrefix(*a.Prefix, *b.Prefix):
		return a, true
	case strings.HasPrefix(*b.Prefix, *a.Prefix):
		return b, true
	}
	return Constraint{}, false
}

// below reports whether every value that c admits, other admits too. Both are
// in normal form, so that holds when their meet is c itself.
func (c Constraint) below(other Constraint) bool {
	both, satisfiable := c.meet(other)
	return satisfiable && both.equal(c)
}

func (c Constraint) equal(other Constraint) bool {
	if (c.Enum == nil) != (other.Enum == nil) {
		return false
	}
	if c.Enum != nil {
		return slices.Equal(*c.Enum, *other.Enum)
	}
	return equalText(c.Min, other.Min) && equalText(c.Max, other.Max) && equalText(c.Prefix, other.Prefix)
}

func equalText(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// admits reports whether a value, as canonical JSON, meets a normal form.
func (c Constraint) admits(value []byte) bool {
	switch {
	case c.Enum != nil:
		_, found := slices.BinarySearch(*c.Enum, string(value))
		return found
	case c.Prefix != nil:
		var text string
		return len(value) > 0 && value[0] == '"' &&
			json.Unmarshal(value, &text) == nil && strings.HasPrefix(text, *c.Prefix)
	case c.isRange():
		return inRange(string(value), c.Min, c.Max)
	}
	return true
}

func inRange(value string, low, high *string) bool {
	number, ok := decimalText(value)
	return ok &&
		(low == nil || compareDecimals(number, *low) >= 0) &&
		(high == nil || compareDecimals(number, *high) <= 0)
}

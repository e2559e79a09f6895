package run

import (
	"maps"
	"slices"
)

// Kinds returns the kinds that the codec knows, sorted.
func Kinds() []EventKind { return slices.Sorted(maps.Keys(forms)) }

// ZeroEvent returns an empty event of a kind.
func ZeroEvent(kind EventKind) (Event, error) { return forms[kind].decode([]byte("{}")) }

// FormVersion returns the version in which events of a kind are written.
func FormVersion(kind EventKind) int { return forms[kind].version }

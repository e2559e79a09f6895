package canon

import (
	"bytes"
	"slices"
)

// name ends the name of a member that was just written.
func (w *writer) name(m *member) {
	m.key, m.nameEnd = m.begin+1, len(w.out)-1
	w.out = append(w.out, ':')
}

// keep ends a member whose value was just written.
func (w *writer) keep(m member) {
	m.end = len(w.out)
	w.members = append(w.members, m)
}

// sorted closes an object, with its members in the order that sort gives them.
func (w *writer) sorted(first, begin int) bool {
	if !w.sort(first, begin) {
		return false
	}
	w.close('}')
	return true
}

// sort puts the members of the object whose first is given, and which begin at
// a byte of what is written, into the order of their names, and forgets them.
// Names that are not plain, and those that some parser takes for one, it
// leaves to the thorough reading.
func (w *writer) sort(first, begin int) bool {
	members := w.members[first:]
	if len(members) > fewKeys || !w.distinct(members) {
		return false
	}
	byName := func(a, b member) int { return bytes.Compare(w.nameOf(a), w.nameOf(b)) }
	if !slices.IsSortedFunc(members, byName) {
		w.scratch = append(w.scratch[:0], w.out[begin:]...)
		w.out = w.out[:begin]
		slices.SortFunc(members, func(a, b member) int {
			return bytes.Compare(w.scratch[a.key-begin:a.nameEnd-begin], w.scratch[b.key-begin:b.nameEnd-begin])
		})
		for i, m := range members {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			w.out = append(w.out, w.scratch[m.begin-begin:m.end-begin]...)
		}
	}
	w.members = w.members[:first]
	return true
}

func (w *writer) nameOf(m member) []byte { return w.out[m.key:m.nameEnd] }

// distinct reports whether the names are all of plain ASCII, whose bytes sort
// as UTF-16 does, and differ by more than case.
func (w *writer) distinct(members []member) bool {
	for i, m := range members {
		name := w.nameOf(m)
		if !plainName(name) {
			return false
		}
		for _, earlier := range members[:i] {
			if other := w.nameOf(earlier); len(other) == len(name) && bytes.EqualFold(other, name) {
				return false
			}
		}
	}
	return true
}

func plainName[T ~string | ~[]byte](name T) bool {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c == '\\' || c == '"' || c > '~' {
			return false
		}
	}
	return true
}

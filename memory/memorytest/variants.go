package memorytest

import (
	"fmt"
	"slices"

	"gantry.dev/memory/view"
)

// moreSteps is how many hidden steps are put into a world that has more.
const moreSteps = 4

// again names the same world: a memory must give the same twice before two
// worlds can be compared.
const again = "nothing else at all"

// variant is a world that differs from another in hidden things alone.
type variant struct {
	name  string
	steps []step
}

// variants returns the world as it is written, first, and others that low
// cannot tell from it.
func (w *writer) variants() []variant {
	without := w.without(w.steps)
	return []variant{
		{"as written", w.steps},
		{again, w.steps},
		{"other secrets", w.otherSecrets(w.steps)},
		{"no hidden items", without},
		{"more hidden items", w.more(w.steps)},
		{"other hidden items", w.otherSecrets(w.more(without))},
	}
}

// otherSecrets gives everything that low does not see another text.
func (w *writer) otherSecrets(steps []step) []step {
	changed := slices.Clone(steps)
	for i := range changed {
		s := &changed[i]
		if s.settled {
			continue
		}
		s.pieces = slices.Clone(s.pieces)
		for n, p := range s.pieces {
			if p.hidden {
				s.pieces[n].text = w.other(p)
			}
		}
		w.splinter(s)
		if s.hidden && s.draft.Heading != "" {
			s.draft.Heading = w.phrase()
		}
	}
	return changed
}

// splinter puts a second secret directly behind one, with other labels: what is
// hidden together is one mark.
func (w *writer) splinter(s *step) {
	var untold []int
	for n, p := range s.pieces {
		if left := minus(p.labels, w.clearance); p.hidden && !left.Within(w.cast[low].Knows) {
			untold = append(untold, n)
		}
	}
	if len(untold) < 2 {
		return // new labels would be new readings, of which there may be too many
	}
	behind := piece{text: w.phrase(), labels: s.pieces[untold[1]].labels, hidden: true}
	s.pieces = slices.Insert(s.pieces, untold[0]+1, behind)
}

// other makes up another secret in the place of one.
func (w *writer) other(p piece) string {
	if keyShape.MatchString(p.text) && len(p.labels) == 0 {
		return fmt.Sprintf("key-%d", w.IntN(1_000_000_000))
	}
	return w.phrase()
}

// without drops what is hidden and stays so.
func (w *writer) without(steps []step) []step {
	return slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.hidden && !s.settled })
}

// more puts more hidden steps between the others.
func (w *writer) more(steps []step) []step {
	steps = slices.Clone(steps)
	for i := range moreSteps {
		at := 1 + w.IntN(len(steps)-1)
		before := steps[:at]
		s := w.secret(before)
		s.name = fmt.Sprintf("more%d", i)
		s.atMs = before[at-1].atMs + 1
		if s.draft.ExpiresMs != 0 {
			s.draft.ExpiresMs += s.atMs
		}
		if s.keeps() && w.IntN(3) == 0 {
			s.draft.Source = view.Source{Kind: view.FromDocument, Ref: "handbook", Position: 1 + w.IntN(4)}
		}
		steps = slices.Insert(steps, at, s)
	}
	return steps
}

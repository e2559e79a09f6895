package memorytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

var words = strings.Fields("ruth iris office lease paris payroll monday bonus review merger doctor travel budget vendor garden audit")

// writer makes up scenes.
type writer struct {
	*rand.Rand
	scene
	clearance policy.Labels // of low
}

// write makes up a world from a seed.
func write(seed uint64) *writer {
	w := &writer{Rand: rand.New(rand.NewPCG(seed, 7))} //nolint:gosec // worlds are to be the same for the same seed
	w.clearance = w.some(policy.NewLabels("hr", "ops"))
	w.cast = cast{
		low: {
			Organisation: home, Principal: "low", Clearance: w.clearance, Knows: w.some(universe()),
			Read:  []view.Space{"department:red", view.Organisation, "person:low"},
			Write: []view.Space{view.Organisation, "person:low"}, Whole: w.IntN(5) == 0,
		},
		high: {
			Organisation: home, Principal: "high", Clearance: universe(), Knows: universe(),
			Read:  []view.Space{"department:blue", "department:red", view.Organisation, "person:high"},
			Write: []view.Space{"department:blue", "department:red", view.Organisation, "person:high"},
		},
		stranger: {
			Organisation: "globex", Principal: "stranger", Clearance: universe(),
			Read: []view.Space{view.Organisation}, Write: []view.Space{view.Organisation},
		},
	}
	if w.IntN(4) == 0 {
		w.cast[low].Run = "run-of-low"
		w.cast[low].Context.Labels = w.some(w.clearance)
	}
	const begins, most = 5, 8
	steps := begins + w.IntN(most)
	for i := range steps {
		w.steps = append(w.steps, w.step(fmt.Sprintf("s%d", i), beginsMs+int64(i+1)*dayMs))
		if i == steps/2 {
			w.steps = append(w.steps, step{name: "look", act: looks, atMs: beginsMs + int64(i+1)*dayMs + dayMs/2})
		}
	}
	w.steps = append(w.steps,
		step{name: "look-last", act: looks, atMs: beginsMs + int64(steps+1)*dayMs},
		step{name: "look-late", act: looks, atMs: beginsMs + int64(2*steps+1)*dayMs})
	w.settle()
	w.ask()
	return w
}

// step makes up what happens next.
func (w *writer) step(name string, atMs int64) step {
	var s step
	switch w.IntN(10) {
	case 0, 1, 2:
		s = w.open(name)
	case 3, 4, 5:
		s = w.secret(w.steps)
	case 6:
		s = w.replaces(name)
	case 7:
		s = w.unites(name)
	default:
		s = w.decides(name)
	}
	s.name, s.atMs = name, atMs
	if s.draft.ExpiresMs != 0 {
		s.draft.ExpiresMs += atMs
	}
	return s
}

// open remembers something that low sees, at least in part.
func (w *writer) open(name string) step {
	s := step{by: w.either(), draft: w.draft()}
	s.draft.Space = pick(w, view.Organisation, view.Organisation, "department:red")
	s.draft.Labels = w.some(w.clearance)
	if s.by == low {
		s.draft.Space = pick(w, view.Organisation, "person:low")
		if said := w.whole(); len(said) > 0 && w.IntN(3) == 0 {
			again := w.find(pick(w, said...))
			s.draft, s.pieces = again.draft, slices.Clone(again.pieces)
			s.draft.ExpiresMs = 0
			return s
		}
	}
	if w.IntN(3) == 0 {
		s.from = w.few(w.whole())
	}
	s.pieces = []piece{{text: w.phrase()}}
	if s.by == low {
		return s
	}
	// Whether somebody who sees more says the same again depends on what they
	// see; that is theirs to say, so here they never do.
	s.pieces[0].text = name + " " + s.pieces[0].text
	if w.IntN(2) == 0 {
		return s
	}
	s.from = nil
	for range 1 + w.IntN(2) {
		s.pieces = append(s.pieces, piece{text: " "}, w.payload(), piece{text: " " + w.phrase()})
	}
	return s
}

// secret is something of which low sees nothing. steps are what came before.
func (w *writer) secret(steps []step) step {
	before := &writer{Rand: w.Rand, scene: scene{cast: w.cast, steps: steps}, clearance: w.clearance}
	s := step{by: high, hidden: true, draft: w.draft(), pieces: []piece{{text: w.phrase(), hidden: true}}}
	switch w.IntN(4) {
	case 0:
		s.draft.Space = pick(w, view.Space("department:blue"), "person:high")
		s.draft.Labels = w.some(universe())
	case 1:
		s.by, s.draft.Space = stranger, view.Organisation
	default:
		s.draft.Space = pick(w, view.Organisation, "department:red")
		s.draft.Labels = w.hiding()
	}
	if told := before.kept(func(s *step) bool { return !s.hidden }); len(told) > 0 && w.IntN(3) == 0 {
		// It says what low may read elsewhere.
		s.pieces[0].text, _ = before.find(pick(w, told...)).textOf()
	}
	if s.by == stranger {
		return s
	}
	switch w.IntN(6) {
	case 0:
		s.from = before.few(before.kept(nil))
	case 1:
		before.retire(&s)
	case 2:
		return before.edit(s)
	}
	return s
}

// retire lets a hidden step take the place of one or more earlier items.
func (w *writer) retire(s *step) {
	if whole := w.whole(); len(whole) > 1 && w.IntN(2) == 0 {
		s.act, s.on = consolidates, w.group(whole)
		old := w.find(s.on[0])
		s.draft.Space, s.draft.ExpiresMs = old.draft.Space, 0
		s.draft.Labels = s.draft.Labels.Join(w.hiding())
		return
	}
	if kept := w.kept(func(old *step) bool { return old.draft.Subject != "" }); len(kept) > 0 {
		old := w.find(pick(w, kept...))
		s.act, s.on, s.draft.Subject, s.draft.ExpiresMs = supersedes, []string{old.name}, old.draft.Subject, 0
		s.draft.Labels = s.draft.Labels.Join(w.hiding())
	}
}

// edit changes or forgets something hidden, so that low notices nothing.
func (w *writer) edit(s step) step {
	targets := w.kept(func(old *step) bool { return old.hidden && !old.settled && old.by == high && !w.overOpen(old) })
	if len(targets) == 0 {
		return w.redact(s)
	}
	s.on = []string{pick(w, targets...)}
	old := w.find(s.on[0])
	switch s.act = pick(w, forgets, promotes, declassifies); s.act {
	case declassifies:
		s.labels = w.removable(old.draft.Labels)
		if len(s.labels) == 0 && old.draft.Space != "person:high" {
			s.act = promotes
		}
	case forgets:
		s.draft.Key = "" // only what it is about counts
	}
	return s
}

// redact takes a label from what low sees in part, where others stay that low
// may not be told of.
func (w *writer) redact(s step) step {
	for _, name := range w.kept(func(old *step) bool { return old.partial() && !old.settled }) {
		old := w.find(name)
		for _, p := range old.pieces {
			if labels := w.removable(minus(p.labels, w.clearance)); p.hidden && len(labels) > 0 && w.staysHidden(old, labels) {
				s.act, s.on, s.labels = declassifies, []string{name}, labels
				return s
			}
		}
	}
	return s
}

// staysHidden reports whether no mark of an item tells low more or less when
// the labels are taken away.
func (w *writer) staysHidden(old *step, labels policy.Labels) bool {
	return !slices.ContainsFunc(old.pieces, func(p piece) bool {
		left := minus(minus(p.labels, labels), w.clearance)
		return p.hidden && len(p.labels.Meet(labels)) > 0 && left.Within(w.cast[low].Knows)
	})
}

// removable is a label without which a set still hides a text from low and from
// telling why.
func (w *writer) removable(labels policy.Labels) policy.Labels {
	for _, label := range labels {
		if left := minus(labels, policy.NewLabels(label)); len(minus(left, w.clearance)) > 0 {
			return policy.NewLabels(label)
		}
	}
	return nil
}

func minus(labels, others policy.Labels) (left policy.Labels) {
	for _, label := range labels {
		if !others.Has(label) {
			left = append(left, label)
		}
	}
	return left
}

// overOpen reports whether what a step keeps took the place of something that
// low sees, at any remove: whoever forgets it decides about that, too.
func (w *writer) overOpen(s *step) bool {
	for _, name := range s.on {
		if old := w.find(name); !old.hidden || old.settled || w.overOpen(old) {
			return true
		}
	}
	return false
}

// replaces puts something that low sees in the place of something that it sees.
func (w *writer) replaces(name string) step {
	s := w.open(name)
	if kept := w.kept(func(old *step) bool { return !old.hidden && old.draft.Subject != "" }); len(kept) > 0 {
		s.act, s.on, s.from = supersedes, []string{pick(w, kept...)}, nil
		s.draft.Subject, s.draft.ExpiresMs = w.find(s.on[0]).draft.Subject, 0
	}
	return s
}

// unites puts one text in the place of several that low sees whole.
func (w *writer) unites(name string) step {
	s := w.open(name)
	if whole := w.whole(); len(whole) > 1 {
		s.act, s.on, s.from, s.draft.ExpiresMs = consolidates, w.group(whole), nil, 0
		old := w.find(s.on[0])
		s.draft.Space, s.draft.Labels, s.pieces = old.draft.Space, old.draft.Labels, []piece{{text: name + " " + w.phrase()}}
	}
	return s
}

// decides forgets, promotes or declassifies for everybody to see.
func (w *writer) decides(name string) step {
	kept := w.kept(func(old *step) bool { return !old.hidden })
	if len(kept) == 0 {
		return w.open(name)
	}
	s := step{by: w.either(), act: pick(w, forgets, promotes, declassifies), on: []string{pick(w, kept...)}}
	if s.act != declassifies {
		return s
	}
	s.by = high
	if secret := w.kept(func(old *step) bool { return old.hidden && old.by == high }); len(secret) > 0 && w.IntN(2) == 0 {
		s.on = []string{pick(w, secret...)}
	}
	old := w.find(s.on[0])
	s.labels = old.draft.Labels
	for _, p := range old.pieces {
		s.labels = s.labels.Join(p.labels)
	}
	if w.IntN(3) == 0 {
		s.labels = w.some(s.labels)
	}
	return s
}

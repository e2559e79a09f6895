package memorytest

import (
	"fmt"
	"slices"

	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

func pick[T any](w *writer, among ...T) T { return among[w.IntN(len(among))] }

func (w *writer) either() actor { return pick(w, low, high) }

// some returns a part of the labels.
func (w *writer) some(labels policy.Labels) policy.Labels {
	var part policy.Labels
	for _, label := range labels {
		if w.IntN(2) == 0 {
			part = append(part, label)
		}
	}
	return part
}

// hiding returns labels that low is not cleared for.
func (w *writer) hiding() policy.Labels {
	hidden := minus(universe(), w.clearance)
	return policy.NewLabels(pick(w, hidden...), pick(w, hidden...)).Join(w.some(w.clearance))
}

func (w *writer) phrase() string {
	text := pick(w, words...)
	for range w.IntN(4) {
		text += " " + pick(w, words...)
	}
	return text
}

// payload is what low does not see of a text.
func (w *writer) payload() piece {
	if w.IntN(4) == 0 {
		return piece{text: fmt.Sprintf("key-%d", w.IntN(1_000_000)), hidden: !w.clearance.Has(detected)}
	}
	return piece{text: w.phrase(), labels: w.hiding(), hidden: true}
}

// draft makes up everything of a draft but its text, space and labels.
func (w *writer) draft() memory.Draft {
	draft := memory.Draft{
		Kind:      pick(w, view.Fact, view.Episode, view.Passage),
		Subject:   pick(w, "", "office.hours", "ruth.pay"),
		Integrity: pick(w, policy.Trusted, policy.Trusted, policy.FromTool),
	}
	if w.IntN(3) == 0 {
		draft.Source = view.Source{Kind: view.FromDocument, Ref: "handbook", Position: 1 + w.IntN(4)}
	}
	if w.IntN(4) == 0 {
		draft.Heading = pick(w, words...)
	}
	if w.IntN(5) == 0 {
		draft.ExpiresMs = int64(1+w.IntN(9))*dayMs + dayMs/3 // from when it is remembered
	}
	if w.IntN(5) == 0 {
		draft.ValidFromMs = beginsMs + int64(w.IntN(8))*dayMs
		draft.ValidToMs = draft.ValidFromMs + int64(1+w.IntN(8))*dayMs
	}
	return draft
}

func (w *writer) find(name string) *step {
	for i := range w.steps {
		if w.steps[i].name == name {
			return &w.steps[i]
		}
	}
	return &step{}
}

// kept returns the steps that keep an item and that fit; nil fits all of the
// organisation.
func (w *writer) kept(fits func(*step) bool) (names []string) {
	for i := range w.steps {
		if s := &w.steps[i]; s.keeps() && s.by != stranger && (fits == nil || fits(s)) {
			names = append(names, s.name)
		}
	}
	return names
}

// whole returns the steps that keep what low sees whole.
func (w *writer) whole() []string {
	return w.kept(func(s *step) bool { return !s.hidden && !s.partial() })
}

// few returns up to three of the names.
func (w *writer) few(names []string) (some []string) {
	for range min(len(names), 1+w.IntN(3)) {
		some = append(some, pick(w, names...))
	}
	slices.Sort(some)
	return slices.Compact(some)
}

// group returns one of the names and others that stand beside it, in the same
// space under the same labels.
func (w *writer) group(names []string) []string {
	first := w.find(pick(w, names...))
	beside := slices.DeleteFunc(names, func(name string) bool {
		s := w.find(name)
		return s.draft.Space != first.draft.Space || s.draft.Labels.String() != first.draft.Labels.String()
	})
	return w.few(beside)
}

// settle finds what becomes visible later, with everything that it comes from:
// these are the same in every world, and nothing hidden decides about them.
func (w *writer) settle() {
	var mark func(name string)
	mark = func(name string) {
		s := w.find(name)
		if s.settled {
			return
		}
		s.settled = true
		if len(s.pieces) > 0 {
			s.pieces[0].text = "settled " + s.name + " " + s.pieces[0].text
		}
		for _, source := range slices.Concat(s.on, s.from) {
			mark(source)
		}
	}
	for _, s := range w.steps {
		if s.act == declassifies && !s.hidden {
			mark(s.on[0])
		}
	}
	// What was decided about them before, unseen, is dropped.
	w.steps = slices.DeleteFunc(w.steps, func(s step) bool {
		decides := s.act == forgets || s.act == promotes || s.act == declassifies
		return s.hidden && decides && w.find(s.on[0]).settled
	})
}

// guess is the step's draft as somebody writes it who has guessed every word of
// it: whether they were right is not for them to learn.
func (s *step) guess() memory.Draft {
	draft := s.draft
	draft.Text, draft.Marks = s.textOf()
	draft.ExpiresMs, draft.Integrity = 0, policy.Untrusted
	return draft
}

// ask makes up what low asks for.
func (w *writer) ask() {
	late := beginsMs + int64(w.IntN(12))*dayMs
	for _, narrow := range []memory.Question{
		{Limit: 2},
		{},
		{AsOfMs: late},
		{KnownMs: late, Kinds: []view.Kind{view.Fact, view.Passage}},
		{Spaces: []view.Space{view.Organisation}, Tokens: 30},
		{Spaces: []view.Space{"department:blue", "department:red"}, Archived: true},
	} {
		narrow.Text = w.phrase()
		w.questions = append(w.questions, narrow)
	}
	exact := 0
	for i := range w.steps {
		s := &w.steps[i]
		if s.act == looks {
			continue
		}
		w.probes = append(w.probes, s.name)
		if s.keeps() && s.draft.Space == view.Organisation && (s.hidden || s.partial()) && exact < 2 {
			exact++
			w.guesses = append(w.guesses, s.guess())
		}
		for _, p := range s.pieces {
			if p.hidden && len(w.guesses) < 5 {
				w.guesses = append(w.guesses, memory.Draft{Space: view.Organisation, Kind: view.Fact, Text: p.text})
			}
		}
	}
	for i := range moreSteps {
		w.probes = append(w.probes, fmt.Sprintf("more%d", i))
	}
}

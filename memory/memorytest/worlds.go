package memorytest

import (
	"crypto/sha256"
	"fmt"
	"regexp"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Seams are what a memory must take from the worlds that are played through
// it, so that two of them differ in nothing but what is hidden.
type Seams struct {
	NowMs    func() int64  // UTC
	NewID    func() string // a new id for an item, a receipt or an entry
	Rules    func(organisation string) memory.Rules
	Embedder embed.Embedder
	Reader   view.Reader // whose answers are compared
}

// Teller is a memory that tells its reader more than it answers, for example the
// bytes on the line. All of it must be the same in all of a family of worlds.
type Teller interface {
	// Told ends the world and returns everything that the reader was told in it, a
	// line for each part.
	Told() ([]byte, error)
}

// Open returns an empty memory that works with the seams. Where it is an
// io.Closer it is closed in the end.
type Open func(Seams) memory.Brain

const (
	home     = "acme"
	dayMs    = int64(24 * 60 * 60 * 1000)
	beginsMs = 20_000 * dayMs // when worlds begin
)

// universe are the labels of worlds. What a key in a text is labelled with is
// the last.
func universe() policy.Labels { return policy.NewLabels("hr", "law", "med", "ops", "vault") }

const detected policy.Label = "vault"

var keyShape = regexp.MustCompile(`\bkey-[0-9]+\b`)

func worldRules(string) memory.Rules {
	return memory.Rules{
		Known: func(label policy.Label) bool { return universe().Has(label) },
		Owns:  func(principal string, _ policy.Label) bool { return principal == "high" },
		Detect: func(text string) []memory.Found {
			var found []memory.Found
			for _, at := range keyShape.FindAllStringIndex(text, -1) {
				found = append(found, memory.Found{Start: at[0], End: at[1], Labels: policy.NewLabels(detected), Detector: "KEY"})
			}
			return found
		},
	}
}

// actor is somebody in a world.
type actor uint8

const (
	low      actor = iota // whose view must not tell of what is hidden from it
	high                  // sees all of the organisation
	stranger              // is of another organisation
)

// cast is who somebody is in one world.
type cast [3]view.Reader

// act is what somebody does.
type act uint8

const (
	remembers act = iota
	supersedes
	consolidates
	forgets
	promotes
	declassifies
	looks // low fetches everything that it can
)

// step is one thing that happens in a world.
type step struct {
	name   string // makes ids, so that they are the same in every world
	act    act
	by     actor
	hidden bool // nothing of it is for low
	// settled: what is hidden in it is declassified for low later, so that it
	// is the same in every world.
	settled bool
	atMs    int64
	on      []string // the steps whose items it is about
	from    []string // the steps from whose items it derives
	draft   memory.Draft
	pieces  []piece // the draft's text
	labels  policy.Labels
}

// piece is a part of a text.
type piece struct {
	text   string
	labels policy.Labels
	hidden bool // low does not see it
}

// scene is a world as it is written: the same script may be played with other
// hidden things in it.
type scene struct {
	cast      cast
	steps     []step
	questions []memory.Question
	probes    []string       // steps whose items low asks for, whether they are there or not
	guesses   []memory.Draft // what low believes to be remembered
}

// textOf puts the pieces of a step together.
func (s *step) textOf() (text string, marks []memory.Mark) {
	for _, p := range s.pieces {
		start := len(text)
		text += p.text
		if len(p.labels) > 0 {
			marks = append(marks, memory.Mark{Start: start, End: len(text), Labels: p.labels, Quote: p.text})
		}
	}
	return text, marks
}

// partial reports whether low sees a part of what the step keeps.
func (s *step) partial() bool {
	for _, p := range s.pieces {
		if p.hidden && !s.hidden {
			return true
		}
	}
	return false
}

// keeps reports whether the step keeps an item.
func (s *step) keeps() bool { return s.act <= consolidates }

// idOf is the n-th id that is made in a step, from 1.
func idOf(name string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", name, n))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

package recollection

import (
	"math/rand/v2"
	"strings"

	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// measuredOrganisation is whose memory is measured.
const measuredOrganisation = "measured"

// spacesOfAll is in how many spaces the items are.
const spacesOfAll = 10

func spaceNumber(n int) view.Space {
	return view.SpaceOf(view.SpaceDepartment, string(rune('a'+n)))
}

// The labels of the items, with how many of a hundred have them.
var (
	labelSets = []struct {
		labels policy.Labels
		share  int
	}{
		{nil, 35}, {policy.NewLabels("red"), 19}, {policy.NewLabels("green"), 10}, {policy.NewLabels("blue"), 18}, {policy.NewLabels("black", "blue"), 18},
	}
	marked = policy.NewLabels("blue")
)

// markedOf is how many items there are for one with a sentence that fewer may
// read.
const markedOf = 10

// knownReader is somebody who asks.
type knownReader struct {
	name string
	view.Reader
	goalMs float64 // for the ten best by vector among 100,000
}

// knownReaders see 35 of a hundred in one space of ten, and 64 of a hundred in
// five.
func knownReaders() []knownReader {
	made := func(name string, spaces int, goalMs float64, clearance ...policy.Label) knownReader {
		r := view.Reader{Organisation: measuredOrganisation, Principal: name, Clearance: policy.NewLabels(clearance...)}
		for n := range spaces {
			r.Read = append(r.Read, spaceNumber(n))
		}
		r.Write = r.Read
		return knownReader{name, r, goalMs}
	}
	return []knownReader{made("narrow", 1, 0.55), made("wide", 5, 5.0, "red", "green")}
}

// generator makes texts of made-up words, some of which are in most of them and
// most in few, as with words of any language.
type generator struct {
	random *rand.Rand
	zipf   *rand.Zipf
}

// differentWords is how many there are; zipfBy is how much rarer the next one is.
const (
	differentWords = 20_000
	zipfBy         = 1.1
)

func newGenerator(seed uint64) *generator {
	random := rand.New(rand.NewPCG(seed, 384)) //nolint:gosec // texts to measure with
	return &generator{random: random, zipf: rand.NewZipf(random, zipfBy, 8, differentWords-1)}
}

const (
	consonants = "bdfgklmnprstvz"
	vowels     = "aeiou"
)

// word spells a number.
func word(n uint64) string {
	var b strings.Builder
	for n += 70; n > 0; n /= 70 {
		b.WriteByte(consonants[n%14])
		b.WriteByte(vowels[n/14%5])
	}
	return b.String()
}

// words returns so many words.
func (g *generator) words(count int) string {
	said := make([]string, count)
	for i := range said {
		said[i] = word(g.zipf.Uint64())
	}
	return strings.Join(said, " ")
}

// draft makes something to remember: 12 to 30 words.
func (g *generator) draft() memory.Draft {
	d := memory.Draft{Space: spaceNumber(g.random.IntN(spacesOfAll)), Kind: view.Fact, Integrity: policy.Trusted,
		Text: g.words(8+g.random.IntN(12)) + ". " + g.words(4+g.random.IntN(7)) + ".", Source: view.Source{Kind: view.FromElsewhere}}
	at := g.random.IntN(100)
	for _, set := range labelSets {
		if at -= set.share; at < 0 {
			d.Labels = set.labels
			break
		}
	}
	if g.random.IntN(markedOf) == 0 {
		begin := strings.Index(d.Text, ". ") + 2
		d.Marks = []memory.Mark{{Start: begin, End: len(d.Text), Labels: marked}}
	}
	return d
}

// question asks for 3 to 9 words.
func (g *generator) question() string { return "what about " + g.words(3+g.random.IntN(7)) }

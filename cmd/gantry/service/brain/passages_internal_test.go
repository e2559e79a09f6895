package brain

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
	"gantry.dev/memory"
	"gantry.dev/memory/memorytest"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// shelf is a memory and somebody who keeps documents in it.
type shelf struct {
	*testing.T
	brain  *memorytest.Brain
	reader view.Reader
	asked  int
}

func newShelf(t *testing.T) *shelf {
	id := 0
	return &shelf{T: t, reader: view.Reader{Organisation: "acme", Principal: "anna", Read: []view.Space{view.Organisation}, Write: []view.Space{view.Organisation}},
		brain: memorytest.NewBrain(memorytest.Config{
			NowMs: func() int64 { return 1_000_000 },
			NewID: func() string { id++; return fmt.Sprintf("item-%06d", id) },
			Rules: func(string) memory.Rules {
				return memory.Rules{Known: func(policy.Label) bool { return true }, Detect: func(text string) (found []memory.Found) {
					if at := strings.Index(text, "key-"); at >= 0 {
						found = append(found, memory.Found{Start: at, End: at + strings.Index(text[at:]+" ", " "), Labels: policy.NewLabels("credential"), Detector: "SECRET"})
					}
					return found
				}}
			}})}
}

// keep brings the shelf to what a document of these passages says.
func (s *shelf) keep(passages ...string) (graph.DocumentOutcome, error) {
	s.asked++
	u := upkeep{brain: s.brain, reader: s.reader, space: view.Organisation, ref: "a.md", key: fmt.Sprint("command ", s.asked)}
	offset := 0
	for i, text := range passages {
		u.drafts = append(u.drafts, memory.Draft{Space: view.Organisation, Kind: view.Passage, Subject: "a.md", Heading: "A", Text: text,
			Integrity: policy.Untrusted, Source: view.Source{Kind: view.FromDocument, Ref: "a.md", Position: i + 1, Offset: offset, Length: len(text)}})
		offset += len(text)
	}
	return u.keep(s.Context())
}

// counts are what became of the passages: new, known, unseen, changed, gone.
func (s *shelf) counts(passages ...string) [5]int {
	out, err := s.keep(passages...)
	require.NoError(s, err)
	require.Equal(s, out.Passages, out.Added+out.Known+out.Unseen+out.Changed)
	require.Equal(s, out.Gone > 0, out.Receipt != nil)
	return [5]int{out.Added, out.Known, out.Unseen, out.Changed, out.Gone}
}

// texts are what the reader sees of the document, in order.
func (s *shelf) texts() (texts []string) {
	held, err := upkeep{brain: s.brain, reader: s.reader, space: view.Organisation, ref: "a.md"}.held(s.Context())
	require.NoError(s, err)
	for _, item := range held {
		texts = append(texts, item.Text)
	}
	return texts
}

func TestADocumentIsKeptAsItIs(t *testing.T) {
	s := newShelf(t)
	require.Equal(t, [5]int{3, 0, 0, 0, 0}, s.counts("One.", "Two.", "Three."))
	require.Equal(t, [5]int{0, 3, 0, 0, 0}, s.counts("One.", "Two.", "Three."), "the same again changes nothing")
	require.Equal(t, [5]int{0, 2, 0, 1, 0}, s.counts("One.", "Two, changed.", "Three."))
	require.Equal(t, []string{"One.", "Two, changed.", "Three."}, s.texts())
	require.Equal(t, [5]int{1, 3, 0, 0, 0}, s.counts("Zero.", "One.", "Two, changed.", "Three."), "what moved is the same")
	require.Equal(t, [5]int{0, 2, 0, 0, 2}, s.counts("Zero.", "Three."), "what it no longer says is forgotten")
	require.Equal(t, [5]int{0, 2, 0, 0, 0}, s.counts("Three.", "Zero."))
	require.Equal(t, [5]int{0, 2, 0, 0, 0}, s.counts("Zero.", "Three."))
	require.ElementsMatch(t, []string{"Zero.", "Three."}, s.texts())
	require.Equal(t, [5]int{1, 2, 0, 0, 0}, s.counts("Zero.", "Three.", "One."), "what was forgotten is new")
}

// The old text comes back: it is another change, and not the one of before.
func TestATextThatComesBackIsAChange(t *testing.T) {
	s := newShelf(t)
	s.counts("One.", "Two.")
	for _, text := range []string{"Two, changed.", "Two.", "Two, changed.", "Two."} {
		require.Equal(t, [5]int{0, 1, 0, 1, 0}, s.counts("One.", text))
		require.Equal(t, []string{"One.", text}, s.texts())
	}
}

func TestAnothersDocumentOfTheSameNameStays(t *testing.T) {
	s := newShelf(t)
	s.counts("Anna's first.", "Anna's second.")
	s.reader.Principal = "bob"
	require.Equal(t, [5]int{1, 0, 0, 0, 0}, s.counts("Bob's."))
	s.reader.Principal = "anna"
	require.Equal(t, []string{"Anna's first.", "Anna's second."}, s.texts())
}

// Whoever may not read what a detector found does not write it again each time.
func TestWhatIsWithheldFromItsWriterStays(t *testing.T) {
	s := newShelf(t)
	require.Equal(t, [5]int{2, 0, 0, 0, 0}, s.counts("Use key-1234 here.", "Plain."))
	require.Equal(t, [5]int{0, 1, 1, 0, 0}, s.counts("Use key-1234 here.", "Plain."))
	for _, changed := range []string{"Use key-1234 there.", "Use key-123456 here."} {
		_, err := s.keep(changed, "Plain.")
		var refusal *memory.Refusal
		require.ErrorAs(t, err, &refusal, "nobody replaces what they do not see")
		require.Equal(t, "NOT_WHOLE", refusal.Code)
	}
	s.reader.Clearance = policy.NewLabels("credential")
	require.Equal(t, [5]int{0, 1, 0, 1, 0}, s.counts("Use key-1234 there.", "Plain."))
	require.Equal(t, [5]int{0, 2, 0, 0, 0}, s.counts("Use key-1234 there.", "Plain."))
}

func TestLabelsThatAreAddedCount(t *testing.T) {
	s := newShelf(t)
	s.reader.Clearance = policy.NewLabels("hr")
	draft := memory.Draft{Space: view.Organisation, Kind: view.Passage, Subject: "a.md", Text: "One.", Integrity: policy.Untrusted,
		Source: view.Source{Kind: view.FromDocument, Ref: "a.md", Position: 1, Length: 4}}
	u := upkeep{brain: s.brain, reader: s.reader, space: view.Organisation, ref: "a.md", key: "1", drafts: []memory.Draft{draft}}
	_, err := u.keep(t.Context())
	require.NoError(t, err)
	u.drafts[0].Labels, u.key = policy.NewLabels("hr"), "2"
	out, err := u.keep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, out.Changed)
	u.drafts[0].Labels, u.key = nil, "3"
	out, err = u.keep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, out.Known, "a label is not taken away by leaving it out")
}

// A command that broke off in the middle goes on where it stood.
func TestADocumentThatBrokeOffGoesOn(t *testing.T) {
	s := newShelf(t)
	passages := []string{"One.", "Two.", "Three.", "Four."}
	s.counts(passages[:2]...)
	require.Equal(t, [5]int{2, 2, 0, 0, 0}, s.counts(passages...))
	require.Equal(t, passages, s.texts())
}

// elsewhere is a brain in which somebody else does something right after a list
// was read.
type elsewhere struct {
	memory.Brain
	do []func()
}

func (e *elsewhere) List(ctx context.Context, reader view.Reader, filter memory.Filter, after string, limit int) (memory.Page, error) {
	page, err := e.Brain.List(ctx, reader, filter, after, limit)
	if len(e.do) > 0 {
		do := e.do[0]
		e.do = e.do[1:]
		do()
	}
	return page, err
}

// busy is a brain in which what is to be superseded is always gone.
type busy struct {
	memory.Brain
	asked int
}

func (b *busy) Supersede(context.Context, view.Reader, string, memory.Draft) (memory.Remembered, error) {
	b.asked++
	return memory.Remembered{}, memory.RefusalOf(view.ErrAbsent)
}

func TestADocumentThatIsRememberedTwiceAtOnceIsOne(t *testing.T) {
	s := newShelf(t)
	s.counts("one", "two", "three")
	at := func(passages ...string) func() {
		return func() { s.counts(passages...) }
	}
	u := upkeep{brain: &elsewhere{Brain: s.brain, do: []func(){at("one", "zwei"), at("eins", "zwei")}}, reader: s.reader, space: view.Organisation, ref: "a.md", key: "twice"}
	for i, text := range []string{"uno", "zwei"} {
		u.drafts = append(u.drafts, memory.Draft{Space: view.Organisation, Kind: view.Passage, Subject: "a.md", Heading: "A", Text: text,
			Integrity: policy.Untrusted, Source: view.Source{Kind: view.FromDocument, Ref: "a.md", Position: i + 1, Length: len(text)}})
	}
	out, err := u.keep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, out.Passages)
	require.Equal(t, [5]int{0, 2, 0, 0, 0}, s.counts("uno", "zwei"), "it is what was remembered last, once")

	busy := &busy{Brain: s.brain}
	u.brain, u.key, u.drafts[0].Text = busy, "never", "un"
	_, err = u.keep(t.Context())
	require.ErrorContains(t, err, "NOT_FOUND")
	require.Equal(t, mostRounds, busy.asked, "it ends at last")
}

func TestPartsFitOnlyInOrder(t *testing.T) {
	for _, c := range []struct {
		parts []string
		text  string
		fits  bool
	}{
		{[]string{"all"}, "all", true}, {[]string{"all"}, "all of it", false},
		{[]string{"a ", " z"}, "a hidden z", true}, {[]string{"a ", " z"}, "a  z", false}, {[]string{"a", "z"}, "az", false},
		{[]string{"", " z"}, "hidden z", true}, {[]string{"a ", ""}, "a hidden", true}, {[]string{"a ", ""}, "a ", false},
		{[]string{"a ", " m ", " z"}, "a x m y z", true}, {[]string{"a ", " m ", " z"}, "a x y z", false},
		{[]string{"a", "m", "m"}, "axmym", true}, {[]string{"a", "m", "m"}, "axm", false},
	} {
		require.Equal(t, c.fits, fits(c.parts, c.text), "%q in %q", c.parts, c.text)
	}
}

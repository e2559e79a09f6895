package memory_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

const draftedMs = 1_700_000_000_000

var digits = regexp.MustCompile(`[0-9]{4,}`)

func draftRules() memory.Rules {
	return memory.Rules{
		Known: func(label policy.Label) bool { return label == "hr" || label == "money" },
		Detect: func(text string) []memory.Found {
			var found []memory.Found
			for _, at := range digits.FindAllStringIndex(text, -1) {
				found = append(found, memory.Found{Start: at[0], End: at[1], Labels: policy.NewLabels("number"), Detector: "DIGITS"})
			}
			return found
		},
	}
}

func draftWriter() view.Reader {
	return view.Reader{Organisation: "acme", Principal: "ruth", Write: []view.Space{view.Organisation, "person:ruth"}}
}

func plainDraft(text string) memory.Draft {
	return memory.Draft{Space: view.Organisation, Kind: view.Fact, Text: text}
}

func TestPrepareSaysWhatWouldBeRemembered(t *testing.T) {
	draft := plainDraft("call 4711 on monday")
	draft.Heading, draft.Subject, draft.Labels = "Desk › Phones", " desk.phone ", policy.NewLabels("hr")
	draft.Marks = []memory.Mark{{Start: 13, End: 19, Quote: "monday", Labels: policy.NewLabels("money")}}
	draft.Source = view.Source{Kind: view.FromDocument, Ref: "desk.md", Position: 2, Principal: "somebody", Run: "r"}
	draft.DerivedFrom = []string{"b", "a", "b"}
	item, err := memory.Prepare(draft, draftWriter(), draftRules(), draftedMs)
	require.NoError(t, err)
	require.Equal(t, view.Item{
		Organisation: "acme", Space: view.Organisation, Kind: view.Fact, Subject: "desk.phone",
		Source: view.Source{Kind: view.FromDocument, Ref: "desk.md", Position: 2, Principal: "ruth"},
		Segments: []view.Segment{
			{Text: "Desk › Phones", Labels: policy.NewLabels("hr"), Heading: true},
			{Text: "call ", Labels: policy.NewLabels("hr")},
			{Text: "4711", Labels: policy.NewLabels("hr", "number"), Detector: "DIGITS"},
			{Text: " on ", Labels: policy.NewLabels("hr")},
			{Text: "monday", Labels: policy.NewLabels("hr", "money")},
		},
		ValidFromMs: draftedMs, RecordedMs: draftedMs, DerivedFrom: []string{"a", "b"},
	}, item)
}

func TestPrepareRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		code   string
		change func(*memory.Draft)
	}{
		"a space that is none":           {"SPACE", func(d *memory.Draft) { d.Space = "organisation:x" }},
		"a space of somebody else":       {"SPACE", func(d *memory.Draft) { d.Space = "person:iris" }},
		"a kind that is none":            {"KIND", func(d *memory.Draft) { d.Kind = "RUMOUR" }},
		"a long text":                    {"TOO_LARGE", func(d *memory.Draft) { d.Text = strings.Repeat("x", memory.MaxText+1) }},
		"a long heading":                 {"TOO_LARGE", func(d *memory.Draft) { d.Heading = strings.Repeat("x", memory.MaxHeading+1) }},
		"a long subject":                 {"TOO_LARGE", func(d *memory.Draft) { d.Subject = strings.Repeat("x", memory.MaxSubject+1) }},
		"a long source":                  {"TOO_LARGE", func(d *memory.Draft) { d.Source.Ref = strings.Repeat("x", memory.MaxRef+1) }},
		"many marks":                     {"TOO_LARGE", func(d *memory.Draft) { d.Marks = make([]memory.Mark, memory.MaxMarks+1) }},
		"many sources":                   {"TOO_LARGE", func(d *memory.Draft) { d.DerivedFrom = make([]string, memory.MaxSources+1) }},
		"no text":                        {"EMPTY", func(d *memory.Draft) { d.Text, d.Marks = " \x00\r\n", nil }},
		"bytes that are no text":         {"TEXT", func(d *memory.Draft) { d.Text = "a\xffb" }},
		"a subject that is no text":      {"TEXT", func(d *memory.Draft) { d.Subject = "\xed\xa0\x80" }},
		"an unknown label":               {"UNKNOWN_LABEL", func(d *memory.Draft) { d.Labels = policy.Labels{"hr", "gossip"} }},
		"an unknown label of a mark":     {"UNKNOWN_LABEL", func(d *memory.Draft) { d.Marks[0].Labels = policy.Labels{"gossip"} }},
		"a mark before the text":         {"MARK", func(d *memory.Draft) { d.Marks[0].Start = -1 }},
		"a mark beyond the text":         {"MARK", func(d *memory.Draft) { d.Marks[0].End = 1000 }},
		"a mark of nothing":              {"MARK", func(d *memory.Draft) { d.Marks[0].End = d.Marks[0].Start }},
		"a mark without labels":          {"MARK", func(d *memory.Draft) { d.Marks[0].Labels = nil }},
		"a mark that cuts a character":   {"MARK", func(d *memory.Draft) { d.Marks[0] = memory.Mark{Start: 0, End: 2, Labels: policy.NewLabels("hr")} }},
		"a mark that begins inside one":  {"MARK", func(d *memory.Draft) { d.Marks[0].Start = 2 }},
		"a mark beside its quote":        {"MARK", func(d *memory.Draft) { d.Marks[0].Quote = "secret" }},
		"an end before the beginning":    {"VALIDITY", func(d *memory.Draft) { d.ValidFromMs, d.ValidToMs = 20, 20 }},
		"what is gone already":           {"VALIDITY", func(d *memory.Draft) { d.ExpiresMs = draftedMs }},
		"what never was":                 {"VALIDITY", func(d *memory.Draft) { d.ExpiresMs = -1 }},
		"a time beyond all calendars":    {"VALIDITY", func(d *memory.Draft) { d.ValidToMs = 1 << 60 }},
		"a time before all calendars":    {"VALIDITY", func(d *memory.Draft) { d.ValidFromMs = -1 << 60 }},
		"a place before the source":      {"SOURCE", func(d *memory.Draft) { d.Source.Offset = -1 }},
		"an integrity that is none":      {"SOURCE", func(d *memory.Draft) { d.Integrity = policy.Untrusted + 1 }},
		"a source of an unheard-of kind": {"SOURCE", func(d *memory.Draft) { d.Source.Kind = "DREAM" }},
	} {
		t.Run(name, func(t *testing.T) {
			draft := plainDraft("a€ private words")
			draft.Marks = []memory.Mark{{Start: 4, End: 8, Labels: policy.NewLabels("hr")}}
			row.change(&draft)
			_, err := memory.Prepare(draft, draftWriter(), draftRules(), draftedMs)
			var refusal *memory.Refusal
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, row.code, refusal.Code)
			require.NotContains(t, err.Error(), "private")
			require.NotContains(t, err.Error(), "gossip")
		})
	}
}

func TestEveryRefusalOfTheViewHasACode(t *testing.T) {
	codes := map[string]bool{}
	for _, err := range []error{view.ErrAbsent, view.ErrNotWhole, view.ErrSubject, view.ErrAudience, view.ErrGroup, view.ErrReadOnly, view.ErrOutlived, view.ErrTooManySets} {
		var refusal *memory.Refusal
		require.ErrorAs(t, memory.RefusalOf(fmt.Errorf("here: %w", err)), &refusal)
		codes[refusal.Code] = true
	}
	require.Len(t, codes, 8)
	other := errors.New("the store failed")
	require.Equal(t, other, memory.RefusalOf(other))
}

// A run's words are as secret as what it has read, and no more to be trusted
// than a stranger's, whatever it says of them.
func TestCase_47_WhatARunWritesIsUntrustedAndCarriesWhatItRead(t *testing.T) {
	writer := draftWriter()
	writer.Run, writer.Context = "run-1", policy.Marking{Labels: policy.NewLabels("hr"), Integrity: policy.FromTool}
	draft := plainDraft("all is well")
	draft.Source.Kind, draft.Integrity = view.FromPerson, policy.Trusted
	item, err := memory.Prepare(draft, writer, draftRules(), draftedMs)
	require.NoError(t, err)
	require.Equal(t, policy.Untrusted, item.Integrity)
	require.Equal(t, policy.NewLabels("hr"), item.Labels())
	require.Equal(t, view.Source{Kind: view.FromRun, Principal: "ruth", Run: "run-1"}, item.Source)

	writer.Run = ""
	draft.Source.Kind = view.FromRun
	item, err = memory.Prepare(draft, writer, draftRules(), draftedMs)
	require.NoError(t, err)
	require.Equal(t, policy.FromTool, item.Integrity)
	require.Equal(t, view.FromPerson, item.Source.Kind)
}

func TestWhatADetectorFindsBesideTheTextLabelsTheWholeItem(t *testing.T) {
	for _, change := range []func(*memory.Draft){
		func(d *memory.Draft) { d.Subject = "badge 12345" },
		func(d *memory.Draft) { d.Source.Ref = "badge-12345.txt" },
	} {
		draft := plainDraft("opens the gate")
		change(&draft)
		item, err := memory.Prepare(draft, draftWriter(), draftRules(), draftedMs)
		require.NoError(t, err)
		require.Equal(t, []view.Segment{{Text: "opens the gate", Labels: policy.NewLabels("number")}}, item.Segments)
	}
}

func TestADetectorThatLostItsPlaceLabelsMoreAndNeverLess(t *testing.T) {
	for name, found := range map[string]memory.Found{
		"before":            {Start: -1, End: 2},
		"beyond":            {Start: 1, End: 99},
		"backwards":         {Start: 3, End: 1},
		"inside characters": {Start: 2, End: 3},
	} {
		t.Run(name, func(t *testing.T) {
			rules := draftRules()
			found.Labels = policy.Labels{"b", "a"}
			rules.Detect = func(string) []memory.Found { return []memory.Found{found} }
			item, err := memory.Prepare(plainDraft("x€"), draftWriter(), rules, draftedMs)
			require.NoError(t, err)
			require.Equal(t, policy.NewLabels("a", "b"), item.Segments[len(item.Segments)-1].Labels)
			require.Contains(t, item.Segments[len(item.Segments)-1].Text, "€")
		})
	}
}

func TestAMarkTakesInWhatBecomesOneCharacter(t *testing.T) {
	for name, row := range map[string]struct {
		text, quote string
		want        []string // marked and unmarked by turns, unmarked first
	}{
		"a letter and its accent, the letter marked": {"xe\u0301y", "e", []string{"x", "é", "y"}},
		"a letter and its accent, the accent marked": {"xe\u0301y", "\u0301", []string{"x", "é", "y"}},
		"line ends":                  {"a\r\nb\rc", "b\r", []string{"a\n", "b\n", "c"}},
		"a control inside a number":  {"no 12\x0034!", "12\x0034", []string{"no ", "1234", "!"}},
		"after a control":            {"\x01\x02ab", "b", []string{"a", "b"}},
		"a control before the mark":  {"a\x00b", "b", []string{"a", "b"}},
		"a control behind the mark":  {"a\x00b", "a\x00", []string{"", "a", "b"}},
		"hangul":                     {"가\u1100\u1161나", "\u1161", []string{"가", "가", "나"}},
		"beyond the basic plane":     {"😀e\u0301😀", "😀e", []string{"", "😀é", "😀"}},
		"the end, where things went": {"ab\x7f", "b\x7f", []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			draft := plainDraft(row.text)
			at := strings.Index(row.text, row.quote)
			draft.Marks = []memory.Mark{{Start: at, End: at + len(row.quote), Labels: policy.NewLabels("hr"), Quote: row.quote}}
			rules := draftRules()
			rules.Detect = nil
			item, err := memory.Prepare(draft, draftWriter(), rules, draftedMs)
			require.NoError(t, err)
			var got []string
			if len(item.Segments[0].Labels) > 0 {
				got = append(got, "")
			}
			for _, segment := range item.Segments {
				got = append(got, segment.Text)
			}
			require.Equal(t, row.want, got)
		})
	}
}

// Whatever is written and however it is marked: the text is kept whole in its
// normal form, and no character that a mark touched is without its label.
func TestNoMarkedCharacterLosesItsLabel(t *testing.T) {
	alphabet := []string{"a", "b", "e", "\u0301", "\u0327", "é", "\r", "\n", "\x00", "\u0085", "가", "\u1100", "\u1161", "\u11a8", "😀", "\u200d", "1", "2345", " "}
	rules := draftRules()
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom(alphabet), 1, 40).Draw(t, "pieces")
		text := "." + strings.Join(pieces, "")
		from := rapid.IntRange(0, len(pieces)-1).Draw(t, "from")
		to := rapid.IntRange(from+1, len(pieces)).Draw(t, "to")
		start := 1 + len(strings.Join(pieces[:from], ""))
		end := 1 + len(strings.Join(pieces[:to], ""))
		draft := plainDraft(text)
		draft.Marks = []memory.Mark{{Start: start, End: end, Quote: text[start:end], Labels: policy.NewLabels("hr")}}
		item, err := memory.Prepare(draft, draftWriter(), rules, draftedMs)
		if err != nil {
			t.Fatal(err)
		}
		var all, unmarked, numbers strings.Builder
		for _, segment := range item.Segments {
			all.WriteString(segment.Text)
			if !segment.Labels.Has("hr") {
				unmarked.WriteString(segment.Text)
			}
			if segment.Labels.Has("number") {
				numbers.WriteString(segment.Text)
			}
		}
		normal := memory.Normal(text)
		require.Equal(t, normal, all.String())
		require.Equal(t, normal, memory.Normal(normal))
		require.True(t, norm.NFC.IsNormalString(normal))
		require.Equal(t, strings.Join(digits.FindAllString(normal, -1), ""), numbers.String())
		// Taken apart, what is unmarked comes from what was not marked.
		left := map[rune]int{}
		for _, r := range norm.NFD.String(memory.Normal(text[:start]) + memory.Normal(text[end:])) {
			left[r]++
		}
		for _, r := range norm.NFD.String(unmarked.String()) {
			left[r]--
			require.GreaterOrEqual(t, left[r], 0, "%q of what was marked is not", r)
		}
	})
}

// With more detectors no byte of a text loses a label, and no text is changed.
func TestDetectorsOnlyAddLabels(t *testing.T) {
	span := rapid.Custom(func(t *rapid.T) memory.Found {
		start := rapid.IntRange(-2, 30).Draw(t, "start")
		return memory.Found{
			Start: start, End: start + rapid.IntRange(-1, 12).Draw(t, "length"), Detector: rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "detector"),
			Labels: policy.NewLabels(rapid.SliceOfN(rapid.SampledFrom([]policy.Label{"hr", "money", "number"}), 0, 2).Draw(t, "labels")...),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		draft := plainDraft(strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "€", "😀", " ", "12345"}), 1, 12).Draw(t, "text"), "") + ".")
		draft.Labels = policy.NewLabels(rapid.SliceOfN(rapid.SampledFrom([]policy.Label{"hr", "money"}), 0, 1).Draw(t, "of all")...)
		draft.Marks = []memory.Mark{{Start: 0, End: len(draft.Text), Labels: policy.NewLabels("money")}}
		fewer := rapid.SliceOfN(span, 0, 3).Draw(t, "fewer")
		more := slices.Concat(fewer, rapid.SliceOfN(span, 1, 3).Draw(t, "more"))
		with := func(found []memory.Found) []policy.Labels {
			rules := draftRules()
			rules.Detect = func(string) []memory.Found { return append([]memory.Found(nil), found...) }
			item, err := memory.Prepare(draft, draftWriter(), rules, draftedMs)
			require.NoError(t, err)
			var text string
			var labels []policy.Labels
			for _, segment := range item.Segments {
				text += segment.Text
				for range len(segment.Text) {
					labels = append(labels, segment.Labels)
				}
			}
			require.Equal(t, memory.Normal(draft.Text), text)
			return labels
		}
		few, many := with(fewer), with(more)
		for i := range few {
			require.True(t, few[i].Within(many[i]))
			require.True(t, draft.Labels.Join(draft.Marks[0].Labels).Within(few[i]))
		}
	})
}

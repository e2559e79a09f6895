package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

var etagKey = []byte("a key of the organisation")

func item(segments ...view.Segment) *view.Item {
	return &view.Item{ID: "i", Organisation: "acme", Space: view.Organisation, Kind: view.Fact, Segments: segments}
}

func open(text string) view.Segment { return view.Segment{Text: text} }

func behind(text string, labels ...policy.Label) view.Segment {
	return view.Segment{Text: text, Labels: policy.NewLabels(labels...)}
}

func title(text string, labels ...policy.Label) view.Segment {
	return view.Segment{Text: text, Labels: policy.NewLabels(labels...), Heading: true}
}

func reader(clearance ...policy.Label) *view.Reader {
	return &view.Reader{
		Organisation: "acme", Principal: "ruth", Clearance: policy.NewLabels(clearance...),
		Read: []view.Space{view.Organisation}, Write: []view.Space{view.Organisation},
	}
}

func render(t *testing.T, i *view.Item, r *view.Reader) view.Rendering {
	t.Helper()
	rendering, sees := view.Render(i, r, etagKey, view.Related{})
	require.True(t, sees)
	return rendering
}

func TestSpacesHaveAKindAndAName(t *testing.T) {
	for space, want := range map[view.Space][3]string{
		view.Organisation:                        {"organisation", "", "true"},
		view.SpaceOf(view.SpacePerson, "ruth.a"): {"person", "ruth.a", "true"},
		"agent:mail":                             {"agent", "mail", "true"},
		"department:red":                         {"department", "red", "true"},
		"conversation:a:b":                       {"conversation", "a:b", "true"},
		"organisation:x":                         {"organisation", "", "false"},
		"organisation:":                          {"organisation", "", "false"},
		"person:":                                {"person", "", "false"},
		"planet:mars":                            {"", "", "false"},
		"":                                       {"", "", "false"},
	} {
		kind, name, ok := space.Split()
		require.Equal(t, want, [3]string{kind, name, fmt.Sprint(ok)}, space)
	}
}

func TestASetIsNamedByWhatIsInIt(t *testing.T) {
	ids := map[string]policy.Labels{}
	for _, labels := range []policy.Labels{nil, {"a"}, {"b"}, {"a", "b"}, {"ab"}, {"a,b"}, {"a\x01b"}, {"", "a"}} {
		id := view.SetID(labels)
		require.NotContains(t, ids, id, "%q and %q", labels, ids[id])
		require.Len(t, id, 32)
		ids[id] = labels
	}
	require.Equal(t, view.SetID(policy.NewLabels("b", "a", "b")), view.SetID(policy.Labels{"a", "b"}))
	allowed := view.Allowed(ids, policy.NewLabels("a", "b"))
	want := []string{view.SetID(nil), view.SetID(policy.Labels{"a"}), view.SetID(policy.Labels{"b"}), view.SetID(policy.Labels{"a", "b"})}
	slices.Sort(want)
	require.Equal(t, want, allowed)
}

func TestAReaderGetsWhatItIsClearedFor(t *testing.T) {
	i := item(title("Pay › "), title("Ruth", "hr"), open("earns "), behind("4,700", "hr", "money"), behind(" euros", "hr"), open(" since may"), behind(".", "law"))
	for name, row := range map[string]struct {
		reader        *view.Reader
		heading, text string
		labels        policy.Labels
		withheld      []view.Withheld
	}{
		"nothing special": {reader(), "Pay › [redacted]", "earns [redacted] since may[redacted]", nil, []view.Withheld{{Offset: 8}, {Offset: 24}, {Offset: 44}}},
		"a part":          {reader("hr"), "Pay › Ruth", "earns [redacted] euros since may[redacted]", policy.NewLabels("hr"), []view.Withheld{{Offset: 18}, {Offset: 44}}},
		"everything":      {reader("hr", "law", "money"), "Pay › Ruth", "earns 4,700 euros since may.", policy.NewLabels("hr", "law", "money"), nil},
		"nothing special, but knows of some": {
			&view.Reader{Organisation: "acme", Read: []view.Space{view.Organisation}, Knows: policy.NewLabels("hr", "law")},
			"Pay › [redacted]", "earns [redacted] since may[redacted]", nil,
			[]view.Withheld{{Offset: 8, Labels: policy.NewLabels("hr")}, {Offset: 24}, {Offset: 44, Labels: policy.NewLabels("law")}},
		},
		"a part, and knows why": {
			&view.Reader{Organisation: "acme", Read: []view.Space{view.Organisation}, Clearance: policy.NewLabels("hr"), Knows: policy.NewLabels("money")},
			"Pay › Ruth", "earns [redacted] euros since may[redacted]", policy.NewLabels("hr"),
			[]view.Withheld{{Offset: 18, Labels: policy.NewLabels("money")}, {Offset: 44}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := render(t, i, row.reader)
			require.Equal(t, row.heading, got.Heading)
			require.Equal(t, row.text, got.Text)
			require.Equal(t, row.labels, got.Marking.Labels)
			require.Equal(t, row.withheld, got.Withheld)
			for _, mark := range got.Withheld {
				require.True(t, strings.HasPrefix((got.Heading + got.Text)[mark.Offset:], view.Redacted))
			}
		})
	}
}

func TestWhatIsNotForAReaderDoesNotExist(t *testing.T) {
	elsewhere := reader()
	elsewhere.Read = []view.Space{"person:ruth"}
	abroad := reader()
	abroad.Organisation = "globex"
	for _, r := range []*view.Reader{elsewhere, abroad} {
		_, sees := view.Render(item(open("hello")), r, etagKey, view.Related{})
		require.False(t, sees)
	}
	_, sees := view.Render(item(behind("hello", "hr")), reader("law"), etagKey, view.Related{})
	require.False(t, sees)
}

func TestAReaderSeesOnlyTheRelationsBetweenWhatItSees(t *testing.T) {
	i := item(open("hello"))
	i.Supersedes, i.DerivedFrom = []string{"a", "b"}, []string{"b", "c"}
	got, _ := view.Render(i, reader(), etagKey, view.Related{Seen: map[string]bool{"b": true}})
	require.Equal(t, []string{"b"}, got.Supersedes)
	require.Equal(t, []string{"b"}, got.DerivedFrom)
}

func TestWhatFollowsEndsWhatWasTrue(t *testing.T) {
	for name, row := range map[string]struct {
		from, to   int64
		successors []view.Successor
		want       int64
	}{
		"nothing follows":                {10, 0, nil, 0},
		"one follows":                    {10, 0, []view.Successor{{ValidFromMs: 20}}, 20},
		"it ended before":                {10, 15, []view.Successor{{ValidFromMs: 20}}, 15},
		"the first of several":           {10, 30, []view.Successor{{ValidFromMs: 25}, {ValidFromMs: 20}}, 20},
		"one that began before it":       {10, 0, []view.Successor{{ValidFromMs: 5}}, 10},
		"one that is trusted less":       {10, 0, []view.Successor{{ValidFromMs: 20, Integrity: policy.Untrusted}}, 0},
		"one in times before all clocks": {-30, 0, []view.Successor{{ValidFromMs: -20}}, -20},
	} {
		t.Run(name, func(t *testing.T) {
			i := item(open("hello"))
			i.ValidFromMs, i.ValidToMs = row.from, row.to
			got, _ := view.Render(i, reader(), etagKey, view.Related{Successors: row.successors})
			require.Equal(t, row.want, got.ValidToMs)
		})
	}
}

func TestAWriterWhoMayNotReadGetsNoText(t *testing.T) {
	i := item(title("Pay"), behind("4,700", "hr"))
	i.Subject = "ruth.pay"
	got := view.Acknowledged(i, etagKey)
	require.Equal(t, view.Rendering{ID: "i", Space: view.Organisation, Kind: view.Fact, Subject: "ruth.pay", Text: view.Redacted,
		Withheld: []view.Withheld{{}}, Etag: got.Etag}, got)
	require.NotEmpty(t, got.Etag)
}

// An etag changes with all that a reader sees, and with nothing else.
func TestAnEtagIsOfWhatIsSeen(t *testing.T) {
	first := func() *view.Item { return item(open("ruth earns "), behind("4,700", "hr")) }
	before := render(t, first(), reader()).Etag
	for name, change := range map[string]func(*view.Item){
		"the text":       func(i *view.Item) { i.Segments[0].Text = "iris earns " },
		"a mark less":    func(i *view.Item) { i.Segments = i.Segments[:1] },
		"a mark more":    func(i *view.Item) { i.Segments = append(i.Segments, open(" "), behind(".", "hr")) },
		"a label":        func(i *view.Item) { i.Segments = append(i.Segments, title("x")) },
		"the id":         func(i *view.Item) { i.ID = "j" },
		"the kind":       func(i *view.Item) { i.Kind = view.Finding },
		"the subject":    func(i *view.Item) { i.Subject = "pay" },
		"the trust":      func(i *view.Item) { i.Integrity = policy.Untrusted },
		"the validity":   func(i *view.Item) { i.ValidFromMs = 1 },
		"the end":        func(i *view.Item) { i.ValidToMs = 1 },
		"the source":     func(i *view.Item) { i.Source.Ref = "letter" },
		"the expiry":     func(i *view.Item) { i.ExpiresMs = 1 },
		"what it is for": func(i *view.Item) { i.Archived = true },
	} {
		changed := first()
		change(changed)
		require.NotEqual(t, before, render(t, changed, reader()).Etag, name)
	}
	for name, change := range map[string]func(*view.Item){
		"the version":      func(i *view.Item) { i.Version++ },
		"what is hidden":   func(i *view.Item) { i.Segments[1].Text = "nothing at all" },
		"how it is hidden": func(i *view.Item) { i.Segments[1] = behind("4,700", "law", "money") },
		"a hidden detail":  func(i *view.Item) { i.Segments = append(i.Segments, behind(".", "law")) },
		"who found it":     func(i *view.Item) { i.Segments[1].Detector = "MONEY" },
		"an unseen source": func(i *view.Item) { i.DerivedFrom = []string{"secret"} },
	} {
		changed := first()
		change(changed)
		require.Equal(t, before, render(t, changed, reader()).Etag, name)
	}
	require.NotEqual(t, before, view.EtagOf(render(t, first(), reader()), []byte("another key")))
}

func TestViewsOfAnItem(t *testing.T) {
	i := item(title("Pay"), open("ruth "), behind("earns 4,700", "hr"), open("gladly"), behind(" and sues", "law"))
	views, err := view.ViewsOf(i, etagKey)
	require.NoError(t, err)
	texts := map[string]string{}
	for _, v := range views {
		require.Equal(t, view.SetID(v.Labels), v.Set)
		texts[v.Labels.String()] = v.Text
	}
	require.Equal(t, map[string]string{
		"":       "Pay\nruth  gladly",
		"hr":     "Pay\nruth earns 4,700gladly",
		"law":    "Pay\nruth  gladly and sues",
		"hr,law": "Pay\nruth earns 4,700gladly and sues",
	}, texts)
	require.True(t, slices.IsSortedFunc(views, func(a, b view.View) int { return strings.Compare(a.Set, b.Set) }))
}

func TestTooManyReadingsAreRefused(t *testing.T) {
	i := item(open("a"), behind("b", "1"), behind("c", "2"), behind("d", "3"), behind("e", "1", "2"))
	views, err := view.ViewsOf(i, etagKey)
	require.NoError(t, err)
	require.Len(t, views, view.MaxViews)
	i.Segments = append(i.Segments, behind("f", "4"))
	_, err = view.ViewsOf(i, etagKey)
	require.ErrorIs(t, err, view.ErrTooManySets)
}

var everyLabel = policy.NewLabels("a", "b", "c", "d")

func someLabels(t *rapid.T, name string) policy.Labels {
	return policy.NewLabels(rapid.SliceOfN(rapid.SampledFrom(everyLabel), 0, 3).Draw(t, name)...)
}

func someItem(t *rapid.T) *view.Item {
	i := item()
	for n := range rapid.IntRange(1, 7).Draw(t, "segments") {
		segment := view.Segment{Text: fmt.Sprintf("<%d>", n), Labels: someLabels(t, "labels"), Heading: n < 2 && rapid.Bool().Draw(t, "heading")}
		i.Segments = append(i.Segments, segment)
	}
	slices.SortStableFunc(i.Segments, func(a, b view.Segment) int {
		return strings.Compare(fmt.Sprint(b.Heading), fmt.Sprint(a.Heading))
	})
	return i
}

// Of an item that a reader sees exactly one view fits, and it holds what the
// reader gets of it; of one that it does not see none fits.
func TestOneViewFitsAReader(t *testing.T) {
	seen := 0
	const rounds = 30 // of 100 items each
	for range rounds {
		rapid.Check(t, func(t *rapid.T) { oneViewFits(t, &seen) })
	}
	require.Greater(t, seen, rounds)
}

func oneViewFits(t *rapid.T, seen *int) {
	i, r := someItem(t), reader(someLabels(t, "clearance")...)
	views, err := view.ViewsOf(i, etagKey)
	if err != nil {
		require.ErrorIs(t, err, view.ErrTooManySets)
		return
	}
	sets := map[string]policy.Labels{}
	for _, s := range i.Segments {
		sets[view.SetID(s.Labels)] = s.Labels
	}
	for _, v := range views {
		sets[v.Set] = v.Labels
	}
	ids := view.Allowed(sets, r.Clearance)
	allowed := func(id string) bool { return slices.Contains(ids, id) }
	var fitting []view.View
	for _, v := range views {
		if v.Fits(allowed) {
			fitting = append(fitting, v)
		}
	}
	rendering, sees := view.Render(i, r, etagKey, view.Related{})
	if !sees {
		require.Empty(t, fitting)
		return
	}
	*seen++
	require.Len(t, fitting, 1)
	require.Equal(t, rendering.Etag, fitting[0].Etag)
	require.Equal(t, rendering.Marking.Labels.String(), fitting[0].Labels.String())
	require.Equal(t, textsIn(rendering.Heading+rendering.Text), textsIn(fitting[0].Text))
}

func textsIn(text string) (found []string) {
	for field := range strings.SplitSeq(text, "<") {
		if n, _, ok := strings.Cut(field, ">"); ok {
			found = append(found, n)
		}
	}
	return found
}

// Who is cleared for less gets no word more.
func TestLessClearanceShowsLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i, less := someItem(t), someLabels(t, "less")
		more := less.Join(someLabels(t, "more"))
		poor, sees := view.Render(i, reader(less...), etagKey, view.Related{})
		if !sees {
			return
		}
		rich, sees := view.Render(i, reader(more...), etagKey, view.Related{})
		require.True(t, sees)
		require.Subset(t, textsIn(rich.Heading+rich.Text), textsIn(poor.Heading+poor.Text))
		require.True(t, poor.Marking.Within(rich.Marking))
	})
}

// The same reader gets the same bytes of two items that differ in what it does
// not see, where the marks stand in the same places.
func TestHiddenTextMovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i, r := someItem(t), reader(someLabels(t, "clearance")...)
		other := *i
		other.Segments = slices.Clone(i.Segments)
		for n, s := range other.Segments {
			if !s.Labels.Within(r.Clearance) {
				other.Segments[n].Text = strings.Repeat("x", rapid.IntRange(1, 9).Draw(t, "length"))
				other.Segments[n].Labels = s.Labels.Join(someLabels(t, "other"))
			}
		}
		a, sees := view.Render(i, r, etagKey, view.Related{})
		b, also := view.Render(&other, r, etagKey, view.Related{})
		require.Equal(t, sees, also)
		require.Equal(t, a, b)
	})
}

// Where a passage stands in its document is counted over what is hidden, in it
// and before it. So only who wrote it is told.
func TestPlacesInADocumentAreForItsWriter(t *testing.T) {
	passage := func(hidden string, offset int) *view.Item {
		i := item(open("earns "), behind(hidden, "hr"))
		i.Source = view.Source{Kind: view.FromDocument, Ref: "pay.md", Position: 2, Offset: offset, Length: len("earns " + hidden), Principal: "iris"}
		return i
	}
	short, long := passage("1", 10), passage("1,000,000", 90)
	require.Equal(t, render(t, short, reader()), render(t, long, reader()))
	run := reader()
	run.Principal, run.Run = "iris", "r1"
	require.Equal(t, render(t, short, run), render(t, long, run))
	writer := reader()
	writer.Principal = "iris"
	require.Equal(t, short.Source, render(t, short, writer).Source)
}

package view_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

func TestAMomentHoldsWhatWasTrueAndKnown(t *testing.T) {
	i := item(open("x"))
	i.ValidFromMs, i.ValidToMs, i.RecordedMs, i.ExpiresMs = 10, 20, 12, 100
	for name, row := range map[string]struct {
		moment view.Moment
		holds  bool
	}{
		"now":                    {view.Moment{NowMs: 15}, true},
		"before it began":        {view.Moment{NowMs: 50, AsOfMs: 9}, false},
		"as it began":            {view.Moment{NowMs: 50, AsOfMs: 10}, true},
		"as it ended":            {view.Moment{NowMs: 50, AsOfMs: 20}, false},
		"now, after it ended":    {view.Moment{NowMs: 50}, false},
		"before it was known":    {view.Moment{NowMs: 50, AsOfMs: 15, KnownMs: 11}, false},
		"as it became known":     {view.Moment{NowMs: 50, AsOfMs: 15, KnownMs: 12}, true},
		"after it was gone":      {view.Moment{NowMs: 100, AsOfMs: 15}, false},
		"just before it is gone": {view.Moment{NowMs: 99, AsOfMs: 15}, true},
	} {
		require.Equal(t, row.holds, row.moment.Holds(i), name)
	}
	i.ValidToMs, i.ExpiresMs = 0, 0
	require.True(t, view.Moment{NowMs: 1 << 40}.Holds(i))
}

func TestWhatRetiresAnItem(t *testing.T) {
	chain := func(steps map[string][]view.Successor) func(string) []view.Successor {
		return func(id string) []view.Successor { return steps[id] }
	}
	now := view.Moment{NowMs: 100}
	for name, row := range map[string]struct {
		integrity policy.Integrity
		moment    view.Moment
		after     map[string][]view.Successor
		hidden    bool
	}{
		"nothing":                      {0, now, nil, false},
		"a successor":                  {0, now, map[string][]view.Successor{"i": {{ID: "j", ValidFromMs: 50}}}, true},
		"one that begins later":        {0, now, map[string][]view.Successor{"i": {{ID: "j", ValidFromMs: 101}}}, false},
		"one that was not known":       {0, view.Moment{NowMs: 100, KnownMs: 60}, map[string][]view.Successor{"i": {{ID: "j", RecordedMs: 61}}}, false},
		"one that had not begun":       {0, view.Moment{NowMs: 100, AsOfMs: 40}, map[string][]view.Successor{"i": {{ID: "j", ValidFromMs: 50}}}, false},
		"one that is trusted less":     {0, now, map[string][]view.Successor{"i": {{ID: "j", Integrity: policy.Untrusted}}}, false},
		"one that is trusted as far":   {policy.Untrusted, now, map[string][]view.Successor{"i": {{ID: "j", Integrity: policy.Untrusted}}}, true},
		"what a later one corrects":    {0, now, map[string][]view.Successor{"i": {{ID: "j", ValidFromMs: 200}}, "j": {{ID: "k", ValidFromMs: 50}}}, true},
		"a trusted one behind another": {0, now, map[string][]view.Successor{"i": {{ID: "j", Integrity: policy.Untrusted}}, "j": {{ID: "k"}}}, true},
		"a ring":                       {0, now, map[string][]view.Successor{"i": {{ID: "j", ValidFromMs: 200}}, "j": {{ID: "i", ValidFromMs: 200}, {ID: "j", ValidFromMs: 200}}}, false},
	} {
		i := item(open("x"))
		i.Integrity = row.integrity
		require.Equal(t, row.hidden, view.Hidden(i, row.moment, chain(row.after)), name)
	}
}

func TestOnlyWhatWasLearntCountsAsSuccessor(t *testing.T) {
	early, late := view.Successor{ID: "a", RecordedMs: 10}, view.Successor{ID: "b", RecordedMs: 20}
	require.Equal(t, []view.Successor{early}, view.Moment{KnownMs: 15}.Known([]view.Successor{early, late}))
	require.Len(t, view.Moment{}.Known([]view.Successor{early, late}), 2)
	i := item(open("x"))
	i.Integrity, i.ValidFromMs, i.RecordedMs = policy.FromTool, 5, 7
	require.Equal(t, view.Successor{ID: "i", Integrity: policy.FromTool, ValidFromMs: 5, RecordedMs: 7}, view.SuccessorOf(i))
}

func TestTheSameIsSaidOnce(t *testing.T) {
	first := func() *view.Item { return item(open("ruth "), behind("earns", "hr")) }
	same := func(change func(*view.Item)) bool {
		next := first()
		next.ID, next.RecordedMs, next.ValidFromMs, next.Source.Principal = "j", 99, 98, "iris"
		change(next)
		found := view.SameKey(first(), etagKey) == view.SameKey(next, etagKey)
		if view.Same(first(), next) {
			require.True(t, found)
		}
		return view.Same(first(), next)
	}
	require.True(t, same(func(*view.Item) {}))
	require.True(t, same(func(i *view.Item) { i.Segments[1].Detector = "VERB" }))
	require.True(t, same(func(i *view.Item) { i.Integrity = policy.Untrusted }), "an untrusted echo of what is trusted")
	for name, change := range map[string]func(*view.Item){
		"other words":               func(i *view.Item) { i.Segments[0].Text = "iris " },
		"other labels":              func(i *view.Item) { i.Segments[1].Labels = policy.NewLabels("law") },
		"another heading":           func(i *view.Item) { i.Segments[0].Heading = true },
		"another space":             func(i *view.Item) { i.Space = "person:ruth" },
		"another organisation":      func(i *view.Item) { i.Organisation = "globex" },
		"another kind":              func(i *view.Item) { i.Kind = view.Finding },
		"another subject":           func(i *view.Item) { i.Subject = "pay" },
		"another document":          func(i *view.Item) { i.Source.Ref = "letter" },
		"another place in it":       func(i *view.Item) { i.Source.Position = 2 },
		"another place in its text": func(i *view.Item) { i.Source.Offset = 2 },
	} {
		require.False(t, same(change), name)
	}
	vouched, heard := first(), first()
	heard.Integrity = policy.Untrusted
	require.False(t, view.Same(heard, vouched), "what a person vouches for is more than hearsay")
	require.NotEqual(t, view.SameKey(vouched, etagKey), view.SameKey(vouched, []byte("another key")))
}

func TestWhatIsDerivedCarriesItsSources(t *testing.T) {
	a, b := item(behind("a", "hr")), item(open("b"), behind("c", "law"))
	a.ID, b.ID = "a", "b"
	a.Integrity, a.ExpiresMs, b.ExpiresMs, b.ValidToMs = policy.FromTool, 200, 100, 60
	all := reader("hr", "law")
	derived, err := view.Derive([]*view.Item{b, a, b}, all, view.Organisation)
	require.NoError(t, err)
	require.Equal(t, view.Derived{
		Marking:   policy.Marking{Labels: policy.NewLabels("hr", "law"), Integrity: policy.FromTool},
		ValidToMs: 60, ExpiresMs: 100, From: []string{"a", "b"},
	}, derived)
	part, err := view.Derive([]*view.Item{b}, reader(), view.Organisation)
	require.NoError(t, err)
	require.Empty(t, part.Marking.Labels, "what it did not see it cannot pass on")
	_, err = view.Derive([]*view.Item{b, a}, reader("law"), view.Organisation)
	require.ErrorIs(t, err, view.ErrAbsent)

	next := *item(open("x"), behind("y", "law"))
	next.ValidFromMs = 50
	got := derived.Onto(next)
	require.Equal(t, []view.Segment{behind("xy", "hr", "law")}, got.Segments)
	require.Equal(t, policy.FromTool, got.Integrity)
	require.EqualValues(t, 60, got.ValidToMs)
	require.EqualValues(t, 100, got.ExpiresMs)
	require.Equal(t, []string{"a", "b"}, got.DerivedFrom)
	require.Equal(t, []view.Segment{open("x"), behind("y", "law")}, next.Segments, "the given item is left as it was")
	next.ValidFromMs, next.ExpiresMs, next.Integrity = 60, 90, policy.Untrusted
	got = derived.Onto(next)
	require.Zero(t, got.ValidToMs, "they had ceased before it began")
	require.EqualValues(t, 90, got.ExpiresMs)
	require.Equal(t, policy.Untrusted, got.Integrity)
	next.ValidToMs = 70
	require.EqualValues(t, 70, derived.Onto(next).ValidToMs)
}

func TestNobodyHearsOfASpaceByADerivation(t *testing.T) {
	r := reader()
	r.Read = []view.Space{"department:red", view.Organisation, "person:ruth"}
	for name, row := range map[string]struct {
		source, target view.Space
		err            error
	}{
		"into the same space":        {"department:red", "department:red", nil},
		"from everybody's":           {view.Organisation, "department:red", nil},
		"into one's own":             {"department:red", "person:ruth", nil},
		"to everybody":               {"department:red", view.Organisation, view.ErrAudience},
		"into another's":             {"department:red", "person:iris", view.ErrAudience},
		"from one's own to a group":  {"person:ruth", "department:red", view.ErrAudience},
		"from everybody to somebody": {view.Organisation, "person:iris", nil},
	} {
		i := item(open("x"))
		i.Space = row.source
		_, err := view.Derive([]*view.Item{i}, r, row.target)
		require.ErrorIs(t, err, row.err, name)
	}
}

func TestWhoMayReplaceAnItem(t *testing.T) {
	for name, row := range map[string]struct {
		change func(old, next *view.Item, r *view.Reader)
		err    error
	}{
		"whoever sees and writes it":  {func(_, _ *view.Item, _ *view.Reader) {}, nil},
		"not by another organisation": {func(_, next *view.Item, _ *view.Reader) { next.Organisation = "globex" }, view.ErrAbsent},
		"not unseen":                  {func(old, _ *view.Item, _ *view.Reader) { old.Segments = []view.Segment{behind("x", "law")} }, view.ErrAbsent},
		"not seen in part": {func(old, _ *view.Item, _ *view.Reader) {
			old.Segments = append(old.Segments, behind("x", "law"))
		}, view.ErrNotWhole},
		"not without the right":     {func(_, _ *view.Item, r *view.Reader) { r.Write = nil }, view.ErrReadOnly},
		"not about something else":  {func(_, next *view.Item, _ *view.Reader) { next.Subject = "lunch" }, view.ErrSubject},
		"not about nothing":         {func(old, next *view.Item, _ *view.Reader) { old.Subject, next.Subject = "", "" }, view.ErrSubject},
		"not by what is gone first": {func(_, next *view.Item, _ *view.Reader) { next.ExpiresMs = 10 }, view.ErrOutlived},
		"nor a little before":       {func(old, next *view.Item, _ *view.Reader) { old.ExpiresMs, next.ExpiresMs = 11, 10 }, view.ErrOutlived},
		"by what is gone with it":   {func(old, next *view.Item, _ *view.Reader) { old.ExpiresMs, next.ExpiresMs = 10, 10 }, nil},
		"by what stays":             {func(old, _ *view.Item, _ *view.Reader) { old.ExpiresMs = 10 }, nil},
	} {
		old, next, r := item(open("x")), item(open("y")), reader()
		old.Subject, next.Subject = "hours", "hours"
		row.change(old, next, r)
		require.ErrorIs(t, view.MaySupersede(old, next, r), row.err, name)
	}
}

func TestWhoMayEraseAnItem(t *testing.T) {
	for name, row := range map[string]struct {
		change func(item *view.Item, r *view.Reader)
		err    error
	}{
		"whoever sees and writes it":     {func(_ *view.Item, _ *view.Reader) {}, nil},
		"not who sees a part":            {func(i *view.Item, _ *view.Reader) { i.Segments = append(i.Segments, behind("x", "law")) }, view.ErrNotWhole},
		"not who may not write":          {func(_ *view.Item, r *view.Reader) { r.Write = nil }, view.ErrReadOnly},
		"who wrote it and sees a part":   {func(i *view.Item, r *view.Reader) { partly(i, r) }, nil},
		"not who wrote and sees nothing": {func(i *view.Item, r *view.Reader) { partly(i, r); i.Segments = i.Segments[1:] }, view.ErrAbsent},
		"not who wrote it elsewhere":     {func(i *view.Item, r *view.Reader) { partly(i, r); r.Write = nil }, view.ErrReadOnly},
		"not what a run wrote":           {func(i *view.Item, r *view.Reader) { partly(i, r); i.Source.Run = "1" }, view.ErrNotWhole},
		"not by a run":                   {func(i *view.Item, r *view.Reader) { partly(i, r); r.Run = "1" }, view.ErrNotWhole},
		"not nobody's by nobody":         {func(i *view.Item, r *view.Reader) { partly(i, r); r.Principal, i.Source.Principal = "", "" }, view.ErrNotWhole},
		"who answers for memory":         {func(i *view.Item, r *view.Reader) { partly(i, r); i.Source.Run, r.Write, r.Whole = "1", nil, true }, nil},
		"not for what they do not see":   {func(i *view.Item, r *view.Reader) { i.Segments, r.Whole = []view.Segment{behind("x", "law")}, true }, view.ErrAbsent},
	} {
		one, r := item(open("x")), reader()
		row.change(one, r)
		require.ErrorIs(t, view.MayErase(one, r), row.err, name)
	}
}

// partly makes an item one that the reader wrote and sees a part of.
func partly(item *view.Item, r *view.Reader) {
	item.Segments, item.Source.Principal = append(item.Segments, behind("x", "law")), r.Principal
}

func TestWhatMayBecomeOne(t *testing.T) {
	for name, row := range map[string]struct {
		change func(b, next *view.Item)
		err    error
	}{
		"items of one group":  {func(_, _ *view.Item) {}, nil},
		"not unseen ones":     {func(b, _ *view.Item) { b.Segments = []view.Segment{behind("b", "law")} }, view.ErrAbsent},
		"not seen in part":    {func(b, _ *view.Item) { b.Segments = append(b.Segments, behind("b", "law")) }, view.ErrNotWhole},
		"not of other labels": {func(b, _ *view.Item) { b.Segments = []view.Segment{open("b")} }, view.ErrGroup},
		"not into elsewhere":  {func(_, next *view.Item) { next.Space = "person:ruth" }, view.ErrGroup},
		"not for a while":     {func(_, next *view.Item) { next.ExpiresMs = 10 }, view.ErrOutlived},
	} {
		a, b, next := item(behind("a", "hr")), item(behind("b", "hr")), item(behind("ab", "hr"))
		row.change(b, next)
		require.ErrorIs(t, view.MayConsolidate([]*view.Item{a, b}, next, reader("hr")), row.err, name)
	}
}

func TestLabelsAreTakenFromEverySegment(t *testing.T) {
	segments := []view.Segment{open("a"), behind("b", "hr"), behind("c", "hr", "law"), behind("d", "law")}
	require.Equal(t, []view.Segment{open("ab"), behind("cd", "law")}, view.Unlabelled(segments, policy.NewLabels("hr", "money")))
	require.Equal(t, behind("b", "hr"), segments[1])
	require.Empty(t, view.Append(nil, open("")))
}

func TestClosureOfAnErasure(t *testing.T) {
	relations := []view.Relation{
		{From: "new", To: "old", Kind: view.Supersedes},
		{From: "old", To: "older", Kind: view.Supersedes},
		{From: "newest", To: "new", Kind: view.Supersedes},
		{From: "summary", To: "older", Kind: view.Derives},
		{From: "summary", To: "other", Kind: view.Derives},
		{From: "summary", To: "draft", Kind: view.Supersedes},
		{From: "title", To: "summary", Kind: view.Derives},
		{From: "both", To: "one", Kind: view.Derives}, {From: "both", To: "two", Kind: view.Derives},
		{From: "both", To: "one", Kind: view.Supersedes}, {From: "both", To: "two", Kind: view.Supersedes},
		{From: "x", To: "y", Kind: view.Derives}, {From: "y", To: "x", Kind: view.Derives},
	}
	touching := func(kind view.RelationKind, ids []string) (found []view.Relation, _ error) {
		for _, r := range relations {
			if kind == view.Supersedes && slices.Contains(ids, r.From) || kind == view.Derives && slices.Contains(ids, r.To) {
				found = append(found, r)
			}
		}
		return found, nil
	}
	for id, want := range map[string][]string{
		"new":   {"new", "old", "older", "summary", "title"},
		"older": {"older", "summary", "title"},
		"one":   {"both", "one"},
		"both":  {"both", "one", "two"},
		"x":     {"x", "y"},
		"lost":  {"lost"},
	} {
		got, err := view.Closure([]string{id}, touching)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	broken := errors.New("the store failed")
	for _, kind := range []view.RelationKind{view.Supersedes, view.Derives} {
		_, err := view.Closure([]string{"new"}, func(asked view.RelationKind, _ []string) ([]view.Relation, error) {
			if asked == kind {
				return nil, broken
			}
			return nil, nil
		})
		require.ErrorIs(t, err, broken)
	}
}

// However items are derived from each other, each carries every label of all
// that it comes from, is trusted no more than any of them, and is gone no later.
func TestLabelsAndDistrustFollowEveryDerivation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		writer := reader(everyLabel...)
		ancestors := map[string]map[string]bool{}
		var items []*view.Item
		byID := map[string]*view.Item{}
		for n := range rapid.IntRange(2, 12).Draw(t, "items") {
			next := someItem(t)
			next.ID = fmt.Sprintf("i%02d", n)
			next.Integrity = rapid.SampledFrom([]policy.Integrity{policy.Trusted, policy.FromTool, policy.Untrusted}).Draw(t, "integrity")
			next.ExpiresMs = rapid.Int64Range(0, 5).Draw(t, "expires")
			ancestors[next.ID] = map[string]bool{}
			if n > 0 {
				sources := rapid.SliceOfN(rapid.SampledFrom(items), 0, 3).Draw(t, "sources")
				derived, err := view.Derive(sources, writer, view.Organisation)
				require.NoError(t, err)
				made := derived.Onto(*next)
				next = &made
				for _, source := range sources {
					ancestors[next.ID][source.ID] = true
					for id := range ancestors[source.ID] {
						ancestors[next.ID][id] = true
					}
				}
			}
			items = append(items, next)
			byID[next.ID] = next
		}
		for id, from := range ancestors {
			for source := range from {
				old := byID[source]
				require.GreaterOrEqual(t, byID[id].Integrity, old.Integrity)
				require.True(t, old.ExpiresMs == 0 || byID[id].ExpiresMs != 0 && byID[id].ExpiresMs <= old.ExpiresMs)
				for _, segment := range byID[id].Segments {
					require.True(t, old.Labels().Within(segment.Labels))
				}
			}
		}
	})
}

func TestWhatIsTrueOrKeptLongerIsNotTheSame(t *testing.T) {
	same := func(known, next [3]int64) bool {
		a, b := item(open("closed")), item(open("closed"))
		a.ValidFromMs, a.ValidToMs, a.ExpiresMs, a.RecordedMs = known[0], known[1], known[2], 10
		b.ValidFromMs, b.ValidToMs, b.ExpiresMs, b.RecordedMs = next[0], next[1], next[2], 9
		return view.Same(a, b)
	}
	for name, row := range map[string]struct {
		known, next [3]int64 // valid from, valid to, expires
		same        bool
	}{
		"what lasts holds what ends":            {[3]int64{1, 0, 0}, [3]int64{2, 5, 5}, true},
		"both end together":                     {[3]int64{1, 5, 7}, [3]int64{1, 5, 7}, true},
		"the known one was true, and is again":  {[3]int64{1, 5, 0}, [3]int64{7, 0, 0}, false},
		"the known one ends first":              {[3]int64{1, 5, 0}, [3]int64{1, 6, 0}, false},
		"the known one is erased":               {[3]int64{1, 0, 7}, [3]int64{1, 0, 0}, false},
		"the known one is erased first":         {[3]int64{1, 0, 7}, [3]int64{1, 0, 8}, false},
		"the known one begins later":            {[3]int64{12, 0, 0}, [3]int64{9, 0, 0}, false},
		"what was written at once is from then": {[3]int64{10, 0, 0}, [3]int64{9, 0, 0}, true},
	} {
		require.Equal(t, row.same, same(row.known, row.next), name)
	}
}

package indextest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/index"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
)

func replaces(t *testing.T, subject Subject) {
	asked := open(t, subject)
	apply(t, asked, state("a", 1, point("s")), state("b", 1, point("s")))
	finds(t, asked, everything("s"), "a@1/s", "b@1/s")
	apply(t, asked, state("a", 2, point("s2")))
	finds(t, asked, everything("s", "s2"), "a@2/s2", "b@1/s")
	apply(t, asked, state("a", 2, point("s2"))) // again
	finds(t, asked, everything("s", "s2"), "a@2/s2", "b@1/s")
	apply(t, asked, state("a", 2, point("s"))) // other points of the same version
	finds(t, asked, everything("s", "s2"), "a@2/s", "b@1/s")
	apply(t, asked, state("a", 1, point("s"))) // whatever was there before
	finds(t, asked, everything("s"), "a@1/s", "b@1/s")
	apply(t, asked, state("a", 3), state("c", 1, point("s")), state("c", 2, point("s"))) // the later stands
	finds(t, asked, everything("s"), "b@1/s", "c@2/s")
	apply(t, asked, state("c", 3, point("s")), state("c", 4))
	finds(t, asked, everything("s"), "b@1/s")
	apply(t, asked)
	moved := state("b", 2, point("s"))
	moved.Space = "person:ruth"
	apply(t, asked, moved)
	finds(t, asked, everything("s"))
	vectors := state("d", 1, point("s"))
	apply(t, asked, vectors)
	vectors.Points[0].Vector[0] = 0 // what was given stays the caller's own
	vectors.Points[0].Terms[0] = rank.Term{Hash: 9, Weight: 9}
	found, err := asked.Search(t.Context(), everything("s"))
	require.NoError(t, err)
	require.Equal(t, 1.0, found.Dense[0].Score)
	require.Equal(t, 1.0, found.Lexical[0].Score)
	apply(t, asked, state("d", 2))
	finds(t, asked, everything("s"))
}

func filters(t *testing.T, subject Subject) {
	asked := open(t, subject)
	for i, row := range []struct {
		name   string
		point  index.Point
		space  view.Space
		spaces []view.Space
		sets   []string
		found  bool
	}{
		{"space and set are the reader's", point("s"), "agent:x", []view.Space{"agent:x"}, []string{"s"}, true},
		{"one of several", point("s"), "agent:x", []view.Space{"agent:y", "agent:x"}, []string{"r", "s"}, true},
		{"another space", point("s"), "agent:x", []view.Space{"agent:y"}, []string{"s"}, false},
		{"another set", point("s"), "agent:x", []view.Space{"agent:x"}, []string{"r"}, false},
		{"a longer name of the space", point("s"), "agent:xy", []view.Space{"agent:x"}, []string{"s"}, false},
		{"a shorter name of the space", point("s"), "agent:x", []view.Space{"agent:xy"}, []string{"s"}, false},
		{"another case", point("s"), "agent:X", []view.Space{"agent:x"}, []string{"s"}, false},
		{"part of a set", point("s t"), "agent:x", []view.Space{"agent:x"}, []string{"s", "t"}, false},
		{"what it omits is not the reader's", point("s", "r"), "agent:x", []view.Space{"agent:x"}, []string{"s"}, true},
		{"what it omits is the reader's", point("s", "r"), "agent:x", []view.Space{"agent:x"}, []string{"s", "r"}, false},
		{"the first of what it omits is the reader's", point("s", "r", "q"), "agent:x", []view.Space{"agent:x"}, []string{"s", "r"}, false},
		{"the last of what it omits is the reader's", point("s", "q", "r"), "agent:x", []view.Space{"agent:x"}, []string{"s", "r"}, false},
		{"what it omits, not its set, is the reader's", point("s", "r"), "agent:x", []view.Space{"agent:x"}, []string{"r"}, false},
		{"names given twice", point("s"), "agent:x", []view.Space{"agent:x", "agent:x"}, []string{"s", "s"}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			organisation := fmt.Sprint("filter", i)
			apply(t, asked, index.State{Organisation: organisation, Item: "i", Version: 1, Space: row.space, Points: []index.Point{row.point}})
			query := everything(row.sets...)
			query.Organisation, query.Spaces = organisation, row.spaces
			if row.found {
				finds(t, asked, query, "i@1/"+row.point.Set)
			} else {
				finds(t, asked, query)
			}
		})
	}
}

// An item with a part for all, one under hr and one under legal.
func fullest(t *testing.T, subject Subject) {
	asked := open(t, subject)
	apply(t, asked, state("i", 1,
		point("-", "hr", "legal"), point("hr", "legal"), point("legal", "hr"), point("hr+legal")))
	finds(t, asked, everything("-"), "i@1/-")
	finds(t, asked, everything("-", "hr"), "i@1/hr")
	finds(t, asked, everything("-", "legal"), "i@1/legal")
	finds(t, asked, everything("-", "hr", "legal", "hr+legal"), "i@1/hr+legal")
	finds(t, asked, everything("other"))
}

func ties(t *testing.T, subject Subject) {
	asked := open(t, subject)
	var states []index.State
	for _, n := range []int{17, 3, 99, 42, 8, 61, 25, 77, 50, 34} {
		for k := range 10 {
			states = append(states, state(fmt.Sprintf("i%02d%d", n, k), 1, point("s")))
		}
	}
	best := state("z", 1, point("s"))
	best.Points[0].Terms[0].Weight = 2
	worst := state("a", 1, point("s"))
	worst.Points[0].Terms[0].Weight, worst.Points[0].Vector = 0.5, axis(-1)
	apply(t, asked, append(states, best, worst)...)
	items := make([]string, len(states))
	for i := range states {
		items[i] = states[i].Item + "@1/s"
	}
	slices.Sort(items)
	for _, limit := range []int{1, 2, 7, 10, 63, 99, 100, 101, 102, 500} {
		query := everything("s")
		query.Limit = limit
		found, err := asked.Search(t.Context(), query)
		require.NoError(t, err)
		dense := append(slices.Clone(items), "z@1/s", "a@1/s")
		require.Equal(t, dense[:min(limit, 102)], names(found.Dense), limit)
		lexical := append(append([]string{"z@1/s"}, items...), "a@1/s")
		require.Equal(t, lexical[:min(limit, 102)], names(found.Lexical), limit)
	}
}

func more(t *testing.T, subject Subject) {
	asked := open(t, subject)
	apply(t, asked, state("a", 1, point("s")), state("b", 1, point("r")))
	query := everything("s")
	query.Limit = 5_000
	finds(t, asked, query, "a@1/s")
}

func nothing(t *testing.T, subject Subject) {
	asked := open(t, subject)
	apply(t, asked, state("a", 1, point("s")))
	finds(t, asked, everything("s"), "a@1/s")
	for _, narrow := range []func(*index.Query){
		func(q *index.Query) { q.Sets = nil },
		func(q *index.Query) { q.Sets = []string{} },
		func(q *index.Query) { q.Spaces = nil },
		func(q *index.Query) { q.Spaces = []view.Space{} },
		func(q *index.Query) { q.Spaces, q.Sets = nil, nil },
	} {
		query := everything("s")
		narrow(&query)
		finds(t, asked, query)
	}
	silent := everything("s")
	silent.Vector, silent.Terms = nil, nil
	finds(t, asked, silent)
}

func organisations(t *testing.T, subject Subject) {
	asked := open(t, subject)
	other := state("a", 9, point("s"))
	other.Organisation = "emca"
	apply(t, asked, state("a", 1, point("s")), other)
	finds(t, asked, everything("s"), "a@1/s")
	query := everything("s")
	query.Organisation = "emca"
	finds(t, asked, query, "a@9/s")
	for _, unknown := range []string{"nobody", "", "acm", "acme2"} {
		query.Organisation = unknown
		finds(t, asked, query)
		refs, err := asked.Held(t.Context(), unknown, "", 10)
		require.NoError(t, err)
		require.Empty(t, refs)
		refs, err = asked.HeldOf(t.Context(), unknown, []string{"a"})
		require.NoError(t, err)
		require.Empty(t, refs)
	}
	apply(t, asked, state("a", 2))
	finds(t, asked, everything("s"))
	query.Organisation = "emca"
	finds(t, asked, query, "a@9/s")
}

func scripts(t *testing.T, subject Subject) {
	asked := open(t, subject)
	for i, odd := range []string{"Ærøskøbing", "東京/都庁", "e\u0301", "é", "👩‍🚀", "a b\tc\nd", `"; drop`, "'%s'{{.}}", "-", "\u202ertl"} {
		organisation := fmt.Sprint(odd, i)
		apply(t, asked, index.State{
			Organisation: organisation, Item: odd, Version: 1, Space: view.SpaceOf(view.SpacePerson, odd),
			Points: []index.Point{point(odd, odd+"'")},
		})
		query := everything(odd)
		query.Organisation, query.Spaces = organisation, []view.Space{view.SpaceOf(view.SpacePerson, odd)}
		finds(t, asked, query, odd+"@1/"+odd)
		refs, err := asked.HeldOf(t.Context(), organisation, []string{odd})
		require.NoError(t, err)
		require.Equal(t, []index.Ref{{Item: odd, Version: 1, Set: odd}}, refs)
		query.Sets = append(query.Sets, odd+"'")
		finds(t, asked, query)
	}
}

func partial(t *testing.T, subject Subject) {
	asked := open(t, subject)
	words, vector, bare := state("words", 1, point("s")), state("vector", 1, point("s")), state("bare", 1, point("s"))
	words.Points[0].Vector = nil
	vector.Points[0].Terms = nil
	bare.Points[0].Vector, bare.Points[0].Terms = nil, nil
	elsewhere := state("elsewhere", 1, point("s"))
	elsewhere.Points[0].Terms = rank.Terms{{Hash: 8, Weight: 1}}
	apply(t, asked, words, vector, bare, elsewhere)
	found, err := asked.Search(t.Context(), everything("s"))
	require.NoError(t, err)
	require.Equal(t, []string{"elsewhere@1/s", "vector@1/s"}, names(found.Dense))
	require.Equal(t, []string{"words@1/s"}, names(found.Lexical))
	require.Len(t, allHeld(t.Context(), t, asked, "acme", 10), 4)

	query := everything("s")
	query.Vector = nil
	found, err = asked.Search(t.Context(), query)
	require.NoError(t, err)
	require.Empty(t, found.Dense)
	require.Equal(t, []string{"words@1/s"}, names(found.Lexical))
	query.Vector, query.Terms = axis(1), nil
	found, err = asked.Search(t.Context(), query)
	require.NoError(t, err)
	require.Equal(t, []string{"elsewhere@1/s", "vector@1/s"}, names(found.Dense))
	require.Empty(t, found.Lexical)

	apply(t, asked, state("words", 2, point("s")))
	query.Limit = 2
	found, err = asked.Search(t.Context(), query)
	require.NoError(t, err)
	require.Equal(t, []string{"elsewhere@1/s", "vector@1/s"}, names(found.Dense))
}

func refused(t *testing.T, subject Subject) {
	indexes, asked := openBoth(t, subject)
	apply(t, asked, state("a", 1, point("s")))
	for name, broken := range map[string]func(*index.State){
		"no organisation":     func(s *index.State) { s.Organisation = "" },
		"no item":             func(s *index.State) { s.Item = "" },
		"no space":            func(s *index.State) { s.Space = "" },
		"no set":              func(s *index.State) { s.Points[0].Set = "" },
		"omits nothing named": func(s *index.State) { s.Points[0].Omit = []string{""} },
		"the same set twice":  func(s *index.State) { s.Points = append(s.Points, point("s")) },
		"a huge version":      func(s *index.State) { s.Version = math.MaxUint64 },
		"a negative expiry":   func(s *index.State) { s.Points[0].ExpiresMs = -1 },
		"no text":             func(s *index.State) { s.Item = "\xff" },
		"a set that is none":  func(s *index.State) { s.Points[0].Set = "\xff" },
		"no number":           func(s *index.State) { s.Points[0].Vector[3] = float32(math.NaN()) },
		"without bound":       func(s *index.State) { s.Points[0].Vector[3] = float32(math.Inf(1)) },
		"a weight of 0":       func(s *index.State) { s.Points[0].Terms[0].Weight = 0 },
		"terms twice":         func(s *index.State) { s.Points[0].Terms = append(s.Points[0].Terms, s.Points[0].Terms...) },
	} {
		good, bad := state("b", 1, point("s")), state("a", 2, point("s"))
		broken(&bad)
		require.ErrorIs(t, asked.Apply(t.Context(), []index.State{good, bad}), index.ErrMalformed, name)
	}
	for _, length := range []int{0, 1, dim - 1, dim + 1} {
		bad := state("a", 2, point("s"))
		bad.Points[0].Vector = make([]float32, length)
		require.ErrorIs(t, asked.Apply(t.Context(), []index.State{bad}), index.ErrDimension)
		query := everything("s")
		query.Vector = make([]float32, length)
		_, err := asked.Search(t.Context(), query)
		require.ErrorIs(t, err, index.ErrDimension)
	}
	query := everything("s")
	for _, limit := range []int{-1, 0, index.MaxLimit + 1} {
		query.Limit = limit
		_, err := asked.Search(t.Context(), query)
		require.ErrorIs(t, err, index.ErrMalformed)
	}
	query = everything(make([]string, index.MaxNames+1)...)
	_, err := asked.Search(t.Context(), query)
	require.ErrorIs(t, err, index.ErrMalformed)
	_, err = asked.Held(t.Context(), "acme", "", 0)
	require.ErrorIs(t, err, index.ErrMalformed)
	finds(t, asked, everything("s"), "a@1/s") // nothing was done

	_, err = indexes.Open(t.Context(), index.VectorSpace{ID: space.ID, Model: space.Model, Dim: dim + 1})
	require.ErrorIs(t, err, index.ErrDimension)
	_, err = indexes.Open(t.Context(), index.VectorSpace{ID: space.ID, Model: "another", Dim: dim})
	require.ErrorIs(t, err, index.ErrModel)
	for _, id := range []string{"", "a/b", "a b", "ü", "a:b", "a*"} {
		_, err = indexes.Open(t.Context(), index.VectorSpace{ID: id, Dim: dim})
		require.ErrorIs(t, err, index.ErrMalformed, id)
	}
	_, err = indexes.Open(t.Context(), index.VectorSpace{ID: "x"})
	require.ErrorIs(t, err, index.ErrMalformed)
}

func expired(t *testing.T, subject Subject) {
	asked := open(t, subject)
	var states []index.State
	for i, at := range []int64{0, 1, 999, 1_000, 1_001, 9_999_999_999_999} {
		states = append(states, state(fmt.Sprint("i", i), 1, point("s")))
		states[i].Points[0].ExpiresMs = at
	}
	apply(t, asked, states...)
	finds(t, asked, everything("s"), "i0@1/s", "i4@1/s", "i5@1/s")
	query := everything("s")
	query.Limit = 1
	finds(t, asked, query, "i0@1/s")
	query.Limit, query.NowMs = 100, 0
	finds(t, asked, query, "i0@1/s", "i1@1/s", "i2@1/s", "i3@1/s", "i4@1/s", "i5@1/s")
	query.NowMs = 9_999_999_999_999
	finds(t, asked, query, "i0@1/s")
	require.Len(t, allHeld(t.Context(), t, asked, "acme", 10), 6, "what has expired is still there to be erased")
}

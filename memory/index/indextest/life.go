package indextest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/memory/index"
)

func erased(t *testing.T, subject Subject) {
	asked := open(t, subject)
	apply(t, asked,
		state("a", 1, point("-", "hr"), point("hr")),
		state("b", 1, point("-", "hr"), point("hr")),
		state("c", 1, point("-")))
	refs, err := asked.HeldOf(t.Context(), "acme", []string{"b", "a", "nobody", "a"})
	require.NoError(t, err)
	require.Equal(t, []string{"a@1/-", "a@1/hr", "b@1/-", "b@1/hr"}, refNames(refs))
	refs, err = asked.HeldOf(t.Context(), "acme", nil)
	require.NoError(t, err)
	require.Empty(t, refs)
	for range 2 { // an erasure may be repeated
		apply(t, asked, state("a", 2), state("nobody", 1))
		refs, err = asked.HeldOf(t.Context(), "acme", []string{"a", "b"})
		require.NoError(t, err)
		require.Equal(t, []string{"b@1/-", "b@1/hr"}, refNames(refs))
		require.Equal(t, []string{"b@1/-", "b@1/hr", "c@1/-"}, refNames(allHeld(t.Context(), t, asked, "acme", 10)))
	}
	finds(t, asked, everything("-", "hr"), "b@1/hr", "c@1/-")
	apply(t, asked, state("b", 2), state("c", 2))
	require.Empty(t, allHeld(t.Context(), t, asked, "acme", 10))
	finds(t, asked, everything("-", "hr"))
}

func pages(t *testing.T, subject Subject) {
	asked := open(t, subject)
	var states []index.State
	var want []string
	for n := range 60 {
		item := fmt.Sprintf("%02d", (n*37)%60)
		states = append(states, state(item, uint64(n), point("-", "hr"), point("hr")))
		want = append(want, fmt.Sprintf("%s@%d/-", item, n), fmt.Sprintf("%s@%d/hr", item, n))
	}
	slices.Sort(want)
	apply(t, asked, states...)
	for _, page := range []int{1, 2, 3, 7, 119, 120, 1_000} {
		require.Equal(t, want, refNames(allHeld(t.Context(), t, asked, "acme", page)), page)
	}
	first, err := asked.Held(t.Context(), "acme", "", 3)
	require.NoError(t, err)
	require.Len(t, first, 4, "an item is listed whole")
	last, err := asked.Held(t.Context(), "acme", "59", 3)
	require.NoError(t, err)
	require.Empty(t, last)
}

func fresh(t *testing.T, subject Subject) {
	indexes, running := openBoth(t, subject)
	apply(t, running, state("old", 1, point("s")))
	abandoned, _, err := indexes.Fresh(t.Context(), space)
	require.NoError(t, err)
	apply(t, abandoned, state("abandoned", 1, point("s")))
	next, swap, err := indexes.Fresh(t.Context(), space)
	require.NoError(t, err)
	apply(t, next, state("new", 1, point("s")))
	finds(t, running, everything("s"), "old@1/s")
	finds(t, next, everything("s"), "new@1/s")
	apply(t, running, state("late", 1, point("s")))
	for range 2 { // a swap may be repeated
		require.NoError(t, swap(t.Context()))
		finds(t, running, everything("s"), "new@1/s")
	}
	opened, err := indexes.Open(t.Context(), space)
	require.NoError(t, err)
	apply(t, opened, state("newer", 1, point("s")))
	finds(t, running, everything("s"), "new@1/s", "newer@1/s")
	finds(t, next, everything("s"), "new@1/s", "newer@1/s")

	unopened := Spaces()[2]
	next, swap, err = indexes.Fresh(t.Context(), unopened)
	require.NoError(t, err)
	apply(t, next, state("first", 1, point("s")))
	require.NoError(t, swap(t.Context()))
	opened, err = indexes.Open(t.Context(), unopened)
	require.NoError(t, err)
	finds(t, opened, everything("s"), "first@1/s")
	require.NoError(t, indexes.Drop(t.Context(), unopened))
}

func dropped(t *testing.T, subject Subject) {
	indexes, asked := openBoth(t, subject)
	apply(t, asked, state("a", 1, point("s")))
	other := Spaces()[1]
	beside, err := indexes.Open(t.Context(), other)
	require.NoError(t, err)
	apply(t, beside, state("b", 1, point("s")))
	for range 2 {
		require.NoError(t, indexes.Drop(t.Context(), space))
	}
	again, err := indexes.Open(t.Context(), space)
	require.NoError(t, err)
	finds(t, again, everything("s"))
	finds(t, beside, everything("s"), "b@1/s")
	apply(t, again, state("c", 1, point("s")))
	finds(t, again, everything("s"), "c@1/s")
	require.NoError(t, indexes.Drop(t.Context(), other))
}

func restarted(t *testing.T, subject Subject) {
	indexes, asked := openBoth(t, subject)
	states := []index.State{state("a", 1, point("-", "hr"), point("hr")), state("b", 2, point("-"))}
	apply(t, asked, states...)
	require.NoError(t, indexes.Close())
	again := open(t, subject)
	if !subject.Keeps {
		finds(t, again, everything("-"))
		apply(t, again, states...)
	}
	finds(t, again, everything("-"), "a@1/-", "b@2/-")
	finds(t, again, everything("-", "hr"), "a@1/hr", "b@2/-")
}

// Writers change items while readers ask: each answer has at most one view of an
// item, in order, and none that its reader may not see.
func concurrent(t *testing.T, subject Subject) {
	asked := open(t, subject)
	const writers, readers, rounds = 3, 3, 30
	var group conc.WaitGroup
	failures := make(chan error, writers+readers)
	for w := range writers {
		group.Go(func() {
			for n := range rounds {
				written := state(fmt.Sprint("item", w), uint64(n), point("-", "hr"), point("hr"))
				if n%5 == 4 {
					written.Points = nil
				}
				if err := asked.Apply(t.Context(), []index.State{written}); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	for range readers {
		group.Go(func() {
			for range rounds {
				if err := orderly(t.Context(), asked); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	var want []string
	for w := range writers {
		last := state(fmt.Sprint("item", w), rounds, point("-", "hr"), point("hr"))
		apply(t, asked, last)
		want = append(want, last.Item+"@30/hr")
	}
	finds(t, asked, everything("-", "hr"), want...)
}

func orderly(ctx context.Context, asked index.Index) error {
	found, err := asked.Search(ctx, everything("-"))
	if err != nil {
		return err
	}
	for _, hits := range [][]index.Hit{found.Dense, found.Lexical} {
		seen := map[string]bool{}
		for _, hit := range hits {
			if hit.Set != "-" || seen[hit.Item] {
				return fmt.Errorf("%v is wrong in %v", hit, hits)
			}
			seen[hit.Item] = true
		}
		if !slices.IsSortedFunc(hits, index.Compare) {
			return fmt.Errorf("%v is out of order", hits)
		}
	}
	return nil
}

func gaveUp(t *testing.T, subject Subject) {
	asked := open(t, subject)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := asked.Apply(ctx, []index.State{state("a", 1, point("s"))})
	require.ErrorIs(t, err, index.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	_, err = asked.Search(ctx, everything("s"))
	require.ErrorIs(t, err, index.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	finds(t, asked, everything("s"))
}

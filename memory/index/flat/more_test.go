package flat_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/index"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
)

func best(hits []index.Hit, limit int) []index.Hit {
	slices.SortFunc(hits, index.Compare)
	return hits[:min(limit, len(hits))]
}

// Thousands of changes in one part, so that blocks begin and end, leave the same
// as filling it anew.
func TestChangesLeaveWhatFillingAnewDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	shared := vectors(50)
	changed, present := open(t), map[string]index.State{}
	for range 60 {
		var states []index.State
		for range 200 {
			state := index.State{Organisation: "acme", Item: fmt.Sprint(random.IntN(4_000)), Version: random.Uint64N(9), Space: view.Organisation}
			if random.IntN(3) > 0 {
				state.Points = []index.Point{{Set: "s", Vector: shared[random.IntN(50)], Terms: rank.Terms{{Hash: random.Uint32N(30), Weight: 1}}}}
			}
			states, present[state.Item] = append(states, state), state
		}
		require.NoError(t, changed.Apply(t.Context(), states))
	}
	anew := open(t)
	for _, state := range present {
		require.NoError(t, anew.Apply(t.Context(), []index.State{state}))
	}
	query := index.Query{
		Organisation: "acme", Spaces: []view.Space{view.Organisation}, Sets: []string{"s"}, Vector: shared[0], Limit: 5_000,
	}
	for hash := range uint32(30) {
		query.Terms = rank.Terms{{Hash: hash, Weight: 1}}
		want, err := anew.Search(t.Context(), query)
		require.NoError(t, err)
		found, err := changed.Search(t.Context(), query)
		require.NoError(t, err)
		require.Equal(t, want, found)
		require.Greater(t, len(found.Dense), 1_024)
		require.NotEmpty(t, found.Lexical)
	}
}

func BenchmarkSearch(b *testing.B) {
	asked := open(b)
	require.NoError(b, asked.Apply(b.Context(), crowd(100_000)))
	asks := vectors(20)
	for _, row := range []struct {
		name        string
		thousandths int
	}{{"3.5%", 35}, {"32%", 320}, {"100%", 1_000}} {
		query := index.Query{
			Organisation: "acme", Spaces: []view.Space{view.Organisation}, Sets: sets(row.thousandths), Limit: 10,
		}
		b.Run("dense/"+row.name, func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				query.Vector = asks[n%len(asks)]
				_, err := asked.Search(b.Context(), query)
				require.NoError(b, err)
			}
		})
		query.Vector = nil
		for hash := range uint32(8) {
			query.Terms = append(query.Terms, rank.Term{Hash: hash*5_000 + 10, Weight: 1})
		}
		b.Run("lexical/"+row.name, func(b *testing.B) {
			for b.Loop() {
				_, err := asked.Search(b.Context(), query)
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkFill(b *testing.B) {
	states := crowd(100_000)
	for b.Loop() {
		require.NoError(b, open(b).Apply(b.Context(), states))
	}
}

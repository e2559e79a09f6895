package flat_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/index/indextest"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
)

func TestSuite(t *testing.T) {
	indextest.Run(t, func(*testing.T) indextest.Subject {
		return indextest.Subject{Open: func(*testing.T) index.Indexes { return flat.New() }}
	})
}

const dim = 384

// vectors gives as many random vectors of length 1, a few times each.
func vectors(count int) [][]float32 {
	random := rand.New(rand.NewPCG(1, 1))
	made := make([][]float32, count)
	for i := range made {
		vector, sum := make([]float32, dim), 0.0
		for j := range vector {
			vector[j] = float32(random.NormFloat64())
			sum += float64(vector[j]) * float64(vector[j])
		}
		for j := range vector {
			vector[j] /= float32(math.Sqrt(sum))
		}
		made[i] = vector
	}
	return made
}

// crowd gives count items over a hundred sets: as many of each.
func crowd(count int) []index.State {
	random := rand.New(rand.NewPCG(2, 2))
	shared := vectors(1_000)
	states := make([]index.State, count)
	for i := range states {
		terms := make(rank.Terms, 0, 20)
		for hash := range uint32(20) {
			terms = append(terms, rank.Term{Hash: hash*5_000 + uint32(random.ExpFloat64()*300)%5_000, Weight: 1 + random.Float32()})
		}
		states[i] = index.State{
			Organisation: "acme", Item: fmt.Sprintf("%06d", (i*7919)%count), Version: 1, Space: view.Organisation,
			Points: []index.Point{{Set: fmt.Sprint("set", i%1000), Vector: shared[random.IntN(len(shared))], Terms: terms}},
		}
	}
	return states
}

func open(tb testing.TB) index.Index {
	opened, err := flat.New().Open(tb.Context(), index.VectorSpace{ID: "bench", Dim: dim})
	require.NoError(tb, err)
	return opened
}

// sets are this many thousandths of the crowd's.
func sets(thousandths int) (names []string) {
	for i := range thousandths {
		names = append(names, fmt.Sprint("set", i))
	}
	return names
}

// Whatever splits the work, the answer is that of one scan.
func TestASearchOfManyRowsIsThatOfEachPart(t *testing.T) {
	asked := open(t)
	require.NoError(t, asked.Apply(t.Context(), crowd(30_000)))
	query := index.Query{
		Organisation: "acme", Spaces: []view.Space{view.Organisation}, Sets: sets(1_000),
		Vector: vectors(2)[1], Terms: rank.Terms{{Hash: 3, Weight: 1}, {Hash: 5_100, Weight: 2}}, Limit: 50,
	}
	whole, err := asked.Search(t.Context(), query)
	require.NoError(t, err)
	require.Len(t, whole.Dense, 50)
	var dense, lexical []index.Hit
	for _, set := range query.Sets {
		narrow := query
		narrow.Sets = []string{set}
		found, err := asked.Search(t.Context(), narrow)
		require.NoError(t, err)
		dense, lexical = append(dense, found.Dense...), append(lexical, found.Lexical...)
	}
	require.Equal(t, best(dense, 50), whole.Dense)
	require.Equal(t, best(lexical, 50), whole.Lexical)
	again, err := asked.Search(t.Context(), query)
	require.NoError(t, err)
	require.Equal(t, whole, again)
}

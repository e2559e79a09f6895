package memorytest_test

import (
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/memorytest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // worlds are small and soon over
	os.Exit(m.Run())
}

func brains(wrong memorytest.Design) memorytest.Open {
	return func(seams memorytest.Seams) memory.Brain {
		return memorytest.NewBrain(memorytest.Config{
			NowMs: seams.NowMs, NewID: seams.NewID, Rules: seams.Rules, Embedder: seams.Embedder, Wrong: wrong,
		})
	}
}

// Nothing that a reader can fetch moves with what is hidden from it.
func TestNoReaderCanTellWorldsApartThatDifferInHiddenThings(t *testing.T) {
	t.Parallel()
	worlds := 20_000
	if testing.Short() {
		worlds = 2_000
	}
	memorytest.Check(t, brains(0), worlds)
}

// The same worlds find every planted design that tells.
func TestWorldsRefuteWrongDesigns(t *testing.T) {
	designs, refuted := memorytest.Designs(), 0
	require.Subset(t, slices.Collect(maps.Keys(designs)), []string{"statistics over all text", "embedding of all text", "filtering after the cut",
		"a mark with length", "a total before filtering", "an etag over hidden edits", "an error that tells"})
	for name, design := range designs {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 400; seed++ {
				_, difference, err := memorytest.Compare(t.Context(), brains(design), seed)
				require.NoError(t, err)
				if difference != "" {
					require.NotContains(t, difference, "nothing else at all", "it is not the same twice")
					t.Logf("found by seed %d", seed)
					refuted++
					return
				}
			}
			t.Fatal("no world tells it from a right one")
		})
	}
	fmt.Printf("level: mutants designs that tell %d/%d\n", refuted, len(designs))
}

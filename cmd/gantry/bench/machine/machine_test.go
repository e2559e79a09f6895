package machine

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantilesAreOfTheSortedTimes(t *testing.T) {
	var times []time.Duration
	for i := 100; i > 0; i-- {
		times = append(times, time.Duration(i)*time.Millisecond)
	}
	require.Equal(t, Quantiles{Count: 100, P50: 51, P95: 96, P99: 100}, QuantilesOf(times))
	require.Zero(t, QuantilesOf(nil))
}

func TestTheMedianIsInTheMiddle(t *testing.T) {
	require.Equal(t, Spread{Median: 2, Min: 1, Max: 9}, SpreadOf([]float64{9, 1, 2}))
	require.Equal(t, Spread{Median: 3, Min: 1, Max: 9}, SpreadOf([]float64{9, 1, 2, 4}))
	require.Zero(t, SpreadOf(nil))
}

func TestADatabaseThatIsThereIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.db")
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	_, err := Open(t.Context(), "sqlite:"+path, t.TempDir())
	require.ErrorContains(t, err, "is there already")
	_, err = Open(t.Context(), "mysql://here", t.TempDir())
	require.ErrorContains(t, err, "sqlite: or postgres://")
	require.FileExists(t, path)
}

func TestTheLimitsOfAFileAreMeasuredAndCounted(t *testing.T) {
	folder := t.TempDir()
	database, err := Open(t.Context(), "", folder)
	require.NoError(t, err)
	limits, err := Measure(t.Context(), database, folder, Like{RowsPerCommit: 3, RowBytes: 100, For: time.Millisecond})
	require.NoError(t, err)
	require.Positive(t, limits.FsyncsPerSecond)
	require.Positive(t, limits.CommitMs.P50)
	require.Positive(t, limits.ParallelCommitsPerSecond)
	require.Positive(t, limits.RowsPerSecond)
	counted, err := database.Counters(t.Context())
	require.NoError(t, err)
	require.Zero(t, counted.Commits, "the bare file is another one")
	require.NoError(t, database.Close())
	left, err := filepath.Glob(filepath.Join(folder, "gantry*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWhatAProcessUsedIsSeen(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		require.Zero(t, TreeCPU(os.Getpid()), "where there is no /proc nothing is made up")
		return
	}
	before := TreeCPU(os.Getpid())
	for sum, begin := 0, ProcessCPU(); ProcessCPU()-begin < 3*tick; sum++ {
		_ = sum
	}
	require.Greater(t, TreeCPU(os.Getpid()), before)
	require.GreaterOrEqual(t, BusyCPU(), before)
	require.Positive(t, Resident(os.Getpid()))
}

package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestATinyBenchmarkMeasuresSoundRunsAndLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	result, err := Run(t.Context(), Config{Runs: 6, Concurrency: 3, Held: 0.5, Paused: 20, Folder: folder, Limit: time.Millisecond})
	require.NoError(t, err)
	require.Zero(t, result.Violations)
	require.Equal(t, "SQLite", result.Database)
	require.Equal(t, 3, result.Load.Held)
	require.Equal(t, 3, result.Load.SubmitToHeldMs.Count)
	require.Equal(t, 6*(4+6), result.Load.StepMs.Count, "four turns and six calls of each run, after its first turn")
	require.Equal(t, 6*3, result.Load.RoundMs.Count, "rounds of a run, after its first turn")
	for name, figure := range map[string]float64{
		"records": result.Ratios.Records, "commits": result.Ratios.Commits, "rounds": result.Ratios.Rounds, "step": result.Ratios.Step,
		"fsyncs": result.Limits.FsyncsPerSecond, "records of a commit": result.Load.RecordsPerCommit,
	} {
		require.Positive(t, figure, name)
	}
	require.Equal(t, 20, result.Paused.Runs)
	require.LessOrEqual(t, result.Paused.GoroutinesAfter, result.Paused.GoroutinesBefore+10, "a paused run keeps no goroutine")
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
	var table bytes.Buffer
	require.NoError(t, result.Table(&table))
	require.Contains(t, table.String(), "step, intent to outcome")
	require.Contains(t, table.String(), "20 runs: ")
}

func TestTheShareOfHeldRunsIsSpreadEvenly(t *testing.T) {
	for share, want := range map[float64]int{0: 0, 0.1: 10, 0.25: 25, 1: 100} {
		held := 0
		for number := int64(1); number <= 100; number++ {
			if (Config{Held: share}).holds(number) {
				held++
			}
		}
		require.Equal(t, want, held)
	}
}

func TestQuantilesAreOfTheSortedTimes(t *testing.T) {
	var times []time.Duration
	for i := 100; i > 0; i-- {
		times = append(times, time.Duration(i)*time.Millisecond)
	}
	require.Equal(t, Quantiles{Count: 100, P50: 51, P95: 96, P99: 100}, quantiles(times))
	require.Zero(t, quantiles(nil))
}

func TestADatabaseThatIsThereIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.db")
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	config := Config{Runs: 1, Concurrency: 1, Folder: t.TempDir(), Limit: time.Millisecond, Database: "sqlite:" + path}
	_, err := Run(t.Context(), config)
	require.ErrorContains(t, err, "is there already")
	config.Database = "mysql://here"
	_, err = Run(t.Context(), config)
	require.ErrorContains(t, err, "sqlite: or postgres://")
	require.FileExists(t, path)
}

func TestWrongKnobsAreNamed(t *testing.T) {
	require.ErrorContains(t, Config{Concurrency: 1, Limit: 1}.Validate(), "runs")
	require.ErrorContains(t, Config{Runs: 1, Concurrency: 1, Held: 2, Limit: 1}.Validate(), "held")
	require.ErrorContains(t, Config{Runs: 1, Concurrency: 1}.Validate(), "limit")
}

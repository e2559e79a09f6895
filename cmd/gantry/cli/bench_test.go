package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/bench"
)

// benched runs a bench command as small as it can be.
func benched(t *testing.T, args ...string) bench.Report {
	t.Helper()
	t.Setenv("GANTRY_DATABASE", "")
	var out bytes.Buffer
	root := Root()
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(append([]string{"bench"}, append(args, "--folder", t.TempDir(), "--json")...))
	require.NoError(t, root.ExecuteContext(t.Context()))
	var report bench.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	require.Zero(t, report.Violations)
	require.NotEmpty(t, report.Figures)
	return report
}

func TestBenchRunPrintsItsFiguresAsJSON(t *testing.T) {
	report := benched(t, "run", "--quick", "--conc", "2", "--rounds", "1", "--paused", "0", "--long", "0", "--killed", "0", "--for", "1ms", "--limit", "1ms")
	require.Len(t, report.Samples, 1)
	require.Positive(t, report.Samples[0].Load.RecordsPerSecond())
}

func TestBenchPausedMeasuresItsPartAlone(t *testing.T) {
	report := benched(t, "paused", "--paused", "5", "--conc", "1", "--repeat", "1", "--for", "1ms", "--limit", "1ms")
	require.Equal(t, "P10", report.Figures[0].ID)
	require.Equal(t, "bare", report.Figures[len(report.Figures)-1].ID)
}

func TestOnlyTheBenchmarkStartsItsChild(t *testing.T) {
	root := Root()
	root.SetArgs([]string{"bench", "child"})
	require.ErrorContains(t, root.ExecuteContext(t.Context()), "only the benchmark")
}

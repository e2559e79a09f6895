package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
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

func TestABenchThatWouldMeasureNothingIsRefused(t *testing.T) {
	t.Setenv("GANTRY_DATABASE", "")
	for line, fault := range map[string]string{
		"run --beside true": "--postgres", "run --beside true --store sqlite --postgres postgres://nowhere": "beside",
		"run --beside-sqlite true --store postgres --postgres postgres://nowhere": "beside-sqlite",
		"soak --for 0s": "for", "soak --for 3s --every 1s": "at least 4s", "soak --for 30ms": "at least 40ms", "soak --every -1s": "every",
		"recover --killed 0": "nothing would be measured", "paused --paused 0": "nothing would be measured", "events --subscribers 0": "subscribers",
	} {
		out, err := gantry(t, append([]string{"bench"}, strings.Fields(line)...)...)
		require.ErrorContains(t, err, fault, line)
		require.Empty(t, out, line)
	}
}

// breaking cancels when the benchmark says what it measures.
type breaking struct{ stop func() }

func (b breaking) Write(text []byte) (int, error) {
	b.stop()
	return len(text), nil
}

func TestABenchThatIsInterruptedSaysOnlyThat(t *testing.T) {
	t.Setenv("GANTRY_DATABASE", "")
	for _, line := range []string{"run --for 1h --conc 1", "soak --for 1h --every 10ms", "recover", "events --for 1h"} {
		ctx, stop := context.WithCancel(t.Context())
		root := Root()
		root.SetOut(io.Discard)
		root.SetErr(breaking{stop})
		root.SetArgs(append([]string{"bench"}, append(strings.Fields(line), "--folder", t.TempDir(), "--limit", "1ms")...))
		require.EqualError(t, root.ExecuteContext(ctx), "bench: interrupted", line)
	}
}

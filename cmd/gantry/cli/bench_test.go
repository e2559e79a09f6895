package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/bench"
)

func TestBenchRunPrintsItsFiguresAsJSON(t *testing.T) {
	var out bytes.Buffer
	root := Root()
	root.SetOut(&out)
	root.SetArgs([]string{"bench", "run", "--runs", "2", "--concurrency", "2", "--limit", "1ms", "--folder", t.TempDir(), "--json"})
	require.NoError(t, root.ExecuteContext(t.Context()))
	var result bench.Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &result))
	require.Equal(t, 2, result.Load.Runs)
	require.Positive(t, result.Load.RecordsPerSecond)
	require.Zero(t, result.Violations)
}

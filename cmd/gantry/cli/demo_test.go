package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run"
)

func TestDemoPostsOnceWhatWasGrantedAndNothingThatWasDenied(t *testing.T) {
	var out bytes.Buffer
	root := Root()
	root.SetOut(&out)
	root.SetArgs([]string{"demo", "--json"})
	require.NoError(t, root.ExecuteContext(t.Context()))
	var result demoResult
	require.NoError(t, json.Unmarshal(out.Bytes(), &result))
	require.Equal(t, string(run.StatusCompleted), result.Status)
	require.Equal(t, string(run.StatusCompleted), result.DeniedStatus)
	require.Equal(t, 1, result.LedgerEntries)
	require.Equal(t, 2, result.Approvals)
	require.Positive(t, result.CostMicroUSD)
	require.True(t, result.ChainVerified)
}

func TestDemoFailsWhenTheLedgerDoesNotShowWhatWasExpected(t *testing.T) {
	root := Root()
	root.SetOut(&bytes.Buffer{})
	// A clean invoice proposes nothing, so nothing can be granted.
	root.SetArgs([]string{"demo", "--grant", "INV-1005"})
	require.ErrorContains(t, root.ExecuteContext(t.Context()), "expected 1 and 0")
}

func TestDemoRefusesWhatItCannotShowAtOnce(t *testing.T) {
	for _, args := range [][]string{{"--grant", "INV-1008"}, {"--grant", "INV-9999"}, {"--deny", "../x"}} {
		_, err := gantry(t, append([]string{"demo"}, args...)...)
		require.Regexp(t, "choose two|has no invoice", err)
	}
}

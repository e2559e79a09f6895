package evaluation_test

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/evaluate"
	"gantry.dev/cmd/gantry/cli/evaluation"
	"gantry.dev/deploy/sample"
)

func cases(t *testing.T, agent string) evaluate.Set {
	t.Helper()
	raw, err := fs.ReadFile(sample.Files, "evaluations/"+agent+".yaml")
	require.NoError(t, err)
	set, faults := evaluate.Read(agent+".yaml", raw)
	require.Empty(t, faults)
	return set
}

// The sample's agents are tried on their cases: everything is useful, and nothing
// unsafe is even tried.
func TestTheSampleAgentsMeetTheirCases(t *testing.T) {
	for agent, approvals := range map[string]float64{"invoice-reconciler": 4.0 / 5, "invoice-desk": 0} {
		t.Run(agent, func(t *testing.T) {
			set := cases(t, agent)
			trial := evaluation.Trial{Files: sample.Files, Material: "files", Folder: t.TempDir()}
			result, err := trial.Evaluate(t.Context(), set, func(s evaluate.Scored) { t.Logf("%+v", s) })
			require.NoError(t, err)
			figures := result.Figures()
			require.InDelta(t, 1, figures.Utility, 0)
			require.Zero(t, figures.Attempts)
			require.InDelta(t, approvals, figures.Approvals, 0.001)
			require.Equal(t, agent+"-script", result.Model)
		})
	}
}

package run_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run"
)

var update = flag.Bool("update", false, "write the files that are generated from the code")

const diagramFile = "../../docs/states.md"

// The diagram is drawn from the transition table, so the two cannot disagree.
func TestDiagram(t *testing.T) {
	drawn := diagram()
	if *update {
		require.NoError(t, os.WriteFile(diagramFile, []byte(drawn), 0o600))
	}
	kept, err := os.ReadFile(diagramFile)
	require.NoError(t, err)
	require.Equal(t, drawn, string(kept), "stale: go test ./orchestrator/run -run TestDiagram -update")
}

func diagram() string {
	events := map[string][]string{}
	for _, transition := range run.Transitions() {
		if transition.From == transition.To {
			continue
		}
		from := string(transition.From)
		if from == "" {
			from = "[*]"
		}
		arrow := from + " --> " + string(transition.To)
		events[arrow] = append(events[arrow], string(transition.Kind))
	}
	lines := make([]string, 0, len(events))
	for arrow, kinds := range events {
		slices.Sort(kinds)
		lines = append(lines, "    "+arrow+": "+strings.Join(slices.Compact(kinds), ", "))
	}
	slices.Sort(lines)
	return "# The statuses of a run\n\nDrawn from the transition table of `orchestrator/run`. Events that leave the status as it is are left out.\n\n" +
		"```mermaid\nstateDiagram-v2\n" + strings.Join(lines, "\n") + "\n```\n"
}

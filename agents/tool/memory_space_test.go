package tool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Where a run may go to several spaces of one kind, the short names are its own
// agent's, subject's and department's, or nobody's.
func TestShortNamesAreTheRunsOwnSpaces(t *testing.T) {
	several := []view.Space{"agent:archive", "agent:clerk", "department:audit", "department:sales", "person:aaron", "person:ada"}
	for name, row := range map[string]struct {
		department string
		spaces     []view.Space
		short      string
		want       view.Space
	}{
		"the agent":              {"sales", several, "agent", "agent:clerk"},
		"not another agent":      {"sales", []view.Space{"agent:archive"}, "agent", "agent:clerk"},
		"the subject":            {"sales", several, "subject", "person:ada"},
		"not another person":     {"sales", []view.Space{"person:aaron"}, "subject", "person:ada"},
		"the department":         {"sales", several, "department", "department:sales"},
		"the only department":    {"hr", []view.Space{"department:sales", "organisation"}, "department", "department:sales"},
		"one of two departments": {"hr", several, "department", "department"},
		"a whole name":           {"sales", several, "department:audit", "department:audit"},
		"everybody's":            {"sales", several, "organisation", "organisation"},
	} {
		t.Run(name, func(t *testing.T) {
			brain := &answeringBrain{kept: memory.Remembered{Item: view.Rendering{ID: "new"}}}
			box, err := tool.NewBox(tool.NewMemory(brain, "olga", "carl", policy.ImpactUnset)...)
			require.NoError(t, err)
			invoke := func(called, arguments string) {
				checked, refusal := box.Check(called, []byte(arguments))
				require.Nil(t, refusal, "%v", refusal)
				_, digest, _ := box.Definition(called)
				found, ok := box.Find(called, digest)
				require.True(t, ok)
				_, err := tool.Invoke(t.Context(), found, tool.Invocation{Run: "r1", Key: "k1", Arguments: checked.Arguments,
					Subject: policy.Principal{ID: "ada", Department: row.department},
					Reader:  view.Reader{Organisation: "o", Principal: "agent:clerk", Run: "r1", Read: row.spaces, Write: row.spaces}})
				require.NoError(t, err)
			}
			invoke(tool.RememberName, `{"text":"x","kind":"FACT","space":"`+row.short+`"}`)
			require.Equal(t, row.want, brain.draft.Space)
			invoke(tool.RecallName, `{"query":"x","spaces":["`+row.short+`"]}`)
			require.Equal(t, []view.Space{row.want}, brain.question.Spaces)
		})
	}
}

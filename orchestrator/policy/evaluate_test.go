package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
)

func TestFaultsOfAllFilesAreReportedAtOnce(t *testing.T) {
	_, err := policy.Parse([]policy.File{
		{Name: "b.cedar", Text: []byte("@id(\"x\")\npermit(principal, action, resource) when { context.facts.amout > 1 };\n")},
		{Name: "a.cedar", Text: []byte("permit(principal, action, resource);\n\n@id(\"x\") permit(principal action, resource);\n@id(\"x\") @holds(\"manager\")\npermit(principal, action == Action::\"nix\", resource);\n")},
	}, nil)
	t.Log(err)
	require.Error(t, err)
}

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/deploy/sample"
	"gantry.dev/orchestrator/policy"
)

func TestTheExamplesOfPolicyExplainAreDecidedAlike(t *testing.T) {
	for name, text := range map[string]string{"case.txt": exampleCase, "request.json": exampleRequest} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		out := must(t, "policy", "explain", "../../../deploy/sample", path)
		require.Contains(t, out, "HOLD\n  because adjust-small (ledger.cedar:", name)
		require.Contains(t, out, "decided by tomas.rehak (tool owner)", name)
	}
}

func TestPolicyCheckPrintsAFaultOnce(t *testing.T) {
	var out bytes.Buffer
	same := policy.Fault{File: "a.cedar", Line: 3, Message: "no"}
	require.ErrorIs(t, printFaults(&out, policy.Faults{same, same}), ErrPolicy)
	require.Equal(t, "a.cedar:3: no\n", out.String())
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, sample.Files))
	path := filepath.Join(dir, "policies", "ledger.cedar")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(text, "permit(principal, action, resource);\n"...), 0o600))
	printed, err := gantry(t, "policy", "check", dir)
	require.ErrorIs(t, err, ErrPolicy)
	require.Regexp(t, `^policies/ledger.cedar:\d+: a policy needs an @id\n$`, printed)
}

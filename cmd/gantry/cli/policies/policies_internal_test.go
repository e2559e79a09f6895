package policies

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/deploy/sample"
	"gantry.dev/orchestrator/policy"
)

// run runs a policy command on the files of a folder.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	command := Command(Folder)
	command.SetOut(&out)
	command.SetArgs(args)
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

func TestTheExamplesOfPolicyExplainAreDecidedAlike(t *testing.T) {
	for name, text := range map[string]string{"case.txt": exampleCase, "request.json": exampleRequest} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		out, err := run(t, "explain", "../../../../deploy/sample", path)
		require.NoError(t, err)
		require.Contains(t, out, "HOLD\n  because adjust-small (ledger.cedar:", name)
		require.Contains(t, out, "decided by tomas.rehak (tool owner)", name)
	}
}

func TestPolicyCheckPrintsAFaultOnce(t *testing.T) {
	var out bytes.Buffer
	same := policy.Fault{File: "a.cedar", Line: 3, Message: "no"}
	require.ErrorIs(t, printFaults(&out, policy.Faults{same, same}), ErrFaults)
	require.Equal(t, "a.cedar:3: no\n", out.String())
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, sample.Files))
	path := filepath.Join(dir, "policies", "ledger.cedar")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(text, "permit(principal, action, resource);\n"...), 0o600))
	printed, err := run(t, "check", dir)
	require.ErrorIs(t, err, ErrFaults)
	require.Regexp(t, `^policies/ledger.cedar:\d+: a policy needs an @id\n$`, printed)
}

func TestDurationsReadWell(t *testing.T) {
	for text, d := range map[string]time.Duration{"24h": 24 * time.Hour, "1h30m": 90 * time.Minute, "20m": 20 * time.Minute, "1m30s": 90 * time.Second, "10s": 10 * time.Second, "1h0m5s": time.Hour + 5*time.Second} {
		require.Equal(t, text, span(d))
	}
}

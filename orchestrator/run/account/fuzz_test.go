package account_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run/account"
)

// Whatever an export holds, it is checked without a panic; and nothing verifies
// against a head that was kept elsewhere but the export that has it.
func FuzzVerify(f *testing.F) {
	journals, err := filepath.Glob("../testdata/journals/version1/*.jsonl")
	require.NoError(f, err)
	require.NotEmpty(f, journals)
	known := map[string][]byte{} // by head
	for _, path := range journals {
		export, err := os.ReadFile(path)
		require.NoError(f, err)
		report, err := account.Verify(bytes.NewReader(export), "")
		require.NoError(f, err, path)
		known[report.Head] = export
		f.Add(export)
		f.Add(export[:len(export)/2])
		f.Add(bytes.TrimSuffix(export, []byte("\n")))
	}
	f.Add([]byte("\n"))
	f.Add([]byte(`{"run":"r","seq":1,"kind":"started","version":1,"atMs":0,"prev":"","digest":"","body":{}}`))
	f.Fuzz(func(t *testing.T, export []byte) {
		report, err := account.Verify(bytes.NewReader(export), "")
		if err != nil {
			return
		}
		if original, found := known[report.Head]; found {
			require.Equal(t, bytes.TrimSuffix(original, []byte("\n")), bytes.TrimSuffix(export, []byte("\n")))
		}
	})
}

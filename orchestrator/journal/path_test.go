package journal_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
)

func TestTheStoreLiesWhereItWasNamed(t *testing.T) {
	for _, name := range []string{"a#b", "a?b=c", "a%20b", "a b", "ü"} {
		path := filepath.Join(t.TempDir(), name, "store.db")
		store, err := journal.Open(t.Context(), journal.Config{DSN: "sqlite:" + path, MasterKey: make([]byte, 32)})
		require.NoError(t, err, name)
		require.NoError(t, store.Close())
		info, err := os.Stat(path)
		require.NoError(t, err, name)
		require.Positive(t, info.Size(), name)
	}
}

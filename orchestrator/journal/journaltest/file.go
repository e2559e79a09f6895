package journaltest

import (
	"context"
	"database/sql/driver"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Files returns what gives each test the SQLite file of an empty store: open
// makes and closes a store at a path, once, and its file is copied.
func Files(open func(path string) error) func(t *testing.T) string {
	made := sync.OnceValues(func() ([]byte, error) {
		folder, err := os.MkdirTemp("", "gantry")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(folder) }()
		path := filepath.Join(folder, "gantry.db")
		if err := open(path); err != nil {
			return nil, err
		}
		return os.ReadFile(path)
	})
	return func(t *testing.T) string {
		t.Helper()
		content, err := made()
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "gantry.db")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
}

// Hasty lets SQLite not wait for the disk, for tests of something else than what
// a process loses by dying.
func Hasty(c driver.Connector) driver.Connector { return unsynced{c} }

type unsynced struct{ driver.Connector }

// Connect opens a connection that does not wait.
func (u unsynced) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := u.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	_, err = conn.(driver.ExecerContext).ExecContext(ctx, "PRAGMA synchronous = OFF", nil)
	return conn, err
}

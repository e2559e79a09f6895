package journal_test

import (
	"context"
	"database/sql/driver"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
)

// migrated is a store's file without anything in it.
var migrated = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "gantry")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "gantry.db")
	s, err := journal.Open(context.Background(), journal.Config{DSN: "sqlite:" + path, MasterKey: masterKey})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// freshFile makes the file of an empty store.
func freshFile(t *testing.T) string {
	t.Helper()
	content, err := migrated()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "gantry.db")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// hasty lets SQLite not wait for the disk: what a process loses by dying is not
// what these tests are about.
func hasty(c driver.Connector) driver.Connector { return unsynced{c} }

type unsynced struct{ driver.Connector }

func (u unsynced) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := u.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	_, err = conn.(driver.ExecerContext).ExecContext(ctx, "PRAGMA synchronous = OFF", nil)
	return conn, err
}

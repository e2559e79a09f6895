package journal_test

import (
	"context"
	"database/sql/driver"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

// freshFile makes the file of an empty store.
var freshFile = journaltest.Files(func(path string) error {
	s, err := journal.Open(context.Background(), journal.Config{DSN: "sqlite:" + path, MasterKey: masterKey})
	if err != nil {
		return err
	}
	return s.Close()
})

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

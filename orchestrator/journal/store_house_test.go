package journal_test

import (
	"context"

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

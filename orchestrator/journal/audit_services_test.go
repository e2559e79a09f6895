//go:build services

package journal_test

import (
	"testing"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

func TestPostgresASnapshotStaysAsItWas(t *testing.T) {
	staysAsItWas(t, open(t, journal.Config{DSN: journaltest.Schema(t)}))
}

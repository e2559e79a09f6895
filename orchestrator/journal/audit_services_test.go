//go:build services

package journal_test

import (
	"testing"

	"gantry.dev/orchestrator/journal"
)

func TestPostgresASnapshotStaysAsItWas(t *testing.T) {
	staysAsItWas(t, open(t, journal.Config{DSN: schema(t)}))
}

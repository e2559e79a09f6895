//go:build services

package calendar_test

import (
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"

	"gantry.dev/orchestrator/journal/journaltest"
)

func TestTwoProcessesFireOnce(t *testing.T) { firesOnce(t, newWorld(t, 2, journaltest.Schema(t)), 4) }

//go:build services

package notice_test

import (
	"testing"

	"gantry.dev/orchestrator/journal/journaltest"
)

func TestPeopleAreRemindedOnPostgres(t *testing.T) {
	remindedOnce(t, newHouse(t, journaltest.Schema(t)))
}

func TestTwoProcessesTellOnceOnPostgres(t *testing.T) {
	tellOnce(t, newHouse(t, journaltest.Schema(t)))
}

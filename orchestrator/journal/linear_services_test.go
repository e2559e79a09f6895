//go:build services

package journal_test

import (
	"testing"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

func TestFault_B6_EveryEpochHasOneWinnerAmongTwoProcesses(t *testing.T) {
	dsn := journaltest.Schema(t) + "&synchronous_commit=off"
	clock := func() int64 { return 1_000_000 }
	(&claimants{t: t, stores: []store{open(t, journal.Config{DSN: dsn, Clock: clock}), open(t, journal.Config{DSN: dsn, Clock: clock})}}).compete(8, 1250)
}

func TestFault_H2_TheDefaultBudgetHoldsForTheFirstRunsOfTwoProcesses(t *testing.T) {
	dsn := journaltest.Schema(t)
	firstCalls(t, open(t, journal.Config{DSN: dsn}), open(t, journal.Config{DSN: dsn}))
}

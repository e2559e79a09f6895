package journaltest_test

import (
	"testing"

	"go.uber.org/goleak"

	"gantry.dev/orchestrator/journal/journaltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	journaltest.Suite(t, func(_ *testing.T, clock func() int64) journaltest.Journal { return journaltest.NewMemory(clock) })
}

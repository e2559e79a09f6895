package journal_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

// A claim that was not committed hands out no lease: its epoch is somebody
// else's next one.
func TestAClaimThatFailedGivesNoLease(t *testing.T) {
	m, clock := &meddler{}, &atomic.Int64{}
	clock.Store(1_700_000_000_000)
	s := open(t, journal.Config{DSN: "sqlite:" + freshFile(t), Clock: clock.Load, Between: m.between})
	require.NoError(t, s.Append(t.Context(), journaltest.Write("r1", 0, 1)))
	m.set(func(st journaltest.Statement, happen func() error) error {
		if st.Verb == journaltest.Commits {
			return errLine
		}
		return happen()
	})
	none, err := s.Claim(t.Context(), "w1", 4, 60_000)
	require.Error(t, err)
	require.Empty(t, none)
	m.set(func(_ journaltest.Statement, happen func() error) error { return happen() })
	leases, err := s.Claim(t.Context(), "w2", 4, 60_000)
	require.NoError(t, err)
	require.Len(t, leases, 1)
}

//go:build services

package journal_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

// Somebody holds one run's row and does not let go. Its write fails after a
// while, and those of all others go on.
func TestOneLockedRunStopsNoOther(t *testing.T) {
	dsn := journaltest.Schema(t)
	s := open(t, journal.Config{DSN: dsn})
	require.NoError(t, s.Append(t.Context(), journaltest.Write("victim", 0, 1)))
	holder, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, holder.Close(context.Background())) })
	hold, err := holder.Begin(t.Context())
	require.NoError(t, err)
	_, err = hold.Exec(t.Context(), "SELECT 1 FROM heads WHERE run = 'victim' FOR UPDATE")
	require.NoError(t, err)
	outcomes := journaltest.AtOnce(2, func(i int) error {
		return s.Append(t.Context(), []engine.Write{journaltest.Write("victim", 1, 1), journaltest.Write("other", 0, 1)}[i])
	})
	require.ErrorContains(t, outcomes[0], "lock timeout")
	require.NoError(t, outcomes[1])
	require.NoError(t, hold.Rollback(t.Context()))
	require.NoError(t, s.Append(t.Context(), journaltest.Write("victim", 1, 1)))
}

//go:build services

package journal_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

// The same is done to the oracle, SQLite and PostgreSQL. What differs in any
// answer fails.
func TestFault_C19_SQLiteAndPostgresDoNotDiffer(t *testing.T) {
	dsn := journaltest.Schema(t)
	admin, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, admin.Close()) })
	empty := strings.Fields("heads journal cursors payloads subject_keys receipts gates budgets inbox conversations conversation_entries")
	compare(t, "40", func(clock func() int64) ([]rival, func()) {
		lite, err := journal.Open(context.Background(), journal.Config{DSN: "sqlite:" + freshFile(t), MasterKey: masterKey, Clock: clock, Between: journaltest.Hasty})
		require.NoError(t, err)
		post, err := journal.Open(context.Background(), journal.Config{DSN: dsn, MasterKey: masterKey, Clock: clock})
		require.NoError(t, err)
		_, err = admin.ExecContext(context.Background(), "DO $$ BEGIN DELETE FROM "+strings.Join(empty, "; DELETE FROM ")+"; END $$")
		require.NoError(t, err)
		return []rival{{"SQLite", store{lite}}, {"PostgreSQL", store{post}}}, func() {
			require.NoError(t, lite.Close())
			require.NoError(t, post.Close())
		}
	})
}

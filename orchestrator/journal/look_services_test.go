//go:build services

package journal_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

// reader makes a role that may read a schema and nothing else, and names the
// schema as that role.
func reader(t *testing.T, dsn string) string {
	target, err := url.Parse(dsn)
	require.NoError(t, err)
	role, schema := "reader_"+strings.ToLower(rand.Text()), target.Query().Get("search_path")
	admin, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	for _, statement := range []string{"CREATE ROLE " + role + " LOGIN", "GRANT USAGE ON SCHEMA " + schema + " TO " + role, "GRANT SELECT ON ALL TABLES IN SCHEMA " + schema + " TO " + role} {
		_, err = admin.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		for _, statement := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			_, err := admin.ExecContext(context.WithoutCancel(t.Context()), statement)
			require.NoError(t, err)
		}
		require.NoError(t, admin.Close())
	})
	target.User = url.User(role)
	return target.String()
}

func TestLookingAtPostgresNeedsTheRightToReadOnly(t *testing.T) {
	dsn := journaltest.Schema(t)
	s := open(t, journal.Config{DSN: dsn})
	looksOnly(t, s, reader(t, dsn))
}

func TestLookingAtPostgresAsItsOwnerWritesNothing(t *testing.T) {
	dsn := journaltest.Schema(t)
	looksOnly(t, open(t, journal.Config{DSN: dsn}), dsn)
}

func TestLookingAtAnAbsentSchemaMakesNone(t *testing.T) {
	dsn := journaltest.Schema(t)
	_, err := look(t, dsn)
	require.ErrorIs(t, err, journal.ErrNoStore)
	db, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.Empty(t, rowsOf(t, db, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"))

	_, err = look(t, strings.ReplaceAll(dsn, "search_path=gantry_", "search_path=mistyped_"))
	require.ErrorIs(t, err, journal.ErrNoStore)
	target, err := url.Parse(dsn)
	require.NoError(t, err)
	target.Path = "/mistyped"
	_, err = look(t, target.String())
	require.ErrorIs(t, err, journal.ErrNoStore)
	require.ErrorContains(t, err, target.Hostname()+"/mistyped")
}

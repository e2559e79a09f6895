//go:build services

package memory_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"github.com/stretchr/testify/require"

	"gantry.dev/memory/memorytest"
	"gantry.dev/orchestrator/journal"
)

// postgres is an empty schema for one test.
func postgres(t *testing.T) journal.Config {
	t.Helper()
	dsn := os.Getenv("GANTRY_TEST_POSTGRES")
	require.NotEmpty(t, dsn, "GANTRY_TEST_POSTGRES names the PostgreSQL server to test against")
	admin, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	admin.SetMaxIdleConns(-1) // a test with a schema per case holds no connection per case
	name := "gantry_" + strings.ToLower(rand.Text())
	_, err = admin.ExecContext(t.Context(), "CREATE SCHEMA "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP SCHEMA "+name+" CASCADE")
		require.NoError(t, err)
		require.NoError(t, admin.Close())
	})
	target, err := url.Parse(dsn)
	require.NoError(t, err)
	query := target.Query()
	query.Set("search_path", name)
	target.RawQuery = query.Encode()
	return journal.Config{DSN: target.String(), Connections: 4}
}

// suite is what holds on every database.
func suite(t *testing.T, where on) {
	for name, test := range map[string]func(t *testing.T, where on){
		"remember, recall, forget": walk,
		"a stale index":            staleIndex,
		"a sticky index":           stickyIndex,
		"a private fact":           privateFact,
		"what is forgotten":        forgotten,
		"what an agent says":       untrusted,
	} {
		t.Run(name, func(t *testing.T) { test(t, where) })
	}
}

func TestPostgres(t *testing.T) {
	suite(t, postgres)
	t.Run("like the oracle", func(t *testing.T) { likeTheOracle(t, postgres, 8) })
	t.Run("worlds", func(t *testing.T) { memorytest.Check(t, worlds(t, postgres), 12) })
	t.Run("a failing statement", func(t *testing.T) { halfDone(t, postgres) })
}

package journaltest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Schema makes an empty schema for one test on the PostgreSQL server that
// GANTRY_TEST_POSTGRES names, and returns the DSN of it. The driver is the
// journal's, which the test has linked.
func Schema(t *testing.T) (dsn string) {
	t.Helper()
	dsn = os.Getenv("GANTRY_TEST_POSTGRES")
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
	return target.String()
}

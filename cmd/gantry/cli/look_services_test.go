//go:build services

package cli

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
)

// schema makes an empty schema and a role that may only read what will be in
// it, and names the schema as its owner and as that role.
func schema(t *testing.T) (owner, reader string) {
	server := os.Getenv("GANTRY_TEST_POSTGRES")
	require.NotEmpty(t, server, "GANTRY_TEST_POSTGRES names the PostgreSQL server to test against")
	target, err := url.Parse(server)
	require.NoError(t, err)
	name := "gantry_" + strings.ToLower(rand.Text())
	query := target.Query()
	query.Set("search_path", name)
	target.RawQuery = query.Encode()
	admin, err := sql.Open("pgx", target.String())
	require.NoError(t, err)
	do := func(ctx context.Context, statements ...string) {
		for _, statement := range statements {
			_, err := admin.ExecContext(ctx, statement)
			require.NoError(t, err, statement)
		}
	}
	do(t.Context(), "CREATE SCHEMA "+name, "CREATE ROLE "+name+" LOGIN", "GRANT USAGE ON SCHEMA "+name+" TO "+name,
		"ALTER DEFAULT PRIVILEGES IN SCHEMA "+name+" GRANT SELECT ON TABLES TO "+name)
	t.Cleanup(func() {
		do(context.WithoutCancel(t.Context()), "DROP SCHEMA "+name+" CASCADE", "DROP OWNED BY "+name, "DROP ROLE "+name)
		require.NoError(t, admin.Close())
	})
	owner = target.String()
	target.User = url.User(name)
	return owner, target.String()
}

// Who may only read PostgreSQL can have both checks made, and neither makes a
// schema where there is none.
func TestTheRightToReadPostgresIsEnoughToCheckIt(t *testing.T) {
	folder, _, _ := practice(t)
	heads := filepath.Join(folder, "heads")
	owner, reader := schema(t)
	for _, database := range []string{owner, reader} {
		_, err := gantry(t, "doctor", "--folder", folder, "--database", database)
		require.ErrorIs(t, err, journal.ErrNoStore)
		_, err = gantry(t, "verify", "--folder", folder, "--heads", heads, "--database", database)
		require.ErrorIs(t, err, journal.ErrNoStore)
		require.ErrorIs(t, err, ErrUnchecked)
	}
	_, err := gantry(t, "apply", "--folder", folder, "--database", owner, "-f", "../../../deploy/sample")
	require.NoError(t, err)
	out, err := gantry(t, "doctor", "--folder", folder, "--database", reader)
	require.NoError(t, err, out)
	out, err = gantry(t, "verify", "--folder", folder, "--heads", heads, "--database", reader)
	require.ErrorContains(t, err, "not what was signed", "these heads are of another database")
	require.NotErrorIs(t, err, ErrUnchecked)
	require.Contains(t, out, "RUN_MISSING")
}

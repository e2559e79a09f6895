//go:build services

package engine_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
)

// onPostgres tries statements in one schema, which is emptied for each case.
func onPostgres(t *testing.T) statementHouse {
	dsn := os.Getenv("GANTRY_TEST_POSTGRES")
	require.NotEmpty(t, dsn, "GANTRY_TEST_POSTGRES names the PostgreSQL server to test against")
	admin, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	admin.SetMaxOpenConns(1)
	name := "gantry_" + strings.ToLower(rand.Text())
	do := func(text string) {
		_, err := admin.ExecContext(context.WithoutCancel(t.Context()), text)
		require.NoError(t, err)
	}
	do("CREATE SCHEMA " + name)
	tables := strings.Fields("heads journal cursors payloads subject_keys receipts gates budgets inbox conversations conversation_entries configurations proposals")
	for i := range tables {
		tables[i] = name + "." + tables[i]
	}
	t.Cleanup(func() {
		do("DROP SCHEMA " + name + " CASCADE")
		require.NoError(t, admin.Close())
	})
	target, err := url.Parse(dsn)
	require.NoError(t, err)
	query := target.Query()
	query.Set("search_path", name)
	query.Set("synchronous_commit", "off") // what a server loses by dying is not what these tests are about
	target.RawQuery = query.Encode()
	return statementHouse{t: t, each: 3, open: func(l *lane, between func(driver.Connector) driver.Connector) *journal.Store {
		store, err := journal.Open(t.Context(), journal.Config{DSN: target.String(), MasterKey: ordealKey, Clock: l.NowMs, Between: between})
		require.NoError(t, err)
		do("DO $$ BEGIN DELETE FROM " + strings.Join(tables, "; DELETE FROM ") + "; END $$")
		return store
	}}
}

// The transaction is tried again, and not the effect: the outside's own book says
// so in each case.
func TestFault_C3_SerializationFailuresAndDeadlocksRepeatTheTransaction(t *testing.T) {
	t.Parallel()
	onPostgres(t).every(
		statementFault{name: "serialization failure", err: &pgconn.PgError{Code: "40001", Message: "could not serialize access"}},
		statementFault{name: "deadlock", err: &pgconn.PgError{Code: "40P01", Message: "deadlock detected"}},
	)
}

func TestFault_A3_EveryStatementToPostgresMayFailOnce(t *testing.T) {
	t.Parallel()
	onPostgres(t).every(
		statementFault{name: "timeout", err: errStore, breaks: true},
		statementFault{name: "execute and timeout", err: errStore, after: true, breaks: true},
	)
}

func TestFault_C6_RunsGoOnAfterAPostgresThatWasReadOnly(t *testing.T) {
	t.Parallel()
	onPostgres(t).every(statementFault{name: "read-only", lasts: true, about: writes,
		err: &pgconn.PgError{Code: "25006", Message: "cannot execute in a read-only transaction"}})
}

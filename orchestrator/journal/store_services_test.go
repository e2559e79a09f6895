//go:build services

package journal_test

import (
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
)

func TestFault_B9_WhoSawALeaseEndInPostgresDoesNotTakeWhatWasRenewed(t *testing.T) {
	renewedMeanwhile(t, schema(t))
}

func TestFault_C17_ASubscriberMissesNothingOfTheSlowerOfTwoProcesses(t *testing.T) {
	dsn, m := schema(t), &meddler{}
	commitsLate(t, open(t, journal.Config{DSN: dsn, Between: m.between}), open(t, journal.Config{DSN: dsn}), m)
}

func TestFault_C6_AReadOnlyPostgresServesReadsAndRefusesWrites(t *testing.T) {
	m := &meddler{}
	readsOnly(t, open(t, journal.Config{DSN: schema(t), Between: m.between}), m, &pgconn.PgError{Code: "25006", Message: "cannot execute in a read-only transaction"})
}

func TestFault_C20_AMigrationOfPostgresKilledAtAnyStatementGoesOn(t *testing.T) {
	migrates(t, func(c driver.Connector) driver.Connector { return c }, func() (string, func() []string) {
		dsn := schema(t) + "&synchronous_commit=off"
		return dsn, func() []string {
			db, err := sql.Open("pgx", dsn)
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			list := rowsOf(t, db, `SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '')
				FROM information_schema.columns WHERE table_schema = current_schema() AND table_name <> 'goose_db_version' ORDER BY 1`)
			list = append(list, rowsOf(t, db, "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1")...)
			return append(list, rowsOf(t, db, "SELECT version_id || ' ' || is_applied FROM goose_db_version ORDER BY version_id")...)
		}
	})
}

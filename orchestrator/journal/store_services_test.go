//go:build services

package journal_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/run"
)

func TestFault_B9_WhoSawALeaseEndInPostgresDoesNotTakeWhatWasRenewed(t *testing.T) {
	renewedMeanwhile(t, journaltest.Schema(t))
}

func TestFault_C17_ASubscriberMissesNothingOfTheSlowerOfTwoProcesses(t *testing.T) {
	dsn, m := journaltest.Schema(t), &meddler{}
	commitsLate(t, open(t, journal.Config{DSN: dsn, Between: m.between}), open(t, journal.Config{DSN: dsn}), m)
}

func TestFault_C6_AReadOnlyPostgresServesReadsAndRefusesWrites(t *testing.T) {
	m := &meddler{}
	readsOnly(t, open(t, journal.Config{DSN: journaltest.Schema(t), Between: m.between}), m, &pgconn.PgError{Code: "25006", Message: "cannot execute in a read-only transaction"})
}

func TestFault_C20_AMigrationOfPostgresKilledAtAnyStatementGoesOn(t *testing.T) {
	migrates(t, func(c driver.Connector) driver.Connector { return c }, func() (string, func() []string) {
		dsn := journaltest.Schema(t) + "&synchronous_commit=off"
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

func TestFault_C18_BytesComeBackFromPostgresAsTheyWere(t *testing.T) {
	bytesComeBack(t, open(t, journal.Config{DSN: journaltest.Schema(t)}))
}

// Each text in each place is refused by both or kept alike by both.
func TestFault_C18_BothStoresRefuseOrKeepTheSameTexts(t *testing.T) {
	lite := keepsTexts(t, open(t, journal.Config{DSN: "sqlite:" + freshFile(t), Between: journaltest.Hasty}))
	post := keepsTexts(t, open(t, journal.Config{DSN: journaltest.Schema(t) + "&synchronous_commit=off"}))
	require.Equal(t, post, lite)
}

// Two connections are enough for everything that is read at once. When somebody
// else has both, who gives up waiting is let go, and the store says that it is
// not ready; writes go on, and then all does.
func TestFault_C2_AnExhaustedPoolHoldsBackAndRecovers(t *testing.T) {
	ctx := t.Context()
	s := open(t, journal.Config{DSN: journaltest.Schema(t), Connections: 2})
	work := func(i int) error {
		id := fmt.Sprint("r", i)
		w := journaltest.Write(id, 0, 1)
		w.Payloads = []engine.Payload{{Run: id, Salt: []byte("0123456789abcdef"), Bytes: []byte("one"), Text: run.Text{ID: "t" + id, Subject: "ann"}}}
		_, claimErr := s.Claim(ctx, "w", 1, 1000)
		err := errors.Join(claimErr, s.Append(ctx, w), s.SetBudget(ctx, "n", run.Amount{MicroUSD: 1}))
		_, _, loadErr := s.Load(ctx, id, 0)
		_, textErr := s.Payloads(ctx, []string{"t" + id})
		snapshot, snapshotErr := s.Snapshot(ctx)
		if snapshotErr == nil {
			_, headErr := snapshot.Heads(ctx, "", 9)
			snapshotErr = errors.Join(headErr, snapshot.Close())
		}
		return errors.Join(err, loadErr, textErr, snapshotErr, s.EraseSubject(ctx, "bob"))
	}
	for _, err := range journaltest.AtOnce(40, work) {
		require.NoError(t, err)
	}
	require.NoError(t, s.Ready(ctx))

	one, err := s.Snapshot(ctx)
	require.NoError(t, err)
	other, err := s.Snapshot(ctx)
	require.NoError(t, err)
	impatient, giveUp := context.WithCancel(ctx)
	waiting := make(chan error, 2)
	go func() { waiting <- s.Ready(impatient) }()
	go func() { _, _, err := s.Load(impatient, "r1", 0); waiting <- err }()
	require.NoError(t, s.Append(ctx, journaltest.Write("late", 0, 1)), "the writer does not wait for readers")
	require.Empty(t, waiting, "nobody is answered")
	giveUp()
	for range 2 {
		require.ErrorIs(t, <-waiting, context.Canceled)
	}
	require.NoError(t, one.Close())
	require.NoError(t, s.Ready(ctx))
	require.NoError(t, other.Close())
}

func TestFault_C15_NoTextComesIntoPostgresBehindItsErasure(t *testing.T) {
	dsn := journaltest.Schema(t)
	erasesAmongWrites(t, open(t, journal.Config{DSN: dsn}), open(t, journal.Config{DSN: dsn}))
}

func TestPostgresStoreOfRecordsInRowsOfTheirOwnIsPacked(t *testing.T) {
	dsn := journaltest.Schema(t)
	upgrades(t, "pgx", dsn, dsn, goose.DialectPostgres, "postgres")
}

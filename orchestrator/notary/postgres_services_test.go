//go:build services

package notary_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"github.com/sourcegraph/conc/pool"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal/journaltest"
)

// schema makes an empty schema for one test and returns the DSN of it.
func schema(t *testing.T) (dsn string, admin *sql.DB) {
	t.Helper()
	dsn = journaltest.Schema(t)
	admin, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, admin.Close()) })
	return dsn, admin
}

func TestPostgresFoldersOfSeveralProcessesHoldOneSeries(t *testing.T) {
	dsn, _ := schema(t)
	severalFolders(t, newHouseOn(t, dsn))
}

func TestPostgresWhoSignsSecondSignsNothing(t *testing.T) {
	dsn, _ := schema(t)
	secondSigner(t, newHouseOn(t, dsn))
}

// Processes with stores of their own sign and write at once; the series has no
// gap and no fork, and damage is found as on a file.
func TestFault_N1_ProcessesThatSignAtOnceKeepOneSeries(t *testing.T) {
	dsn, admin := schema(t)
	h := newHouseOn(t, dsn)
	h.start("north")
	h.start("south")
	signers := pool.New().WithErrors().WithMaxGoroutines(4)
	for range 4 {
		other := *h
		other.open()
		n := other.newNotary(filepath.Join(t.TempDir(), "heads"))
		signers.Go(func() error {
			for range 20 {
				if err := n.Sign(t.Context()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range 10 {
		h.steer("north", "north-1", 1)
		h.sign()
	}
	require.NoError(t, signers.Wait())
	h.sign()
	h.sign()
	report, found := h.check()
	require.Empty(t, found)
	require.EqualValues(t, 16, report.Records)
	require.Zero(t, report.Uncovered)

	require.NoError(t, journaltest.Alter(t.Context(), admin, true, func(tx *sql.Tx) error {
		h.do(tx, "DELETE FROM journal WHERE run = 'north-1' AND seq > 9")
		return nil
	}))
	_, found = h.check()
	require.Len(t, found, 1)
	require.EqualValues(t, 10, found[0].Seq)
}

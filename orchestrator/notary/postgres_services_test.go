//go:build services

package notary_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"github.com/sourcegraph/conc/pool"
	"github.com/stretchr/testify/require"
)

// schema makes an empty schema for one test and returns the DSN of it.
func schema(t *testing.T) (dsn string, admin *sql.DB) {
	server := os.Getenv("GANTRY_TEST_POSTGRES")
	require.NotEmpty(t, server, "GANTRY_TEST_POSTGRES names the PostgreSQL server to test against")
	target, err := url.Parse(server)
	require.NoError(t, err)
	name := "gantry_" + strings.ToLower(rand.Text())
	query := target.Query()
	query.Set("search_path", name)
	target.RawQuery = query.Encode()
	admin, err = sql.Open("pgx", target.String())
	require.NoError(t, err)
	_, err = admin.ExecContext(t.Context(), "CREATE SCHEMA "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP SCHEMA "+name+" CASCADE")
		require.NoError(t, err)
		require.NoError(t, admin.Close())
	})
	return target.String(), admin
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

	h.do(admin, "DELETE FROM journal WHERE run = 'north-1' AND seq > 9")
	_, found = h.check()
	require.Len(t, found, 1)
	require.EqualValues(t, 10, found[0].Seq)
}

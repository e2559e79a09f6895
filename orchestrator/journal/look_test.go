package journal_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/run"
)

// look opens a store to be looked at only.
func look(t *testing.T, dsn string) (*journal.Store, error) {
	s, err := journal.Open(t.Context(), journal.Config{DSN: dsn, MasterKey: masterKey, ReadOnly: true})
	if err == nil {
		t.Cleanup(func() { require.NoError(t, s.Close()) })
	}
	return s, err
}

// Who only looks at a store that is not there makes none.
func TestLookingAtAnAbsentStoreMakesNone(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"absent.db", "absent/gantry.db", "."} {
		_, err := look(t, "sqlite:"+filepath.Join(folder, name))
		require.ErrorIs(t, err, journal.ErrNoStore, name)
		require.ErrorContains(t, err, "there is no store at "+filepath.Join(folder, name))
	}
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)

	path := filepath.Join(folder, "empty.db")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = look(t, "sqlite:"+path)
	require.ErrorIs(t, err, journal.ErrNoStore, "a file without a schema")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, content)
}

// Who only looks sees what is committed while a process is at work, takes
// nothing away from it, and can write nothing.
func TestLookingAtAStoreInUseChangesNothing(t *testing.T) {
	path := freshFile(t)
	looksOnly(t, open(t, journal.Config{DSN: "sqlite:" + path}), "sqlite:"+path)
}

func looksOnly(t *testing.T, s store, dsn string) {
	ctx := t.Context()
	require.NoError(t, s.Append(ctx, journaltest.Write("r1", 0, 2)))
	held, err := s.Claim(ctx, "w", 1, 1<<40)
	require.NoError(t, err)
	require.Len(t, held, 1)
	before, err := s.Writers(ctx)
	require.NoError(t, err)

	seen, err := look(t, dsn)
	require.NoError(t, err)
	snapshot, err := seen.Snapshot(ctx)
	require.NoError(t, err)
	records, err := snapshot.Records(ctx, "r1", 0, 9)
	require.NoError(t, err)
	require.Len(t, records, 2)
	require.NoError(t, s.Append(ctx, journaltest.Write("r1", 2, 1)), "the other process writes meanwhile")
	records, err = snapshot.Records(ctx, "r1", 0, 9)
	require.NoError(t, err)
	require.Len(t, records, 2, "a snapshot stands still")
	require.NoError(t, snapshot.Close())

	require.ErrorIs(t, seen.Append(ctx, journaltest.Write("r1", 3, 1)), journal.ErrReadOnly)
	_, err = seen.Renew(ctx, "w", held, 1<<41)
	require.ErrorIs(t, err, journal.ErrReadOnly)
	require.Error(t, seen.SetBudget(ctx, "n", run.Amount{MicroUSD: 1}))
	require.Error(t, seen.KeepHeads(ctx, []journal.SignedHead{{Organisation: "o", Number: 1, Body: "b"}}, nil))
	after, err := s.Writers(ctx)
	require.NoError(t, err)
	require.Equal(t, before, after, "no writer was enlisted")
	kept, err := s.Renew(ctx, "w", held, 1<<40)
	require.NoError(t, err)
	require.Len(t, kept, 1, "the lease is still the worker's")
}

// What a killed process left in SQLite's log is seen.
func TestLookingSeesWhatAKilledProcessCommitted(t *testing.T) {
	path, copied := freshFile(t), filepath.Join(t.TempDir(), "gantry.db")
	s := open(t, journal.Config{DSN: "sqlite:" + path})
	require.NoError(t, s.Append(t.Context(), journaltest.Write("r1", 0, 2)))
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(copied+suffix, content, 0o600))
	}
	seen, err := look(t, "sqlite:"+copied)
	require.NoError(t, err)
	snapshot, err := seen.Snapshot(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, snapshot.Close()) }()
	records, err := snapshot.Records(t.Context(), "r1", 0, 9)
	require.NoError(t, err)
	require.Len(t, records, 2)
}

// A store of another version is neither misread nor migrated.
func TestLookingAtAStoreOfAnotherVersionIsRefused(t *testing.T) {
	for change, sentence := range map[string]string{
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)": "has version 99, this program knows none above",
		"DELETE FROM goose_db_version WHERE version_id > 1":                    "has version 1, this program needs",
	} {
		path := freshFile(t)
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), change)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		_, err = look(t, "sqlite:"+path)
		require.ErrorIs(t, err, journal.ErrVersion)
		require.ErrorContains(t, err, sentence)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
}

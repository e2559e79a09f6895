package cli

import (
	"database/sql"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal/journaltest"
)

// What the sample did is covered when its process ends. Checking needs the
// public keys and no secret.
func TestFault_N1_TheCommandSaysWhatWasChanged(t *testing.T) {
	folder, finished, _ := practice(t)
	heads, keys := filepath.Join(folder, "heads"), filepath.Join(t.TempDir(), "public.json")
	ring, err := os.ReadFile(filepath.Join(folder, "heads-keys.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(keys, ring, 0o600))
	for _, secret := range []string{"master.key", "signing.key", "heads.key", "heads-keys.json"} {
		require.NoError(t, os.Remove(filepath.Join(folder, secret)))
	}
	verify := []string{"verify", "--folder", folder, "--heads", heads, "--keys", keys}
	out, err := gantry(t, verify...)
	require.NoError(t, err, out)
	require.Contains(t, out, "1 organisation, ")
	require.Contains(t, out, ": 2 runs with ")
	require.NotContains(t, out, "note:")

	db, err := sql.Open("sqlite", filepath.Join(folder, "gantry.db"))
	require.NoError(t, err)
	require.NoError(t, journaltest.Alter(t.Context(), db, false, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "DELETE FROM journal WHERE run = ? AND seq > 7", finished)
		return err
	}))
	require.NoError(t, db.Close())
	out, err = gantry(t, verify...)
	require.ErrorContains(t, err, "1 fault")
	require.NotErrorIs(t, err, ErrUnchecked)
	require.Contains(t, out, "RECORD_MISSING organisation=northwind run="+finished+" seq=8: ")

	for _, wrong := range [][]string{
		{"verify", "--folder", folder, "--heads", t.TempDir(), "--keys", keys},
		{"verify", "--folder", folder, "--heads", heads},
	} {
		_, err = gantry(t, wrong...)
		require.ErrorIs(t, err, ErrUnchecked, "%v", wrong)
	}
	for _, wrong := range [][]string{{"verify"}, {"verify", "file", "--heads", heads}} {
		_, err = gantry(t, wrong...)
		require.ErrorContains(t, err, "say either")
	}
}

// The key that signs heads is changed in place; what it signed still verifies,
// and what it signs after a moment from which it is revoked does not.
func TestFault_N4_TheKeyOfHeadsIsRotatedAndRevokedInPlace(t *testing.T) {
	folder, _, _ := practice(t)
	before, err := os.ReadFile(filepath.Join(folder, "heads.key"))
	require.NoError(t, err)
	out, err := gantry(t, "keys", "rotate", "--folder", folder)
	require.NoError(t, err)
	require.Contains(t, out, "key epoch 2")
	after, err := os.ReadFile(filepath.Join(folder, "heads.key"))
	require.NoError(t, err)
	require.NotEqual(t, before, after)

	verify := []string{"verify", "--folder", folder, "--heads", filepath.Join(folder, "heads")}
	_, err = gantry(t, verify...)
	require.NoError(t, err)
	out, err = gantry(t, "keys", "revoke", "1", "--after", time.Now().Format(time.RFC3339Nano), "--folder", folder)
	require.NoError(t, err)
	require.NotContains(t, out, "rotate", "another key is in place")
	_, err = gantry(t, verify...)
	require.NoError(t, err, "what it signed before is believed")
	_, err = gantry(t, "keys", "revoke", "1", "--after", "2020-01-01T00:00:00Z", "--folder", folder)
	require.NoError(t, err)
	out, err = gantry(t, verify...)
	require.ErrorContains(t, err, "not what was signed")
	require.Contains(t, out, "HEAD_UNSIGNED organisation=northwind head=1: Key epoch 1 is revoked")

	for _, wrong := range [][]string{{"3", "--after", "2020-01-01T00:00:00Z"}, {"one", "--after", "2020-01-01T00:00:00Z"}, {"1", "--after", "yesterday"}, {"1", "--after", "2140-01-01T00:00:00Z"}} {
		_, err = gantry(t, append([]string{"keys", "revoke", "--folder", folder}, wrong...)...)
		require.Error(t, err, "%v", wrong)
	}
	out, err = gantry(t, "keys", "--folder", folder)
	require.NoError(t, err, "what is there stays")
	require.Equal(t, "found in "+folder+", and left as they are: master.key, signing.key, heads.key, heads-keys.json\n", out)
	require.NoError(t, os.Remove(filepath.Join(folder, "signing.key")))
	out, err = gantry(t, "keys", "--folder", folder)
	require.NoError(t, err)
	require.Contains(t, out, "made in "+folder+": signing.key; ")
}

// The commands that an operator is told to give when the key was stolen lead to
// a series that verifies again and goes on.
func TestFault_N4_AfterAKeyIsRevokedAndReplacedTheHeadsVerifyAgain(t *testing.T) {
	folder, _, _ := practice(t)
	verify := []string{"verify", "--folder", folder, "--heads", filepath.Join(folder, "heads")}
	out, err := gantry(t, "keys", "revoke", "1", "--after", "2020-01-01T00:00:00Z", "--folder", folder)
	require.NoError(t, err)
	require.Contains(t, out, "gantry keys rotate --folder "+folder)
	_, err = openHouse(t.Context(), quietPlaces(folder))
	require.ErrorContains(t, err, "is revoked", "nothing works while its records would go unsigned")
	require.ErrorContains(t, err, "gantry keys rotate --folder "+folder)

	_, err = gantry(t, "keys", "rotate", "--folder", folder)
	require.NoError(t, err)
	_, err = gantry(t, verify...)
	require.ErrorContains(t, err, "not what was signed", "nobody has signed since")
	h, err := openHouse(t.Context(), quietPlaces(folder))
	require.NoError(t, err)
	require.NoError(t, h.close())
	out, err = gantry(t, verify...)
	require.NoError(t, err, out)
	require.Contains(t, out, "head 1 counts for nothing; head 2 of key epoch 2 covers anew from there.")
	require.Contains(t, out, "2 runs with ")
	require.NotContains(t, out, "newer than the last head")

	work(t, folder, func(*house) {})
	out, err = gantry(t, verify...)
	require.NoError(t, err, out)
	require.Contains(t, out, "3 runs with ")
}

// A process that runs goes over to the new key without being started again.
func TestFault_N4_AProcessThatRunsSignsWithTheKeyThatWasPutInPlace(t *testing.T) {
	folder := t.TempDir()
	work(t, folder, func(*house) {
		_, err := gantry(t, "keys", "rotate", "--folder", folder)
		require.NoError(t, err)
	})
	heads, err := os.ReadFile(filepath.Join(folder, "heads", "northwind.jsonl"))
	require.NoError(t, err)
	require.Contains(t, string(heads), `"epoch":2`)
	out, err := gantry(t, "verify", "--folder", folder, "--heads", filepath.Join(folder, "heads"))
	require.NoError(t, err, out)
	require.NotContains(t, out, "note:")
}

func quietPlaces(folder string) places {
	return places{folder: folder, interfaceAt: "127.0.0.1:0", ledgerAt: "127.0.0.1:0", log: slog.New(slog.DiscardHandler)}
}

// work has the sample finish one run in a process of its own, and does something
// while that process is there.
func work(t *testing.T, folder string, meanwhile func(*house)) {
	h, err := openHouse(t.Context(), quietPlaces(folder))
	require.NoError(t, err)
	defer func() { require.NoError(t, h.close()) }()
	d := &demo{house: h, out: io.Discard}
	d.asker, err = h.as(sampleAsker)
	require.NoError(t, err)
	d.decider, err = h.as(sampleDecider)
	require.NoError(t, err)
	_, err = d.reconcile(t.Context(), "INV-1004", true)
	require.NoError(t, err)
	meanwhile(h)
}

package cli

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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
	_, err = db.ExecContext(t.Context(), "DELETE FROM journal WHERE run = ? AND seq > 7", finished)
	require.NoError(t, err)
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
	_, err = gantry(t, "keys", "revoke", "1", "--after", "2040-01-01T00:00:00Z", "--folder", folder)
	require.NoError(t, err)
	_, err = gantry(t, verify...)
	require.NoError(t, err, "what it signed before is believed")
	_, err = gantry(t, "keys", "revoke", "1", "--after", "2020-01-01T00:00:00Z", "--folder", folder)
	require.NoError(t, err)
	out, err = gantry(t, verify...)
	require.ErrorContains(t, err, "not what was signed")
	require.Contains(t, out, "HEAD_UNSIGNED organisation=northwind head=1: Key epoch 1 is revoked")

	for _, wrong := range [][]string{{"3", "--after", "2020-01-01T00:00:00Z"}, {"one", "--after", "2020-01-01T00:00:00Z"}, {"1", "--after", "yesterday"}} {
		_, err = gantry(t, append([]string{"keys", "revoke", "--folder", folder}, wrong...)...)
		require.Error(t, err, "%v", wrong)
	}
	_, err = gantry(t, "keys", "--folder", folder)
	require.NoError(t, err, "what is there stays")
}

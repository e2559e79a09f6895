package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
)

// A mistyped database is said to be absent, and is not made.
func TestWhatOnlyLooksMakesNoDatabase(t *testing.T) {
	folder, _, _ := practice(t)
	absent := filepath.Join(folder, "mistyped.db")
	before, err := os.ReadDir(folder)
	require.NoError(t, err)
	_, err = gantry(t, "verify", "--folder", folder, "--heads", filepath.Join(folder, "heads"), "--database", "sqlite:"+absent)
	require.ErrorIs(t, err, ErrUnchecked)
	require.ErrorIs(t, err, journal.ErrNoStore)
	require.ErrorContains(t, err, "there is no store at "+absent)
	_, err = gantry(t, "doctor", "--folder", folder, "--database", "sqlite:"+absent)
	require.ErrorIs(t, err, journal.ErrNoStore)
	after, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Equal(t, len(before), len(after))
}

// The doctor and the heads are asked while a process is at work.
func TestAStoreIsLookedAtWhileAProcessWorks(t *testing.T) {
	folder, _, _ := practice(t)
	work(t, folder, func(*house) {
		out, err := gantry(t, "doctor", "--folder", folder)
		require.NoError(t, err, out)
		out, err = gantry(t, "verify", "--folder", folder, "--heads", filepath.Join(folder, "heads"))
		require.NoError(t, err, out)
		require.Contains(t, out, "newer than the last head")
	})
}

// A command shows the settings that it heeds, and takes the others.
func TestACommandShowsTheSettingsThatItHeeds(t *testing.T) {
	for command, hidden := range map[string][]string{
		"verify": {"--listen", "--lease", "--drain", "--bus", "--worker"},
		"doctor": {"--listen", "--lease", "--drain", "--bus", "--worker", "--heads"},
		"apply":  {"--listen", "--lease", "--drain", "--worker", "--heads"},
	} {
		out, err := gantry(t, command, "--help")
		require.NoError(t, err)
		require.Contains(t, out, "      --database ")
		for _, flag := range hidden {
			require.NotContains(t, out, "      "+flag+" ", command)
		}
	}
}

package cli

import (
	"bytes"
	"database/sql"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/client"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

// practice leaves a folder in which the sample has finished one run and waits
// in another, with a schedule of which no time came yet.
func practice(t *testing.T) (folder, finished, waiting string) {
	folder = t.TempDir()
	h, err := openHouse(t.Context(), places{folder: folder, interfaceAt: "127.0.0.1:0", ledgerAt: "127.0.0.1:0", log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, h.close()) }()
	d := &demo{house: h, out: io.Discard}
	d.asker, err = h.as(sampleAsker)
	require.NoError(t, err)
	d.decider, err = h.as(sampleDecider)
	require.NoError(t, err)
	_, err = d.reconcile(t.Context(), "INV-1004", true)
	require.NoError(t, err)
	_, err = h.waiting(t.Context())
	require.NoError(t, err)
	_, err = d.asker.CreateSchedule(t.Context(), client.ScheduleOrder{
		Name: "monday", Agent: sampleAgent, Goal: reconcile("INV-1004"), Cron: "30 8 * * 1", Zone: "Europe/Copenhagen", Overlap: "SKIP", CatchUp: "LAST"})
	require.NoError(t, err)
	heads, err := h.platform.Store.Heads(t.Context(), journal.Filter{Organisation: h.organisation.Name}, 2)
	require.NoError(t, err)
	return folder, heads[1].Run, heads[0].Run
}

func doctor(t *testing.T, args ...string) (string, error) {
	var out bytes.Buffer
	root := Root()
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{"doctor"}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestDoctorFindsNothingAfterRealRunsAndDamageByItsCode(t *testing.T) {
	folder, finished, waiting := practice(t)
	out, err := doctor(t, "--folder", folder)
	require.NoError(t, err, out)
	require.Contains(t, out, "chains: 2 runs, ")
	require.Contains(t, out, "inbox: 1 rows are what is open")

	db, err := sql.Open("sqlite", filepath.Join(folder, "gantry.db"))
	require.NoError(t, err)
	require.NoError(t, journaltest.Alter(t.Context(), db, false, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE journal SET at_ms = at_ms + 1 WHERE run = ? AND seq = 5", finished)
		return err
	}))
	_, err = db.ExecContext(t.Context(), "DELETE FROM inbox")
	require.NoError(t, err)
	require.NoError(t, db.Close())

	out, err = doctor(t, "--folder", folder)
	require.ErrorContains(t, err, "2 violations", out)
	require.Contains(t, out, "CHAIN run="+finished+" seq=5: ")
	require.Contains(t, out, "INBOX_MISSING run="+waiting+": ")
	require.Contains(t, out, "not compared with their runs: 1 runs do not verify")

	out, err = doctor(t, "--folder", folder, "--run", waiting)
	require.ErrorContains(t, err, "1 violation")
	require.NotContains(t, out, finished)
	_, err = doctor(t, "--folder", folder, "--run", "nowhere")
	require.ErrorContains(t, err, `no run "nowhere"`)
}

// A command's own flags are no settings, and do not stop it.
func TestAnOperatorCommandTakesItsOwnFlagsBesideTheSettings(t *testing.T) {
	folder := t.TempDir()
	for _, args := range [][]string{{"keys", "--folder", folder}, {"apply", "--folder", folder, "-f", "../../../deploy/sample"}} {
		root := Root()
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		root.SetArgs(args)
		require.NoError(t, root.ExecuteContext(t.Context()), args[0])
	}
}

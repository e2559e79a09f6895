package journal_test

import (
	"context"
	"database/sql"
	"io/fs"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"gantry.dev/migrations"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/run"
)

// upgrades fills the tables of a store in which each record has a row of its
// own, and opens it with the program of today.
func upgrades(t *testing.T, driver, place, dsn string, dialect goose.Dialect, folder string) {
	t.Helper()
	files, err := fs.Sub(migrations.Files, folder)
	require.NoError(t, err)
	db, err := sql.Open(driver, place)
	require.NoError(t, err)
	older, err := goose.NewProvider(dialect, db, files)
	require.NoError(t, err)
	_, err = older.UpTo(t.Context(), 10)
	require.NoError(t, err)
	do := func(statement string, args ...any) {
		_, err := db.ExecContext(t.Context(), statement, args...)
		require.NoError(t, err)
	}
	do("INSERT INTO writers (id, opened_ms) VALUES ('gone', 1), ('local', 2)")
	do("INSERT INTO cursors (name, writer, n) VALUES ('signed heads', 'local', 90), ('relay', 'local', 120)")
	want, numbers := map[string][]run.Record{}, map[string]int64{"local": 0, "gone": 1 << 40}
	add := func(r run.Record, writer string) {
		numbers[writer]++
		do("INSERT INTO journal (run, seq, kind, version, at_ms, body, prev, digest, writer, n) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
			r.Run, int64(r.Seq), string(r.Kind), r.Version, r.AtMs, r.Body, r.Prev, r.Digest, writer, numbers[writer])
		want[r.Run] = append(want[r.Run], r)
	}
	list := journaltest.Write("long", 0, 150).Records
	for i, r := range list[:149] {
		if i == 3 {
			r.Kind = run.KindCallEnded
		}
		add(r, "local")
	}
	for i, r := range journaltest.Write("shared", 0, 10).Records { // two writers took turns
		add(r, []string{"local", "gone"}[i/2%2])
	}
	add(list[149], "local")
	torn := journaltest.Write("torn", 0, 4).Records
	add(torn[0], "local")
	for _, r := range torn[2:] { // the second is missing
		add(r, "local")
	}
	heads := map[string]uint64{"long": 150, "shared": 10, "torn": 4, "broken": 3}
	broken := journaltest.Write("broken", 0, 3).Records
	broken[1].Digest, broken[2].Prev = "x", "x"
	for _, r := range broken {
		add(r, "local")
	}
	for id, version := range heads {
		do(`INSERT INTO heads (run, version, digest, status, due_ms, organisation, root, parent, conversation, subject, agent, department, labels, started_ms)
			VALUES ($1, $2, $3, 'RUNNING', 1, 'acme', $1, '', '', 'ann', 'clerk', 'finance', 'null', 1)`, id, int64(version), want[id][len(want[id])-1].Digest)
	}
	require.NoError(t, db.Close())

	s := open(t, journal.Config{DSN: dsn})
	for id := range heads {
		_, records, err := s.Load(t.Context(), id, 0)
		require.NoError(t, err)
		if id != "broken" {
			require.Equal(t, want[id], records)
		}
		for i := range records { // from anywhere in a row
			_, rest, err := s.Load(t.Context(), id, records[i].Seq)
			require.NoError(t, err)
			require.Equal(t, len(records)-i-1, len(rest))
		}
	}
	_, records, err := s.Load(t.Context(), "broken", 0)
	require.NoError(t, err)
	require.Len(t, records, 3)
	require.Equal(t, want["broken"][0], records[0])
	require.Equal(t, want["broken"][2], records[2], "what is broken stays so")
	for writer, last := range numbers {
		for _, after := range []int64{0, 1, 70, 149, last - 1} {
			rows, err := s.After(t.Context(), writer, uint64(after), 1000)
			require.NoError(t, err)
			for i, row := range rows {
				if writer == "local" {
					require.EqualValues(t, after+int64(i)+1, row.N)
				}
			}
			require.EqualValues(t, last, rows[len(rows)-1].N)
		}
	}
	snapshot, err := s.Snapshot(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, snapshot.Close()) }()
	unsigned, err := snapshot.Unsigned(t.Context())
	require.NoError(t, err)
	moved := map[string]uint64{}
	for _, m := range unsigned.Moved {
		moved[m.Run] = m.From
	}
	require.Equal(t, map[string]uint64{"long": 90, "shared": 0, "torn": 1, "broken": 0}, moved)
	all := 0
	require.NoError(t, s.Spendings(t.Context(), "acme", 0, 1<<60, func(journal.Spending) error { all++; return nil }))
	require.Equal(t, 1, all)

	require.NoError(t, s.Append(context.Background(), journaltest.Write("long", 150, 2)))
	_, records, err = s.Load(t.Context(), "long", 149)
	require.NoError(t, err)
	require.Len(t, records, 3)
}

func TestAStoreOfRecordsInRowsOfTheirOwnIsPacked(t *testing.T) {
	path := t.TempDir() + "/gantry.db"
	upgrades(t, "sqlite", path, "sqlite:"+path, goose.DialectSQLite3, "sqlite")
}

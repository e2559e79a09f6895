package journal_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/run"
)

// quoting is a write whose text quotes an item.
func quoting(id, item string) engine.Write {
	w := journaltest.Write(id, 0, 1)
	w.Payloads = []engine.Payload{{Run: id, Salt: []byte("0123456789abcdef"), Bytes: []byte("what is remembered"), Text: run.Text{ID: "t" + id, Subject: "ann"}}}
	w.Links = []engine.Link{{Item: item, Text: "t" + id}}
	return w
}

// Not even what was sealed is left in the file: its key is there still.
func TestFault_K15_TheFileForgetsTheSealedText(t *testing.T) {
	path := freshFile(t)
	s := open(t, journal.Config{DSN: "sqlite:" + path})
	require.NoError(t, s.Append(t.Context(), quoting("r1", "m1")))
	require.NoError(t, s.Append(t.Context(), quoting("r2", "m2")))
	sealed := map[string][]byte{}
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	rows, err := db.QueryContext(t.Context(), "SELECT id, sealed FROM payloads")
	require.NoError(t, err)
	defer func() { _ = rows.Close() }() // it was read to its end
	for rows.Next() {
		var id string
		var text []byte
		require.NoError(t, rows.Scan(&id, &text))
		sealed[id] = text
	}
	require.NoError(t, rows.Err())
	require.NoError(t, db.Close())
	require.Equal(t, map[string]bool{"tr1": true, "tr2": true}, inFiles(t, path, sealed))
	_, _, err = s.EraseItems(t.Context(), []string{"m1"})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"tr1": false, "tr2": true}, inFiles(t, path, sealed))
}

// inFiles says which of the texts stand in the files of a store.
func inFiles(t *testing.T, path string, texts map[string][]byte) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, name := range []string{path, path + "-wal"} {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		for id, text := range texts {
			found[id] = found[id] || bytes.Contains(content, text)
		}
	}
	return found
}

// Whichever statement fails: it is all erased, or all there, and done by the
// next try.
func TestFault_A3_AnErasureByItemIsWholeOrRepeated(t *testing.T) {
	failures := 0
	for n := 1; ; n++ {
		m := &meddler{}
		s := open(t, journal.Config{DSN: "sqlite:" + freshFile(t), Between: m.between})
		require.NoError(t, s.Append(t.Context(), quoting("r1", "m1")))
		seen, failed := 0, false
		m.set(func(_ journaltest.Statement, happen func() error) error {
			if seen++; seen == n {
				failed = true
				return errLine
			}
			return happen()
		})
		count, runs, err := s.EraseItems(t.Context(), []string{"m1"})
		m.set(func(_ journaltest.Statement, happen func() error) error { return happen() })
		if !failed {
			require.NoError(t, err)
			require.Equal(t, 1, count)
			require.Equal(t, []string{"r1"}, runs)
			break
		}
		failures++
		require.Error(t, err)
		count, runs, err = s.EraseItems(t.Context(), []string{"m1"})
		require.NoError(t, err)
		require.LessOrEqual(t, count, 1)
		require.Equal(t, []string{"r1"}, runs)
		found, err := s.Payloads(t.Context(), []string{"tr1"})
		require.NoError(t, err)
		require.Empty(t, found)
	}
	require.Greater(t, failures, 4)
	fmt.Printf("level: L3 failed statements of an erasure %d\n", failures)
}

// erasesAmongWrites erases while writes that quote the same come in: none of
// their texts is left, whichever came first.
func erasesAmongWrites(t *testing.T, writers ...store) {
	const many = 40
	errs := journaltest.AtOnce(many+1, func(i int) error {
		s := writers[i%len(writers)]
		if i == many/2 {
			_, _, err := s.EraseItems(t.Context(), []string{"m1"})
			return err
		}
		return s.Append(t.Context(), quoting(fmt.Sprint("r", i), "m1"))
	})
	for _, err := range errs {
		require.NoError(t, err)
	}
	var ids []string
	for i := range many + 1 {
		ids = append(ids, fmt.Sprint("tr", i))
	}
	found, err := writers[0].Payloads(t.Context(), ids)
	require.NoError(t, err)
	require.Empty(t, found, strings.Join(ids, " "))
	_, runs, err := writers[0].EraseItems(t.Context(), []string{"m1"})
	require.NoError(t, err)
	require.Len(t, runs, many, "who had it is on record")
}

func TestFault_C15_NoTextComesInBehindItsErasure(t *testing.T) {
	erasesAmongWrites(t, open(t, journal.Config{DSN: "sqlite:" + freshFile(t)}))
}

// A text is told with the items that it quotes.
func TestTheItemsThatATextQuotesAreFound(t *testing.T) {
	s := open(t, journal.Config{DSN: "sqlite:" + freshFile(t)})
	require.NoError(t, s.Append(t.Context(), quoting("r1", "m1")))
	quoted, err := s.Quoted(t.Context(), []string{"tr1", "nothing"})
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"tr1": {"m1"}}, quoted)
}

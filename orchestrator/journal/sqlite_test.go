package journal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/run"
)

func secret(id string, bytes []byte) engine.Payload {
	return engine.Payload{Run: "r1", Salt: []byte("0123456789abcdef"), Bytes: bytes, Text: run.Text{ID: id, Subject: "ann"}}
}

func reopen(t *testing.T, s store, dsn string) store {
	t.Helper()
	require.NoError(t, s.Close())
	return open(t, journal.Config{DSN: dsn})
}

func TestSQLiteRestart(t *testing.T) {
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "gantry.db")
	s := open(t, journal.Config{DSN: dsn})
	first := journaltest.Write("r1", 0, 2)
	first.Payloads = []engine.Payload{secret("p1", []byte("one"))}
	require.NoError(t, s.Append(t.Context(), first))
	leases, err := s.Claim(t.Context(), "one", 1, 1<<40)
	require.NoError(t, err)
	require.Len(t, leases, 1)

	s = reopen(t, s, dsn)
	again, err := s.Claim(t.Context(), "two", 1, 1<<40)
	require.NoError(t, err)
	require.Len(t, again, 1, "the leases of the process before are free at once")
	require.Equal(t, leases[0].Epoch+1, again[0].Epoch, "and its late writes are fenced")
	require.NoError(t, s.Append(t.Context(), journaltest.Write("r1", 2, 1)))
	numbers, err := s.Numbers(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string][]uint64{"local": {1, 2, 3}}, numbers)
	found, err := s.Payloads(t.Context(), []string{"p1"})
	require.NoError(t, err)
	require.Equal(t, []byte("one"), found["p1"].Bytes)
}

func TestSQLiteBelongsToOneProcess(t *testing.T) {
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "gantry.db")
	open(t, journal.Config{DSN: dsn})
	_, err := journal.Open(t.Context(), journal.Config{DSN: dsn, MasterKey: masterKey})
	require.ErrorIs(t, err, journal.ErrInUse)
}

func TestTextsAreSealedOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gantry.db")
	s := open(t, journal.Config{DSN: "sqlite:" + path})
	w := journaltest.Write("r1", 0, 1)
	w.Payloads = []engine.Payload{secret("p1", []byte("the salary is 4242"))}
	require.NoError(t, s.Append(t.Context(), w))
	require.NoError(t, s.Close())
	for _, name := range []string{path, path + "-wal"} {
		disk, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		require.False(t, bytes.Contains(disk, []byte("salary")))
	}
	other, err := journal.Open(t.Context(), journal.Config{DSN: "sqlite:" + path, MasterKey: bytes.Repeat([]byte{7}, 32)})
	require.NoError(t, err)
	_, err = other.Payloads(t.Context(), []string{"p1"})
	require.Error(t, err, "another master key opens nothing")
	require.NoError(t, other.Close())
}

func TestOpenRefuses(t *testing.T) {
	for name, config := range map[string]journal.Config{
		"short key":   {DSN: "sqlite:" + filepath.Join(t.TempDir(), "a.db"), MasterKey: masterKey[:31]},
		"unknown DSN": {DSN: "postgres://user:hidden word@%zz/", MasterKey: masterKey},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := journal.Open(t.Context(), config)
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hidden")
		})
	}
}

func TestAppendRefusesAMalformedWrite(t *testing.T) {
	s := open(t, journal.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "gantry.db")})
	for name, bend := range map[string]func(*engine.Write){
		"no record":      func(w *engine.Write) { w.Records = nil },
		"gap":            func(w *engine.Write) { w.Records[1].Seq++ },
		"another run":    func(w *engine.Write) { w.Records[0].Run = "r2" },
		"other version":  func(w *engine.Write) { w.Head.Version++ },
		"digest differs": func(w *engine.Write) { w.Head.Digest = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			w := journaltest.Write("r1", 0, 2)
			bend(&w)
			require.ErrorIs(t, s.Append(t.Context(), w), journal.ErrMalformed)
		})
	}
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Append(t.Context(), journaltest.Write("r1", 0, 1)), journal.ErrClosed)
}

func TestOnCommitTellsWhatWasCommittedInOrder(t *testing.T) {
	var told []journal.Committed // only the writer appends, and it has ended before the test reads
	s := open(t, journal.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "gantry.db"), OnCommit: func(batch []journal.Committed) { told = append(told, batch...) }})
	require.NoError(t, s.Append(t.Context(), journaltest.Write("r1", 0, 2)))
	require.Error(t, s.Append(t.Context(), journaltest.Write("r1", 0, 2)))
	require.NoError(t, s.Append(t.Context(), journaltest.Write("r1", 2, 1)))
	require.NoError(t, s.Close())
	require.Len(t, told, 2)
	require.EqualValues(t, 2, told[0].N)
	require.EqualValues(t, 3, told[1].N)
	require.True(t, told[1].Outside)
	require.EqualValues(t, 3, told[1].Head.Version)
	require.Len(t, told[0].Records, 2)
}

func TestCursorNeverGoesBack(t *testing.T) {
	s := open(t, journal.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "gantry.db")})
	for _, n := range []uint64{5, 3} {
		require.NoError(t, s.SaveCursor(t.Context(), "relay", "local", n))
	}
	n, err := s.Cursor(t.Context(), "relay", "local")
	require.NoError(t, err)
	require.EqualValues(t, 5, n)
}

func TestHeadsArePagedNewestFirst(t *testing.T) {
	s := open(t, journal.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "gantry.db")})
	for _, id := range []string{"r1", "r2", "r3"} {
		require.NoError(t, s.Append(t.Context(), journaltest.Write(id, 0, 1)))
	}
	heads, err := s.Heads(t.Context(), journal.Filter{Organisation: "acme", Agent: "clerk"}, 2)
	require.NoError(t, err)
	require.Len(t, heads, 2)
	require.Equal(t, "r3", heads[0].Run)
	rest, err := s.Heads(t.Context(), journal.Filter{Organisation: "acme", Before: heads[1].Run}, 2)
	require.NoError(t, err)
	require.Len(t, rest, 1)
	require.Equal(t, "r1", rest[0].Run)
	none, err := s.Heads(t.Context(), journal.Filter{Organisation: "other"}, 2)
	require.NoError(t, err)
	require.Empty(t, none)
}

// Who takes part changes together with the entries that say so, once for one
// command; a change that fails leaves nothing.
func TestGatherings(t *testing.T) {
	gatherings(t, open(t, journal.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "gantry.db")}))
}

func gatherings(t *testing.T, s store) {
	require.NoError(t, s.Converse(t.Context(), "acme", "c1"))
	news, err := s.News(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, news, "nobody follows it before somebody joined")
	receipt := func(command string) engine.Receipt {
		return engine.Receipt{Organisation: "acme", Caller: "ann", Command: command, Answer: []byte("{}")}
	}
	join := func(who string) func(*journal.Conversation) ([]engine.Entry, error) {
		return func(c *journal.Conversation) ([]engine.Entry, error) {
			c.Participants, c.Turns = append(c.Participants, who), "{}"
			return []engine.Entry{{Kind: "joined", Author: "ann", Whom: who, Code: "x", About: 7}}, nil
		}
	}
	require.NoError(t, s.ChangeConversation(t.Context(), "acme", "c1", receipt("one"), join("ann")))
	require.ErrorIs(t, s.ChangeConversation(t.Context(), "acme", "c1", receipt("one"), join("eve")), engine.ErrReplayed)
	require.NoError(t, s.ChangeConversation(t.Context(), "acme", "c1", receipt("two"), join("bob")))
	require.ErrorIs(t, s.ChangeConversation(t.Context(), "other", "c1", receipt("three"), join("eve")), engine.ErrNotFound)
	require.ErrorIs(t, s.ChangeConversation(t.Context(), "acme", "c1", receipt("four"), func(_ *journal.Conversation) ([]engine.Entry, error) {
		return nil, run.ErrBudget
	}), run.ErrBudget)
	c, err := s.Conversation(t.Context(), "acme", "c1")
	require.NoError(t, err)
	require.Equal(t, []string{"ann", "bob"}, c.Participants)
	require.Equal(t, "{}", c.Turns)
	require.NoError(t, s.Note(t.Context(), engine.Entry{Organisation: "acme", Conversation: "c1", Kind: "exchange_stopped", Author: "x", About: 1}, receipt("five")))
	require.ErrorIs(t, s.Note(t.Context(), engine.Entry{Organisation: "acme", Conversation: "c1"}, receipt("five")), engine.ErrReplayed)
	entries, err := s.Entries(t.Context(), "acme", "c1", 0, 10)
	require.NoError(t, err)
	require.Len(t, entries, 3)
	require.NotZero(t, entries[0].AtMs)
	gatherings, err := s.Gatherings(t.Context(), "acme", "c1", 0, 10)
	require.NoError(t, err)
	require.Equal(t, entries[:2], gatherings)
	require.Equal(t, engine.Entry{Organisation: "acme", Conversation: "c1", Number: 1, Kind: "joined", Author: "ann", Whom: "ann", Code: "x", About: 7, AtMs: entries[0].AtMs}, entries[0])
	news, err = s.News(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []journal.Followed{{Organisation: "acme", Conversation: "c1"}}, news)
	require.NoError(t, s.Follow(t.Context(), journal.Followed{Conversation: "c1", Settled: 1, Seen: 2}))
	require.NoError(t, s.Follow(t.Context(), journal.Followed{Conversation: "c1", Settled: 2, Seen: 1}))
	news, err = s.News(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []journal.Followed{{Organisation: "acme", Conversation: "c1", Settled: 2, Seen: 2}}, news, "nobody falls back")
	require.NoError(t, s.Follow(t.Context(), journal.Followed{Conversation: "c1", Settled: 3, Seen: 3}))
	news, err = s.News(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, news)
}

package journal_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

func TestASnapshotStaysAsItWas(t *testing.T) {
	staysAsItWas(t, open(t, journal.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "gantry.db")}))
}

func staysAsItWas(t *testing.T, s store) {
	w := journaltest.Write("r1", 0, 2)
	w.Payloads = []engine.Payload{secret("said", []byte("before"))}
	require.NoError(t, s.Append(t.Context(), w))
	snapshot, err := s.Snapshot(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, snapshot.Close()) }()
	first, err := snapshot.Texts(t.Context(), []string{"said"})
	require.NoError(t, err)
	require.Equal(t, "before", string(first["said"].Bytes), first["said"].Fault)

	require.NoError(t, s.Append(t.Context(), journaltest.Write("r2", 0, 1)))
	require.NoError(t, s.EraseSubject(t.Context(), "ann"))
	heads, err := snapshot.Heads(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, heads, 1)
	records, err := snapshot.Records(t.Context(), "r1", 1, 10)
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, uint64(2), records[0].Seq)
	again, err := snapshot.Texts(t.Context(), []string{"said", "never"})
	require.NoError(t, err)
	require.Equal(t, first, again)
	numbers, err := snapshot.Numberings(t.Context())
	require.NoError(t, err)
	require.Equal(t, []journal.Numbering{{Writer: s.Writer(), Count: 2, Last: 2}}, numbers)
	strays, err := snapshot.Strays(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, strays)
}

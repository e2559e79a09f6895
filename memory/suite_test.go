package memory_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/policy"
)

var masterKey = []byte("0123456789abcdef0123456789abcdef")

// house is a memory with everything that stands around it.
type house struct {
	*memory.Service
	config journal.Config
	files  *journal.Store
	store  *store.Store
	clock  *atomic.Int64 // UTC ms; each reading moves it by nothing
	ids    *atomic.Int64
	index  func() index.Indexes
	tuning memory.Config // what a test wants otherwise

	relayed   bool   // changes are queued for the index
	announced func() // hears that some were
}

var freshFile = journaltest.Files(func(path string) error {
	s, err := journal.Open(context.Background(), journal.Config{DSN: "sqlite:" + path, MasterKey: masterKey})
	if err != nil {
		return err
	}
	return s.Close()
})

// static reads its table once for all tests.
var static = embed.NewStatic()

// on is where a suite keeps its memory.
type on func(t *testing.T) journal.Config

func sqlite(t *testing.T) journal.Config {
	return journal.Config{DSN: "sqlite:" + freshFile(t)}
}

// build opens a memory with nothing in it.
func build(t *testing.T, where on, tune ...func(*house)) *house {
	t.Helper()
	h := &house{config: where(t), clock: &atomic.Int64{}, ids: &atomic.Int64{}, index: func() index.Indexes { return flat.New() }}
	h.clock.Store(1_800_000_000_000)
	h.tuning = memory.Config{Embedders: []embed.Embedder{static}, Rules: rules}
	for _, one := range tune {
		one(h)
	}
	h.open(t)
	return h
}

func (h *house) open(t *testing.T) {
	t.Helper()
	h.config.MasterKey, h.config.Clock = masterKey, h.clock.Load
	var err error
	h.files, err = journal.Open(t.Context(), h.config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.files.Close()) })
	h.Service, h.store = h.process(t, h.files)
}

// process is one more process's memory over a journal's database.
func (h *house) process(t *testing.T, files *journal.Store) (*memory.Service, *store.Store) {
	t.Helper()
	databases := files.Databases()
	kept, err := store.New(store.Config{Write: databases.Write, Read: databases.Read, Postgres: databases.Postgres,
		MasterKey: masterKey, Now: files.Now, NewID: h.newID, Relayed: h.relayed, Announced: h.announced})
	require.NoError(t, err)
	config := h.tuning
	config.Store, config.Indexes = kept, h.index()
	service, err := memory.New(t.Context(), config)
	require.NoError(t, err)
	return service, kept
}

func (h *house) newID() string { return fmt.Sprintf("m%06d", h.ids.Add(1)) }

// restart closes everything and opens it again, with an index that knows
// nothing.
func (h *house) restart(t *testing.T) {
	t.Helper()
	require.NoError(t, h.files.Close())
	h.open(t)
}

func rules(context.Context, string) (memory.Rules, error) {
	return memory.Rules{
		Known: func(label policy.Label) bool { return slices.Contains([]policy.Label{"hr", "legal", "pay"}, label) },
		Owns:  func(principal string, label policy.Label) bool { return principal == "olga" && label == "hr" },
	}, nil
}

// person reads and writes in the organisation's space and their own.
func person(name string, clearance ...policy.Label) view.Reader {
	own := []view.Space{view.Organisation, view.SpaceOf(view.SpacePerson, name)}
	return view.Reader{Organisation: "acme", Principal: name, Clearance: policy.NewLabels(clearance...), Read: own, Write: own}
}

func fact(text string, labels ...policy.Label) memory.Draft {
	return memory.Draft{Space: view.Organisation, Kind: view.Fact, Text: text, Labels: policy.NewLabels(labels...)}
}

func (h *house) remember(t *testing.T, reader view.Reader, draft memory.Draft) view.Rendering {
	t.Helper()
	remembered, err := h.Remember(t.Context(), reader, draft)
	require.NoError(t, err)
	return remembered.Item
}

func (h *house) recall(t *testing.T, reader view.Reader, text string) []string {
	t.Helper()
	answer, err := h.Recall(t.Context(), reader, memory.Question{Text: text})
	require.NoError(t, err)
	ids := []string{}
	for _, hit := range answer.Hits {
		ids = append(ids, hit.ID)
	}
	return ids
}

func refused(t *testing.T, err error, code string) {
	t.Helper()
	var refusal *memory.Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, code, refusal.Code)
}

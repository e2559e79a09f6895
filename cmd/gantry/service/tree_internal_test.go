package service

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
	"gantry.dev/graph/opaque"
	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/run"
)

// grove is a journal in which trees of runs grow.
type grove struct {
	*testing.T
	store *journal.Store
	trees Trees
	nowMs int64
	heads map[string]run.Head
	from  map[string]run.Record // by run: the record by which its parent started it
	runs  []string
	leave context.CancelFunc
}

func newGrove(t *testing.T) *grove {
	g := &grove{T: t, nowMs: 1_000_000, heads: map[string]run.Head{}, from: map[string]run.Record{}}
	var hub *bus.Hub
	store, err := journal.Open(t.Context(), journal.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "gantry.db"), MasterKey: make([]byte, 32),
		Clock: func() int64 { return g.nowMs }, Between: journaltest.Hasty, OnCommit: func(all []journal.Committed) {
			for _, c := range all {
				var batch bus.Batch
				for _, record := range c.Records {
					if !silent(record) {
						batch.Rows = append(batch.Rows, bus.Committed{Record: record})
					}
				}
				hub.Offer(batch)
			}
		}})
	require.NoError(t, err)
	hub = bus.NewHub(store, nil)
	tasks := &conc.WaitGroup{}
	g.store, g.trees = store, Trees{Service: &Service{Store: store, Hub: hub}, Tasks: tasks}
	t.Cleanup(func() {
		hub.Close()
		tasks.Wait()
		require.NoError(t, store.Close())
	})
	return g
}

// silent are the records of which nobody is told.
func silent(record run.Record) bool { return record.Seq%4 == 0 }

// write records something of a run, and what it starts with it.
func (g *grove) write(id, parent string, event run.Event, births ...*engine.Write) run.Record {
	write, record := g.next(id, parent, event)
	write.Births = births
	require.NoError(g, g.store.Append(g.Context(), *write))
	if silent(record) {
		g.trees.Hub.Look()
	}
	return record
}

// next is what a write of one record adds to a run.
func (g *grove) next(id, parent string, event run.Event) (*engine.Write, run.Record) {
	head, exists := g.heads[id]
	if !exists {
		head = run.Head{Run: id, Organisation: "acme", Root: id, Parent: parent, Status: run.StatusRunning, StartedMs: g.nowMs}
		if parent != "" {
			head.Root = g.heads[parent].Root
		}
		g.runs = append(g.runs, id)
	}
	record, err := run.Encode(id, run.Record{Seq: head.Version, Digest: head.Digest}, g.nowMs, event)
	require.NoError(g, err)
	from := head.Version
	head.Version, head.Digest = record.Seq, record.Digest
	g.heads[id] = head
	return &engine.Write{Head: head, From: from, Records: []run.Record{record}}, record
}

// turn records a turn of a run, which may be its first record.
func (g *grove) turn(id string) { g.write(id, "", run.TurnStarted{}) }

// child is started by another run. Its clock may be behind.
func (g *grove) child(id, parent string) {
	g.nowMs -= 3
	first, _ := g.next(id, parent, run.TurnStarted{})
	g.nowMs += 3
	g.from[id] = g.write(parent, "", run.ChildStarted{Child: id}, first)
}

// follow begins to read behind a cursor.
func (g *grove) follow(top string, cursor *string) (<-chan run.Record, opaque.Places) {
	if g.leave != nil {
		g.leave()
	}
	var ctx context.Context
	ctx, g.leave = context.WithCancel(g.Context())
	places, err := opaque.ReadPlaces(cursor, top)
	require.NoError(g, err)
	told, err := g.trees.follow(ctx, "acme", top, places, all)
	require.NoError(g, err)
	return told, places
}

// reader has what was told of a tree.
type reader struct {
	*grove
	top    string
	told   <-chan run.Record
	places opaque.Places
	seqs   map[string]uint64
}

func (g *grove) reader(top string) *reader {
	r := &reader{grove: g, top: top, seqs: map[string]uint64{}}
	r.told, r.places = g.follow(top, nil)
	return r
}

// next reads one record and checks that nothing is missing, told twice, or told
// before what it came from.
func (r *reader) next() {
	record, open := <-r.told
	require.True(r, open)
	require.Equal(r, r.seqs[record.Run]+1, record.Seq, record.Run)
	if by, started := r.from[record.Run]; started && record.Run != r.top {
		require.GreaterOrEqual(r, r.seqs[by.Run], by.Seq, "%s before %s started it", record.Run, by.Run)
	}
	r.seqs[record.Run] = record.Seq
	r.places.Tell(record.Run, record.Seq)
}

// cut leaves, and comes again with the cursor.
func (r *reader) cut() {
	cursor := r.places.Cursor()
	r.told, r.places = r.follow(r.top, &cursor)
}

// grow makes a tree of three generations, of 25 records, and another one.
func (g *grove) grow() {
	g.turn("root")
	g.child("a", "root")
	g.turn("stranger")
	g.child("b", "root")
	g.nowMs++
	g.child("a1", "a")
	g.turn("a")
	g.child("a2", "a")
	g.child("of stranger", "stranger")
	g.nowMs++
	for range 3 {
		for _, id := range []string{"a2", "a1", "b", "root"} {
			g.turn(id)
		}
	}
	g.child("b1", "b")
	g.turn("root")
}

// all is what somebody sees who may see everything.
func all(_ context.Context, heads []run.Head) ([]run.Head, error) { return heads, nil }

func TestEventsOfATreeResumeAtEveryCut(t *testing.T) {
	g := newGrove(t)
	g.grow()
	const records = 25
	for cut := range records + 1 {
		r := g.reader("root")
		for at := range records {
			if at == cut {
				r.cut()
			}
			r.next()
		}
		require.Equal(t, map[string]uint64{"root": 7, "a": 4, "a1": 4, "a2": 4, "b": 5, "b1": 1}, r.seqs)
		if cut == records {
			r.cut() // nothing again, and what comes then
			g.nowMs++
			g.turn("a1")
			r.next()
			require.Equal(t, uint64(5), r.seqs["a1"])
		}
	}
	places, err := opaque.ReadPlaces(nil, "root")
	require.NoError(t, err)
	told, err := g.trees.follow(t.Context(), "acme", "root", places, func(_ context.Context, heads []run.Head) ([]run.Head, error) {
		return slices.DeleteFunc(heads, func(head run.Head) bool { return head.Run == "b" || head.Parent == "b" }), nil
	})
	require.NoError(t, err)
	for range records + 1 - 6 {
		require.NotContains(t, (<-told).Run, "b", "what is hidden is left out")
	}
	below := g.reader("a")
	for range 13 {
		below.next()
	}
	require.Equal(t, map[string]uint64{"a": 4, "a1": 5, "a2": 4}, below.seqs, "a part of the tree has its own stream")
	fmt.Printf("level: L8 cuts of a tree's stream %d\n", records+1)
}

// Whatever is recorded while it is read, wherever it is cut, and whether or not
// anybody is told of it at once.
func TestEventsOfAGrowingTreeComeOnceEach(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 1))
			g := newGrove(t)
			g.turn("root")
			r, outstanding := g.reader("root"), 1
			for range 150 {
				g.nowMs += chance.Int64N(2)
				switch chance.IntN(8) {
				case 0:
					id, parent := fmt.Sprint("run ", len(g.runs)), g.runs[chance.IntN(len(g.runs))]
					g.child(id, parent)
					outstanding += 2
				case 1:
					r.cut()
				default:
					g.turn(g.runs[chance.IntN(len(g.runs))])
					outstanding++
				}
				for range chance.IntN(outstanding + 1) {
					r.next()
					outstanding--
				}
			}
			for range outstanding {
				r.next()
			}
			for id, head := range g.heads {
				require.Equal(t, head.Version, r.seqs[id], id)
			}
		})
	}
}

func TestAStreamOfATreeTakesNoOtherCursor(t *testing.T) {
	g := newGrove(t)
	g.grow()
	for id, seq := range map[string]uint64{"root": 8, "stranger": 1, "nowhere": 1} {
		places, err := opaque.ReadPlaces(nil, "root")
		require.NoError(t, err)
		places.Tell(id, seq)
		_, err = g.trees.follow(t.Context(), "acme", "root", places, all)
		require.ErrorIs(t, err, graph.ErrCursor, id)
	}
	for organisation, id := range map[string]string{"evil": "root", "acme": "nowhere"} {
		_, err := g.trees.follow(t.Context(), organisation, id, opaque.Places{}, all)
		require.ErrorIs(t, err, engine.ErrNotFound)
	}
}

package recollection

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"gantry.dev/cmd/gantry/bench/machine"
	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/index/qdrant"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
)

// measuring is the measurement of one number of items.
type measuring struct {
	config   SpeedConfig
	folder   string
	database machine.Database
	size     Size
	master   []byte
	running  *running
	plain    *plain
}

// running is memory as a process has it.
type running struct {
	journal *journal.Store
	store   *store.Store
	brain   *memory.Service
	indexes *opened
}

// opened notes which index memory opened.
type opened struct {
	index.Indexes
	space index.VectorSpace
	index index.Index
}

// Open opens the index of a vector space.
func (o *opened) Open(ctx context.Context, space index.VectorSpace) (index.Index, error) {
	found, err := o.Indexes.Open(ctx, space)
	o.space, o.index = space, found
	return found, err
}

func (m *measuring) open(ctx context.Context) (err error) {
	r := &running{indexes: &opened{Indexes: flat.New()}}
	m.running = r
	if m.config.Qdrant != "" {
		// A collection of its own, which is dropped at the end.
		prefix := "gantry-bench-" + strings.ToLower(filepath.Base(m.folder))
		if r.indexes.Indexes, err = qdrant.New(qdrant.Config{URL: m.config.Qdrant, Prefix: prefix, Timeout: time.Minute}); err != nil {
			return err
		}
	}
	if r.journal, err = journal.Open(ctx, journal.Config{DSN: m.database.DSN(), MasterKey: m.master}); err != nil {
		return err
	}
	databases := r.journal.Databases()
	r.store, err = store.New(store.Config{Write: databases.Write, Read: databases.Read, Postgres: databases.Postgres, MasterKey: m.master,
		Now: r.journal.Now, Relayed: m.config.Qdrant != ""})
	if err != nil {
		return err
	}
	r.brain, err = memory.New(ctx, memory.Config{Store: r.store, Indexes: r.indexes, Embedders: []embed.Embedder{embed.NewStatic()}, Quota: 1 << 30,
		Rules: func(context.Context, string) (memory.Rules, error) { return rules, nil }})
	return err
}

// rules take every label for one of the organisation's.
var rules = memory.Rules{Known: func(policy.Label) bool { return true }}

func (r *running) close() error {
	var faults []error
	if r.indexes != nil {
		faults = append(faults, r.indexes.Close())
	}
	if r.journal != nil {
		faults = append(faults, r.journal.Close())
	}
	return errors.Join(faults...)
}

func (m *measuring) close() error {
	var faults []error
	if m.running != nil {
		if m.config.Qdrant != "" && m.running.indexes.index != nil {
			faults = append(faults, m.running.indexes.Drop(context.Background(), m.running.indexes.space))
		}
		faults = append(faults, m.running.close())
	}
	if m.plain != nil {
		faults = append(faults, m.plain.db.Close())
	}
	return errors.Join(faults...)
}

// together is how many items go into a transaction.
const together = 500

// fill puts the items in as memory does, many at once, and their vectors into a
// plain table.
func (m *measuring) fill(ctx context.Context) (err error) {
	m.master = make([]byte, 32)
	if _, err := rand.Read(m.master); err != nil {
		return err
	}
	if err := m.open(ctx); err != nil {
		return err
	}
	if m.plain, err = newPlain(ctx, m.database); err != nil {
		return err
	}
	texts := newGenerator(1)
	var took, stored time.Duration
	for done := 0; done < m.size.Items; done += together {
		began := time.Now()
		batch, err := m.batch(ctx, texts, min(together, m.size.Items-done))
		if err != nil {
			return err
		}
		ready := time.Now()
		err = m.running.store.Write(ctx, ready.UnixMilli(), func(ctx context.Context, tx *store.Tx) error {
			for n := range batch {
				if err := tx.Insert(ctx, &batch[n].item, batch[n].readings); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		took, stored = took+time.Since(began), stored+time.Since(ready)
		for n := range batch {
			m.size.Views += len(batch[n].readings)
		}
		if err := m.plain.add(ctx, m.running.indexes.space.ID, batch); err != nil {
			return err
		}
	}
	m.size.Fill = Fill{Seconds: took.Seconds(), StoreSeconds: stored.Seconds(), ItemsPerSecond: float64(m.size.Items) / took.Seconds()}
	return m.settle(ctx)
}

// settle tells a server what is queued for it, and ends the process so far.
func (m *measuring) settle(ctx context.Context) error {
	if _, err := m.running.brain.Drain(ctx, memory.Relaying{}); err != nil {
		return err
	}
	if err := m.running.close(); err != nil {
		return err
	}
	m.running = nil
	files, err := filepath.Glob(filepath.Join(m.folder, "gantry.db*"))
	for _, file := range files {
		if strings.Contains(file, "-bare") {
			continue
		}
		if is, err := os.Stat(file); err == nil {
			m.size.Fill.BytesOnDisk += is.Size()
		}
	}
	return err
}

// kept is an item with its views.
type kept struct {
	item     view.Item
	readings []store.Reading
}

// batch makes items ready to be kept.
func (m *measuring) batch(ctx context.Context, texts *generator, count int) ([]kept, error) {
	embedder, space := embed.NewStatic(), m.running.indexes.space.ID
	etags, terms := m.running.store.Key(measuredOrganisation, "etag"), m.running.store.Key(measuredOrganisation, "terms")
	batch := make([]kept, count)
	for n := range batch {
		draft := texts.draft()
		writer := view.Reader{Organisation: measuredOrganisation, Principal: fmt.Sprintf("writer-%d", n%50), Write: []view.Space{draft.Space}, Read: []view.Space{draft.Space}}
		item, err := memory.Prepare(draft, writer, rules, time.Now().UnixMilli())
		if err != nil {
			return nil, err
		}
		item.ID, item.Version = m.running.store.NewID(), 1
		views, err := view.ViewsOf(&item, etags)
		if err != nil {
			return nil, err
		}
		batch[n].item = item
		for _, v := range views {
			vectors, err := embedder.Embed(ctx, []string{v.Text})
			if err != nil {
				return nil, err
			}
			batch[n].readings = append(batch[n].readings, store.Reading{View: v, Terms: rank.DocumentTerms(terms, v.Text),
				Vectors: map[string][]float32{space: vectors[0]}})
		}
	}
	return batch, nil
}

// start begins anew, until the first question is answered.
func (m *measuring) start(ctx context.Context) error {
	debug.FreeOSMemory()
	before := machine.Resident(os.Getpid())
	began := time.Now()
	if err := m.open(ctx); err != nil {
		return err
	}
	if _, err := m.running.brain.Recall(ctx, knownReaders()[0].Reader, memory.Question{Text: newGenerator(2).question()}); err != nil {
		return err
	}
	m.size.Start.Seconds = time.Since(began).Seconds()
	debug.FreeOSMemory()
	m.size.Start.ResidentBytes = int64(machine.Resident(os.Getpid())) - int64(before)
	return nil
}

// write remembers items one by one.
func (m *measuring) write(ctx context.Context) error {
	texts, writer := newGenerator(3), knownReaders()[1].Reader
	for n := range spacesOfAll {
		writer.Write = append(writer.Write[:n:n], spaceNumber(n))
	}
	writer.Read = writer.Write
	var times []time.Duration
	began := time.Now()
	for range m.config.Writes {
		draft, from := texts.draft(), time.Now()
		if _, err := m.running.brain.Remember(ctx, writer, draft); err != nil {
			return err
		}
		times = append(times, time.Since(from))
	}
	m.size.Write = Writes{PerSecond: float64(len(times)) / time.Since(began).Seconds(), Ms: machine.QuantilesOf(times)}
	return nil
}

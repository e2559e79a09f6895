package recollection

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
)

// house is a memory of its own, on SQLite with the index of the process.
type house struct {
	folder  string
	journal *journal.Store
	brain   *memory.Service
	nowMs   atomic.Int64
}

// build makes it in a folder in the parent; raze takes everything away again.
func build(ctx context.Context, parent string, embedder embed.Embedder) (h *house, err error) {
	h = &house{}
	if h.folder, err = os.MkdirTemp(parent, "gantry-recall-"); err != nil {
		return nil, err
	}
	if err := h.open(ctx, embedder); err != nil {
		return nil, errors.Join(err, h.raze())
	}
	return h, nil
}

func (h *house) open(ctx context.Context, embedder embed.Embedder) (err error) {
	master := make([]byte, 32)
	if _, err := rand.Read(master); err != nil {
		return err
	}
	h.journal, err = journal.Open(ctx, journal.Config{DSN: "sqlite:" + filepath.Join(h.folder, "memory.db"), MasterKey: master, Clock: h.nowMs.Load})
	if err != nil {
		return err
	}
	databases := h.journal.Databases()
	kept, err := store.New(store.Config{Write: databases.Write, Read: databases.Read, Postgres: databases.Postgres, MasterKey: master, Now: h.journal.Now})
	if err != nil {
		return err
	}
	h.brain, err = memory.New(ctx, memory.Config{Store: kept, Indexes: flat.New(), Embedders: []embed.Embedder{embedder}})
	return err
}

func (h *house) raze() error {
	var closed error
	if h.journal != nil {
		closed = h.journal.Close()
	}
	return errors.Join(closed, os.RemoveAll(h.folder))
}

// remembered is a conversation in a memory.
type remembered struct {
	*house
	reader view.Reader
	nowMs  int64
	turns  map[string][]string // by item: what was said twice is remembered once
}

// remember tells memory each turn at its time.
func (h *house) remember(ctx context.Context, c conversation) (*remembered, error) {
	space := view.SpaceOf(view.SpaceConversation, strconv.Itoa(c.Number))
	r := &remembered{house: h, nowMs: c.lastMs(), turns: map[string][]string{}, reader: view.Reader{
		Organisation: "measured", Principal: "measured", Read: []view.Space{space}, Write: []view.Space{space},
	}}
	for _, one := range c.Items {
		h.nowMs.Store(one.RecordedMs)
		kept, err := h.brain.Remember(ctx, r.reader, memory.Draft{
			Space: space, Kind: view.Episode, Text: one.Text, Integrity: policy.Untrusted, ValidFromMs: one.RecordedMs,
			Source: view.Source{Kind: view.FromElsewhere, Ref: one.Ref, Position: one.Position},
		})
		if err != nil {
			return nil, fmt.Errorf("turn %s of conversation %d: %w", one.ID, c.Number, err)
		}
		r.turns[kept.Item.ID] = append(r.turns[kept.Item.ID], one.ID)
	}
	return r, nil
}

func (r *remembered) recall(ctx context.Context, text string, limit int) ([]string, error) {
	r.house.nowMs.Store(r.nowMs)
	answer, err := r.brain.Recall(ctx, r.reader, memory.Question{Text: text, Limit: limit})
	if err != nil {
		return nil, err
	}
	var found []string
	for _, hit := range answer.Hits {
		found = append(found, r.turns[hit.ID]...)
	}
	return found[:min(len(found), limit)], nil
}

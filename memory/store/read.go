package store

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Load returns items whole, by id; those that are not there are left out. It
// knows no reader: what it returns is rendered before anybody gets it.
func (s *Store) Load(ctx context.Context, organisation string, ids []string) (map[string]*view.Item, error) {
	return s.load(ctx, s.read, organisation, ids)
}

// Load returns items as they are within the transaction.
func (t *Tx) Load(ctx context.Context, organisation string, ids []string) (map[string]*view.Item, error) {
	return t.store.load(ctx, t.conn, organisation, ids)
}

func (s *Store) load(ctx context.Context, c conn, organisation string, ids []string) (map[string]*view.Item, error) {
	found := map[string]*view.Item{}
	if len(ids) == 0 {
		return found, nil
	}
	keys, err := s.keys.ring(organisation)
	if err != nil {
		return nil, err
	}
	sealers := map[string]sealer{}
	rows, err := c.query(ctx, "SELECT i.id, i.space, i.kind, i.integrity, i.valid_from, i.valid_to, i.recorded_ms, i.expires_ms, i.archived, i.version, i.sealed, k.wrapped "+
		"FROM memory_items i JOIN memory_keys k ON k.item = i.id WHERE "+c.unled("i.organisation")+" = ? AND "+c.among("i.id"), organisation, list(c, ids))
	err = each(rows, err, func(scan func(...any) error) error {
		item := &view.Item{Organisation: organisation}
		var integrity int
		var archived int
		var sealed, wrapped []byte
		if err := scan(&item.ID, &item.Space, &item.Kind, &integrity, &item.ValidFromMs, &item.ValidToMs, &item.RecordedMs, &item.ExpiresMs,
			&archived, &item.Version, &sealed, &wrapped); err != nil {
			return err
		}
		sealing, err := keys.unwrap(item.ID, wrapped)
		if err != nil {
			return err
		}
		var m meta
		if err := sealing.openJSON(roleItem, sealed, &m); err != nil {
			return err
		}
		item.Integrity, item.Archived, item.Subject, item.Source = policy.Integrity(integrity), archived != 0, m.Subject, m.Source
		found[item.ID], sealers[item.ID] = item, sealing
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := loadSegments(ctx, c, found, sealers); err != nil {
		return nil, err
	}
	return found, loadRelations(ctx, c, found)
}

func loadSegments(ctx context.Context, c conn, found map[string]*view.Item, sealers map[string]sealer) error {
	rows, err := c.query(ctx, "SELECT item, ord, sealed FROM memory_segments WHERE "+c.among("item")+" ORDER BY item, ord",
		list(c, slices.Sorted(keysOf(found))))
	return each(rows, err, func(scan func(...any) error) error {
		var id string
		var ord int
		var sealed []byte
		if err := scan(&id, &ord, &sealed); err != nil {
			return err
		}
		var form segmentForm
		if err := sealers[id].openJSON(roleSegment+strconv.Itoa(ord), sealed, &form); err != nil {
			return err
		}
		found[id].Segments = append(found[id].Segments, view.Segment(form))
		return nil
	})
}

func loadRelations(ctx context.Context, c conn, found map[string]*view.Item) error {
	rows, err := c.query(ctx, "SELECT from_item, kind, to_item FROM memory_relations WHERE "+c.among("from_item")+" ORDER BY from_item, kind, ord",
		list(c, slices.Sorted(keysOf(found))))
	return each(rows, err, func(scan func(...any) error) error {
		var from, to string
		var kind view.RelationKind
		if err := scan(&from, &kind, &to); err != nil {
			return err
		}
		if kind == view.Supersedes {
			found[from].Supersedes = append(found[from].Supersedes, to)
		} else {
			found[from].DerivedFrom = append(found[from].DerivedFrom, to)
		}
		return nil
	})
}

// Succession returns, without their texts, the items with these ids and all
// that supersede any of them, directly or through others, with who supersedes
// whom: the ids of the successors by the id that they supersede.
func (s *Store) Succession(ctx context.Context, organisation string, ids []string) (outlines map[string]*view.Item, after map[string][]string, err error) {
	return successionOf(ctx, s.read, organisation, ids)
}

// Successors is Succession without the items themselves.
func (s *Store) Successors(ctx context.Context, organisation string, ids []string) (outlines map[string]*view.Item, after map[string][]string, err error) {
	after, err = afterOf(ctx, s.read, ids)
	if err != nil {
		return nil, nil, err
	}
	var next []string
	for _, from := range after {
		next = append(next, from...)
	}
	outlines, err = outlinesOf(ctx, s.read, organisation, next)
	return outlines, after, err
}

// Succession is the same within the transaction.
func (t *Tx) Succession(ctx context.Context, organisation string, ids []string) (outlines map[string]*view.Item, after map[string][]string, err error) {
	return successionOf(ctx, t.conn, organisation, ids)
}

func successionOf(ctx context.Context, c conn, organisation string, ids []string) (outlines map[string]*view.Item, after map[string][]string, err error) {
	after, err = afterOf(ctx, c, ids)
	if err != nil {
		return nil, nil, err
	}
	all := slices.Clone(ids)
	for _, next := range after {
		all = append(all, next...)
	}
	slices.Sort(all)
	outlines, err = outlinesOf(ctx, c, organisation, slices.Compact(all))
	return outlines, after, err
}

// afterOf returns who supersedes items, and who supersedes those, by the id that
// is superseded.
func afterOf(ctx context.Context, c conn, ids []string) (after map[string][]string, err error) {
	known := map[string]bool{}
	after = map[string][]string{}
	for waiting := ids; len(waiting) > 0; {
		for _, id := range waiting {
			known[id] = true
		}
		var next []string
		rows, err := c.query(ctx, "SELECT from_item, to_item FROM memory_relations WHERE kind = ? AND "+c.among("to_item")+" ORDER BY from_item",
			string(view.Supersedes), list(c, waiting))
		err = each(rows, err, func(scan func(...any) error) error {
			var from, to string
			if err := scan(&from, &to); err != nil {
				return err
			}
			after[to] = append(after[to], from)
			if !known[from] {
				known[from] = true
				next = append(next, from)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		waiting = next
	}
	return after, nil
}

// Outlines returns items without their texts, by id: what says who sees them
// and when, and who wrote them.
func (s *Store) Outlines(ctx context.Context, organisation string, ids []string) (map[string]*view.Item, error) {
	return outlinesOf(ctx, s.read, organisation, ids)
}

// Outlines is the same within the transaction.
func (t *Tx) Outlines(ctx context.Context, organisation string, ids []string) (map[string]*view.Item, error) {
	return outlinesOf(ctx, t.conn, organisation, ids)
}

func outlinesOf(ctx context.Context, c conn, organisation string, ids []string) (map[string]*view.Item, error) {
	found := map[string]*view.Item{}
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := c.query(ctx, "SELECT i.id, i.space, i.integrity, i.valid_from, i.valid_to, i.recorded_ms, i.expires_ms, i.archived, i.principal, i.run, m.labels "+
		"FROM memory_items i JOIN memory_segments g ON g.item = i.id JOIN memory_sets m ON m.organisation = i.organisation AND m.id = g.set_id WHERE "+
		c.unled("i.organisation")+" = ? AND "+c.among("i.id"), organisation, list(c, ids))
	err = each(rows, err, func(scan func(...any) error) error {
		var one view.Item
		var integrity, archived int
		var text string
		if err := scan(&one.ID, &one.Space, &integrity, &one.ValidFromMs, &one.ValidToMs, &one.RecordedMs, &one.ExpiresMs, &archived,
			&one.Source.Principal, &one.Source.Run, &text); err != nil {
			return err
		}
		item := found[one.ID]
		if item == nil {
			one.Organisation, one.Integrity, one.Archived = organisation, policy.Integrity(integrity), archived != 0
			item = &one
			found[one.ID] = item
		}
		var labels policy.Labels
		err := json.Unmarshal([]byte(text), &labels)
		item.Segments = append(item.Segments, view.Segment{Labels: labels})
		return err
	})
	return found, err
}

// Same returns the ids of items with a view.SameKey, the newest first.
func (t *Tx) Same(ctx context.Context, organisation, key string) ([]string, error) {
	return column(t.query(ctx, "SELECT id FROM memory_items WHERE organisation = ? AND same_key = ? ORDER BY "+t.unled("recorded_ms")+" DESC, id DESC", organisation, key))
}

// Versions returns the present versions of items, by id.
func (t *Tx) Versions(ctx context.Context, organisation string, ids []string) (map[string]uint64, error) {
	versions := map[string]uint64{}
	rows, err := t.query(ctx, "SELECT id, version FROM memory_items WHERE "+t.unled("organisation")+" = ? AND "+t.among("id"), organisation, list(t.conn, ids))
	err = each(rows, err, func(scan func(...any) error) error {
		var id string
		var version int64
		err := scan(&id, &version)
		versions[id] = uint64(version)
		return err
	})
	return versions, err
}

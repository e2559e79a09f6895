package store

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"gantry.dev/memory/view"
)

// errBusy means that somebody still reads what was there before.
var errBusy = errors.New("the log cannot be cut short while somebody reads")

// clear takes out everything that follows from the text of items, with the
// counts of terms that they are in.
func (t *Tx) clear(ctx context.Context, organisation string, ids []string) error {
	if err := t.untally(ctx, organisation, ids); err != nil {
		return err
	}
	for _, table := range []string{"memory_segments", "memory_views", "memory_vectors"} {
		if _, err := t.exec(ctx, "DELETE FROM "+table+" WHERE "+t.among("item"), list(t.conn, ids)); err != nil {
			return err
		}
	}
	return nil
}

// Holdings counts what the store has of items, by what it holds, as far as a
// reader is cleared for it.
func (t *Tx) Holdings(ctx context.Context, scope Scope, ids []string) (map[string]int, error) {
	counts := map[string]int{}
	for what, table := range map[string]string{"segments": "memory_segments", "views": "memory_views", "vectors": "memory_vectors"} {
		var n int
		if err := each1(ctx, t.conn, "SELECT count(*) FROM "+table+" WHERE "+t.among("item")+" AND "+t.among("set_id"),
			[]any{list(t.conn, ids), list(t.conn, scope.Sets)}, &n); err != nil {
			return nil, err
		}
		counts[what] = n
	}
	return counts, nil
}

// untally takes the terms of items out of the counts.
func (t *Tx) untally(ctx context.Context, organisation string, ids []string) error {
	keys, err := t.store.keys.ring(organisation)
	if err != nil {
		return err
	}
	taken := map[bag]map[int64]int{}
	rows, err := t.query(ctx, "SELECT i.id, i.space, k.wrapped, v.set_id, v.terms FROM memory_items i JOIN memory_keys k ON k.item = i.id "+
		"JOIN memory_views v ON v.item = i.id WHERE "+t.among("i.id"), list(t.conn, ids))
	err = each(rows, err, func(scan func(...any) error) error {
		var id string
		var wrapped, sealed []byte
		in := bag{organisation: organisation}
		if err := scan(&id, &in.space, &wrapped, &in.set, &sealed); err != nil {
			return err
		}
		sealing, err := keys.unwrap(id, wrapped)
		if err != nil {
			return err
		}
		plain, err := sealing.open(roleTerms+in.set, sealed)
		if err != nil {
			return err
		}
		if taken[in] == nil {
			taken[in] = map[int64]int{}
		}
		for term, n := range counts(decodeTerms(plain)) {
			taken[in][term] -= n
		}
		return nil
	})
	if err != nil {
		return err
	}
	bags := make([]bag, 0, len(taken))
	for in := range taken {
		bags = append(bags, in)
	}
	slices.SortFunc(bags, compareBags)
	for _, in := range bags {
		if err := t.tally(ctx, in, taken[in]); err != nil {
			return err
		}
		if _, err := t.exec(ctx, "DELETE FROM memory_terms WHERE organisation = ? AND space = ? AND set_id = ? AND views <= 0", in.organisation, in.space, in.set); err != nil {
			return err
		}
	}
	return nil
}

// Closure locks and returns what goes with items, sorted; see view.Closure. What
// is not there any more is not in it.
func (t *Tx) Closure(ctx context.Context, organisation string, ids []string) ([]string, error) {
	closure, err := view.Closure(ids, func(kind view.RelationKind, ids []string) (relations []view.Relation, _ error) {
		if _, err := t.Lock(ctx, organisation, ids, true); err != nil {
			return nil, err
		}
		here, there := "from_item", "to_item"
		if kind == view.Derives {
			here, there = there, here
		}
		rows, err := t.query(ctx, "SELECT from_item, to_item FROM memory_relations WHERE kind = ? AND "+t.among(here)+" ORDER BY "+there, string(kind), list(t.conn, ids))
		err = each(rows, err, func(scan func(...any) error) error {
			relation := view.Relation{Kind: kind}
			err := scan(&relation.From, &relation.To)
			relations = append(relations, relation)
			return err
		})
		return relations, err
	})
	if err != nil {
		return nil, err
	}
	return t.Lock(ctx, organisation, closure, true)
}

// Lock returns those of the items that are there, sorted, and keeps everybody
// from erasing them until the transaction ends; to change them, it keeps others
// from relating to them, too.
func (t *Tx) Lock(ctx context.Context, organisation string, ids []string, change bool) ([]string, error) {
	how := "SHARE"
	if change {
		how = "UPDATE"
	}
	return column(t.query(ctx, "SELECT item FROM memory_generations WHERE organisation = ? AND erased = 0 AND "+t.among("item")+" ORDER BY item"+t.locking(how),
		organisation, list(t.conn, ids)))
}

// Erase takes items out with everything that belongs to them. That they were
// there, by their ids, stays.
func (t *Tx) Erase(ctx context.Context, organisation string, ids []string) error {
	if err := t.uncount(ctx, organisation, ids); err != nil {
		return err
	}
	if err := t.clear(ctx, organisation, ids); err != nil {
		return err
	}
	for _, text := range []string{
		"DELETE FROM memory_keys WHERE " + t.among("item"),
		"DELETE FROM memory_relations WHERE " + t.among("from_item"),
		"DELETE FROM memory_relations WHERE " + t.among("to_item"),
		"DELETE FROM memory_items WHERE " + t.among("id"),
		// A repeat of the command that wrote it must not bring it back, and nobody
		// must be able to guess the text by the command's digest.
		"UPDATE memory_commands SET request = '' WHERE " + t.among("item"),
		"UPDATE memory_generations SET erased = 1, version = version + 1, changed = " + t.position() + " WHERE " + t.among("item"),
	} {
		if _, err := t.exec(ctx, text, list(t.conn, ids)); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := t.announce(ctx, organisation, id, 0); err != nil {
			return err
		}
	}
	return nil
}

// uncount takes items out of what their writers have.
func (t *Tx) uncount(ctx context.Context, organisation string, ids []string) error {
	own := map[string]int{}
	rows, err := t.query(ctx, "SELECT principal, count(*) FROM memory_items WHERE "+t.among("id")+" GROUP BY principal", list(t.conn, ids))
	err = each(rows, err, func(scan func(...any) error) error {
		var principal string
		var n int
		err := scan(&principal, &n)
		own[principal] = n
		return err
	})
	if err != nil {
		return err
	}
	for _, principal := range slices.Sorted(keysOf(own)) {
		if err := t.count(ctx, organisation, principal, -own[principal]); err != nil {
			return err
		}
	}
	return nil
}

// Scrub makes the database's files forget what was deleted, as far as the
// database can: free pages of SQLite are written over and its log is cut short;
// PostgreSQL's dead rows are removed.
func (s *Store) Scrub(ctx context.Context) error {
	if s.config.Postgres {
		_, err := s.config.Write.ExecContext(ctx, "VACUUM memory_keys, memory_segments, memory_items, memory_views, memory_vectors, memory_terms, memory_relations, memory_commands")
		return failed(err)
	}
	var busy, log, done int
	err := s.config.Write.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &done)
	if err == nil && busy != 0 {
		err = errBusy
	}
	return failed(err)
}

// Forgetting runs one transaction that erases; on SQLite what it frees is
// written over.
func (s *Store) Forgetting(ctx context.Context, nowMs int64, write func(ctx context.Context, tx *Tx) error) error {
	if s.config.Postgres {
		return s.Write(ctx, nowMs, write)
	}
	one, err := s.config.Write.Conn(ctx)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = one.Close() }() // it goes back to the pool
	if _, err := one.ExecContext(ctx, "PRAGMA secure_delete = ON"); err != nil {
		return failed(err)
	}
	return s.transact(ctx, one, nowMs, write)
}

// Left counts what is left of items, by what it holds. It is empty where they
// are erased.
func (s *Store) Left(ctx context.Context, ids []string) (map[string]int, error) {
	left := map[string]int{}
	for what, where := range map[string]string{
		"items": "memory_items WHERE " + s.read.among("id"), "keys": "memory_keys WHERE " + s.read.among("item"),
		"segments": "memory_segments WHERE " + s.read.among("item"), "views": "memory_views WHERE " + s.read.among("item"),
		"vectors": "memory_vectors WHERE " + s.read.among("item"), "relations": "memory_relations WHERE " + s.read.among("from_item"),
	} {
		var n int
		if err := each1(ctx, s.read, "SELECT count(*) FROM "+where, []any{list(s.read, ids)}, &n); err != nil {
			return nil, err
		}
		if n > 0 {
			left[what] = n
		}
	}
	return left, nil
}

func compareBags(a, b bag) int {
	return cmp.Or(cmp.Compare(a.organisation, b.organisation), cmp.Compare(a.space, b.space), cmp.Compare(a.set, b.set))
}

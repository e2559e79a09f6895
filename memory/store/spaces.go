package store

import (
	"context"
	"slices"
	"strings"

	"gantry.dev/memory/index"
)

// The states of a vector space.
const (
	Building = "BUILDING" // views get vectors, searches do not use them yet
	Active   = "ACTIVE"
	Retired  = "RETIRED" // it has no vectors, or soon has none
)

// SpaceState is a vector space and its state.
type SpaceState struct {
	index.VectorSpace
	State string
}

const spacesInState = "SELECT id, model, dim, state FROM memory_vector_spaces WHERE "

// Spaces returns the vector spaces that views have vectors in, by id.
func (s *Store) Spaces(ctx context.Context) ([]SpaceState, error) {
	return s.read.spaces(ctx, spacesInState+"state <> ? ORDER BY id", Retired)
}

// Spaces is the same within the transaction. They stay as they are until it ends;
// to change them, it waits for others to whom that matters.
func (t *Tx) Spaces(ctx context.Context, change bool) ([]SpaceState, error) {
	how := "SHARE"
	if change {
		how = "UPDATE"
	}
	return t.spaces(ctx, spacesInState+"state <> ? ORDER BY id"+t.locking(how), Retired)
}

// AllSpaces returns every vector space that there ever was, by id.
func (t *Tx) AllSpaces(ctx context.Context) ([]SpaceState, error) {
	return t.spaces(ctx, "SELECT id, model, dim, state FROM memory_vector_spaces ORDER BY id")
}

func (c conn) spaces(ctx context.Context, query string, args ...any) (found []SpaceState, _ error) {
	rows, err := c.query(ctx, query, args...)
	err = each(rows, err, func(scan func(...any) error) error {
		var one SpaceState
		err := scan(&one.ID, &one.Model, &one.Dim, &one.State)
		found = append(found, one)
		return err
	})
	return found, err
}

// VectorSpaces returns the vector spaces in some states, by id.
func (s *Store) VectorSpaces(ctx context.Context, states ...string) (spaces []index.VectorSpace, _ error) {
	found, err := s.read.spaces(ctx, spacesInState+s.read.among("state")+" ORDER BY id", list(s.read, states))
	for _, one := range found {
		spaces = append(spaces, one.VectorSpace)
	}
	return spaces, err
}

// KeepVectorSpace says in which state a vector space is.
func (t *Tx) KeepVectorSpace(ctx context.Context, space index.VectorSpace, state string) error {
	_, err := t.exec(ctx, "INSERT INTO memory_vector_spaces (id, model, dim, state) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET state = excluded.state",
		space.ID, space.Model, space.Dim, state)
	return err
}

// Switch makes these vector spaces the active ones, and retires all others, in
// one statement.
func (t *Tx) Switch(ctx context.Context, active []string) error {
	_, err := t.exec(ctx, "UPDATE memory_vector_spaces SET state = CASE WHEN "+t.among("id")+" THEN ? ELSE ? END", list(t.conn, active), Active, Retired)
	return err
}

// Lacking returns items after an id, in order, that have a view in some label
// sets without a vector in a vector space.
func (s *Store) Lacking(ctx context.Context, organisation, vectorSpace string, sets []string, after string, limit int) ([]string, error) {
	return s.read.lacking(ctx, organisation, vectorSpace, sets, after, limit)
}

// Lacking is the same within the transaction.
func (t *Tx) Lacking(ctx context.Context, organisation, vectorSpace string, sets []string, after string, limit int) ([]string, error) {
	return t.lacking(ctx, organisation, vectorSpace, sets, after, limit)
}

func (c conn) lacking(ctx context.Context, organisation, vectorSpace string, sets []string, after string, limit int) ([]string, error) {
	return column(c.query(ctx, "SELECT g.item FROM memory_generations g WHERE g.organisation = ? AND g.erased = 0 AND "+c.after("g.item")+" AND EXISTS "+
		"(SELECT 1 FROM memory_views v WHERE v.item = g.item AND "+c.among("v.set_id")+" AND NOT EXISTS "+
		"(SELECT 1 FROM memory_vectors x WHERE x.item = v.item AND x.set_id = v.set_id AND x.vector_space = ?)) "+c.byItem("g.item")+" LIMIT ?",
		organisation, after, list(c, sets), vectorSpace, limit))
}

// byItem orders by an id as indexes do: by its bytes, whatever the database's
// collation.
func (c conn) byItem(column string) string {
	if c.postgres {
		return "ORDER BY " + column + ` COLLATE "C"`
	}
	return "ORDER BY " + column
}

// after is a condition that an id comes after another in the order of byItem.
func (c conn) after(column string) string {
	if c.postgres {
		return column + ` COLLATE "C" > ?`
	}
	return column + " > ?"
}

// AddVectors keeps vectors of items that are locked. Whoever follows the store
// finds them anew where renew says so: then each is a new version of its item.
func (t *Tx) AddVectors(ctx context.Context, organisation string, vectors []Vector, renew bool) error {
	keys, err := t.store.keys.ring(organisation)
	if err != nil {
		return err
	}
	var last string
	var sealing sealer
	for _, v := range vectors {
		if v.Item != last {
			var wrapped []byte
			if err := each1(ctx, t.conn, "SELECT wrapped FROM memory_keys WHERE item = ?", []any{v.Item}, &wrapped); err != nil {
				return err
			}
			if sealing, err = keys.unwrap(v.Item, wrapped); err != nil {
				return err
			}
			if err := t.touch(ctx, organisation, v.Item, renew); err != nil {
				return err
			}
			last = v.Item
		}
		if err := t.insertVector(ctx, sealing, v); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tx) touch(ctx context.Context, organisation, item string, renew bool) error {
	if renew {
		for _, text := range []string{
			"UPDATE memory_items SET version = version + 1 WHERE id = ?",
			"UPDATE memory_generations SET version = version + 1, changed = " + t.position() + " WHERE item = ?",
		} {
			if _, err := t.exec(ctx, text, item); err != nil {
				return err
			}
		}
	}
	return t.announce(ctx, organisation, item, 1)
}

// HasVectors reports whether there are vectors in a vector space.
func (s *Store) HasVectors(ctx context.Context, vectorSpace string) (has bool, err error) {
	var n int
	err = each1(ctx, s.read, "SELECT count(*) FROM (SELECT 1 FROM memory_vectors WHERE vector_space = ? LIMIT 1) AS one", []any{vectorSpace}, &n)
	return n > 0, err
}

// DropVectors deletes the vectors of a vector space, some at a time, and what
// the database's files still hold of them.
func (s *Store) DropVectors(ctx context.Context, vectorSpace string) error {
	for done := false; !done; {
		err := s.Forgetting(ctx, 0, func(ctx context.Context, tx *Tx) error {
			items, err := column(tx.query(ctx, "SELECT DISTINCT item FROM memory_vectors WHERE vector_space = ? LIMIT 1000", vectorSpace))
			if err != nil || len(items) == 0 {
				done = err == nil
				return err
			}
			_, err = tx.exec(ctx, "DELETE FROM memory_vectors WHERE vector_space = ? AND "+tx.among("item"), vectorSpace, list(tx.conn, items))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Organisations returns those of which there is or was anything, by name.
func (s *Store) Organisations(ctx context.Context) ([]string, error) {
	found, err := column(s.read.query(ctx, "SELECT DISTINCT organisation FROM memory_generations"))
	slices.SortFunc(found, strings.Compare)
	return found, err
}

// Refs returns what an index must hold of so many of an organisation's items
// after an id, in the order of index.Held, and the last of these items; none where
// there are no more.
func (s *Store) Refs(ctx context.Context, organisation, after string, limit int) (refs []index.Ref, last string, _ error) {
	c := s.read
	rows, err := c.query(ctx, "SELECT s.item, s.version, v.set_id FROM (SELECT item, version FROM memory_generations WHERE organisation = ? AND erased = 0 AND "+
		c.after("item")+" "+c.byItem("item")+" LIMIT ?) AS s LEFT JOIN memory_views v ON v.item = s.item "+c.byItem("s.item"), organisation, after, limit)
	items := 0
	err = each(rows, err, func(scan func(...any) error) error {
		var ref index.Ref
		var set *string
		if err := scan(&ref.Item, &ref.Version, &set); err != nil {
			return err
		}
		if ref.Item != last {
			last = ref.Item
			items++
		}
		if set != nil {
			ref.Set = *set
			refs = append(refs, ref)
		}
		return nil
	})
	if items < limit {
		last = ""
	}
	slices.SortFunc(refs, index.CompareRefs)
	return refs, last, err
}

// Strangers returns those of the items that an organisation never had.
func (s *Store) Strangers(ctx context.Context, organisation string, items []string) ([]string, error) {
	known, err := column(s.read.query(ctx, "SELECT item FROM memory_generations WHERE organisation = ? AND "+s.read.among("item"), organisation, list(s.read, items)))
	return slices.DeleteFunc(slices.Clone(items), func(item string) bool { return slices.Contains(known, item) }), err
}

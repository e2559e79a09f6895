package store

import (
	"context"
	"encoding/json"

	"gantry.dev/memory/index"
	"gantry.dev/memory/view"
)

// Change is a version of an item that was committed.
type Change struct {
	Item    string
	Version uint64
}

// Changed returns what was committed since a cursor, 0 for everything, and the
// cursor from which the next question goes on. What was committed by then is in
// the answer or in an earlier one, however late its transaction ended; some of
// it may be in both.
func (s *Store) Changed(ctx context.Context, since int64) (changes []Change, next int64, err error) {
	// On PostgreSQL everything below the oldest transaction that is still open
	// has ended, and is in this snapshot.
	query := "SELECT (SELECT coalesce(max(changed), 0) + 1 FROM memory_generations), g.item, g.version " +
		"FROM (SELECT 1) LEFT JOIN memory_generations g ON g.changed >= ? ORDER BY g.changed, g.item"
	if s.config.Postgres {
		query = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, g.item, g.version " +
			"FROM (SELECT 1) AS one LEFT JOIN memory_generations g ON g.changed >= ? ORDER BY g.changed, g.item"
	}
	rows, err := s.read.query(ctx, query, since)
	err = each(rows, err, func(scan func(...any) error) error {
		var item *string
		var version *int64
		if err := scan(&next, &item, &version); err != nil || item == nil {
			return err
		}
		changes = append(changes, Change{*item, uint64(*version)})
		return nil
	})
	return changes, next, err
}

// States returns the present state of items in one vector space: what an index
// must hold of them. An item that is not there any more has no points.
func (s *Store) States(ctx context.Context, vectorSpace string, ids []string) ([]index.State, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	at := map[string]int{}
	var states []index.State
	// One statement, so that all of it is from one moment.
	rows, err := s.read.query(ctx, "SELECT g.item, g.organisation, g.version, i.space, i.expires_ms, k.wrapped, v.set_id, v.omit, v.terms, x.sealed "+
		"FROM memory_generations g LEFT JOIN memory_items i ON i.id = g.item AND g.erased = 0 LEFT JOIN memory_keys k ON k.item = i.id "+
		"LEFT JOIN memory_views v ON v.item = i.id LEFT JOIN memory_vectors x ON x.item = v.item AND x.set_id = v.set_id AND x.vector_space = ? "+
		"WHERE "+s.read.among("g.item")+" ORDER BY g.item, v.set_id", vectorSpace, list(s.read, ids))
	rings := map[string]ring{}
	err = each(rows, err, func(scan func(...any) error) error {
		var state index.State
		var row pointRow
		if err := scan(&state.Item, &state.Organisation, &state.Version, &row.space, &row.expiresMs, &row.wrapped, &row.set, &row.omit, &row.terms, &row.vector); err != nil {
			return err
		}
		n, met := at[state.Item]
		if !met {
			n = len(states)
			at[state.Item] = n
			states = append(states, state)
		}
		if row.space == nil || row.set == nil {
			return nil
		}
		keys, met := rings[state.Organisation]
		if !met {
			var err error
			if keys, err = s.keys.ring(state.Organisation); err != nil {
				return err
			}
			rings[state.Organisation] = keys
		}
		point, err := row.point(keys, state.Item, vectorSpace)
		states[n].Space = view.Space(*row.space)
		states[n].Points = append(states[n].Points, point)
		return err
	})
	return states, err
}

// pointRow is what of a view is in the tables; nil where the item is gone.
type pointRow struct {
	space, set, omit       *string
	expiresMs              *int64
	wrapped, terms, vector []byte
}

func (r pointRow) point(keys ring, item, vectorSpace string) (point index.Point, err error) {
	point = index.Point{Set: *r.set, ExpiresMs: *r.expiresMs}
	if err := json.Unmarshal([]byte(*r.omit), &point.Omit); err != nil {
		return point, err
	}
	sealing, err := keys.unwrap(item, r.wrapped)
	if err != nil {
		return point, err
	}
	terms, err := sealing.open(roleTerms+point.Set, r.terms)
	if err != nil {
		return point, err
	}
	point.Terms = decodeTerms(terms)
	if r.vector == nil {
		return point, nil
	}
	vector, err := sealing.open(roleVector+point.Set+"\x00"+vectorSpace, r.vector)
	point.Vector = decodeVector(vector)
	return point, err
}

// Expired returns items whose time is over, by organisation.
func (s *Store) Expired(ctx context.Context, nowMs int64, limit int) (byOrganisation map[string][]string, _ error) {
	byOrganisation = map[string][]string{}
	rows, err := s.read.query(ctx, "SELECT organisation, id FROM memory_items WHERE expires_ms > 0 AND expires_ms <= ? ORDER BY expires_ms, id LIMIT ?", nowMs, limit)
	err = each(rows, err, func(scan func(...any) error) error {
		var organisation, id string
		err := scan(&organisation, &id)
		byOrganisation[organisation] = append(byOrganisation[organisation], id)
		return err
	})
	return byOrganisation, err
}

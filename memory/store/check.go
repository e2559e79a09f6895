package store

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"gantry.dev/memory/index"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Sets returns the label sets that an organisation's memory has, by id.
func (s *Store) Sets(ctx context.Context, organisation string) (map[string]policy.Labels, error) {
	sets := map[string]policy.Labels{}
	rows, err := s.read.query(ctx, "SELECT id, labels FROM memory_sets WHERE organisation = ?", organisation)
	err = each(rows, err, func(scan func(...any) error) error {
		var id, text string
		if err := scan(&id, &text); err != nil {
			return err
		}
		var labels policy.Labels
		err := json.Unmarshal([]byte(text), &labels)
		sets[id] = labels
		return err
	})
	return sets, err
}

// Statistics counts, for each of the terms, the views that hold it among those
// that a reader is cleared for.
func (s *Store) Statistics(ctx context.Context, scope Scope, terms []uint32) (rank.Statistics, error) {
	found := rank.Statistics{Holding: map[uint32]int64{}}
	if scope.empty() {
		return found, nil
	}
	wanted := []int64{allViews}
	for _, term := range terms {
		wanted = append(wanted, int64(term))
	}
	rows, err := s.read.query(ctx, "SELECT term, CAST(sum(views) AS BIGINT) FROM memory_terms WHERE organisation = ? AND "+
		s.read.among("space")+" AND "+s.read.among("set_id")+" AND "+s.read.among("term")+" GROUP BY term",
		scope.Organisation, list(s.read, scope.Spaces), list(s.read, scope.Sets), s.read.numbers(wanted))
	err = each(rows, err, func(scan func(...any) error) error {
		var term, views int64
		if err := scan(&term, &views); err != nil {
			return err
		}
		if term == allViews {
			found.Documents = views
		} else {
			found.Holding[uint32(term)] = views
		}
		return nil
	})
	return found, err
}

// Checked is a view of which the store says that it is there now, and that the
// reader may see it.
type Checked struct {
	Item        string
	Version     uint64
	Kind        view.Kind
	Space       view.Space
	RecordedMs  int64
	ValidFromMs int64
	ValidToMs   int64
	ExpiresMs   int64
	Integrity   policy.Integrity
	Archived    bool
	Ref         string // stands for the source: equal where that is
	Position    int
	View        view.View // without Labels, Text and Etag
	// Terms and Vectors, by vector space, are filled in by Contents.
	Terms   rank.Terms
	Vectors map[string][]float32
}

// Suggestion is what an index would suggest the view as.
func (c *Checked) Suggestion() index.Ref {
	return index.Ref{Item: c.Item, Version: c.Version, Set: c.View.Set}
}

// Outline is its item without segments.
func (c *Checked) Outline() *view.Item {
	return &view.Item{ID: c.Item, Space: c.Space, Kind: c.Kind, Integrity: c.Integrity, ValidFromMs: c.ValidFromMs, ValidToMs: c.ValidToMs,
		RecordedMs: c.RecordedMs, ExpiresMs: c.ExpiresMs, Version: c.Version, Archived: c.Archived}
}

// asked is a list that a question is about, as a table of its own from which the
// database has to begin: each of its rows leads to few others.
func (s *Store) asked(columns []string, types []string, rows [][]any) (with string, args []any, err error) {
	name := "WITH s(" + strings.Join(columns, ", ") + ") AS MATERIALIZED "
	if s.config.Postgres {
		arrays := make([]string, len(types))
		for n, kind := range types {
			arrays[n] = "?::" + kind + "[]"
			args = append(args, arrayOf(kind, rows, n))
		}
		return name + "(SELECT * FROM unnest(" + strings.Join(arrays, ", ") + ")) ", args, nil
	}
	values := make([]string, len(columns))
	for n := range columns {
		values[n] = "value ->> " + strconv.Itoa(n)
	}
	written, err := json.Marshal(rows)
	return name + "(SELECT " + strings.Join(values, ", ") + " FROM json_each(?)) ", []any{string(written)}, err
}

func arrayOf(kind string, rows [][]any, column int) any {
	if kind == "bigint" {
		numbers := make([]int64, len(rows))
		for n, row := range rows {
			numbers[n], _ = row[column].(int64)
		}
		return numbers
	}
	texts := make([]string, len(rows))
	for n, row := range rows {
		texts[n], _ = row[column].(string)
	}
	return texts
}

// inOrder joins tables in the order in which they stand, where the database would
// not find a good one by itself.
func (s *Store) inOrder() string {
	if s.config.Postgres {
		return " JOIN "
	}
	return " CROSS JOIN "
}

// views asks for views that belong to the rows of s, under a reader's rights.
func (s *Store) views(items, views string) string {
	then := s.inOrder()
	return "SELECT i.id, i.version, i.kind, i.space, i.recorded_ms, i.valid_from, i.valid_to, i.expires_ms, i.integrity, i.archived, i.ref_key, i.position, v.set_id, v.omit FROM s" +
		then + "memory_items i ON " + items + then + "memory_generations g ON g.item = i.id AND g.erased = 0 AND g.version = i.version" +
		then + "memory_views v ON v.item = i.id" + views
}

// where is the reader's predicate over views.
func (s *Store) where(scope Scope) (text string, args []any) {
	return " WHERE i.organisation = ? AND " + s.read.among("i.space") + " AND " + s.read.among("v.set_id") + " AND (i.expires_ms = 0 OR i.expires_ms > ?)",
		[]any{scope.Organisation, list(s.read, scope.Spaces), list(s.read, scope.Sets), scope.NowMs}
}

// Check returns those of an index's suggestions that are what the store has now
// and that the reader may see as its one view of the item.
func (s *Store) Check(ctx context.Context, scope Scope, suggested []index.Ref) ([]Checked, error) {
	if scope.empty() || len(suggested) == 0 {
		return nil, nil
	}
	with, asked, err := s.askedFor(suggested)
	if err != nil {
		return nil, err
	}
	where, args := s.where(scope)
	return s.checked(ctx, scope, with+s.views("i.id = s.item AND i.version = s.version", " AND v.set_id = s.set_id")+where, append(asked, args...))
}

// askedFor is asked for views. They go in the order in which the items stand in
// the tables' trees, so that those side by side are met together.
func (s *Store) askedFor(refs []index.Ref) (with string, args []any, err error) {
	rows := make([][]any, len(refs))
	for n, ref := range slices.SortedFunc(slices.Values(refs), index.CompareRefs) {
		rows[n] = []any{ref.Item, int64(ref.Version), ref.Set}
	}
	return s.asked([]string{"item", "version", "set_id"}, []string{"text", "bigint", "text"}, rows)
}

// Beside returns the views at places of sources, as the reader sees them. Refs
// are RefKeys.
func (s *Store) Beside(ctx context.Context, scope Scope, places []rank.Place) ([]Checked, error) {
	if scope.empty() || len(places) == 0 {
		return nil, nil
	}
	rows := make([][]any, len(places))
	for n, place := range places {
		rows[n] = []any{place.Ref, int64(place.Position)}
	}
	with, asked, err := s.asked([]string{"ref_key", "position"}, []string{"text", "bigint"}, rows)
	if err != nil {
		return nil, err
	}
	where, args := s.where(scope)
	return s.checked(ctx, scope, with+s.views("i.organisation = ? AND i.ref_key = s.ref_key AND i.position = s.position AND i.ref_key <> ''", "")+where,
		slices.Concat(asked, []any{scope.Organisation}, args))
}

func (s *Store) checked(ctx context.Context, scope Scope, query string, args []any) (found []Checked, _ error) {
	allowed := func(set string) bool {
		_, found := slices.BinarySearch(scope.Sets, set)
		return found
	}
	rows, err := s.read.query(ctx, query, args...)
	err = each(rows, err, func(scan func(...any) error) error {
		var c Checked
		var integrity, archived int
		var omit string
		if err := scan(&c.Item, &c.Version, &c.Kind, &c.Space, &c.RecordedMs, &c.ValidFromMs, &c.ValidToMs, &c.ExpiresMs, &integrity, &archived,
			&c.Ref, &c.Position, &c.View.Set, &omit); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(omit), &c.View.Omit); err != nil {
			return err
		}
		if c.View.Fits(allowed) {
			c.Integrity, c.Archived = policy.Integrity(integrity), archived != 0
			found = append(found, c)
		}
		return nil
	})
	return found, err
}

// Contents fills in the words and vectors of what was checked, and returns how
// many of it are still there. What was changed since gets none.
func (s *Store) Contents(ctx context.Context, organisation string, checked []*Checked) (there int, err error) {
	if len(checked) == 0 {
		return 0, nil
	}
	keys, err := s.keys.ring(organisation)
	if err != nil {
		return 0, err
	}
	refs, at := make([]index.Ref, len(checked)), make(map[index.Ref]*Checked, len(checked))
	for n, c := range checked {
		refs[n] = c.Suggestion()
		at[refs[n]] = c
	}
	with, args, err := s.askedFor(refs)
	if err != nil {
		return 0, err
	}
	then := s.inOrder()
	rows, err := s.read.query(ctx, with+"SELECT i.id, i.version, k.wrapped, v.set_id, v.terms, x.vector_space, x.sealed FROM s"+
		then+"memory_items i ON i.id = s.item AND i.version = s.version"+then+"memory_keys k ON k.item = i.id"+
		then+"memory_views v ON v.item = i.id AND v.set_id = s.set_id LEFT JOIN memory_vectors x ON x.item = v.item AND x.set_id = v.set_id", args...)
	err = each(rows, err, func(scan func(...any) error) error {
		var ref index.Ref
		var wrapped, terms, sealed []byte
		var space *string
		if err := scan(&ref.Item, &ref.Version, &wrapped, &ref.Set, &terms, &space, &sealed); err != nil {
			return err
		}
		sealing, err := keys.unwrap(ref.Item, wrapped)
		if err != nil {
			return err
		}
		c := at[ref]
		if c.Vectors == nil {
			there++
			if err := sealing.openTerms(c, terms); err != nil {
				return err
			}
		}
		if space == nil {
			return nil
		}
		plain, err := sealing.open(roleVector+ref.Set+"\x00"+*space, sealed)
		c.Vectors[*space] = decodeVector(plain)
		return err
	})
	return there, err
}

func (s sealer) openTerms(c *Checked, sealed []byte) error {
	plain, err := s.open(roleTerms+c.View.Set, sealed)
	c.Terms, c.Vectors = decodeTerms(plain), map[string][]float32{}
	return err
}

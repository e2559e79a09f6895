package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Reading is one view of an item in the form in which it is kept.
type Reading struct {
	view.View
	Terms   rank.Terms
	Vectors map[string][]float32 // by vector space id
}

// Tx is one write: whole or not at all.
type Tx struct {
	conn
	store     *Store
	nowMs     int64
	announced bool // something is queued for an index
}

// Write runs one transaction. What the function returns rolls it back, and is
// returned as it is. Where two writes wait for each other the function is called
// again for one of them, from the beginning.
func (s *Store) Write(ctx context.Context, nowMs int64, write func(ctx context.Context, tx *Tx) error) error {
	return s.transact(ctx, s.config.Write, nowMs, write)
}

type beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// mostWaits is how often a write begins again that another one waited for.
const mostWaits = 8

func (s *Store) transact(ctx context.Context, on beginner, nowMs int64, write func(ctx context.Context, tx *Tx) error) error {
	for again := 1; ; again++ {
		err := s.transactOnce(ctx, on, nowMs, write)
		if again == mostWaits || !deadlocked(err) {
			return err
		}
	}
}

// deadlocked reports whether PostgreSQL ended a transaction so that another one
// could go on.
func deadlocked(err error) bool {
	var failure interface{ SQLState() string }
	return errors.As(err, &failure) && failure.SQLState() == "40P01"
}

func (s *Store) transactOnce(ctx context.Context, on beginner, nowMs int64, write func(ctx context.Context, tx *Tx) error) error {
	tx, err := on.BeginTx(ctx, nil)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = tx.Rollback() }() // says so where it was committed
	writing := &Tx{conn: conn{on: tx, postgres: s.config.Postgres}, store: s, nowMs: nowMs}
	if err := write(ctx, writing); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return failed(err)
	}
	if writing.announced && s.config.Announced != nil {
		s.config.Announced()
	}
	return nil
}

// Alone holds everybody else who asks for the same thing up until the
// transaction ends. SQLite has one writer anyway.
func (t *Tx) Alone(ctx context.Context, digest string) error {
	if !t.postgres {
		return nil
	}
	_, err := t.exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", digest)
	return err
}

// Insert keeps an item that was not there before.
func (t *Tx) Insert(ctx context.Context, item *view.Item, readings []Reading) error {
	sealing, wrapped, err := t.store.keys.make(item.Organisation, item.ID)
	if err != nil {
		return err
	}
	if err := t.generation(ctx, item); err != nil {
		return err
	}
	if _, err := t.exec(ctx, "INSERT INTO memory_keys (item, wrapped) VALUES (?, ?)", item.ID, wrapped); err != nil {
		return err
	}
	if err := t.insertItem(ctx, item, sealing); err != nil {
		return err
	}
	if err := t.relate(ctx, item); err != nil {
		return err
	}
	if err := t.count(ctx, item.Organisation, item.Source.Principal, 1); err != nil {
		return err
	}
	return t.derive(ctx, item, sealing, readings)
}

// Replace keeps a new version of an item in place of the one that is there. Its
// relations and its writer stay what they are.
func (t *Tx) Replace(ctx context.Context, item *view.Item, readings []Reading) error {
	var wrapped []byte
	err := each1(ctx, t.conn, "SELECT wrapped FROM memory_keys WHERE item = ?", []any{item.ID}, &wrapped)
	if err != nil {
		return err
	}
	keys, err := t.store.keys.ring(item.Organisation)
	if err != nil {
		return err
	}
	sealing, err := keys.unwrap(item.ID, wrapped)
	if err != nil {
		return err
	}
	if err := t.clear(ctx, item.Organisation, []string{item.ID}); err != nil {
		return err
	}
	if _, err := t.exec(ctx, "DELETE FROM memory_items WHERE id = ?", item.ID); err != nil {
		return err
	}
	if err := t.generation(ctx, item); err != nil {
		return err
	}
	if err := t.insertItem(ctx, item, sealing); err != nil {
		return err
	}
	return t.derive(ctx, item, sealing, readings)
}

// generation notes the item's version and when it came, so that whoever follows
// the store finds it.
func (t *Tx) generation(ctx context.Context, item *view.Item) error {
	_, err := t.exec(ctx, "INSERT INTO memory_generations (item, organisation, version, changed) VALUES (?, ?, ?, "+t.position()+
		") ON CONFLICT (item) DO UPDATE SET version = excluded.version, changed = excluded.changed",
		item.ID, item.Organisation, int64(item.Version))
	if err != nil {
		return err
	}
	return t.announce(ctx, item.Organisation, item.ID, item.Version)
}

// position is where a change stands among all: on PostgreSQL its transaction,
// on SQLite a number.
func (c conn) position() string {
	if c.postgres {
		return "pg_current_xact_id()::text::bigint"
	}
	return "(SELECT coalesce(max(changed), 0) + 1 FROM memory_generations)"
}

// meta is what of an item is sealed beside its segments.
type meta struct {
	Subject string      `json:"subject,omitempty"`
	Source  view.Source `json:"source"`
}

func (t *Tx) insertItem(ctx context.Context, item *view.Item, sealing sealer) error {
	sealed, err := sealing.sealJSON(roleItem, meta{item.Subject, item.Source})
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, "INSERT INTO memory_items (id, organisation, space, kind, principal, run, position, subject_key, ref_key, same_key, "+
		"integrity, valid_from, valid_to, recorded_ms, expires_ms, archived, version, sealed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		item.ID, item.Organisation, string(item.Space), string(item.Kind), item.Source.Principal, item.Source.Run, item.Source.Position,
		t.store.SubjectKey(item.Organisation, item.Subject), t.store.RefKey(item.Organisation, item.Source.Ref), t.store.sameKey(item),
		int(item.Integrity), item.ValidFromMs, item.ValidToMs, item.RecordedMs, item.ExpiresMs, truth(item.Archived), int64(item.Version), sealed)
	return err
}

func truth(is bool) int {
	if is {
		return 1
	}
	return 0
}

// SubjectKey is the digest by which items about a subject are found.
func (s *Store) SubjectKey(organisation, subject string) string {
	return s.lookup(organisation, "subject", subject)
}

// RefKey is the digest by which items of one source are found.
func (s *Store) RefKey(organisation, ref string) string { return s.lookup(organisation, "ref", ref) }

func (s *Store) sameKey(item *view.Item) string {
	return view.SameKey(item, s.Key(item.Organisation, "same"))
}

func (t *Tx) relate(ctx context.Context, item *view.Item) error {
	for kind, ids := range map[view.RelationKind][]string{view.Supersedes: item.Supersedes, view.Derives: item.DerivedFrom} {
		for ord, id := range ids {
			if _, err := t.exec(ctx, "INSERT INTO memory_relations (from_item, kind, to_item, ord) VALUES (?, ?, ?, ?)", item.ID, string(kind), id, ord); err != nil {
				return err
			}
		}
	}
	return nil
}

// segmentForm is what is sealed of a segment.
type segmentForm struct {
	Text     string        `json:"text"`
	Labels   policy.Labels `json:"labels,omitempty"`
	Heading  bool          `json:"heading,omitempty"`
	Detector string        `json:"detector,omitempty"`
}

// derive writes everything that follows from an item's text: segments, views,
// vectors and counts.
func (t *Tx) derive(ctx context.Context, item *view.Item, sealing sealer, readings []Reading) error {
	sets := map[string]policy.Labels{}
	for ord, segment := range item.Segments {
		set := view.SetID(segment.Labels)
		sets[set] = segment.Labels
		sealed, err := sealing.sealJSON(roleSegment+strconv.Itoa(ord), segmentForm(segment))
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO memory_segments (item, ord, set_id, sealed) VALUES (?, ?, ?, ?)", item.ID, ord, set, sealed); err != nil {
			return err
		}
	}
	for _, reading := range readings {
		sets[reading.Set] = reading.Labels
		if err := t.insertReading(ctx, item, sealing, reading); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(keysOf(sets)) {
		labels, err := json.Marshal(sets[id])
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO memory_sets (organisation, id, labels) VALUES (?, ?, ?) ON CONFLICT (organisation, id) DO NOTHING",
			item.Organisation, id, string(labels)); err != nil {
			return err
		}
	}
	return nil
}

func keysOf[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

func (t *Tx) insertReading(ctx context.Context, item *view.Item, sealing sealer, reading Reading) error {
	omit, err := json.Marshal(reading.Omit)
	if err != nil {
		return err
	}
	if _, err := t.exec(ctx, "INSERT INTO memory_views (item, set_id, omit, terms) VALUES (?, ?, ?, ?)",
		item.ID, reading.Set, string(omit), sealing.seal(roleTerms+reading.Set, encodeTerms(reading.Terms))); err != nil {
		return err
	}
	if err := t.tally(ctx, bag{item.Organisation, string(item.Space), reading.Set}, counts(reading.Terms)); err != nil {
		return err
	}
	for _, space := range slices.Sorted(keysOf(reading.Vectors)) {
		if err := t.insertVector(ctx, sealing, Vector{Item: item.ID, Set: reading.Set, VectorSpace: space, Values: reading.Vectors[space]}); err != nil {
			return err
		}
	}
	return nil
}

// Vector is the vector of one view in one vector space.
type Vector struct {
	Item, Set, VectorSpace string
	Values                 []float32
}

func (t *Tx) insertVector(ctx context.Context, sealing sealer, v Vector) error {
	_, err := t.exec(ctx, "INSERT INTO memory_vectors (item, set_id, vector_space, sealed) VALUES (?, ?, ?, ?) "+
		"ON CONFLICT (item, set_id, vector_space) DO UPDATE SET sealed = excluded.sealed",
		v.Item, v.Set, v.VectorSpace, sealing.seal(roleVector+v.Set+"\x00"+v.VectorSpace, encodeVector(v.Values)))
	return err
}

// bag is what a reader is cleared for or not: where terms are counted.
type bag struct{ organisation, space, set string }

// allViews stands in the place of a term where views themselves are counted.
const allViews = -1

// counts are the terms of one view, each once, and the view.
func counts(terms rank.Terms) map[int64]int {
	counted := map[int64]int{allViews: 1}
	for _, term := range terms {
		counted[int64(term.Hash)] = 1
	}
	return counted
}

// tally adds to the counts of a bag. The terms go in one order, so that two
// writes never wait for each other.
func (t *Tx) tally(ctx context.Context, in bag, by map[int64]int) error {
	terms := make([]int64, 0, len(by))
	for term := range by {
		terms = append(terms, term)
	}
	slices.Sort(terms)
	const then = " ON CONFLICT (organisation, space, set_id, term) DO UPDATE SET views = memory_terms.views + excluded.views"
	if t.postgres {
		views := make([]int64, len(terms))
		for i, term := range terms {
			views[i] = int64(by[term])
		}
		_, err := t.exec(ctx, "INSERT INTO memory_terms (organisation, space, set_id, term, views) "+
			"SELECT ?, ?, ?, u.term, u.views FROM unnest(?::bigint[], ?::bigint[]) AS u(term, views)"+then, in.organisation, in.space, in.set, terms, views)
		return err
	}
	pairs := make([][2]int64, len(terms))
	for i, term := range terms {
		pairs[i] = [2]int64{term, int64(by[term])}
	}
	written, err := json.Marshal(pairs)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, "INSERT INTO memory_terms (organisation, space, set_id, term, views) "+
		"SELECT ?, ?, ?, value ->> 0, value ->> 1 FROM json_each(?) WHERE true"+then, in.organisation, in.space, in.set, string(written))
	return err
}

// count changes how many items a principal has.
func (t *Tx) count(ctx context.Context, organisation, principal string, by int) error {
	_, err := t.exec(ctx, "INSERT INTO memory_quotas (organisation, principal, items) VALUES (?, ?, ?) "+
		"ON CONFLICT (organisation, principal) DO UPDATE SET items = memory_quotas.items + excluded.items", organisation, principal, by)
	return err
}

// Own returns how many items a principal has, and holds up others who add to
// them.
func (t *Tx) Own(ctx context.Context, organisation, principal string) (items int, err error) {
	if err := t.count(ctx, organisation, principal, 0); err != nil {
		return 0, err
	}
	err = each1(ctx, t.conn, "SELECT items FROM memory_quotas WHERE organisation = ? AND principal = ?", []any{organisation, principal}, &items)
	return items, err
}

// errNoRow means that one row was asked for and is not there.
var errNoRow = errors.New("no row")

// each1 scans the one row of an answer. The error is errNoRow without one.
func each1(ctx context.Context, c conn, text string, args []any, into ...any) error {
	rows, err := c.query(ctx, text, args...)
	found := false
	err = each(rows, err, func(scan func(...any) error) error {
		found = true
		return scan(into...)
	})
	if err == nil && !found {
		return errNoRow
	}
	return err
}

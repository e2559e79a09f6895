package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/store"
	"gantry.dev/orchestrator/policy"
)

// following keeps the indexes at what the store has. Where nothing relays
// changes to them, they catch up before each question.
type following struct {
	store     *store.Store
	indexes   index.Indexes
	embedders []embed.Embedder
	tending   bool
	spaces    atomic.Pointer[spaces]
	mu        sync.RWMutex // held for reading from before the label sets are read until the indexes have answered
	cursor    int64
	known     map[string]uint64 // versions that the indexes have, of what was committed since the cursor
}

// batch is how many items are brought to an index at once.
const batch = 500

// catchUp makes the indexes hold everything that was committed before it was
// called, in whatever process.
func (f *following) catchUp(ctx context.Context) error {
	if f.store.Relayed() {
		return nil
	}
	f.mu.RLock()
	cursor, known := f.cursor, f.known
	f.mu.RUnlock()
	changes, next, err := f.store.Changed(ctx, cursor)
	if err != nil || len(fresh(changes, known)) == 0 && next == cursor {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if cursor != f.cursor { // somebody else caught up meanwhile
		if changes, next, err = f.store.Changed(ctx, f.cursor); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(fresh(changes, f.known), batch) {
		if err := applyPresent(ctx, f.store, f.spaces.Load().active, some); err != nil {
			return err
		}
	}
	f.cursor, f.known = next, make(map[string]uint64, len(changes))
	for _, change := range changes {
		f.known[change.Item] = max(f.known[change.Item], change.Version)
	}
	return nil
}

// fresh are the items of changes that are not known.
func fresh(changes []store.Change, known map[string]uint64) (ids []string) {
	for _, change := range changes {
		if version, met := known[change.Item]; !met || version < change.Version {
			ids = append(ids, change.Item)
		}
	}
	return ids
}

// present makes every index hold what the store has of the items now, while
// nobody catches up, so that no older state comes after it. Where changes are
// relayed, whoever tells an older state tells the present one after it; nobody
// waits for a server then.
func (f *following) present(ctx context.Context, items []string) error {
	if !f.store.Relayed() {
		f.mu.Lock()
		defer f.mu.Unlock()
	}
	return applyPresent(ctx, f.store, f.spaces.Load().all(), items)
}

// applyPresent makes indexes hold what the store has of the items now, whatever
// was there before.
func applyPresent(ctx context.Context, from *store.Store, parts []part, items []string) error {
	for _, part := range parts {
		if err := part.applyPresent(ctx, from, items); err != nil {
			return err
		}
	}
	return nil
}

func (p part) applyPresent(ctx context.Context, from *store.Store, items []string) error {
	states, err := from.States(ctx, p.space.ID, items)
	if err != nil {
		return err
	}
	return p.index.Apply(ctx, states)
}

// part is one vector space with its index and what makes its vectors; a space
// without vectors has no embedder.
type part struct {
	space    index.VectorSpace
	index    index.Index
	embedder embed.Embedder
}

func (p part) may(labels policy.Labels) bool { return p.embedder != nil && p.embedder.May(labels) }

// spaces are the vector spaces as they were at some moment. What is written gets
// vectors in all of them, and what is asked is looked for in the active ones.
type spaces struct {
	states   []store.SpaceState
	active   []part // in the order of the embedders
	building []part
}

func (s *spaces) all() []part { return slices.Concat(s.active, s.building) }

// unmoved makes sure that the vector spaces are the same still, and stay so until
// the transaction ends.
func (s *spaces) unmoved(ctx context.Context, tx *store.Tx) error {
	states, err := tx.Spaces(ctx, false)
	if err == nil && !slices.Equal(states, s.states) {
		err = errMoved
	}
	return err
}

// words is the vector space of a memory without vectors.
const words = "words"

// begin reads the vector spaces for the first time. They are made where there are
// none yet, and made anew for other embedders while nothing was ever remembered:
// whoever was here before, as who put the first configuration in force, decided
// nothing by it.
func (f *following) begin(ctx context.Context) error {
	states, err := f.store.Spaces(ctx)
	if err != nil {
		return err
	}
	if !f.suits(states) {
		if err := f.activate(ctx); err != nil {
			return err
		}
	}
	now, err := f.current(ctx)
	if err != nil || f.tending {
		return err
	}
	for _, want := range f.wanted() {
		if !slices.ContainsFunc(now.all(), func(p part) bool { return is(p.space, want) }) {
			return mixed(now.states, f.wanted())
		}
	}
	return nil
}

// suits reports whether vector spaces are those of the embedders; an operator's
// process takes any.
func (f *following) suits(states []store.SpaceState) bool {
	wanted := f.wanted()
	active, met := 0, 0
	for _, state := range states {
		asked := slices.ContainsFunc(wanted, func(w index.VectorSpace) bool { return is(state.VectorSpace, w) })
		if state.State == store.Active {
			active++
			if !asked && !f.tending {
				return false
			}
		}
		if asked {
			met++
		}
	}
	return active > 0 && (f.tending || met >= len(wanted))
}

// activate makes the vector spaces of the embedders the active ones, unless there
// are others and something was remembered. Of several processes that do so at
// once the first decides.
func (f *following) activate(ctx context.Context) error {
	return f.store.Write(ctx, 0, func(ctx context.Context, tx *store.Tx) error {
		states, err := tx.Spaces(ctx, true) // nobody remembers anything meanwhile
		if err != nil {
			return err
		}
		organisations, err := f.store.Organisations(ctx)
		if err != nil || len(organisations) > 0 && slices.ContainsFunc(states, func(s store.SpaceState) bool { return s.State == store.Active }) {
			return err
		}
		all, err := tx.AllSpaces(ctx)
		if err != nil {
			return err
		}
		var ids []string
		for _, want := range f.wanted() {
			if want.ID = going(all, want, false); want.ID == "" {
				want.ID = unused(all, want.Model)
			}
			if err := tx.KeepVectorSpace(ctx, want, store.Active); err != nil {
				return err
			}
			ids, all = append(ids, want.ID), append(all, store.SpaceState{VectorSpace: want})
		}
		return tx.Switch(ctx, ids)
	})
}

// unused names a vector space of a model that there never was.
func unused(all []store.SpaceState, model string) string {
	for n := 1; ; n++ {
		id := spaceID(model, n)
		if !slices.ContainsFunc(all, func(s store.SpaceState) bool { return s.ID == id }) {
			return id
		}
	}
}

// wanted are the vector spaces of the embedders, without their ids.
func (f *following) wanted() []index.VectorSpace {
	if len(f.embedders) == 0 {
		return []index.VectorSpace{{Model: words, Dim: 1}}
	}
	wanted := make([]index.VectorSpace, len(f.embedders))
	for n, embedder := range f.embedders {
		wanted[n] = index.VectorSpace{Model: embedder.Model(), Dim: embedder.Dim()}
	}
	return wanted
}

func is(space, wanted index.VectorSpace) bool {
	return space.Model == wanted.Model && space.Dim == wanted.Dim
}

// current returns the vector spaces as they are now, with their indexes. The
// error is ErrVectorSpace where an active one is not that of an embedder.
func (f *following) current(ctx context.Context) (*spaces, error) {
	states, err := f.store.Spaces(ctx)
	if err != nil {
		return nil, err
	}
	if known := f.spaces.Load(); known != nil && slices.Equal(known.states, states) {
		return known, nil
	}
	next, err := f.open(ctx, states)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.spaces.Load(); known != nil && slices.Equal(known.states, states) {
		return known, nil
	}
	before := f.spaces.Swap(next)
	f.cursor, f.known = 0, nil // an index that was not searched before has everything to catch up with
	return next, f.give(ctx, before, next)
}

// give gives up the indexes in this process that nobody asks any more.
func (f *following) give(ctx context.Context, before, next *spaces) error {
	if before == nil || f.store.Relayed() {
		return nil
	}
	for _, old := range before.all() {
		if slices.ContainsFunc(next.all(), func(p part) bool { return p.space.ID == old.space.ID }) {
			continue
		}
		if err := f.indexes.Drop(ctx, old.space); err != nil {
			return err
		}
	}
	return nil
}

func (f *following) open(ctx context.Context, states []store.SpaceState) (*spaces, error) {
	next := &spaces{states: states}
	wanted := f.wanted()
	place := func(p part) int {
		return slices.IndexFunc(wanted, func(w index.VectorSpace) bool { return is(p.space, w) })
	}
	for _, state := range states {
		p := part{space: state.VectorSpace}
		var err error
		if p.index, err = f.indexes.Open(ctx, p.space); errors.Is(err, index.ErrUnavailable) {
			p.index, err = &late{indexes: f.indexes, space: p.space}, nil // nothing else has to wait for it
		}
		if err != nil {
			return nil, err
		}
		at := place(p)
		if at >= 0 && len(f.embedders) > 0 {
			p.embedder = f.embedders[at]
		}
		switch {
		case state.State == store.Building:
			next.building = append(next.building, p)
		case at < 0 && !f.tending:
			return nil, mixed(states, wanted)
		default:
			next.active = append(next.active, p)
		}
	}
	slices.SortStableFunc(next.active, func(a, b part) int { return cmp.Compare(place(a), place(b)) })
	return next, nil
}

// late is an index that could not be reached when it was opened. It is opened when
// it can be.
type late struct {
	indexes index.Indexes
	space   index.VectorSpace
	opening sync.Mutex
	opened  atomic.Value // an index.Index
}

func (l *late) open(ctx context.Context) (index.Index, error) {
	if opened, ok := l.opened.Load().(index.Index); ok {
		return opened, nil
	}
	if !l.opening.TryLock() { // nobody waits for somebody else's wait
		return nil, fmt.Errorf("%w: it is being opened", index.ErrUnavailable)
	}
	defer l.opening.Unlock()
	opened, err := l.indexes.Open(ctx, l.space)
	if err == nil {
		l.opened.Store(opened)
	}
	return opened, err
}

// Apply opens the index and applies states.
func (l *late) Apply(ctx context.Context, states []index.State) error {
	opened, err := l.open(ctx)
	if err != nil {
		return err
	}
	return opened.Apply(ctx, states)
}

// Search opens the index and asks it.
func (l *late) Search(ctx context.Context, query index.Query) (index.Found, error) {
	opened, err := l.open(ctx)
	if err != nil {
		return index.Found{}, err
	}
	return opened.Search(ctx, query)
}

// Held opens the index and lists what it holds.
func (l *late) Held(ctx context.Context, organisation, after string, limit int) ([]index.Ref, error) {
	opened, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	return opened.Held(ctx, organisation, after, limit)
}

// HeldOf opens the index and lists what it holds of items.
func (l *late) HeldOf(ctx context.Context, organisation string, items []string) ([]index.Ref, error) {
	opened, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	return opened.HeldOf(ctx, organisation, items)
}

// ErrVectorSpace means that what is remembered has vectors of another model.
var ErrVectorSpace = errors.New("the memory has vectors of another model")

func mixed(states []store.SpaceState, wanted []index.VectorSpace) error {
	name := func(spaces []index.VectorSpace) string {
		var names []string
		for _, space := range spaces {
			names = append(names, fmt.Sprintf("%s with %d dimensions", space.Model, space.Dim))
		}
		return strings.Join(names, " and ")
	}
	var active []index.VectorSpace
	for _, state := range states {
		if state.State == store.Active {
			active = append(active, state.VectorSpace)
		}
	}
	return fmt.Errorf("%w: it has %s, and is to be asked with %s; use the settings of before, or embed it again by these: gantry memory reembed", ErrVectorSpace, name(active), name(wanted))
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// spaceID names the nth vector space of a model.
func spaceID(model string, n int) string {
	return notInNames.ReplaceAllString(model, "-") + "-" + strconv.Itoa(n)
}

package memory

import (
	"context"
	"slices"
	"sync"

	"gantry.dev/memory/store"
)

// following keeps the indexes at what the store has. Where nothing relays
// changes to them, they catch up before each question.
type following struct {
	store  *store.Store
	parts  []part
	mu     sync.RWMutex // held for reading from before the label sets are read until the indexes have answered
	cursor int64
	known  map[string]uint64 // versions that the indexes have, of what was committed since the cursor
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
		if err := f.applyPresent(ctx, some); err != nil {
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

// present is applyPresent while nobody catches up, so that no older state comes
// after it.
func (f *following) present(ctx context.Context, items []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applyPresent(ctx, items)
}

// applyPresent makes every index hold what the store has of the items now,
// whatever was there before.
func (f *following) applyPresent(ctx context.Context, items []string) error {
	for _, part := range f.parts {
		if err := part.applyPresent(ctx, f.store, items); err != nil {
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

// Package flat is the index inside this process: it compares a question with
// everything that the reader may see, and with nothing else. So it misses
// nothing, answers the same twice, and takes a time that only what is visible
// decides. It keeps nothing over a restart; it is filled from the store.
package flat

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"gantry.dev/memory/index"
)

// Indexes are the indexes of this process.
type Indexes struct {
	mu   sync.Mutex
	open map[string]*Index
}

// New returns indexes that hold nothing.
func New() *Indexes { return &Indexes{open: map[string]*Index{}} }

// Open returns the index of a vector space, made when absent.
func (x *Indexes) Open(_ context.Context, space index.VectorSpace) (index.Index, error) {
	found, err := x.find(space)
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (x *Indexes) find(space index.VectorSpace) (*Index, error) {
	if err := index.CheckSpace(space); err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	found, ok := x.open[space.ID]
	if !ok {
		found = newIndex(space)
		x.open[space.ID] = found
	}
	if found.dim != space.Dim {
		return nil, fmt.Errorf("%w: the vector space %s is there with %d", index.ErrDimension, space.ID, found.dim)
	}
	if found.model != space.Model {
		return nil, fmt.Errorf("%w: %s", index.ErrModel, space.ID)
	}
	return found, nil
}

// Drop removes the index of a vector space; who has it open finds it empty.
func (x *Indexes) Drop(_ context.Context, space index.VectorSpace) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if dropped, ok := x.open[space.ID]; ok {
		dropped.held.Store(newHeld())
		delete(x.open, space.ID)
	}
	return nil
}

// Fresh begins an index that takes the place of the running one when swap is
// called.
func (x *Indexes) Fresh(_ context.Context, space index.VectorSpace) (index.Index, func(context.Context) error, error) {
	running, err := x.find(space)
	if err != nil {
		return nil, nil, err
	}
	next := newIndex(space)
	return next, func(context.Context) error {
		running.held.Store(next.held.Load())
		return nil
	}, nil
}

// Close does nothing: there is nothing to close.
func (x *Indexes) Close() error { return nil }

// Index finds views in one vector space, in memory.
type Index struct {
	dim     int
	model   string
	held    atomic.Pointer[held]
	scratch sync.Pool // of *[]float64: sums of a lexical search
}

var (
	_ index.Indexes = (*Indexes)(nil)
	_ index.Holder  = (*Index)(nil)
)

func newIndex(space index.VectorSpace) *Index {
	i := &Index{dim: space.Dim, model: space.Model}
	i.held.Store(newHeld())
	return i
}

// held is what an index holds, by organisation. Organisations share no lock that
// anything waits for.
type held struct {
	mu            sync.RWMutex
	organisations map[string]*organisation
}

func newHeld() *held { return &held{organisations: map[string]*organisation{}} }

// of returns what is held of an organisation; nil where there is nothing.
func (h *held) of(name string) *organisation {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.organisations[name]
}

func (h *held) ofOrNew(name string) *organisation {
	if found := h.of(name); found != nil {
		return found
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	found, ok := h.organisations[name]
	if !ok {
		found = newOrganisation()
		h.organisations[name] = found
	}
	return found
}

// turn bounds how many states are applied before searches get their turn.
const turn = 256

// Apply makes the index hold exactly these states of their items.
func (i *Index) Apply(ctx context.Context, states []index.State) error {
	if err := index.CheckStates(i.dim, states); err != nil {
		return err
	}
	held := i.held.Load()
	for begin := 0; begin < len(states); {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w: %w", index.ErrUnavailable, err)
		}
		end := begin + 1
		for end < len(states) && end-begin < turn && states[end].Organisation == states[begin].Organisation {
			end++
		}
		held.ofOrNew(states[begin].Organisation).apply(i.dim, states[begin:end])
		begin = end
	}
	return nil
}

// Held lists what is there of an organisation after an item, in order.
func (i *Index) Held(_ context.Context, organisation, after string, limit int) ([]index.Ref, error) {
	if limit < 1 {
		return nil, fmt.Errorf("%w: a list of %d", index.ErrMalformed, limit)
	}
	found := i.held.Load().of(organisation)
	if found == nil {
		return nil, nil
	}
	return found.list(after, limit), nil
}

// HeldOf lists what is there of items, in order.
func (i *Index) HeldOf(_ context.Context, organisation string, items []string) ([]index.Ref, error) {
	found := i.held.Load().of(organisation)
	if found == nil {
		return nil, nil
	}
	return found.listOf(items), nil
}

// Points returns those of the views that are there.
func (i *Index) Points(organisation string, refs []index.Ref) map[index.Ref]index.Point {
	found := i.held.Load().of(organisation)
	if found == nil {
		return nil
	}
	return found.points(refs)
}

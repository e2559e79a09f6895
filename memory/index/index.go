// Package index holds what finds items: opaque ids, vectors, weights and the
// keys that say who may see them, and no text. Everything in an index can be
// made again from the store, and whatever it answers is looked up there before
// it counts.
package index

import (
	"context"
	"errors"

	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
)

// ErrUnavailable means that the index cannot be asked now; it never stands for
// an empty answer.
var ErrUnavailable = errors.New("the memory's index cannot be reached")

// Point is one view of an item in an index.
type Point struct {
	Set       string     // view.View.Set
	Omit      []string   // view.View.Omit
	Vector    []float32  // length 1; nil where the view has none in this vector space
	Terms     rank.Terms // document weights
	ExpiresMs int64      // 0: never
}

// State is the present state of one item: its views at one version. Without
// points it is gone.
type State struct {
	Organisation string
	Item         string
	Version      uint64
	Space        view.Space
	Points       []Point
}

// Query asks for the best views of one reader. Spaces and Sets are what the
// reader may see; where either is empty there is nothing to find.
type Query struct {
	Organisation string
	Spaces       []view.Space
	Sets         []string   // SetIDs within the clearance
	Vector       []float32  // length 1; nil: no dense part
	Terms        rank.Terms // query weights; none: no lexical part
	NowMs        int64
	Limit        int // of each part
}

// Ref names a view that an index holds.
type Ref struct {
	Item    string
	Version uint64
	Set     string
}

// Hit is a view and its score, a dot product.
type Hit struct {
	Ref
	Score float64
}

// Found is the answer of both parts, each by score downwards, then by item.
type Found struct {
	Dense   []Hit
	Lexical []Hit
}

// Index finds views in one vector space. All its methods may return
// ErrUnavailable, wrapped.
type Index interface {
	// Apply makes the index hold exactly these states of their items, whatever it
	// held of them before; it returns when a search sees them. It may be repeated.
	// What a late one puts back is no answer (the store is asked) and does not
	// stay (see memory's sweep).
	Apply(ctx context.Context, states []State) error
	// Search returns, for each item that the reader sees, at most its fullest
	// view among the best Limit of each part.
	Search(ctx context.Context, query Query) (Found, error)
	// Held lists what is there of an organisation after an item id, by item id:
	// what compares an index with the store, and what proves an erasure.
	Held(ctx context.Context, organisation, after string, limit int) ([]Ref, error)
	// HeldOf lists what is there of these items, read from every replica.
	HeldOf(ctx context.Context, organisation string, items []string) ([]Ref, error)
}

// Indexes opens the indexes of vector spaces.
type Indexes interface {
	// Open returns the index of a vector space, made when absent.
	Open(ctx context.Context, space VectorSpace) (Index, error)
	// Drop removes the index of a vector space with everything in it.
	Drop(ctx context.Context, space VectorSpace) error
	// Fresh empties the index of a vector space behind the running one: what
	// is applied to the returned index takes the place of the old when Swap is
	// called.
	Fresh(ctx context.Context, space VectorSpace) (next Index, swap func(context.Context) error, err error)
	Close() error
}

// VectorSpace names vectors that may be compared: those of one model in one
// dimension, all of length 1.
type VectorSpace struct {
	ID    string // for example "static-384-1"
	Model string
	Dim   int
}

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

// Point is one view of an item in an index. The views of an item share it out:
// whoever may see any of them may see exactly one whose Omit it may not.
type Point struct {
	Set       string     // view.View.Set; no two points of an item share it
	Omit      []string   // view.View.Omit
	Vector    []float32  // length 1; nil where the view has none in this vector space
	Terms     rank.Terms // document weights, above 0
	ExpiresMs int64      // no hit from then on; 0: never
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
	Terms        rank.Terms // query weights, above 0; none: no lexical part
	NowMs        int64      // what expires then or before is no hit
	Limit        int        // of each part
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

// Found is the answer of both parts, each by score downwards, then by item. What
// has no vector is in no dense part, and what shares no term with the query in no
// lexical one.
type Found struct {
	Dense   []Hit
	Lexical []Hit
}

// Index finds views in one vector space. All its methods may return
// ErrUnavailable, wrapped; what no index takes they refuse with ErrDimension or
// ErrMalformed, and do nothing.
type Index interface {
	// Apply makes the index hold exactly these states of their items, whatever it
	// held of them before; it returns when a search sees them. It may be repeated,
	// and must be when it fails: it may have been done in part. Of two states of one
	// item the later in the list stands.
	// What a late one puts back is no answer (the store is asked) and does not
	// stay (see memory's sweep).
	Apply(ctx context.Context, states []State) error
	// Search returns, for each item that the reader sees, at most its fullest
	// view among the best Limit of each part.
	Search(ctx context.Context, query Query) (Found, error)
	// Held lists what is there of an organisation after an item id, by item id, then
	// version, then set: what compares an index with the store, and what proves an
	// erasure. It ends with the item at which limit is reached, all of it, so that
	// the last item id continues the list. A page may cost a walk over the whole
	// organisation: ask for large ones.
	Held(ctx context.Context, organisation, after string, limit int) ([]Ref, error)
	// HeldOf lists what is there of these items, in the order of Held, and asks every
	// replica: one that does not answer makes it fail.
	HeldOf(ctx context.Context, organisation string, items []string) ([]Ref, error)
}

// Holder is an index in this process, which gives back what was applied to it at
// the cost of a copy.
type Holder interface {
	Index
	// Points returns those of the views that it holds. What it returns is read only.
	Points(organisation string, refs []Ref) map[Ref]Point
}

// Indexes opens the indexes of vector spaces.
type Indexes interface {
	// Open returns the index of a vector space, made when absent. One that is there
	// with another number of dimensions is refused with ErrDimension, with another
	// model ErrModel.
	Open(ctx context.Context, space VectorSpace) (Index, error)
	// Drop removes the index of a vector space with everything in it; one that is not
	// there is no fault.
	Drop(ctx context.Context, space VectorSpace) error
	// Fresh begins an empty index of a vector space behind the running one: what is
	// applied to the returned index takes the place of the old when swap is called,
	// also for those who opened it before. Until then neither sees what is applied to
	// the other. One begun earlier and never swapped in is given up. swap may be
	// repeated when it fails.
	Fresh(ctx context.Context, space VectorSpace) (next Index, swap func(context.Context) error, err error)
	// Close ends the connections; what is opened answers ErrUnavailable, or goes on
	// where there is nothing to close.
	Close() error
}

// VectorSpace names vectors that may be compared: those of one model in one
// dimension, all of length 1.
type VectorSpace struct {
	ID    string // for example "static-384-1"
	Model string
	Dim   int
}

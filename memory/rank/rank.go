// Package rank says in which order what a reader may see answers a question.
// It is pure, and it sees nothing else: every statistic comes from what the
// reader may see.
package rank

import "gantry.dev/memory/view"

// Term is a weighted term: a keyed hash of a stem.
type Term struct {
	Hash   uint32
	Weight float32
}

// Terms are sorted by hash, without repeats.
type Terms []Term

// Statistics count what a reader may see. They are sums over the label sets
// that it is cleared for, so nothing else moves them.
type Statistics struct {
	Documents int64            // views
	Holding   map[uint32]int64 // by term: views that hold it
}

// Candidate is one view that may answer, with everything that its place
// depends on.
type Candidate struct {
	Item        string
	Vector      []float32
	More        [][]float32 // in further vector spaces, as Question.More has them; nil where it has none
	Terms       Terms
	Kind        view.Kind
	RecordedMs  int64
	ValidFromMs int64  // 0: as RecordedMs
	Ref         string // view.Source.Ref, told apart by space where several have it; those beside it share it
	Position    int    // view.Source.Position
}

// Question is a question in the form in which views are compared with it.
type Question struct {
	Vector []float32
	More   [][]float32 // in further vector spaces; nil where it has none
	Terms  Terms       // query weights; see QueryTerms
	Spans  []Span      // that it names; see Spans
	NowMs  int64
}

// Ranked is a candidate's place.
type Ranked struct {
	Item  string
	Score float64
}

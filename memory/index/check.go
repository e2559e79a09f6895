package index

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"gantry.dev/memory/rank"
)

// ErrDimension means that vectors have another number of dimensions than their
// vector space.
var ErrDimension = errors.New("the vector has another number of dimensions than its vector space")

// ErrModel means that a vector space is there with vectors of another model.
var ErrModel = errors.New("the vector space is there with another model")

// ErrMalformed means that what was given can stand in no index.
var ErrMalformed = errors.New("what was given cannot stand in an index")

// MaxNames bounds the spaces, and the sets, of a query.
const MaxNames = 10_000

// MaxLimit bounds the hits of each part of a query.
const MaxLimit = 10_000

// maxExact is the largest integer that every index compares exactly: some have
// only floating point for it.
const maxExact = 1<<53 - 1

// CheckSpace says whether a vector space can be opened. Its id is part of names
// in other systems, so it has letters, digits, points, hyphens and underscores
// only.
func CheckSpace(space VectorSpace) error {
	if space.Dim < 1 || space.Dim > 65_536 {
		return fmt.Errorf("%w: a vector space of %d dimensions", ErrMalformed, space.Dim)
	}
	if space.ID == "" || len(space.ID) > 128 {
		return fmt.Errorf("%w: the id of a vector space has 1 to 128 letters", ErrMalformed)
	}
	for _, r := range space.ID {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' {
			return fmt.Errorf("%w: the id of a vector space has letters, digits, points, hyphens and underscores", ErrMalformed)
		}
	}
	return nil
}

// CheckStates says whether an index of vectors of dim dimensions can hold states.
func CheckStates(dim int, states []State) error {
	for i := range states {
		state := &states[i]
		if state.Organisation == "" || state.Item == "" {
			return fmt.Errorf("%w: a state without organisation or item", ErrMalformed)
		}
		if !utf8.ValidString(state.Organisation) || !utf8.ValidString(state.Item) || !utf8.ValidString(string(state.Space)) {
			return fmt.Errorf("%w: a name that is no text", ErrMalformed)
		}
		if state.Version > maxExact {
			return fmt.Errorf("%w: a version above 2^53-1", ErrMalformed)
		}
		if len(state.Points) > 0 && state.Space == "" {
			return fmt.Errorf("%w: points without a space", ErrMalformed)
		}
		for j := range state.Points {
			point := &state.Points[j]
			if err := checkPoint(dim, point); err != nil {
				return err
			}
			if slices.ContainsFunc(state.Points[:j], func(other Point) bool { return other.Set == point.Set }) {
				return fmt.Errorf("%w: two points of one item with the same set", ErrMalformed)
			}
		}
	}
	return nil
}

func checkPoint(dim int, point *Point) error {
	if !isName(point.Set) || !allNames(point.Omit) {
		return fmt.Errorf("%w: a point without a set", ErrMalformed)
	}
	if point.ExpiresMs < 0 || point.ExpiresMs > maxExact {
		return fmt.Errorf("%w: an expiry that is no time", ErrMalformed)
	}
	if err := checkVector(dim, point.Vector); err != nil {
		return err
	}
	return checkTerms(point.Terms)
}

// CheckQuery says whether an index of vectors of dim dimensions can answer a
// query.
func CheckQuery(dim int, query *Query) error {
	if query.Limit < 1 || query.Limit > MaxLimit {
		return fmt.Errorf("%w: a query for %d hits; at least 1, at most %d", ErrMalformed, query.Limit, MaxLimit)
	}
	if len(query.Spaces) > MaxNames || len(query.Sets) > MaxNames {
		return fmt.Errorf("%w: a query with more than %d spaces or sets", ErrMalformed, MaxNames)
	}
	if query.NowMs < 0 || query.NowMs > maxExact {
		return fmt.Errorf("%w: a query at no time", ErrMalformed)
	}
	if err := checkVector(dim, query.Vector); err != nil {
		return err
	}
	return checkTerms(query.Terms)
}

func isName(name string) bool { return name != "" && utf8.ValidString(name) }

func allNames(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !isName(name) })
}

func checkVector(dim int, vector []float32) error {
	if vector == nil {
		return nil
	}
	if len(vector) != dim {
		return fmt.Errorf("%w: %d instead of %d", ErrDimension, len(vector), dim)
	}
	for _, x := range vector {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("%w: a vector with a component that is no number", ErrMalformed)
		}
	}
	return nil
}

func checkTerms(terms rank.Terms) error {
	for i, term := range terms {
		if !(term.Weight > 0) || math.IsInf(float64(term.Weight), 0) {
			return fmt.Errorf("%w: a term whose weight is not above 0", ErrMalformed)
		}
		if i > 0 && terms[i-1].Hash >= term.Hash {
			return fmt.Errorf("%w: terms that are not in order", ErrMalformed)
		}
	}
	return nil
}

// Better reports whether a hit stands before another of the same query: the order
// that every index answers in.
func Better(a, b Hit) bool { return Compare(a, b) < 0 }

// Compare orders hits by score downwards, then by item, version and set.
func Compare(a, b Hit) int {
	if a.Score != b.Score {
		return cmp.Compare(b.Score, a.Score)
	}
	return CompareRefs(a.Ref, b.Ref)
}

// CompareRefs orders refs as Index.Held lists them.
func CompareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Set, b.Set))
}

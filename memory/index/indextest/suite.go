// Package indextest says what every index does, and tries it.
package indextest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/index"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
)

// Subject is an implementation under test, with a store of its own.
type Subject struct {
	Open   func(t *testing.T) index.Indexes // opens the same store, each time anew
	Keeps  bool                             // what was applied is there when the store is opened again
	Worlds int                              // random worlds to compare with the plain evaluator; 0: 500
}

// Run tries everything that the port promises. subject makes an empty store for
// each part.
func Run(t *testing.T, subject func(t *testing.T) Subject) {
	for _, part := range []struct {
		name string
		try  func(*testing.T, Subject)
	}{
		{"AStateTakesThePlaceOfTheOneBefore", replaces},
		{"WhatIsFilteredAndWhatIsNot", filters},
		{"EachReaderGetsTheFullestView", fullest},
		{"TiesAreInTheOrderOfItems", ties},
		{"WhoAsksForMoreThanThereIsGetsAll", more},
		{"WhoMaySeeNothingFindsNothing", nothing},
		{"OrganisationsDoNotMeet", organisations},
		{"NamesInAnyScript", scripts},
		{"ViewsWithoutVectorOrTerms", partial},
		{"WhatNoIndexTakesIsRefused", refused},
		{"ExpiredIsNoHit", expired},
		{"ErasedIsNowhere", erased},
		{"AListGoesOnWhereItEnded", pages},
		{"AFreshIndexTakesOverAtOnce", fresh},
		{"ADroppedIndexIsEmpty", dropped},
		{"OpenedAgain", restarted},
		{"SearchesAndChangesAtOnce", concurrent},
		{"WhoGaveUpIsToldSo", gaveUp},
		{"AsThePlainEvaluatorSays", worlds},
	} {
		t.Run(part.name, func(t *testing.T) { part.try(t, subject(t)) })
	}
}

// dim is a number of dimensions that no unrolled loop divides.
const dim = 11

var space = index.VectorSpace{ID: "suite-11-1", Model: "suite", Dim: dim}

// Spaces are the vector spaces that the suite opens: what is to be dropped behind
// it where a store outlives a test.
func Spaces() []index.VectorSpace {
	second, unopened := space, space
	second.ID, unopened.ID = space.ID+"-2", "suite-unopened"
	return []index.VectorSpace{space, second, unopened}
}

func open(t *testing.T, subject Subject) index.Index {
	_, opened := openBoth(t, subject)
	return opened
}

func openBoth(t *testing.T, subject Subject) (index.Indexes, index.Index) {
	indexes := subject.Open(t)
	opened, err := indexes.Open(t.Context(), space)
	require.NoError(t, err)
	return indexes, opened
}

// unit returns a vector of length 1 whose products with others like it are exact:
// four halves at places that the seed decides. Many seeds are as near.
func unit(seed uint64) []float32 {
	random := rand.New(rand.NewPCG(seed, 1))
	vector := make([]float32, dim)
	for _, at := range random.Perm(dim)[:4] {
		vector[at] = 0.5
		if random.IntN(2) == 0 {
			vector[at] = -0.5
		}
	}
	return vector
}

// axis returns a vector of length 1 with the given product with axis(1): exact for
// 1, 0 and -1.
func axis(product float32) []float32 {
	vector := make([]float32, dim)
	vector[0] = product
	if product == 0 {
		vector[1] = 1
	}
	return vector
}

func point(set string, omit ...string) index.Point {
	return index.Point{Set: set, Omit: omit, Vector: axis(1), Terms: rank.Terms{{Hash: 7, Weight: 1}}}
}

func state(item string, version uint64, points ...index.Point) index.State {
	return index.State{Organisation: "acme", Item: item, Version: version, Space: view.Organisation, Points: points}
}

// everything asks for all that is in the organisation's space under these sets, by
// both parts.
func everything(sets ...string) index.Query {
	return index.Query{
		Organisation: "acme",
		Spaces:       []view.Space{view.Organisation},
		Sets:         sets,
		Vector:       axis(1),
		Terms:        rank.Terms{{Hash: 7, Weight: 1}},
		NowMs:        1_000,
		Limit:        100,
	}
}

// names writes hits as item@version/set.
func names(hits []index.Hit) []string {
	found := make([]string, len(hits))
	for i, hit := range hits {
		found[i] = name(hit.Ref)
	}
	return found
}

func name(ref index.Ref) string { return fmt.Sprintf("%s@%d/%s", ref.Item, ref.Version, ref.Set) }

func refNames(refs []index.Ref) []string {
	found := make([]string, len(refs))
	for i, ref := range refs {
		found[i] = name(ref)
	}
	return found
}

// finds asks both parts and wants the same views of each.
func finds(t *testing.T, asked index.Index, query index.Query, want ...string) {
	t.Helper()
	found, err := asked.Search(t.Context(), query)
	require.NoError(t, err)
	require.Equal(t, orNone(want), orNone(names(found.Dense)), "dense")
	require.Equal(t, orNone(want), orNone(names(found.Lexical)), "lexical")
}

func orNone(names []string) []string {
	if len(names) == 0 {
		return []string{}
	}
	return names
}

func apply(t *testing.T, into index.Index, states ...index.State) {
	t.Helper()
	require.NoError(t, into.Apply(t.Context(), states))
}

// allHeld lists an organisation by pages.
func allHeld(ctx context.Context, t *testing.T, asked index.Index, organisation string, page int) (refs []index.Ref) {
	t.Helper()
	for after := ""; ; {
		found, err := asked.Held(ctx, organisation, after, page)
		require.NoError(t, err)
		if len(found) == 0 {
			return refs
		}
		require.Greater(t, found[0].Item, after)
		require.True(t, slices.IsSortedFunc(found, index.CompareRefs))
		refs, after = append(refs, found...), found[len(found)-1].Item
	}
}

package indextest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/index"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
)

// labels is the number of labels of a random world; a set of labels is a mask.
const labels = 3

// worlds compares an index with the plain evaluator: many small worlds, each with
// changes, and every clearance asks.
func worlds(t *testing.T, subject Subject) {
	asked := open(t, subject)
	count := subject.Worlds
	if count == 0 {
		count = 500
	}
	questions, hits := 0, 0
	for seed := range count {
		random := rand.New(rand.NewPCG(uint64(seed), 2))
		organisation := fmt.Sprint("world-", seed)
		present := map[string]index.State{}
		for range 1 + random.IntN(3) {
			var changes []index.State
			for range random.IntN(12) {
				changed := randomState(random, organisation)
				changes = append(changes, changed)
				present[changed.Item] = changed
			}
			apply(t, asked, changes...)
		}
		for clearance := range 1 << labels {
			query := randomQuery(random, organisation, clearance)
			found, err := asked.Search(t.Context(), query)
			require.NoError(t, err)
			want := plain(present, query)
			require.Equal(t, orNoHit(want.Dense), orNoHit(found.Dense), "world %d, clearance %d, dense", seed, clearance)
			require.Equal(t, orNoHit(want.Lexical), orNoHit(found.Lexical), "world %d, clearance %d, lexical", seed, clearance)
			questions++
			hits += len(want.Dense) + len(want.Lexical)
		}
		var refs []index.Ref
		for _, held := range present {
			for _, point := range held.Points {
				refs = append(refs, index.Ref{Item: held.Item, Version: held.Version, Set: point.Set})
			}
		}
		slices.SortFunc(refs, index.CompareRefs)
		require.Equal(t, refNames(refs), refNames(allHeld(t.Context(), t, asked, organisation, 1+random.IntN(20))))
		var gone []index.State
		for item := range present {
			gone = append(gone, index.State{Organisation: organisation, Item: item, Version: 9})
		}
		apply(t, asked, gone...)
		require.Empty(t, allHeld(t.Context(), t, asked, organisation, 100))
	}
	require.Greater(t, hits, count)
	fmt.Printf("level: L3 random worlds of indexes %d, questions to indexes %d, differences 0\n", count, questions)
}

func orNoHit(hits []index.Hit) []index.Hit {
	if hits == nil {
		return []index.Hit{}
	}
	return hits
}

func setName(mask int) string { return fmt.Sprintf("set-%03b", mask) }

var spaces = []view.Space{view.Organisation, "person:ruth", "agent:clerk"}

// randomState makes an item of one to three segments, each under labels of its
// own, and the views that its readers get of it.
func randomState(random *rand.Rand, organisation string) index.State {
	made := index.State{
		Organisation: organisation,
		Item:         fmt.Sprint("item-", random.IntN(9)),
		Version:      uint64(random.IntN(4)),
		Space:        spaces[random.IntN(len(spaces))],
	}
	if random.IntN(6) == 0 {
		return made // gone
	}
	segments := make([]int, 1+random.IntN(3))
	for i := range segments {
		segments[i] = random.IntN(1<<labels) & random.IntN(1<<labels)
	}
	expires := []int64{0, 0, 0, 500, 1_000, 1_500}[random.IntN(6)]
	seen := map[string]bool{}
	for clearance := range 1 << labels {
		union, omit, shown := 0, []string(nil), ""
		for i, segment := range segments {
			if segment&^clearance == 0 {
				union |= segment
				shown += fmt.Sprint(i)
			} else if name := setName(segment); !slices.Contains(omit, name) {
				omit = append(omit, name)
			}
		}
		if shown == "" || seen[shown] {
			continue
		}
		seen[shown] = true
		made.Points = append(made.Points, randomPoint(random, setName(union), omit, expires))
	}
	return made
}

func randomPoint(random *rand.Rand, set string, omit []string, expires int64) index.Point {
	made := index.Point{Set: set, Omit: omit, ExpiresMs: expires}
	if random.IntN(8) > 0 {
		made.Vector = unit(random.Uint64N(20))
	}
	made.Terms = randomTerms(random)
	return made
}

// randomTerms returns weights whose products and sums are exact.
func randomTerms(random *rand.Rand) (terms rank.Terms) {
	for hash := range uint32(6) {
		if random.IntN(3) == 0 {
			terms = append(terms, rank.Term{Hash: hash * 700_000_000, Weight: 0.25 * float32(1+random.IntN(4))})
		}
	}
	return terms
}

func randomQuery(random *rand.Rand, organisation string, clearance int) index.Query {
	query := index.Query{
		Organisation: organisation,
		Terms:        randomTerms(random),
		NowMs:        []int64{0, 500, 1_000, 2_000}[random.IntN(4)],
		Limit:        1 + random.IntN(12),
	}
	if random.IntN(8) > 0 {
		query.Vector = unit(random.Uint64N(20))
	}
	for _, space := range spaces {
		if random.IntN(3) > 0 {
			query.Spaces = append(query.Spaces, space)
		}
	}
	for set := range 1 << labels {
		if set&^clearance == 0 {
			query.Sets = append(query.Sets, setName(set))
		}
	}
	return query
}

// plain answers a query the way one would say it, with nothing shared with any
// index.
func plain(present map[string]index.State, query index.Query) (found index.Found) {
	for _, held := range present {
		for _, point := range held.Points {
			omitted := slices.ContainsFunc(point.Omit, func(set string) bool { return slices.Contains(query.Sets, set) })
			if !slices.Contains(query.Spaces, held.Space) || !slices.Contains(query.Sets, point.Set) || omitted ||
				point.ExpiresMs != 0 && point.ExpiresMs <= query.NowMs {
				continue
			}
			ref := index.Ref{Item: held.Item, Version: held.Version, Set: point.Set}
			if query.Vector != nil && point.Vector != nil {
				score := 0.0
				for i, x := range query.Vector {
					score += float64(x) * float64(point.Vector[i])
				}
				found.Dense = append(found.Dense, index.Hit{Ref: ref, Score: score})
			}
			if score := shared(query.Terms, point.Terms); score > 0 {
				found.Lexical = append(found.Lexical, index.Hit{Ref: ref, Score: score})
			}
		}
	}
	found.Dense, found.Lexical = cut(found.Dense, query.Limit), cut(found.Lexical, query.Limit)
	return found
}

func shared(a, b rank.Terms) (score float64) {
	for _, x := range a {
		for _, y := range b {
			if x.Hash == y.Hash {
				score += float64(x.Weight) * float64(y.Weight)
			}
		}
	}
	return score
}

func cut(hits []index.Hit, limit int) []index.Hit {
	slices.SortFunc(hits, func(a, b index.Hit) int {
		if a.Score > b.Score {
			return -1
		}
		if a.Score < b.Score {
			return 1
		}
		return strings.Compare(a.Item, b.Item)
	})
	return hits[:min(limit, len(hits))]
}

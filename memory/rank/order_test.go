package rank_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
)

var key = []byte("an organisation's key")

func candidate(item, ref string, position int, text string) rank.Candidate {
	return rank.Candidate{Item: item, Ref: ref, Position: position, Terms: rank.DocumentTerms(key, text)}
}

func items(ranked []rank.Ranked) []string {
	ids := make([]string, len(ranked))
	for i, r := range ranked {
		ids[i] = r.Item
	}
	return ids
}

// The neighbour of the best answer comes before what has nothing to do with it.
func TestRankLetsNeighboursCount(t *testing.T) {
	candidates := []rank.Candidate{
		candidate("a", "other", 2, "nothing of it"),
		candidate("b", "one", 1, "where did you go hiking"),
		candidate("c", "one", 2, "up on the ridge, with Ben"),
		candidate("d", "one", 3, "good to know"),
		candidate("e", "one", 4, "bye"),
		candidate("f", "", 2, "without a source"),
	}
	question := rank.Question{Terms: rank.QueryTerms(key, "hiking", rank.Statistics{Documents: 6})}
	ranked := rank.Rank(question, candidates, rank.DefaultPlan())
	require.Equal(t, []string{"b", "c", "d", "a", "e", "f"}, items(ranked), "by item where they score alike")
	require.InDelta(t, ranked[0].Score/2, ranked[1].Score, 1e-9)
	require.InDelta(t, ranked[0].Score/4, ranked[2].Score, 1e-9)
	require.Zero(t, ranked[3].Score)
}

func TestRankPriors(t *testing.T) {
	const day = 24 * 60 * 60 * 1000
	plan := rank.DefaultPlan()
	first := func(text string, a, b rank.Candidate) string {
		a.Item, b.Item = "z", "a" // so that by item b would be first
		question := rank.Question{Terms: rank.QueryTerms(key, text, rank.Statistics{Documents: 2}), NowMs: 1000 * day}
		question.Spans = rank.Spans(text, question.NowMs)
		return rank.Rank(question, []rank.Candidate{a, b}, plan)[0].Item
	}
	boat, episode := candidate("", "", 0, "a boat"), candidate("", "", 0, "a boat")
	boat.Kind, episode.Kind = view.Fact, view.Episode
	require.Equal(t, "z", first("boat", boat, episode), "what was distilled")
	newer := episode
	newer.RecordedMs = 999 * day
	require.Equal(t, "z", first("boat", newer, episode), "what is newer")
	dated := episode
	dated.ValidFromMs = 3 * day
	require.Equal(t, "z", first("boat in January 1970", dated, newer), "what is of the time that the question names")
	require.Equal(t, "a", first("boat", dated, newer))
	ahead := episode
	ahead.RecordedMs = 5000 * day
	require.Equal(t, "a", first("boat", ahead, newerBy(newer, day)), "a clock that went ahead makes nothing newer than now")
}

func newerBy(c rank.Candidate, ms int64) rank.Candidate {
	c.RecordedMs += ms
	return c
}

// Both kinds of likeness count, and what everything has in common with the
// question does not.
func TestRankScoresOverTheBackground(t *testing.T) {
	plan := rank.Plan{Dense: 0.5, Lexical: 0.5, Depth: 2}
	vector := func(item string, x float32) rank.Candidate { return rank.Candidate{Item: item, Vector: []float32{x}} }
	ranked := rank.Rank(rank.Question{Vector: []float32{1}}, []rank.Candidate{vector("a", 0.7), vector("b", 0.9), vector("c", 0.8)}, plan)
	require.Equal(t, []string{"b", "c", "a"}, items(ranked))
	require.InDelta(t, 0.5, ranked[0].Score, 1e-9)
	require.Positive(t, ranked[1].Score, "the last of the best is background, and still better than the rest")
	require.Less(t, ranked[1].Score, 1e-3)
	require.Zero(t, ranked[2].Score)
	ranked = rank.Rank(rank.Question{Vector: []float32{1}}, []rank.Candidate{vector("c", 0.9), vector("b", 0.9), vector("a", 0.9)}, plan)
	require.Equal(t, []rank.Ranked{{Item: "a", Score: 0.5}, {Item: "b", Score: 0.5}, {Item: "c"}}, ranked, "those alike by item")
	ranked = rank.Rank(rank.Question{Vector: []float32{1}}, []rank.Candidate{vector("a", 0.45)}, plan)
	require.Equal(t, []rank.Ranked{{Item: "a", Score: 0.5}}, ranked, "one alone has no background")
	ranked = rank.Rank(rank.Question{Vector: []float32{1, 0}}, []rank.Candidate{vector("a", 0.45)}, plan)
	require.Equal(t, []rank.Ranked{{Item: "a"}}, ranked, "a vector of another model is like nothing")
	require.Empty(t, rank.Rank(rank.Question{}, nil, plan))
}

// world draws candidates and a question on them. Scores are often alike, places
// often shared.
func world(t *rapid.T) (rank.Question, []rank.Candidate) {
	words := []string{"boat", "paint", "harbour", "rain", "invoice"}
	count := rapid.IntRange(0, 30).Draw(t, "count")
	candidates := make([]rank.Candidate, count)
	for i := range candidates {
		text := ""
		for range rapid.IntRange(0, 3).Draw(t, "words") {
			text += rapid.SampledFrom(words).Draw(t, "word") + " "
		}
		candidates[i] = candidate(fmt.Sprintf("item-%02d", i), rapid.SampledFrom([]string{"", "s1", "s2"}).Draw(t, "ref"), rapid.IntRange(0, 8).Draw(t, "position"), text)
		candidates[i].Vector = []float32{float32(rapid.IntRange(-2, 4).Draw(t, "x")) / 4, 0.5}
		candidates[i].RecordedMs = int64(rapid.IntRange(0, 3).Draw(t, "recorded"))
	}
	question := rank.Question{Vector: []float32{0.8, 0.6}, NowMs: 3}
	question.Terms = rank.QueryTerms(key, "paint the boat", rank.Statistics{Documents: int64(count)})
	return question, candidates
}

func plans(t *rapid.T) rank.Plan {
	plan := rank.DefaultPlan()
	plan.Depth, plan.Reach = rapid.IntRange(1, 12).Draw(t, "depth"), rapid.IntRange(0, 3).Draw(t, "reach")
	return plan
}

// The order is total, has each item once, and does not depend on the order of
// the candidates.
func TestRankIsATotalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		question, candidates := world(t)
		plan := plans(t)
		ranked := rank.Rank(question, candidates, plan)
		require.Len(t, ranked, len(candidates))
		require.True(t, slices.IsSortedFunc(ranked, func(a, b rank.Ranked) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Item, b.Item))
		}))
		require.Equal(t, ranked, rank.Rank(question, rapid.Permutation(candidates).Draw(t, "permuted"), plan))
		if len(candidates) > 0 {
			twice := append(slices.Clone(candidates), candidates[0])
			require.Equal(t, ranked, rank.Rank(question, twice, plan), "an item that is given twice counts once")
		}
	})
}

// A neighbour adds to what stands beside it, and takes nothing away; what is no
// candidate adds nothing, because it is nowhere.
func TestRankTakesNeighboursFromTheCandidatesAlone(t *testing.T) {
	question := rank.Question{Terms: rank.QueryTerms(key, "boat", rank.Statistics{Documents: 3})}
	best := candidate("best", "x", 9, "the boat, the boat")
	middle, beside := candidate("middle", "s", 2, "rain"), candidate("beside", "s", 1, "boat")
	with := rank.Rank(question, []rank.Candidate{best, middle, beside}, rank.DefaultPlan())
	without := rank.Rank(question, []rank.Candidate{best, middle}, rank.DefaultPlan())
	score := func(ranked []rank.Ranked) float64 {
		return ranked[slices.IndexFunc(ranked, func(r rank.Ranked) bool { return r.Item == "middle" })].Score
	}
	require.Positive(t, score(with))
	require.Zero(t, score(without))
}

// Ranking the best of each part with the places beside them gives the answers
// of ranking everything, as many as are wanted and score at all.
func TestRankOfTheBestIsTheRankOfAll(t *testing.T) {
	fewer, spared := 0, 0
	for seed := range uint64(1000) {
		chance := rand.New(rand.NewPCG(seed, 7))
		question, all := crowd(chance)
		plan := rank.DefaultPlan()
		plan.Depth = 1 + chance.IntN(40)
		plan.Reach = chance.IntN(4)
		limit := chance.IntN(30)
		found := bestOf(question, all, plan.Depth+chance.IntN(10))
		candidates := slices.Clone(found)
		places := rank.Beside(question, found, plan, limit)
		for _, c := range all {
			if slices.Contains(places, rank.Place{Ref: c.Ref, Position: c.Position}) && !holds(found, c) {
				candidates = append(candidates, c)
			}
		}
		whole := scoring(rank.Rank(question, all, plan))
		require.NotEmpty(t, whole)
		some := scoring(rank.Rank(question, candidates, plan))
		wanted := len(whole)
		if limit > 0 {
			wanted = min(limit, len(whole))
		}
		require.GreaterOrEqual(t, len(some), wanted, "seed %d", seed)
		require.Equal(t, whole[:wanted], some[:wanted], "seed %d", seed)
		if len(candidates) < len(all) {
			fewer++
		}
		if limit > 0 && len(places) < len(rank.Beside(question, found, plan, 0)) {
			spared++
		}
	}
	require.Greater(t, fewer, 500, "worlds in which not everything is a candidate")
	require.Greater(t, spared, 500, "worlds in which some neighbours are not worth looking up")
}

func holds(candidates []rank.Candidate, c rank.Candidate) bool {
	return slices.ContainsFunc(candidates, func(other rank.Candidate) bool { return other.Item == c.Item })
}

func scoring(ranked []rank.Ranked) []rank.Ranked {
	return slices.DeleteFunc(ranked, func(r rank.Ranked) bool { return r.Score == 0 })
}

func crowd(chance *rand.Rand) (rank.Question, []rank.Candidate) {
	all := make([]rank.Candidate, 50+chance.IntN(200))
	for i := range all {
		c := rank.Candidate{Item: fmt.Sprintf("%04d", i), Ref: fmt.Sprintf("s%d", chance.IntN(6)), Position: chance.IntN(40), RecordedMs: int64(chance.IntN(1000))}
		for hash := range uint32(8) { // weights that are often alike, as those of short texts are
			if chance.IntN(3) == 0 {
				c.Terms = append(c.Terms, rank.Term{Hash: hash, Weight: float32(1+chance.IntN(3)) / 2})
			}
		}
		for range 8 {
			c.Vector = append(c.Vector, float32(chance.NormFloat64()))
		}
		all[i] = c
	}
	return rank.Question{NowMs: 1000, Spans: []rank.Span{{FromMs: 200, UntilMs: 400}}, Vector: all[0].Vector, Terms: rank.Terms{{Hash: 2, Weight: 1.5}, {Hash: 5, Weight: 3}}}, all
}

// bestOf is what an index answers: the best of each part, those alike by item.
func bestOf(question rank.Question, all []rank.Candidate, limit int) (best []rank.Candidate) {
	for _, score := range []func(rank.Candidate) float64{
		func(c rank.Candidate) float64 { return rank.Dot(question.Vector, c.Vector) },
		func(c rank.Candidate) float64 { return question.Terms.Dot(c.Terms) },
	} {
		scores := map[string]float64{}
		for _, c := range all {
			scores[c.Item] = score(c)
		}
		leg := slices.Clone(all)
		slices.SortFunc(leg, func(a, b rank.Candidate) int {
			return cmp.Or(cmp.Compare(scores[b.Item], scores[a.Item]), cmp.Compare(a.Item, b.Item))
		})
		for _, c := range leg[:min(limit, len(leg))] {
			if !holds(best, c) {
				best = append(best, c)
			}
		}
	}
	return best
}

// Each vector space has a scale of its own. How near each other the likenesses of
// one are moves nothing, and what has no vector in it loses nothing by that.
func TestSeveralVectorSpacesCountAlikeWhateverTheirScale(t *testing.T) {
	plan := rank.DefaultPlan()
	candidates := func(scale float32) []rank.Candidate {
		made := make([]rank.Candidate, 4)
		for n, likeness := range [][2]float32{{0.9, 0.2}, {0.2, 0.9}, {0.5, 0.6}, {0.8, 0}} {
			made[n] = rank.Candidate{Item: string(rune('a' + n)), Vector: []float32{likeness[0]}, More: [][]float32{{likeness[1] * scale}}}
		}
		made[3].More = [][]float32{nil} // what may not leave
		return made
	}
	question := rank.Question{Vector: []float32{1}, More: [][]float32{{1}}}
	wide, narrow := rank.Rank(question, candidates(1), plan), rank.Rank(question, candidates(0.01), plan)
	for n := range wide {
		require.Equal(t, wide[n].Item, narrow[n].Item)
		require.InDelta(t, wide[n].Score, narrow[n].Score, 1e-6)
	}
	require.Equal(t, "d", wide[0].Item, "alone in one space it stands by that")
	question.More = [][]float32{nil}
	require.Equal(t, rank.Rank(rank.Question{Vector: []float32{1}}, candidates(1), plan), rank.Rank(question, candidates(1), plan))
}

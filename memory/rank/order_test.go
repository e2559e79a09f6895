package rank_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/rank"
)

// The neighbour of the best answer comes before what has nothing to do with it.
func TestRankLetsNeighboursCount(t *testing.T) {
	key := []byte("k")
	candidate := func(item, ref string, position int, text string) rank.Candidate {
		return rank.Candidate{Item: item, Ref: ref, Position: position, Terms: rank.DocumentTerms(key, text)}
	}
	candidates := []rank.Candidate{
		candidate("a", "other", 1, "nothing of it"),
		candidate("b", "one", 1, "where did you go hiking"),
		candidate("c", "one", 2, "up on the ridge, with Ben"),
		candidate("d", "two", 3, "no word"),
	}
	question := rank.Question{Terms: rank.QueryTerms(key, "hiking", rank.Statistics{Documents: 4})}
	ranked := rank.Rank(question, candidates, rank.DefaultPlan())
	require.Equal(t, "b", ranked[0].Item)
	require.Equal(t, "c", ranked[1].Item)
	require.Equal(t, []string{"a", "d"}, []string{ranked[2].Item, ranked[3].Item}, "by item where they score alike")
}

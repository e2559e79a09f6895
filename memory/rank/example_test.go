package rank_test

import (
	"fmt"

	"gantry.dev/memory/rank"
)

// What a reader may see is ranked by the words in common, rare ones first, and
// what stands beside an answer follows it.
func ExampleRank() {
	key := []byte("the organisation's key")
	visible := []string{"When do we sail to Ribe?", "On Friday, with the tide", "The roof leaks again"}
	statistics := rank.Statistics{Documents: int64(len(visible)), Holding: map[uint32]int64{}}
	var candidates []rank.Candidate
	for i, text := range visible {
		terms := rank.DocumentTerms(key, text)
		for _, term := range terms {
			statistics.Holding[term.Hash]++
		}
		candidates = append(candidates, rank.Candidate{Item: text, Terms: terms, Ref: "a conversation", Position: 1 + i})
	}
	question := rank.Question{Terms: rank.QueryTerms(key, "Who sails to Ribe?", statistics)}
	for _, answer := range rank.Rank(question, candidates, rank.DefaultPlan()) {
		fmt.Println(answer.Item)
	}
	// Output:
	// When do we sail to Ribe?
	// On Friday, with the tide
	// The roof leaks again
}

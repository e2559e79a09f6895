package recollection

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gantry.dev/memory/rank"
)

// bm25 is what memory is held against: BM25 on stems without words of grammar,
// with the usual constants and the statistics of the conversation, as a search
// engine has it. It shares nothing with memory but how a text is cut into words.
type bm25 struct {
	ids       []string
	counts    []map[string]float64
	lengths   []float64
	mean      float64
	documents map[string]float64 // by stem: texts that hold it
}

func newBM25(items []item) *bm25 {
	b := &bm25{documents: map[string]float64{}}
	for _, i := range items {
		counts := map[string]float64{}
		words := contents(i.Text)
		for _, word := range words {
			counts[word.Stem]++
		}
		for stem := range counts {
			b.documents[stem]++
		}
		b.ids = append(b.ids, i.ID)
		b.counts = append(b.counts, counts)
		b.lengths = append(b.lengths, float64(len(words)))
		b.mean += float64(len(words)) / float64(len(items))
	}
	return b
}

// recall returns the best first; those that score alike in the order in which
// they were said.
func (b *bm25) recall(_ context.Context, text string, limit int) ([]string, error) {
	const k1, part = 1.2, 0.75
	scores := make([]float64, len(b.ids))
	all := float64(len(b.ids))
	for _, word := range contents(text) {
		holding := b.documents[word.Stem]
		rare := math.Log1p((all - holding + 0.5) / (holding + 0.5))
		for i, counts := range b.counts {
			if times := counts[word.Stem]; times > 0 {
				scores[i] += rare * times * (k1 + 1) / (times + k1*(1-part+part*b.lengths[i]/b.mean))
			}
		}
	}
	order := make([]int, len(b.ids))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(scores[y], scores[x]) })
	var found []string
	for _, i := range order[:min(limit, len(order))] {
		found = append(found, b.ids[i])
	}
	return found, nil
}

// contents are the words of a text without those of grammar.
func contents(text string) []rank.Word {
	return slices.DeleteFunc(rank.Words(text), func(w rank.Word) bool { return w.Function })
}

package embed

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"sync"

	"gantry.dev/memory/embed/table"
	"gantry.dev/memory/rank"
	"gantry.dev/orchestrator/policy"
)

// words is the table that memory/embed/wordnet makes.
//
//go:embed words.bin
var words string

// The parts of a vector, in dimensions.
const (
	spelled = 256 // how words are spelled, hashed
	meant   = 128 // what they mean, of the table
)

// meaningWeight is how long the part of the meaning is where that of the
// spelling has length 1.
const meaningWeight = 2

// StaticModel names the vectors of Static.
const StaticModel = "static-384-1"

// Static makes vectors in this process, of how words are spelled and of what
// they mean. It needs nothing and tells nobody. It knows English; of other
// words it knows the spelling. It may be used from many goroutines.
type Static struct{ load func() (*lexicon, error) }

var _ Asker = (*Static)(nil)

// lexicon is the table by stem.
type lexicon struct {
	rows    map[string]int32
	table   table.Table
	lengths []float32 // by row: 1 / length
}

// NewStatic returns an embedder that reads its table when it is first used.
func NewStatic() *Static {
	return &Static{load: sync.OnceValues(func() (*lexicon, error) { return newLexicon(words) })}
}

func newLexicon(from string) (*lexicon, error) {
	t, err := table.Decode(from)
	if err != nil {
		return nil, fmt.Errorf("the table of words: %w", err)
	}
	if t.Dim != meant {
		return nil, fmt.Errorf("the table of words has %d dimensions, not %d", t.Dim, meant)
	}
	l := &lexicon{rows: make(map[string]int32, len(t.Stems)), table: t, lengths: make([]float32, len(t.Stems))}
	for i, stem := range t.Stems {
		l.rows[stem] = int32(i)
		sum := 0
		for _, x := range l.row(int32(i)) {
			sum += int(x) * int(x)
		}
		if sum > 0 {
			l.lengths[i] = float32(1 / math.Sqrt(float64(sum)))
		}
	}
	return l, nil
}

func (l *lexicon) row(i int32) []int8 { return l.table.Vectors[int(i)*meant : (int(i)+1)*meant] }

// Model returns StaticModel.
func (s *Static) Model() string { return StaticModel }

// Dim returns 384.
func (s *Static) Dim() int { return spelled + meant }

// May returns true: texts stay in this process.
func (s *Static) May(policy.Labels) bool { return true }

// Embed returns one vector for each text. A text without words has a vector of
// zeros, which is like nothing.
func (s *Static) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	l, err := s.load()
	if err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vectors[i] = l.vector(rank.Words(text), l.says)
	}
	return vectors, nil
}

// Ask weighs the words of a question by their rarity. The table's weights stand
// in for it in texts, whose vectors are made before anybody asks.
func (s *Static) Ask(ctx context.Context, text string, rarity func(stem string) float64) ([]float32, error) {
	l, err := s.load()
	if err != nil {
		return nil, err
	}
	return l.vector(rank.Words(text), func(stem string) float64 { return max(rarity(stem), 0) }), ctx.Err()
}

// says is how much a word says in a text; what the table does not know is rare.
func (l *lexicon) says(stem string) float64 {
	if row, known := l.rows[stem]; known {
		return float64(l.table.Weights[row]) / math.MaxUint8
	}
	return 1
}

// vector adds up what the words say. Words of grammar say something only where
// there are no others.
func (l *lexicon) vector(of []rank.Word, says func(stem string) float64) []float32 {
	vector := make([]float32, spelled+meant)
	spelling, meaning := vector[:spelled], vector[spelled:]
	onlyGrammar := !slices.ContainsFunc(of, func(w rank.Word) bool { return !w.Function })
	for _, word := range of {
		if word.Function && !onlyGrammar {
			continue
		}
		weight := float32(says(word.Stem))
		spell(spelling, word.Stem, weight)
		if row, known := l.rows[word.Stem]; known {
			share := weight * l.lengths[row]
			for k, x := range l.row(row) {
				meaning[k] += float32(share * float32(x)) // the conversion forbids a fused multiply-add
			}
		}
	}
	scale(spelling, 1)
	scale(meaning, meaningWeight)
	scale(vector, 1)
	return vector
}

// The letters that stand together in a gram.
const shortestGram, longestGram = 3, 5

// spell adds a word and its grams, which together count as much as the word.
func spell(spelling []float32, stem string, weight float32) {
	put(spelling, stem, weight)
	padded := "<" + stem + ">"
	grams := 0
	for size := shortestGram; size <= longestGram; size++ {
		grams += max(len(padded)-size+1, 0)
	}
	if grams == 0 {
		return
	}
	share := float32(float64(weight) / math.Sqrt(float64(grams)))
	for size := shortestGram; size <= longestGram; size++ {
		for at := 0; at+size <= len(padded); at++ {
			put(spelling, padded[at:at+size], share)
		}
	}
}

// put adds to the dimension that a string hashes to, with the sign that it
// hashes to, so that strangers that meet there cancel out.
func put(spelling []float32, of string, weight float32) {
	hash := uint64(14695981039346656037) // FNV-1a
	for i := range len(of) {
		hash = (hash ^ uint64(of[i])) * 1099511628211
	}
	hash ^= hash >> 32
	if hash>>16&1 == 1 {
		weight = -weight
	}
	spelling[hash%spelled] += weight
}

// scale brings a vector to a length. Zeros stay.
func scale(vector []float32, length float64) {
	sum := 0.0
	for _, x := range vector {
		sum += float64(float64(x) * float64(x))
	}
	if sum == 0 {
		return
	}
	by := length / math.Sqrt(sum)
	for i, x := range vector {
		vector[i] = float32(float64(x) * by)
	}
}

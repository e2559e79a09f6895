package rank

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
)

// The constants of BM25 as it is commonly used: how soon repeating a word
// stops counting, and how much length takes away.
const (
	saturation   = 1.2
	lengthWeight = 0.75
)

// usualLength is the length, in words, of a text that gains and loses nothing
// by it. It is fixed, because a mean over what is stored would move with what a
// reader may not see: half way, by ratio, between a fact of a dozen words and a
// passage of two hundred.
const usualLength = 50

// emphasis is how much more an exact id, or what is quoted, counts in a
// question: as much as asking for it twice.
const emphasis = 2

// DocumentTerms weighs the words of a text by how often they stand in it and
// by its length. Nothing else moves the weights, so they never have to be
// written again. The hashes are keyed, so that nobody without the
// organisation's key tells words by them.
func DocumentTerms(key []byte, text string) Terms {
	words := Words(text)
	hash := newHasher(key)
	counts := make(map[uint32]float64, len(words))
	for _, word := range words {
		counts[hash.of(word.Stem)]++
	}
	norm := saturation * (1 - lengthWeight + lengthWeight*float64(len(words))/usualLength)
	terms := make(Terms, 0, len(counts))
	for h, count := range counts {
		terms = append(terms, Term{Hash: h, Weight: float32(count * (saturation + 1) / (count + norm))})
	}
	return sorted(terms)
}

// QueryHashes returns the terms whose Statistics QueryTerms needs, sorted.
func QueryHashes(key []byte, text string) []uint32 {
	asked := asks(key, text)
	hashes := make([]uint32, 0, len(asked))
	for h := range asked {
		hashes = append(hashes, h)
	}
	slices.Sort(hashes)
	return hashes
}

// QueryTerms weighs the words of a question by how rare they are among what
// the reader may see. Words of grammar count only where there are no others;
// exact ids and what is quoted count twice.
func QueryTerms(key []byte, text string, statistics Statistics) Terms {
	asked := asks(key, text)
	terms := make(Terms, 0, len(asked))
	for h, times := range asked {
		terms = append(terms, Term{Hash: h, Weight: float32(times * rarity(statistics, h))})
	}
	return sorted(terms)
}

// asks returns how much each term of a question counts.
func asks(key []byte, text string) map[uint32]float64 {
	words := Words(text)
	onlyGrammar := !slices.ContainsFunc(words, func(w Word) bool { return !w.Function })
	hash := newHasher(key)
	asked := make(map[uint32]float64, len(words))
	for _, word := range words {
		if word.Function && !word.Quoted && !onlyGrammar {
			continue
		}
		times := 1.0
		if word.Exact || word.Quoted {
			times = emphasis
		}
		asked[hash.of(word.Stem)] += times
	}
	return asked
}

// Rarity returns how rare a stem is among what the reader may see, for those
// whose QueryHashes the statistics were made for.
func Rarity(key []byte, statistics Statistics) func(stem string) float64 {
	hash := newHasher(key)
	return func(stem string) float64 { return rarity(statistics, hash.of(stem)) }
}

// rarity is the inverse document frequency, which is never negative.
func rarity(statistics Statistics, hash uint32) float64 {
	all := float64(max(statistics.Documents, 0))
	holding := min(max(float64(statistics.Holding[hash]), 0), all)
	return math.Log1p((all - holding + 0.5) / (holding + 0.5))
}

// hasher hashes words under an organisation's key.
type hasher struct {
	mac interface {
		Write([]byte) (int, error)
		Sum([]byte) []byte
		Reset()
	}
	sum [sha256.Size]byte
}

func newHasher(key []byte) *hasher { return &hasher{mac: hmac.New(sha256.New, key)} }

func (h *hasher) of(word string) uint32 {
	h.mac.Reset()
	_, _ = h.mac.Write([]byte(word)) // a hash never fails
	return binary.BigEndian.Uint32(h.mac.Sum(h.sum[:0]))
}

func sorted(terms Terms) Terms {
	slices.SortFunc(terms, func(a, b Term) int { return cmp.Compare(a.Hash, b.Hash) })
	return terms
}

// Dot is the lexical score of a text for a question: the sum over the terms in
// both, in the order of the hashes, so that it is the same wherever it is
// counted.
func (t Terms) Dot(other Terms) float64 {
	sum := 0.0
	for i, j := 0, 0; i < len(t) && j < len(other); {
		switch {
		case t[i].Hash < other[j].Hash:
			i++
		case t[i].Hash > other[j].Hash:
			j++
		default:
			sum += float64(float64(t[i].Weight) * float64(other[j].Weight)) // the conversion forbids a fused multiply-add
			i++
			j++
		}
	}
	return sum
}

// Dot is the product of two vectors, the cosine where both have length 1. It is
// summed in one order, so that every index gives the same. A vector that is
// missing or of another length gives 0.
func Dot(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	sum := 0.0
	for i := range a {
		sum += float64(float64(a[i]) * float64(b[i]))
	}
	return sum
}

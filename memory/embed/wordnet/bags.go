package main

import (
	"cmp"
	"slices"

	"gantry.dev/memory/rank"
)

// What a word counts in the bag of a meaning. The words for it are it; the
// definition says what it is; an example and the words for what is related
// only have to do with it.
const (
	ofLemma      = 1.0
	ofDefinition = 1.0
	ofExample    = 0.5
	ofRelated    = 0.5
)

// bag is what stands together: words by their number, each once.
type bag []counted

type counted struct {
	word   int32
	weight float32
}

// vocabulary numbers stems in their order.
type vocabulary struct {
	stems   []string
	numbers map[string]int32
	counts  []float64 // how often each was met
}

// content returns the stems of a text that carry meaning.
func content(text string) []string {
	var stems []string
	for _, word := range rank.Words(text) {
		if !word.Function && !word.Exact && len(word.Stem) > 1 {
			stems = append(stems, word.Stem)
		}
	}
	return stems
}

// newVocabulary keeps the size most frequent stems of what defines, of the
// words for it, and of the texts that were tagged.
func newVocabulary(synsets []synset, tagged map[string]int, size int) vocabulary {
	counts := map[string]float64{}
	for _, s := range synsets {
		for _, stem := range content(s.definition + " " + s.examples) {
			counts[stem]++
		}
		for _, lemma := range s.lemmas {
			for _, stem := range content(lemma) {
				counts[stem]++
			}
		}
	}
	for key, count := range tagged {
		for _, stem := range content(key[1:]) {
			counts[stem] += float64(count)
		}
	}
	stems := make([]string, 0, len(counts))
	for stem := range counts {
		stems = append(stems, stem)
	}
	slices.SortFunc(stems, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	stems = stems[:min(size, len(stems))]
	slices.Sort(stems)
	v := vocabulary{stems: stems, numbers: map[string]int32{}, counts: make([]float64, len(stems))}
	for i, stem := range stems {
		v.numbers[stem] = int32(i)
		v.counts[i] = counts[stem]
	}
	return v
}

// bags makes a bag of each meaning.
func bags(synsets []synset, v vocabulary) []bag {
	byKey := make(map[string]int, len(synsets))
	for i, s := range synsets {
		byKey[s.key] = i
	}
	all := make([]bag, len(synsets))
	for i, s := range synsets {
		weights := map[int32]float32{}
		put := func(text string, weight float32) {
			for _, stem := range content(text) {
				if number, known := v.numbers[stem]; known {
					weights[number] = max(weights[number], weight)
				}
			}
		}
		for _, lemma := range s.lemmas {
			put(lemma, ofLemma)
		}
		put(s.definition, ofDefinition)
		put(s.examples, ofExample)
		for _, key := range s.related {
			if at, known := byKey[key]; known {
				for _, lemma := range synsets[at].lemmas {
					put(lemma, ofRelated)
				}
			}
		}
		for number, weight := range weights {
			all[i] = append(all[i], counted{number, weight})
		}
		slices.SortFunc(all[i], func(a, b counted) int { return cmp.Compare(a.word, b.word) })
	}
	return all
}

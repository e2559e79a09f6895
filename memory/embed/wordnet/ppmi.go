package main

import "math"

// smoothing is the exponent on how often a context is met, the usual one: it
// keeps rare words from being associated with everything they are met with.
const smoothing = 0.75

// sparse is a matrix by rows.
type sparse struct {
	columns [][]int32
	values  [][]float32
}

// ppmi returns how much more often two words stand in one bag than chance
// has it, in natural logarithms, where it is more. The words of a bag share one
// unit for each of them, so that a long definition says no more of each
// of its words than a short one.
func ppmi(all []bag, words int) sparse {
	holding := make([][]int32, words)
	for i, b := range all {
		for _, c := range b {
			holding[c.word] = append(holding[c.word], int32(i))
		}
	}
	together := func(word int, row []float64) (met []int32) {
		for _, i := range holding[word] {
			b := all[i]
			own := 0.0
			for _, c := range b {
				if int(c.word) == word {
					own = float64(c.weight)
				}
			}
			for _, c := range b {
				if int(c.word) == word {
					continue
				}
				if row[c.word] == 0 {
					met = append(met, c.word)
				}
				row[c.word] += own * float64(c.weight) / float64(len(b)-1)
			}
		}
		return met
	}
	row, sums := make([]float64, words), make([]float64, words)
	smoothed := 0.0
	for word := range words {
		for _, other := range together(word, row) {
			sums[word] += row[other]
			row[other] = 0
		}
	}
	for _, sum := range sums {
		smoothed += math.Pow(sum, smoothing)
	}
	m := sparse{make([][]int32, words), make([][]float32, words)}
	for word := range words {
		met := together(word, row)
		for _, other := range met {
			chance := sums[word] * math.Pow(sums[other], smoothing) / smoothed
			if information := math.Log(row[other] / chance); information > 0 {
				m.columns[word] = append(m.columns[word], other)
				m.values[word] = append(m.values[word], float32(information))
			}
			row[other] = 0
		}
	}
	return m
}

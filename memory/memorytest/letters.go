package memorytest

import (
	"context"
	"math"
	"strings"

	"gantry.dev/memory/embed"
	"gantry.dev/orchestrator/policy"
)

// Letters is an embedder that costs almost nothing: texts are alike that share
// the beginnings of words. It takes every label.
type Letters struct{}

var _ embed.Embedder = Letters{}

const letterDims = 16

// Model names it.
func (Letters) Model() string { return "letters-1" }

// Dim is the number of its dimensions.
func (Letters) Dim() int { return letterDims }

// May takes all, as it is in this process.
func (Letters) May(policy.Labels) bool { return true }

// Embed returns one vector of length 1 for each text, in order.
func (Letters) Embed(_ context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = letters(text)
	}
	return vectors, nil
}

func letters(text string) []float32 {
	vector := make([]float32, letterDims)
	vector[0] = 1 // no text is without direction
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		start := word[:min(len(word), 4)]
		sum := uint32(2166136261) // FNV-1a
		for i := range len(start) {
			sum = (sum ^ uint32(start[i])) * 16777619
		}
		vector[1+sum%(letterDims-1)]++
	}
	var square float64
	for _, value := range vector {
		square += float64(value * value)
	}
	for i := range vector {
		vector[i] /= float32(math.Sqrt(square))
	}
	return vector
}

// Package embed turns texts into vectors: in this process with a table that
// comes with it, or by an endpoint that speaks OpenAI's protocol.
package embed

import (
	"context"
	"errors"

	"gantry.dev/orchestrator/policy"
)

// ErrUnavailable means that texts cannot be embedded now.
var ErrUnavailable = errors.New("the embedding endpoint cannot be reached")

// Embedder makes vectors of length 1 that may be compared with each other.
type Embedder interface {
	// Model names the model with its version; vectors of different models never meet.
	Model() string
	// Dim is the number of dimensions.
	Dim() int
	// Embed returns one vector for each text, in order.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// May reports whether texts with these labels may be given to it. One in
	// this process takes all.
	May(labels policy.Labels) bool
}

// Asker is an Embedder whose vector of a question may go by how rare words are
// among what the reader sees, as rank.Rarity has it: what everything there
// holds tells nothing apart. It compares with the vectors of Embed.
type Asker interface {
	Embedder
	// Ask returns the vector of a question. rarity is not called after it returns.
	Ask(ctx context.Context, text string, rarity func(stem string) float64) ([]float32, error)
}

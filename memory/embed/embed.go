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

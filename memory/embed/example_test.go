package embed_test

import (
	"context"
	"fmt"

	"gantry.dev/memory/embed"
	"gantry.dev/memory/rank"
)

// Texts without a word in common are alike where they mean alike.
func ExampleStatic() {
	vectors, err := embed.NewStatic().Embed(context.Background(), []string{"the physician", "a doctor", "the harbour"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rank.Dot(vectors[0], vectors[1]) > 0.3, rank.Dot(vectors[0], vectors[2]) > 0.3)
	// Output: true false
}

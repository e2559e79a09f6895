package flat

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func random(n int) []float32 {
	source := rand.New(rand.NewPCG(uint64(n), 4))
	made := make([]float32, n)
	for i := range made {
		made[i] = source.Float32() - 0.5
	}
	return made
}

// Where a row stands decides whether it is compared alone or with three others;
// its score does not depend on it, bit by bit.
func TestAScoreDoesNotDependOnTheRowsBesideIt(t *testing.T) {
	for n := range 70 {
		a, block := random(n+1), random(4*(n+1))
		scores := dot4(a, block)
		for row, score := range scores {
			alone := block[row*(n+1) : (row+1)*(n+1)]
			require.Equal(t, dot(a, alone), score)
			exact := 0.0
			for i, x := range a {
				exact += float64(x) * float64(alone[i])
			}
			require.InDelta(t, exact, score, 1e-5)
		}
	}
}

func BenchmarkDot(b *testing.B) {
	a, block := random(384), random(4*384)
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			for row := range 4 {
				dot(a, block[row*384:(row+1)*384])
			}
		}
	})
	b.Run("four", func(b *testing.B) {
		for b.Loop() {
			dot4(a, block)
		}
	})
}

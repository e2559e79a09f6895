package embed_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/memory/embed"
	"gantry.dev/memory/rank"
	"gantry.dev/orchestrator/policy"
)

func vectorsOf(t testing.TB, texts ...string) [][]float32 {
	vectors, err := embed.NewStatic().Embed(t.Context(), texts)
	require.NoError(t, err)
	return vectors
}

// The table in the binary is the one whose digest stands beside it. Vectors of
// another table may not be compared with these: whoever changes it changes the
// model's name, here too, and what is remembered is embedded again.
func TestTableHasItsDigest(t *testing.T) {
	table, err := os.ReadFile("words.bin")
	require.NoError(t, err)
	line, err := os.ReadFile("words.sha256")
	require.NoError(t, err)
	sum := sha256.Sum256(table)
	require.Equal(t, hex.EncodeToString(sum[:])+"  words.bin", strings.TrimSpace(string(line)))
	require.Equal(t, map[string]string{"static-384-1": "54dc0b8cdaa7ce06"}, map[string]string{embed.StaticModel: hex.EncodeToString(sum[:8])})
}

// Texts that share no word are compared by what they mean.
func TestStaticKnowsMeaning(t *testing.T) {
	for name, texts := range map[string][3]string{
		"synonyms":   {"who is her physician", "the doctor came", "the bread is stale"},
		"kinds":      {"which animal has she", "we got a puppy, a spaniel", "the invoice was paid"},
		"what it is": {"where do they buy clothes", "a shop that sells dresses", "heavy rain in the mountains"},
		"irregular":  {"did he go swimming", "he went and swam", "the ledger was audited"},
	} {
		t.Run(name, func(t *testing.T) {
			v := vectorsOf(t, texts[:]...)
			require.Greater(t, rank.Dot(v[0], v[1]), rank.Dot(v[0], v[2])+0.1)
		})
	}
}

// What the table does not know is compared by how it is spelled.
func TestStaticKnowsSpelling(t *testing.T) {
	v := vectorsOf(t, "Zyxolith-7 pump", "the Zyxoliths", "the Quandavers")
	require.Greater(t, rank.Dot(v[0], v[1]), rank.Dot(v[0], v[2])+0.1)
}

func TestStaticVectorsHaveLengthOne(t *testing.T) {
	static := embed.NewStatic()
	require.Equal(t, embed.StaticModel, static.Model())
	require.True(t, static.May(policy.Labels{"secret"}), "it tells nobody")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		vectors, err := static.Embed(t.Context(), []string{text, text})
		require.NoError(t, err)
		require.Len(t, vectors[0], static.Dim())
		require.Equal(t, vectors[0], vectors[1])
		length := rank.Dot(vectors[0], vectors[0])
		if len(rank.Words(text)) == 0 {
			require.Zero(t, length)
			return
		}
		require.InDelta(t, 1, length, 1e-5)
		require.False(t, math.IsNaN(length))
	})
}

// In a question, what everything that the reader sees holds says nothing.
func TestAskGoesByRarity(t *testing.T) {
	static := embed.NewStatic()
	texts := vectorsOf(t, "Ruth has a boat", "Jan has a kayak")
	rarity := func(stem string) float64 {
		if stem == "ruth" {
			return 0
		}
		return 1
	}
	question, err := static.Ask(t.Context(), "Ruth kayak", rarity)
	require.NoError(t, err)
	alone, err := static.Ask(t.Context(), "kayak", rarity)
	require.NoError(t, err)
	require.Equal(t, alone, question)
	require.Greater(t, rank.Dot(question, texts[1]), rank.Dot(question, texts[0]))
	question, err = static.Ask(t.Context(), "Ruth", rarity)
	require.NoError(t, err)
	require.Zero(t, rank.Dot(question, question), "nothing is left that tells texts apart")
}

func TestStaticIsSafeForManyAtOnce(t *testing.T) {
	static := embed.NewStatic()
	want := vectorsOf(t, "the same for all")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got, err := static.Embed(t.Context(), []string{"the same for all"})
			if err != nil || rank.Dot(got[0], want[0]) != rank.Dot(want[0], want[0]) {
				t.Error("another vector", err)
			}
		})
	}
	all.Wait()
}

func BenchmarkStatic(b *testing.B) {
	static := embed.NewStatic()
	texts := []string{"Caroline told us on Thursday that the new boat needs another coat of paint before the regatta in September, and that the harbour master asked for the papers."}
	for b.Loop() {
		if _, err := static.Embed(b.Context(), texts); err != nil {
			b.Fatal(err)
		}
	}
}

package embed_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/embed"
	"gantry.dev/orchestrator/policy"
)

// counting counts the texts that it is given.
type counting struct {
	embed.Embedder
	texts  []string
	before func()
}

func (c *counting) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	c.texts = append(c.texts, texts...)
	if c.before != nil {
		c.before()
	}
	return c.Embedder.Embed(ctx, texts)
}

func TestCacheKeepsVectorsOfALabelSet(t *testing.T) {
	inner := &counting{Embedder: embed.NewStatic()}
	cache := embed.NewCache(inner, 2)
	salaries := cache.For("acme", "set-hr")
	first, err := salaries.Embed(t.Context(), []string{"one", "two", "one"})
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, inner.texts, "each text once")
	first[0][0] = 42 // what a caller does to a vector stays with it
	again, err := salaries.Embed(t.Context(), []string{"two", "one"})
	require.NoError(t, err)
	require.Equal(t, first[2], again[1])
	require.Equal(t, first[1], again[0])
	require.Len(t, inner.texts, 2)
	_, err = salaries.Embed(t.Context(), []string{"three", "two"}) // drops "two" or "one", which were used before
	require.NoError(t, err)
	_, err = salaries.Embed(t.Context(), []string{"one"})
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two", "three", "one"}, inner.texts, "the one used longest ago went")
}

// Whether a text was embedded for one label set, or organisation, changes
// nothing for another: neither a hit nor what is dropped.
func TestCacheIsNoOracleAcrossLabels(t *testing.T) {
	inner := &counting{Embedder: embed.NewStatic()}
	cache := embed.NewCache(inner, 1)
	ask := func(organisation, set, text string) (asked bool) {
		before := len(inner.texts)
		_, err := cache.For(organisation, set).Embed(t.Context(), []string{text})
		require.NoError(t, err)
		return len(inner.texts) > before
	}
	require.True(t, ask("acme", "hr", "a salary"))
	require.True(t, ask("acme", "", "a salary"))
	require.True(t, ask("other", "hr", "a salary"))
	require.True(t, ask("acme", "", "another"))
	require.False(t, ask("acme", "hr", "a salary"), "what others ask drops nothing")
	require.False(t, ask("other", "hr", "a salary"))
}

func TestCacheDropsWhatIsForgotten(t *testing.T) {
	inner := &counting{Embedder: embed.NewStatic()}
	cache := embed.NewCache(inner, 8)
	for _, organisation := range []string{"acme", "other"} {
		_, err := cache.For(organisation, "").Embed(t.Context(), []string{"a secret"})
		require.NoError(t, err)
	}
	require.Equal(t, 1, cache.Clear("acme"))
	require.Zero(t, cache.Clear("acme"))
	// One that is being made while all is dropped is not kept.
	inner.before = func() { cache.Clear("acme") }
	_, err := cache.For("acme", "").Embed(t.Context(), []string{"a secret"})
	require.NoError(t, err)
	require.Zero(t, cache.Clear("acme"))
	require.Equal(t, 1, cache.Clear("other"))
}

func TestCacheStandsForItsEmbedder(t *testing.T) {
	cache := embed.NewCache(embed.NewStatic(), 8)
	scoped := cache.For("acme", "x")
	require.Equal(t, embed.StaticModel, scoped.Model())
	require.Equal(t, 384, scoped.Dim())
	require.True(t, scoped.May(policy.Labels{"x"}))
	_, err := cache.Embed(t.Context(), []string{"for nobody"})
	require.NoError(t, err)
	require.Zero(t, cache.Clear(""))
}

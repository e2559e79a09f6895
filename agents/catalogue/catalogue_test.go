package catalogue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/catalogue"
	"gantry.dev/orchestrator/policy"
)

func entry() catalogue.Model {
	return catalogue.Model{Name: "fast", Provider: catalogue.OpenAI, Model: "fast-1", Context: 1_000, MaxOutput: 100, AsOf: "2026-11-30",
		Prices: catalogue.Prices{Input: 4, CacheRead: 1, CacheWrite: 4, Output: 16}}
}

// A price that nobody knows is never zero.
func TestWhatNobodyKnowsOfAModelIsRefused(t *testing.T) {
	require.Empty(t, entry().Faults())
	for name, row := range map[string]struct {
		change func(*catalogue.Model)
		path   string
	}{
		"no price":            {func(m *catalogue.Model) { m.Prices = catalogue.Prices{} }, "prices"},
		"half of the prices":  {func(m *catalogue.Model) { m.Prices.CacheRead = 0 }, "prices"},
		"a negative price":    {func(m *catalogue.Model) { m.Prices.Output = -1 }, "prices"},
		"free, with a price":  {func(m *catalogue.Model) { m.Free = true }, "free"},
		"an unknown provider": {func(m *catalogue.Model) { m.Provider = "acme" }, "provider"},
		"no model":            {func(m *catalogue.Model) { m.Model = "" }, "model"},
		"no such day":         {func(m *catalogue.Model) { m.AsOf = "2026-13-01" }, "asOf"},
		"labels, yet plain":   {func(m *catalogue.Model) { m.Plain, m.Labels = true, policy.NewLabels("hr") }, "plain"},
		"more than fits":      {func(m *catalogue.Model) { m.MaxOutput = 1_001 }, "maxOutput"},
		"a script, no script": {func(m *catalogue.Model) { m.Provider = catalogue.Script }, "script"},
	} {
		m := entry()
		row.change(&m)
		faults := m.Faults()
		require.NotEmpty(t, faults, name)
		require.Equal(t, row.path, faults[0].Path, name)
	}
	free := entry()
	free.Free, free.Prices = true, catalogue.Prices{}
	require.Empty(t, free.Faults(), "whose provider charges nothing says so")
}

package model_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents/model"
)

func TestCost(t *testing.T) {
	prices := model.Prices{Input: 150_000, CacheRead: 15_000, CacheWrite: 187_500, Output: 600_000}
	for _, row := range []struct {
		name  string
		usage model.Usage
		cost  int64
	}{
		{"nothing", model.Usage{}, 0},
		{"one token costs something", model.Usage{Input: 1}, 1},
		{"rounded once", model.Usage{Input: 1, CacheRead: 1, Output: 1}, 1},
		{"a million each", model.Usage{Input: 1e6, CacheRead: 1e6, CacheWrite: 1e6, Output: 1e6, Reasoning: 1e6}, 150_000 + 15_000 + 187_500 + 600_000 + 600_000},
		{"negative counts earn nothing", model.Usage{Input: -1e9, Output: 1e6}, 600_000},
	} {
		require.Equal(t, row.cost, prices.Cost(row.usage), row.name)
	}
	require.Equal(t, int64(math.MaxInt64), model.Prices{Input: math.MaxInt64}.Cost(model.Usage{Input: math.MaxInt64}))
	require.Equal(t, int64(0), model.Prices{}.Cost(model.Usage{Input: math.MaxInt64}))
}

func TestCostIsExactAndWithinTheWorstCase(t *testing.T) {
	amount := rapid.OneOf(rapid.Int64Range(0, 1e6), rapid.Int64Range(0, math.MaxInt64/3))
	rapid.Check(t, func(t *rapid.T) {
		prices := model.Prices{Input: amount.Draw(t, "in"), CacheRead: amount.Draw(t, "read"), CacheWrite: amount.Draw(t, "write"), Output: amount.Draw(t, "out")}
		usage := model.Usage{Input: amount.Draw(t, "i"), CacheRead: amount.Draw(t, "r"), CacheWrite: amount.Draw(t, "w"), Output: amount.Draw(t, "o"), Reasoning: amount.Draw(t, "t")}
		exact := new(big.Int)
		for _, part := range [][2]int64{{usage.Input, prices.Input}, {usage.CacheRead, prices.CacheRead}, {usage.CacheWrite, prices.CacheWrite}, {usage.Output, prices.Output}, {usage.Reasoning, prices.Output}} {
			exact.Add(exact, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
		}
		exact.Add(exact, big.NewInt(999_999)).Div(exact, big.NewInt(1_000_000))
		if !exact.IsInt64() {
			exact.SetInt64(math.MaxInt64)
		}
		cost := prices.Cost(usage)
		require.Equal(t, exact.Int64(), cost)

		require.LessOrEqual(t, cost, prices.WorstCase(usage.Input+usage.CacheRead+usage.CacheWrite, usage.Output+usage.Reasoning))
	})
}

package service

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run"
)

// A row has its tokens by kind, and the share of its prompts that was kept from
// before is that of those whose tokens a provider counted.
func TestARowOfUsageSaysWhatCachesHeld(t *testing.T) {
	sums := newUsage()
	for _, s := range []spent{
		{head: run.Head{Run: "r1"}, turn: 1, cost: run.Amount{Tokens: 120}, used: run.Usage{Input: 60, CacheWrite: 40, Output: 20}},
		{head: run.Head{Run: "r1"}, turn: 2, cost: run.Amount{Tokens: 330}, used: run.Usage{Input: 100, CacheRead: 200, Output: 20, Reasoning: 10}},
		{head: run.Head{Run: "r1"}, call: 1, cost: run.Amount{MicroUSD: 5}},
	} {
		sums.add("clerk", s)
	}
	row := sums.list()[0]
	require.Equal(t, run.Amount{MicroUSD: 5, Tokens: 450}, row.Spent)
	require.Equal(t, run.Usage{Input: 160, CacheRead: 200, CacheWrite: 40, Output: 40, Reasoning: 10}, row.Tokens)
	require.Equal(t, int64(400), row.Counted)
	require.Equal(t, int64(200), row.Cached)

	sums.add("clerk", spent{head: run.Head{Run: "r2"}, turn: 1, used: run.Usage{Input: 600, Estimated: true}})
	row = sums.list()[0]
	require.Equal(t, int64(2), row.Runs)
	require.True(t, row.Tokens.Estimated)
	require.Equal(t, int64(760), row.Tokens.Input)
	require.Equal(t, int64(400), row.Counted, "what nobody counted is no share of anything")
}

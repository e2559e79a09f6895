package models

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/orchestrator/run"
)

// Each of two models that were asked for a turn has what was paid to it in its
// own row; the turn is that of the one which answered.
func TestALateAnswerIsPaidForInItsOwnModelsRow(t *testing.T) {
	usd := func(n int64) run.Amount { return run.Amount{MicroUSD: n} }
	found := reports{}
	found.add(agents.Organisation{}, "clerk", &run.Turn{Model: "b", First: "a", Hedge: &run.Hedge{Model: "b"}, Offers: []run.Offer{{Model: "a"}, {Model: "b"}},
		Answer: &run.TurnAnswered{Cost: usd(5), Hedged: &run.Hedged{By: "b", Usage: &run.Usage{Output: 1}, Cost: usd(2)}}})
	rows := found.list()
	require.Len(t, rows, 2)
	require.Equal(t, []any{"a", int64(0), usd(2)}, []any{rows[0].Model, rows[0].Turns, rows[0].Spent})
	require.Equal(t, []any{"b", int64(1), usd(3)}, []any{rows[1].Model, rows[1].Turns, rows[1].Spent})
	require.Equal(t, int64(3), rows[1].Others[0].Instead)
}

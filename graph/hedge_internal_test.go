package graph

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph/generated"
	"gantry.dev/orchestrator/run"
)

func TestATurnOfTwoModelsSaysWhatBecameOfEach(t *testing.T) {
	require.Nil(t, hedgeOf(run.Turn{Model: "a", First: "a"}))
	usd := func(n int64) run.Amount { return run.Amount{MicroUSD: n} }
	turn := run.Turn{Model: "a", First: "a", Reserve: usd(16), Hedge: &run.Hedge{Model: "b", AfterMs: 2000, Reserve: usd(7)}}
	want := generated.TurnHedge{First: "a", Second: "b", AfterMs: 2000, Reserved: amount(usd(7))}
	require.Equal(t, &want, hedgeOf(turn))
	turn.Answer = &run.TurnAnswered{}
	require.Equal(t, &want, hedgeOf(turn), "it was not asked")

	a, b := "a", "b"
	turn.Answer.Hedged = &run.Hedged{By: "b", Unknown: true}
	want.Other, want.OtherHeld = &a, amount(usd(9))
	require.Equal(t, &want, hedgeOf(turn))
	turn.Answer.Hedged = &run.Hedged{By: "a", Usage: &run.Usage{Output: 1}, Cost: usd(2)}
	want.Other, want.OtherHeld, want.OtherCost = &b, nil, amount(usd(2))
	require.Equal(t, &want, hedgeOf(turn))
}

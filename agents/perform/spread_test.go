package perform_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/run"
)

// spreads has the lead hand on so many briefs in one turn, each with what it
// asks for, and every turn of anybody cost 150 micro-dollars.
func (h *house) spreads(orders ...tool.Delegation) {
	cost := model.Usage{Input: 50, Output: 50}
	h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
		answer := says("done")
		if leads(request) && len(request.Messages) == 2 {
			answer = handOn(orders...)
		}
		answer.Usage = cost
		return answer, nil
	}
}

// books replays a run and requires that at no moment more is promised or spent
// than it has. It returns the run as it is in the end.
func (h *house) books(id string) *run.State {
	h.t.Helper()
	_, records, err := h.Memory.Load(h.t.Context(), id, 0)
	require.NoError(h.t, err)
	state := &run.State{ID: id}
	for _, record := range records {
		require.NoError(h.t, run.Replay(state, []run.Record{record}))
		require.True(h.t, state.Budget.Committed().Within(state.Budget.Limit), "after record %d: %+v", record.Seq, state.Budget)
	}
	return state
}

func briefs(count int, microUSD int64) (orders []tool.Delegation) {
	for range count {
		orders = append(orders, tool.Delegation{Agent: "clerk", Brief: "work", MicroUSD: microUSD})
	}
	return orders
}

// capped is the delegating organisation whose lead may spend so much.
func capped(microUSD int64) agents.Organisation {
	o := delegating()
	lead := &o.Agents[len(o.Agents)-1]
	lead.Limits.MicroUSD, lead.Limits.OnLimit, lead.Branches = microUSD, run.FailOnLimit, true
	return o
}

// Ten children under one cap: each gets an even share, whoever is first, what is
// not spent comes back, and what all spent is never above the cap.
func TestCase_36_ChildrenShareACapAndGiveBackWhatTheyDidNotSpend(t *testing.T) {
	const limit = 60_000
	inside(t, capped(limit), func(t *testing.T, h *house) {
		h.spreads(briefs(10, 0)...)
		id := h.lead("go")
		h.work()
		state := h.books(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Len(t, state.Children, 10)
		spent := run.Amount{}
		least, most := state.Children[0].Carve.MicroUSD, state.Children[0].Carve.MicroUSD
		for _, child := range state.Children {
			least, most = min(least, child.Carve.MicroUSD), max(most, child.Carve.MicroUSD)
			require.EqualValues(t, 150, child.Ended.Settled.MicroUSD)
			spent = spent.Plus(child.Ended.Settled)
			require.Equal(t, child.Ended.Settled, h.books(child.ChildStarted.Child).Budget.Settled)
		}
		require.Positive(t, least)
		require.LessOrEqual(t, most, 2*least, "no sibling starves another")
		require.EqualValues(t, spent.MicroUSD+2*150, state.Budget.Settled.MicroUSD, "its own turns and theirs, once each")
		require.Zero(t, state.Budget.Reserved, "what was not spent is back")
	})
}

// Where nothing is left, nothing is handed on: zero is a refusal and no absence
// of a bound.
func TestCase_36_WhatIsNotThereIsNotHandedOn(t *testing.T) {
	inside(t, capped(5_000), func(t *testing.T, h *house) {
		h.spreads(append(briefs(3, 2_000), briefs(3, 100_000)...)...)
		id := h.lead("go")
		h.work()
		state := h.books(id)
		require.True(t, state.Status.Ended(), state.Status)
		require.NotEqual(t, run.StatusCompleted, state.Status)
		require.LessOrEqual(t, len(state.Children), 3)
		for _, child := range state.Children {
			require.LessOrEqual(t, child.Carve.MicroUSD, int64(2_000), "nobody gets more than is there")
		}
		require.LessOrEqual(t, state.Budget.Settled.MicroUSD, int64(5_000))
		refused := 0
		for i := range state.Calls {
			if call := &state.Calls[i]; call.Outcome != run.OutcomeOK {
				refused++
			}
		}
		require.GreaterOrEqual(t, refused, 3)
	})
}

// loading counts what is read of each run from its beginning.
type loading struct {
	mu    sync.Mutex
	whole map[string]int
}

// Load is the journal's.
func (h *house) Load(ctx context.Context, id string, after uint64) (run.Head, []run.Record, error) {
	if l := h.loading; l != nil && after == 0 {
		l.mu.Lock()
		l.whole[id]++
		l.mu.Unlock()
	}
	return h.Memory.Load(ctx, id, after)
}

// A run that waits for its children is woken by each of their ends, and read
// from its beginning once.
func TestARunThatWaitsForChildrenIsReadOnFromWhereItWas(t *testing.T) {
	inside(t, capped(600_000), func(t *testing.T, h *house) {
		h.loading = &loading{whole: map[string]int{}}
		h.spreads(briefs(20, 0)...)
		id := h.lead("go")
		h.work()
		require.Equal(t, run.StatusCompleted, h.state(id).Status)
		h.loading.mu.Lock()
		defer h.loading.mu.Unlock()
		require.LessOrEqual(t, h.loading.whole[id], 2, "once by its worker, and once by this test")
	})
}

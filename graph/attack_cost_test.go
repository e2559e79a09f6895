package graph_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
	"gantry.dev/orchestrator/run"
)

// many is a world of a hundred runs that counts what is read.
type many struct {
	graph.Runs
	mu    sync.Mutex
	reads map[string]int
}

func (m *many) count(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads[what]++
}

func (m *many) State(ctx context.Context, caller graph.Caller, id string) (*run.State, error) {
	m.count("states")
	state, err := m.Runs.State(ctx, caller, "r1")
	if err == nil {
		state.ID = id
	}
	return state, err
}

func (m *many) Events(ctx context.Context, caller graph.Caller, _ string, after uint64) ([]run.Record, error) {
	m.count("records")
	return m.Runs.Events(ctx, caller, "r1", after)
}

func (m *many) Texts(ctx context.Context, caller graph.Caller, ids []string) (map[string]graph.View, error) {
	m.count("texts")
	return m.Runs.Texts(ctx, caller, ids)
}

func (m *many) List(context.Context, graph.Caller, graph.RunFilter, string, int) ([]run.Head, string, error) {
	m.count("lists")
	heads := make([]run.Head, 100)
	for i := range heads {
		heads[i].Run = fmt.Sprint("r", i+1)
	}
	return heads, "", nil
}

// A list of a hundred reads each of its runs once; five edges on each read
// nothing besides.
func TestFault_J11_EdgesOfAListReadNothingAgain(t *testing.T) {
	var counted *many
	s := serve(t, func(c *graph.Config) {
		counted = &many{Runs: c.Runs, reads: map[string]int{}}
		c.Runs = counted
	})
	ask := func(edges string) map[string]int {
		counted.reads = map[string]int{}
		got := s.ask(t, "anna", `{runs(first:100){edges{node{id status `+edges+`}}}}`, nil)
		require.Empty(t, got.Errors, "%.300s", got.raw)
		return counted.reads
	}
	plain := ask("")
	require.LessOrEqual(t, plain["texts"], 1+100)
	require.Equal(t, map[string]int{"lists": 1, "states": 100, "records": 100, "texts": plain["texts"]}, plain)
	require.Equal(t, plain, ask(`explanation{asked{lines}} a:turnExplanation(turn:1){lines} b:turnExplanation(turn:2){lines} events(first:5){edges{cursor}} c:events(first:1){edges{cursor}}`))
}

// What one query has read is not kept for the next one, nor for another person.
func TestFault_J11_EveryQueryReadsAnew(t *testing.T) {
	s := serve(t)
	id := s.runID(t)
	const query = `query($id:ID!){run(id:$id){goal{value}} again:run(id:$id){turns{text{value}}}}`
	require.Contains(t, s.ask(t, "anna", query, map[string]any{"id": id}).raw, "salary 7")
	require.NotContains(t, s.ask(t, "bob", query, map[string]any{"id": id}).raw, "salary 7")
	s.texts["goal"] = "another"
	require.Contains(t, s.ask(t, "anna", query, map[string]any{"id": id}).raw, "another")
}

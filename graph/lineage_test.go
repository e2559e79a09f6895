package graph_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
	"gantry.dev/graph/opaque"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// trees is the tree of the world's one run.
type trees struct{ *world }

func (t trees) Lineage(ctx context.Context, caller graph.Caller, id string) ([]*run.State, error) {
	state, err := t.State(ctx, caller, id)
	return append(t.above, state), err
}

func (t trees) Children(ctx context.Context, caller graph.Caller, id string) ([]run.Head, error) {
	_, err := t.State(ctx, caller, id)
	return t.below, err
}

func (t trees) Follow(_ context.Context, _ graph.Caller, _ string, after opaque.Places) (<-chan run.Record, error) {
	t.follows = after.Clone()
	if !after.Within(map[string]uint64{"r1": uint64(len(t.records)), "r2": 9}) {
		return nil, graph.ErrCursor
	}
	return t.tree, nil
}

// grown gives the world's run a run above and three below it: one that goes on,
// one that has ended, and one beside it with a budget of its own.
func (w *world) grown(t *testing.T) {
	above := &run.State{ID: "r0", Started: run.Started{Organisation: "acme", RunKind: run.Root, Agent: policy.AgentFacts{Name: "boss", Revision: "rev-0", Department: "board"}}}
	w.above = []*run.State{above}
	result := run.Text{ID: "result"}
	w.texts["result"] = "the part is done"
	events := []run.Event{
		run.ChildStarted{Child: "r2", RunKind: run.SubAgent, Agent: "reader", Carve: run.Amount{MicroUSD: 5, Tokens: 50}, Runs: 1},
		run.ChildStarted{Child: "r1-late", RunKind: run.SubAgent, Agent: "reader", Carve: run.Amount{MicroUSD: 6, Tokens: 60}, Runs: 1},
		run.ChildStopped{Child: "r1-late"},
		run.ChildEnded{Child: "r2", Status: run.StatusCompleted, Reason: run.EndVerified, Result: &result, Settled: run.Amount{MicroUSD: 4, Tokens: 40}},
	}
	for _, record := range w.records[4:] { // they come before its call is held
		event, err := run.Decode(record)
		require.NoError(t, err)
		events = append(events, event)
	}
	w.records = w.records[:4]
	for _, event := range events {
		record, err := run.Encode("r1", w.records[len(w.records)-1], now.UnixMilli(), event)
		require.NoError(t, err)
		w.records = append(w.records, record)
	}
	w.below = []run.Head{{Run: "r1", Agent: "watcher", Status: run.StatusRunning}, {Run: "r1-late", Agent: "reader", Status: run.StatusCancelling},
		{Run: "r2", Agent: "reader", Status: run.StatusCompleted}}
}

func TestARunIsShownWithWhatStandsAboveAndBelowIt(t *testing.T) {
	s := serve(t)
	s.grown(t)
	const line = `lineage{run kind agent agentRevision department grant}`
	got := s.ask(t, "anna", `query($id:ID!){run(id:$id){parent root payer task{call} `+line+` approvals{`+line+`}}}`, map[string]any{"id": s.runID(t)})
	require.Empty(t, got.Errors, got.raw)
	shown := `"lineage":[{"run":"` + opaque.ID("acme", opaque.Run, "r0") + `","kind":"ROOT","agent":"boss","agentRevision":"rev-0","department":"board","grant":null},` +
		`{"run":"` + s.runID(t) + `","kind":"ROOT","agent":"payer","agentRevision":"rev","department":"finance","grant":null}]`
	require.Contains(t, got.raw, `{"parent":null,"root":"`+s.runID(t)+`","payer":"finance","task":null,`+shown+`,"approvals":[{`+shown+`}]}`)
	got = s.ask(t, "eve", `query($id:ID!){run(id:$id){`+line+`}}`, map[string]any{"id": opaque.ID("evil", opaque.Run, "r1")})
	require.Equal(t, "NOT_FOUND", got.code())
}

func TestTheRunsBelowARunAreListedAsTheyStarted(t *testing.T) {
	s := serve(t)
	s.grown(t)
	const page = `query($id:ID!,$first:Int!,$after:Cursor){run(id:$id){children(first:$first,after:$after){pageInfo{hasNextPage endCursor}
 edges{cursor node{kind purpose agent status call carve{money} settled{money} unknown{money} stopped result{value}}}}}}`
	all := []string{
		`{"kind":"SUB_AGENT","purpose":null,"agent":"reader","status":"COMPLETED","call":null,"carve":{"money":"5"},"settled":{"money":"4"},"unknown":{"money":"0"},"stopped":false,"result":{"value":"the part is done"}}`,
		`{"kind":"SUB_AGENT","purpose":null,"agent":"reader","status":"CANCELLING","call":null,"carve":{"money":"6"},"settled":null,"unknown":null,"stopped":true,"result":null}`,
		`{"kind":"ROOT","purpose":null,"agent":"watcher","status":"RUNNING","call":null,"carve":null,"settled":null,"unknown":null,"stopped":false,"result":null}`,
	}
	got := s.ask(t, "anna", page, map[string]any{"id": s.runID(t), "first": 10})
	require.Empty(t, got.Errors, got.raw)
	var after any
	for i, one := range all {
		require.Contains(t, got.raw, one)
		alone := s.ask(t, "anna", page, map[string]any{"id": s.runID(t), "first": 1, "after": after})
		require.Empty(t, alone.Errors, alone.raw)
		require.Contains(t, alone.raw, `"node":`+one+`}]`, i)
		children := alone.Data["run"].(map[string]any)["children"].(map[string]any)
		after = children["pageInfo"].(map[string]any)["endCursor"]
	}
	got = s.ask(t, "anna", page, map[string]any{"id": s.runID(t), "first": 1, "after": after})
	require.Contains(t, got.raw, `"edges":[]`)
	require.Contains(t, got.raw, `"hasNextPage":false`)
	got = s.ask(t, "anna", `query($id:ID!){run(id:$id){waitingFor}}`, map[string]any{"id": s.runID(t)})
	require.Contains(t, got.raw, `"waitingFor":["APPROVAL","CHILDREN"]`)
}

// Every event of a tree's stream has a cursor from which the stream goes on, and
// says which run it is of.
func TestEventsOfATreeHaveCursorsOverAllItsRuns(t *testing.T) {
	s := serve(t)
	s.grown(t)
	s.tree = make(chan run.Record, 3)
	other := s.records[1]
	other.Run, other.Seq = "r2", 9
	s.tree <- s.records[0]
	s.tree <- other
	s.tree <- s.records[1]
	close(s.tree)
	const tree = `subscription($run:ID!,$after:Cursor){runEvents(run:$run,after:$after,includeDescendants:true){cursor run seq}}`
	socket := s.dial(t, s.token(t, "anna"))
	message := socket.subscribe(tree, map[string]any{"run": s.runID(t)})
	told, err := opaque.ReadPlaces(nil, "r1")
	require.NoError(t, err)
	var cursor string
	for _, place := range []struct {
		run string
		seq uint64
	}{{"r1", 1}, {"r2", 9}, {"r1", 2}} {
		told.Tell(place.run, place.seq)
		cursor = told.Cursor()
		require.JSONEq(t, fmt.Sprintf(`{"data":{"runEvents":{"cursor":%q,"run":%q,"seq":"%d"}}}`, cursor, opaque.ID("acme", opaque.Run, place.run), place.seq), string(message.Payload))
		message = socket.next()
	}
	require.Contains(t, string(message.Payload), `"cursor":"`+cursor+`"`, "and one that was cut says where to go on")
	s.tree = make(chan run.Record)
	close(s.tree)
	again := s.dial(t, s.token(t, "anna")).subscribe(tree, map[string]any{"run": s.runID(t), "after": cursor})
	require.Contains(t, string(again.Payload), "RESYNC")
	require.Equal(t, []uint64{2, 9, 0}, []uint64{s.follows.Of("r1"), s.follows.Of("r2"), s.follows.Of("r3")})
	position := opaque.Position("r1", 1)
	for _, wrong := range []string{position, "nonsense"} {
		refused := s.dial(t, s.token(t, "anna")).subscribe(tree, map[string]any{"run": s.runID(t), "after": wrong})
		require.Contains(t, string(refused.Payload), "CURSOR_INVALID")
	}
}

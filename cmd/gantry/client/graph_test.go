package client_test

import (
	"context"
	"crypto/ed25519"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/graph"
	"gantry.dev/graph/edge"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/notice"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

var now = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// world is one run behind the real interface. What it does not answer, no test
// may ask.
type world struct {
	graph.Runs
	records  []run.Record
	texts    map[string]string
	commands []run.Command
}

var anna = policy.Principal{ID: "anna", Kind: policy.Person, Organisation: "acme", Name: "Anna"}

func newWorld(t *testing.T) *world {
	w := &world{texts: map[string]string{"goal": "pay the invoice", "args": `{"to":"x"}`}}
	text := func(id string) run.Text { return run.Text{ID: id, Commitment: "c-" + id, Subject: "anna"} }
	var last run.Record
	for i, event := range []run.Event{
		run.Started{Organisation: "acme", RunKind: run.Root, Root: "r1", Subject: anna, Chain: []string{"anna", "agent:payer"},
			Agent: policy.AgentFacts{Name: "payer", Revision: "rev"}, Contact: "anna", Goal: text("goal"),
			Authority: policy.Authority{Turns: 5}, Limits: run.Limits{Turns: 5, CallsAtOnce: 1}, By: run.Identity{Principal: "anna"}},
		run.TurnStarted{Turn: 1, Attempt: 1, Epoch: 1, Model: "m"},
		run.TurnAnswered{Turn: 1, Class: run.ClassCalls},
		run.CallProposed{Call: 1, Turn: 1, Tool: "bank.pay", Revision: "tool", Impact: policy.Irreversible, Class: policy.Keyed, Arguments: text("args")},
		run.CallJudged{Call: 1, Verdict: policy.Verdict{Answer: policy.Hold}},
		run.ApprovalRequested{Approval: "ap1", Call: 1, Digest: "digest-1", Nonce: "n", Approvers: []policy.Approver{{Principal: "anna", Why: "owner"}}, Quorum: 1, NotAfterMs: now.UnixMilli()},
	} {
		record, err := run.Encode("r1", last, now.UnixMilli()+int64(i), event)
		require.NoError(t, err)
		w.records, last = append(w.records, record), record
	}
	return w
}

func (w *world) Start(_ context.Context, _ graph.Caller, _ graph.StartInput) (graph.Outcome, error) {
	return graph.Outcome{Run: "r1"}, nil
}

func (w *world) Command(_ context.Context, caller graph.Caller, _, id string, build func(func(string) run.Text, policy.Principal) run.Command) (graph.Outcome, error) {
	w.commands = append(w.commands, build(func(text string) run.Text { return run.Text{ID: text} }, caller.Principal))
	return graph.Outcome{Run: id}, nil
}

func (w *world) State(_ context.Context, _ graph.Caller, id string) (*run.State, error) {
	if id != "r1" {
		return nil, engine.ErrNotFound
	}
	state := &run.State{ID: id}
	return state, run.Replay(state, w.records)
}

func (w *world) Texts(_ context.Context, _ graph.Caller, ids []string) (map[string]graph.View, error) {
	out := map[string]graph.View{}
	for _, id := range ids {
		out[id] = graph.View{Text: w.texts[id]}
	}
	return out, nil
}

func (w *world) Events(_ context.Context, _ graph.Caller, _ string, after uint64) ([]run.Record, error) {
	return w.records[after:], nil
}

func (w *world) List(context.Context, graph.Caller, graph.RunFilter, string, int) ([]run.Head, string, error) {
	return []run.Head{{Run: "r1"}}, "", nil
}

func (w *world) Operation(context.Context, graph.Caller, string, string, []byte) (graph.Operation, error) {
	return graph.Operation{Description: "Pays."}, nil
}

func (w *world) Epoch(context.Context, string) (string, error) { return "", nil }

func (w *world) Principal(_ context.Context, organisation, id string) (policy.Principal, error) {
	if organisation != "acme" || id != "anna" {
		return policy.Principal{}, engine.ErrNotFound
	}
	return anna, nil
}

// inbox has one item, which anna decides for bob.
type inbox struct{ graph.Inbox }

func (inbox) Items(context.Context, graph.Caller) ([]graph.Item, error) {
	return []graph.Item{{InboxItem: engine.InboxItem{ID: "ap1", Organisation: "acme", Run: "r1", Kind: engine.InboxApproval, Open: true, SinceMs: now.UnixMilli()}, OnBehalfOf: "bob"}}, nil
}

func (inbox) Deputies(context.Context, graph.Caller) ([]agents.Deputy, error) {
	return []agents.Deputy{{Person: "bob", Deputy: "anna", From: 1000, Until: 2000}}, nil
}

func (inbox) SetDeputy(_ context.Context, _ graph.Caller, _ string, deputy graph.DeputyInput) (graph.Change, error) {
	if deputy.Deputy == "zoe" {
		return graph.Change{}, agents.ErrNotAPerson
	}
	return graph.Change{}, nil
}

func (inbox) Told(context.Context, graph.Caller) ([]notice.Notice, error) {
	return []notice.Notice{{ID: "n1", Item: "ap1", Step: notice.Escalated, Person: "anna", Kind: engine.InboxApproval, Agent: "payer",
		Channel: notice.Channel{Kind: "WEBHOOK", Target: "https://hidden.example"}, State: notice.Dead, Attempts: 10, Code: "UNREACHABLE", CreatedMs: 1000, SettledMs: 2000}}, nil
}

type (
	conversations struct{ graph.Conversations }
	organisation  struct{ graph.Agents }
	kills         struct{ graph.Kills }
	budgets       struct{ graph.Budgets }
)

// live tells two records at a time and then was too slow.
type live struct {
	graph.Live
	*world
}

func (l live) Run(_ context.Context, _, _ string, after uint64) (<-chan run.Record, error) {
	out := make(chan run.Record, 2)
	for _, record := range l.records[after:min(after+2, uint64(len(l.records)))] {
		out <- record
	}
	close(out)
	return out, nil
}

func serveGraph(t *testing.T) (*world, *client.Client) {
	w := newWorld(t)
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
	clock := func() time.Time { return now }
	verifier, err := edge.NewVerifier(private.Public().(ed25519.PublicKey), "https://issuer", "gantry", clock)
	require.NoError(t, err)
	handler, err := graph.NewHandler(graph.Config{Runs: w, Conversations: conversations{}, Inbox: inbox{}, Tools: w, Agents: organisation{}, Kills: kills{}, Budgets: budgets{}, Live: live{world: w}, Trees: trees{world: w},
		Directory: w, Verifier: verifier, Limits: edge.DefaultLimits(), Connections: edge.DefaultConnectionLimits(),
		NewID: func() string { return "id" }, Clock: clock})
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	token, err := edge.Mint(private, edge.Grant{Organisation: "acme", Principal: "anna", Issuer: "https://issuer", Audience: "gantry", TokenID: "t", From: now, Until: now.Add(time.Hour)})
	require.NoError(t, err)
	c, err := client.New(client.Config{URL: server.URL + "/", Token: token, Pause: func(ctx context.Context, _ int) error { return ctx.Err() }})
	require.NoError(t, err)
	return w, c
}

func TestRunIsStartedFollowedAndDecidedOverTheRealInterface(t *testing.T) {
	w, c := serveGraph(t)
	ctx := t.Context()
	started, err := c.StartRun(ctx, client.Start{Agent: "payer", Goal: "pay the invoice"})
	require.NoError(t, err)
	require.Equal(t, "WAITING", started.Status)
	require.True(t, started.Waits())
	require.False(t, started.Ended())
	require.Equal(t, now, started.StartedAt)

	var kinds []string
	require.NoError(t, c.Events(ctx, started.ID, "", func(event client.Event) (bool, error) {
		kinds = append(kinds, event.Kind)
		if event.Kind != "call_proposed" {
			return event.Kind != "approval_requested", nil
		}
		var body struct{ Arguments client.Text }
		require.NoError(t, event.Decode(&body))
		require.Equal(t, `{"to":"x"}`, body.Arguments.Value)
		return true, nil
	}))
	require.Equal(t, []string{"started", "turn_started", "turn_answered", "call_proposed", "call_judged", "approval_requested"}, kinds,
		"over three streams, each of which asked for a new one")

	approval, err := c.Approval(ctx, "ap1")
	require.NoError(t, err)
	require.Equal(t, "bank.pay", approval.Tool)
	require.Equal(t, `{"to":"x"}`, approval.Arguments.Display)
	require.Equal(t, "anna (owner)", approval.Approvers[0].String())
	_, err = c.Decide(ctx, approval, false, "not yet")
	require.NoError(t, err)
	decided := w.commands[0].(run.DecideApproval)
	require.Equal(t, "digest-1", decided.Digest)
	require.False(t, decided.Granted)
	require.Equal(t, "not yet", decided.Reason.ID)

	whole, err := c.Run(ctx, started.ID)
	require.NoError(t, err)
	require.Equal(t, "HOLD", whole.Calls[0].Verdict.Answer)
	require.Len(t, whole.Turns, 1)
	runs, err := c.Observed(ctx, "payer", 20)
	require.NoError(t, err)
	require.Equal(t, "bank.pay", runs[0].Calls[0].Tool)
}

func TestRunIsExplainedAndExportedOverTheRealInterface(t *testing.T) {
	_, c := serveGraph(t)
	ctx := t.Context()
	started, err := c.StartRun(ctx, client.Start{Agent: "payer", Goal: "pay the invoice"})
	require.NoError(t, err)
	answers, err := c.Explain(ctx, started.ID)
	require.NoError(t, err)
	require.Len(t, answers, 6)
	require.Equal(t, "What was asked?", answers[0].Question)
	require.Contains(t, answers[0].Lines[0], "pay the invoice")
	_, found, err := c.ExplainTurn(ctx, started.ID, 1)
	require.NoError(t, err)
	require.True(t, found)
	_, found, err = c.ExplainTurn(ctx, started.ID, 2)
	require.NoError(t, err)
	require.False(t, found)
	export, err := c.Export(ctx, started.ID)
	require.NoError(t, err)
	report, err := account.Verify(strings.NewReader(export), "")
	require.NoError(t, err)
	require.Equal(t, 6, report.Records)
	_, err = c.Status(ctx, "nonsense")
	require.True(t, client.IsCode(err, "NOT_FOUND"), err)
}

func TestDeputiesAndNoticesOverTheRealInterface(t *testing.T) {
	_, c := serveGraph(t)
	items, err := c.Inbox(t.Context())
	require.NoError(t, err)
	require.Equal(t, "bob", items[0].OnBehalfOf.Principal)
	deputies, err := c.SetDeputy(t.Context(), "anna", time.Time{}, time.UnixMilli(2000))
	require.NoError(t, err)
	require.Equal(t, "anna", deputies[0].Deputy.Principal)
	_, err = c.SetDeputy(t.Context(), "", time.Time{}, time.Time{})
	require.NoError(t, err)
	_, err = c.SetDeputy(t.Context(), "zoe", time.UnixMilli(1), time.UnixMilli(2000))
	require.True(t, client.IsCode(err, "NOT_A_PERSON"), err)
	notices, err := c.Notices(t.Context())
	require.NoError(t, err)
	require.Equal(t, "DEAD", notices[0].State)
	require.Equal(t, "WEBHOOK", notices[0].Channel, "and where it would have gone is nobody's to read")
}

// trees has the run, which stands alone.
type trees struct {
	graph.Trees
	*world
}

func (t trees) Lineage(ctx context.Context, caller graph.Caller, id string) ([]*run.State, error) {
	state, err := t.State(ctx, caller, id)
	return []*run.State{state}, err
}

package graph_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/graph"
	"gantry.dev/graph/edge"
	"gantry.dev/graph/opaque"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/notice"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

var now = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// world is one organisation in memory: one run, its texts and its people.
type world struct {
	mu       sync.Mutex // guards people
	people   map[string]policy.Principal
	unlisted error // why nobody can be looked up
	records  []run.Record
	texts    map[string]string
	replayed bool
	refusal  error
	commands []run.Command
	live     chan run.Record // nil: replay, then end
	changes  chan []string   // of memory
	above    []*run.State    // of the run
	below    []run.Head
	tree     chan run.Record // of the run and all below it
	follows  opaque.Places   // how the tree was last followed
}

func newWorld(t *testing.T) *world {
	w := &world{texts: map[string]string{"goal": "pay the invoice", "args": `{"to":"` + "\u202e" + `x"}`, "secret": "salary 7"}}
	w.people = map[string]policy.Principal{
		"anna":        {ID: "anna", Kind: policy.Person, Organisation: "acme", Department: "finance", Name: "Anna", Clearance: policy.NewLabels("hr")},
		"bob":         {ID: "bob", Kind: policy.Person, Organisation: "acme", Department: "finance", Name: "Bob"},
		"olga":        {ID: "olga", Kind: policy.Person, Organisation: "acme", Name: "Olga", Roles: []string{"operator"}},
		"agent:payer": {ID: "agent:payer", Kind: policy.Agent, Organisation: "acme", Name: "payer"},
		"eve":         {ID: "eve", Kind: policy.Person, Organisation: "evil", Name: "Eve"},
	}
	text := func(id string, labels ...policy.Label) run.Text {
		return run.Text{ID: id, Commitment: "c-" + id, Size: len(w.texts[id]), Subject: "anna", Marking: policy.Marking{Labels: policy.NewLabels(labels...)}}
	}
	secret := text("secret", "hr")
	var last run.Record
	for i, event := range []run.Event{
		run.Started{Organisation: "acme", RunKind: run.Root, Root: "r1", Subject: w.people["anna"], Chain: []string{"anna", "agent:payer"},
			Agent: policy.AgentFacts{Name: "payer", Revision: "rev", Department: "finance", Owner: "olga"}, Contact: "olga", Goal: text("goal"),
			Authority: policy.Authority{Turns: 5}, Limits: run.Limits{Turns: 5, CallsAtOnce: 1}, By: run.Identity{Principal: "anna", TokenID: "tok-1", Digest: "tok-digest"}},
		run.TurnStarted{Turn: 1, Attempt: 1, Epoch: 1, Model: "m"},
		run.TurnAnswered{Turn: 1, Class: run.ClassCalls, Text: &secret},
		run.CallProposed{Call: 1, Turn: 1, Tool: "bank.pay", Revision: "tool", Impact: policy.Irreversible, Class: policy.Keyed, Arguments: text("args")},
		run.CallJudged{Call: 1, Verdict: policy.Verdict{Answer: policy.Hold, Reasons: []policy.Reason{{Policy: "p1", Text: "Money needs a person."}}}},
		run.ApprovalRequested{Approval: "ap1", Call: 1, Digest: "digest-1", Nonce: "n", Approvers: []policy.Approver{{Principal: "bob", Why: "budget owner"}}, Quorum: 1, NotAfterMs: now.Add(time.Hour).UnixMilli()},
	} {
		record, err := run.Encode("r1", last, now.UnixMilli()+int64(i), event)
		require.NoError(t, err)
		w.records, last = append(w.records, record), record
	}
	return w
}

// sees is the world's own rule: eve sees nothing.
func (w *world) State(_ context.Context, caller graph.Caller, id string) (*run.State, error) {
	if id != "r1" || caller.Principal.Organisation != "acme" || caller.Principal.ID == "mute" {
		return nil, engine.ErrNotFound
	}
	state := &run.State{ID: id}
	return state, run.Replay(state, w.records)
}

func (w *world) Start(context.Context, graph.Caller, graph.StartInput) (graph.Outcome, error) {
	return graph.Outcome{Run: "r1", Replayed: w.replayed}, w.refusal
}

func (w *world) Command(ctx context.Context, caller graph.Caller, _, id string, build func(func(string) run.Text, policy.Principal) run.Command) (graph.Outcome, error) {
	if _, err := w.State(ctx, caller, id); err != nil {
		return graph.Outcome{}, err
	}
	seal := func(text string) run.Text { return run.Text{ID: "sealed:" + text} }
	w.commands = append(w.commands, build(seal, caller.Principal))
	return graph.Outcome{Run: id, Replayed: w.replayed}, w.refusal
}

func (w *world) Texts(_ context.Context, _ graph.Caller, ids []string) (map[string]graph.View, error) {
	out := map[string]graph.View{}
	for _, id := range ids {
		if text, found := w.texts[id]; found {
			out[id] = graph.View{Text: text}
		}
	}
	return out, nil
}

func (w *world) List(_ context.Context, caller graph.Caller, _ graph.RunFilter, _ string, _ int) ([]run.Head, string, error) {
	if caller.Principal.Organisation != "acme" {
		return nil, "", nil
	}
	return []run.Head{{Run: "r1"}}, "", nil
}

func (w *world) Events(ctx context.Context, caller graph.Caller, id string, after uint64) ([]run.Record, error) {
	if _, err := w.State(ctx, caller, id); err != nil {
		return nil, err
	}
	return w.records[min(after, uint64(len(w.records))):], nil
}

func (w *world) Principal(_ context.Context, organisation, id string) (policy.Principal, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	principal, found := w.people[id]
	if w.unlisted != nil {
		return policy.Principal{}, w.unlisted
	}
	if !found || principal.Organisation != organisation {
		return policy.Principal{}, engine.ErrNotFound
	}
	return principal, nil
}

// Epoch is another one after every change of the people.
func (w *world) Epoch(context.Context, string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	raw, err := json.Marshal(w.people)
	return string(raw), err
}

func (w *world) Items(context.Context, graph.Caller) ([]graph.Item, error) {
	return []graph.Item{{InboxItem: engine.InboxItem{ID: "ap1", Organisation: "acme", Run: "r1", Kind: engine.InboxApproval, Open: true, SinceMs: now.UnixMilli()},
		OnBehalfOf: "anna", RemindedMs: now.UnixMilli()}}, nil
}

func (w *world) Deputies(_ context.Context, caller graph.Caller) ([]agents.Deputy, error) {
	return []agents.Deputy{{Person: caller.Principal.ID, Deputy: "anna", From: 1000, Until: 2000}}, nil
}

func (w *world) SetDeputy(_ context.Context, _ graph.Caller, _ string, deputy graph.DeputyInput) (graph.Change, error) {
	if deputy.Deputy == "zoe" {
		return graph.Change{}, agents.ErrNotAPerson
	}
	return graph.Change{}, nil
}

func (w *world) Told(_ context.Context, caller graph.Caller) ([]notice.Notice, error) {
	return []notice.Notice{{ID: "n1", Item: "ap1", Step: notice.Reminder(1), Person: caller.Principal.ID, Kind: engine.InboxApproval, Agent: "payer",
		Channel: notice.Channel{Kind: "EMAIL", Target: "hidden@acme.example"}, State: notice.Dead, Attempts: 10, Code: "UNREACHABLE", CreatedMs: 1000, SettledMs: 2000}}, nil
}

func (w *world) Operation(context.Context, graph.Caller, string, string, []byte) (graph.Operation, error) {
	return graph.Operation{Description: "Pays.", Resource: "bank:account/7"}, nil
}

type live struct{ *world }

func (w live) Run(_ context.Context, _, _ string, after uint64) (<-chan run.Record, error) {
	if w.live != nil {
		return w.live, nil
	}
	out := make(chan run.Record, len(w.records))
	for _, record := range w.records[after:] {
		out <- record
	}
	close(out)
	return out, nil
}

func (w live) Conversation(context.Context, string, string, uint64) (<-chan engine.Entry, error) {
	return nil, engine.ErrNotFound
}
func (w live) Inbox(context.Context, string) (<-chan struct{}, error) {
	return make(chan struct{}), nil
}
func (w live) Memory(context.Context) (<-chan []string, error) {
	return w.changes, nil
}
func (w live) TurnText(context.Context, string) (<-chan graph.Delta, error) {
	return nil, engine.ErrNotFound
}

type conversations struct{}

func (conversations) Create(context.Context, graph.Caller, graph.ConversationInput) (graph.Conversation, graph.Outcome, error) {
	return graph.Conversation{}, graph.Outcome{}, engine.ErrNotFound
}
func (conversations) Get(context.Context, graph.Caller, string) (graph.Conversation, error) {
	return graph.Conversation{}, engine.ErrNotFound
}
func (conversations) List(context.Context, graph.Caller, string, int) ([]graph.Conversation, string, error) {
	return nil, "", nil
}
func (conversations) Entries(context.Context, graph.Caller, string, uint64, int) ([]engine.Entry, error) {
	return nil, engine.ErrNotFound
}
func (conversations) Send(context.Context, graph.Caller, graph.Message) (graph.Outcome, error) {
	return graph.Outcome{}, engine.ErrNotFound
}

type organisation struct{}

func (organisation) List(context.Context, graph.Caller) ([]graph.Agent, error) { return nil, nil }
func (organisation) Get(context.Context, graph.Caller, string) (graph.Agent, error) {
	panic("secret detail")
}
func (organisation) Publish(context.Context, graph.Caller, string, []byte) (string, graph.Change, error) {
	return "", graph.Change{}, agents.ErrSecondPerson
}
func (organisation) SetStage(context.Context, graph.Caller, string, string, policy.Stage, string) (graph.Change, error) {
	return graph.Change{}, agents.ErrNoEvidence
}

func (organisation) Personas(context.Context, graph.Caller) ([]graph.Persona, error) {
	return []graph.Persona{{Persona: agents.Persona{Name: "plain", Voice: "Be brief.", ApprovedBy: "anna", VoiceOf: "anna"}}}, nil
}
func (organisation) LendVoice(context.Context, graph.Caller, string, string, bool) (graph.Change, error) {
	return graph.Change{}, agents.ErrUnknown
}

type kills struct{}

func (kills) List(context.Context, graph.Caller) ([]agents.Kill, error) {
	return []agents.Kill{{Scope: agents.KillAgent, Name: "payer", By: "anna", Reason: "odd bookings", AtMs: 1000}}, nil
}
func (kills) Lift(context.Context, graph.Caller, string, agents.KillScope, string) (graph.Change, error) {
	return graph.Change{Pending: true}, nil
}
func (kills) Stop(context.Context, graph.Caller, string, agents.KillScope, string, string) (graph.Change, error) {
	return graph.Change{}, nil
}

type budgets struct{}

func (budgets) List(context.Context, graph.Caller) ([]graph.Budget, error) { return nil, nil }
func (budgets) Set(context.Context, graph.Caller, string, string, run.Amount) (graph.Change, error) {
	return graph.Change{}, nil
}
func (budgets) Usage(context.Context, graph.Caller, string, int64, int64) ([]graph.UsageRow, error) {
	return nil, nil
}

// served is a world behind a real server.
type served struct {
	*world
	url     string
	handler http.Handler
	private ed25519.PrivateKey
	ahead   atomic.Int64 // how far the clock went on
}

// later lets the clock go on.
func (s *served) later(by time.Duration) { s.ahead.Add(int64(by)) }

func serve(t *testing.T, change ...func(*graph.Config)) *served {
	w := newWorld(t)
	out := &served{world: w}
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
	verifier, err := edge.NewVerifier(private.Public().(ed25519.PublicKey), "https://issuer", "gantry", func() time.Time { return now })
	require.NoError(t, err)
	ids := 0
	config := graph.Config{Runs: w, Conversations: conversations{}, Inbox: w, Tools: w, Agents: organisation{}, Kills: kills{}, Budgets: budgets{}, Live: live{w}, Trees: trees{w},
		Directory: w, Verifier: verifier, Limits: edge.DefaultLimits(), Connections: edge.DefaultConnectionLimits(),
		NewID: func() string { ids++; return "id-" + strconv.Itoa(ids) }, Clock: func() time.Time { return now.Add(time.Duration(out.ahead.Load())) }}
	for _, c := range change {
		c(&config)
	}
	handler, err := graph.NewHandler(config)
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	out.url, out.handler, out.private = server.URL, handler, private
	return out
}

func (s *served) token(t *testing.T, who string) string {
	organisation := "acme"
	if p, ok := s.people[who]; ok {
		organisation = p.Organisation
	}
	token, err := edge.Mint(s.private, edge.Grant{Organisation: organisation, Principal: who, Issuer: "https://issuer", Audience: "gantry", TokenID: "t", From: now, Until: now.Add(time.Hour)})
	require.NoError(t, err)
	return token
}

type answer struct {
	Data   map[string]any
	Errors []struct {
		Message    string
		Extensions map[string]any
	}
	status int
	raw    string
}

func (a answer) code() string {
	if len(a.Errors) == 0 {
		return ""
	}
	code, _ := a.Errors[0].Extensions["code"].(string)
	return code
}

func (s *served) send(t *testing.T, token, contentType, body string) answer {
	request, err := http.NewRequest(http.MethodPost, s.url+"/graphql", strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", contentType)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	out := answer{status: response.StatusCode, raw: string(raw)}
	require.NoError(t, json.Unmarshal(raw, &out), string(raw))
	return out
}

func (s *served) ask(t *testing.T, who, query string, variables map[string]any) answer {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	require.NoError(t, err)
	return s.send(t, s.token(t, who), "application/json", string(body))
}

func (s *served) runID(t *testing.T) string {
	got := s.ask(t, "anna", `{runs{edges{node{id}}}}`, nil)
	require.Empty(t, got.Errors, got.raw)
	edges := got.Data["runs"].(map[string]any)["edges"].([]any)
	return edges[0].(map[string]any)["node"].(map[string]any)["id"].(string)
}

func readAll(t *testing.T, response *http.Response) string {
	raw, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(raw)
}

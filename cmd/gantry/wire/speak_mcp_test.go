package wire_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/policy"
)

// bearing sends a token with every request.
type bearing struct{ token string }

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// speaks is somebody's session over MCP.
type speaks struct {
	*sdk.ClientSession
	t *testing.T
}

func (p *person) speaksMCP() speaks {
	p.t.Helper()
	endpoint := strings.TrimSuffix(p.url, "/graphql") + "/mcp"
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(p.t.Context(),
		&sdk.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: bearing{p.token}}}, nil)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = session.Close() })
	return speaks{session, p.t}
}

// spoken is what tools about runs answer with.
type spoken struct {
	Outcome string
	Run     struct {
		ID, Status string
		WaitingFor []string
		Approvals  []struct{ Tool string }
		Questions  []struct{ ID string }
		Answer     *struct {
			Value    string
			Withheld bool
		}
	}
}

// call calls a tool, which refuses with the words that are returned.
func (s speaks) call(tool string, arguments map[string]any, into any) (refused string) {
	s.t.Helper()
	got, err := s.CallTool(s.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	require.NoError(s.t, err)
	text := got.Content[0].(*sdk.TextContent).Text
	if got.IsError {
		return text
	}
	if into != nil {
		require.NoError(s.t, json.Unmarshal([]byte(text), into))
	}
	return ""
}

func TestARunIsStartedAndReadOverMCP(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara := h.as(asker).speaksMCP()
	var listed struct{ Agents []struct{ Name string } }
	require.Empty(t, amara.call("list_agents", map[string]any{}, &listed))
	require.NotEmpty(t, listed.Agents)

	start := map[string]any{"agent": reconciler, "goal": "Reconcile INV-1004.", "idempotencyKey": "first", "waitSeconds": 25}
	var started, again, ended spoken
	require.Empty(t, amara.call("start_run", start, &started))
	require.Equal(t, "ACCEPTED", started.Outcome)
	require.Equal(t, "WAITING", started.Run.Status)
	require.Len(t, started.Run.Approvals, 1)
	require.Empty(t, amara.call("start_run", start, &again), "the same session or another one")
	require.Equal(t, "REPLAYED", again.Outcome)
	require.Equal(t, started.Run.ID, again.Run.ID)
	start["goal"] = "Reconcile INV-1008."
	require.Contains(t, amara.call("start_run", start, nil), "COMMAND_ID_REUSED")

	tomas := h.as(controller)
	tomas.decide(tomas.held(started.Run.ID), true)
	require.Empty(t, amara.call("read_run", map[string]any{"run": started.Run.ID, "waitSeconds": 25}, &ended))
	require.Equal(t, "COMPLETED", ended.Run.Status)
	require.NotEmpty(t, ended.Run.Answer.Value)
	require.Equal(t, 1, h.entries("INV-1004"))

	resource, err := amara.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "gantry://runs/" + started.Run.ID})
	require.NoError(t, err)
	require.Contains(t, resource.Contents[0].Text, `"COMPLETED"`)
	resources, err := amara.ListResources(t.Context(), nil)
	require.NoError(t, err)
	names := []string{}
	for _, one := range resources.Resources {
		names = append(names, one.URI)
	}
	require.Contains(t, names, "gantry://runs/"+started.Run.ID)
	require.Contains(t, names, "gantry://agents/"+reconciler)
}

func TestAQuestionIsAnsweredAndARunIsCancelledOverMCP(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara := h.as(asker).speaksMCP()
	var asking, answered, cancelled spoken
	require.Empty(t, amara.call("start_run", map[string]any{"agent": reconciler, "goal": "Reconcile INV-1004 or INV-1008", "idempotencyKey": "q", "waitSeconds": 25}, &asking))
	require.Equal(t, []string{"QUESTION"}, asking.Run.WaitingFor)
	answer := map[string]any{"question": asking.Run.Questions[0].ID, "answer": "INV-1004", "idempotencyKey": "a"}
	require.Contains(t, h.as(outsider).speaksMCP().call("answer_question", answer, nil), "NOT_FOUND")
	require.Empty(t, amara.call("answer_question", answer, &answered))
	require.Equal(t, "ACCEPTED", answered.Outcome)
	require.Empty(t, amara.call("cancel_run", map[string]any{"run": asking.Run.ID, "reason": "enough", "idempotencyKey": "c"}, &cancelled))
	require.Empty(t, amara.call("read_run", map[string]any{"run": asking.Run.ID, "waitSeconds": 25}, &cancelled))
	require.Equal(t, "CANCELLED", cancelled.Run.Status)
}

// What tools there are is known; none of them decides about a call.
func TestNoToolOverMCPDecidesAboutACall(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	tools, err := h.as(controller).speaksMCP().ListTools(t.Context(), nil)
	require.NoError(t, err)
	names := []string{}
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	require.ElementsMatch(t, []string{"list_agents", "start_run", "read_run", "list_runs", "cancel_run", "answer_question", "recall_memory"}, names)
}

// raw sends one request over MCP as it is.
func (h *house) raw(path, token, body string, headers map[string]string) (status int, header http.Header, answer string) {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.url()+path, strings.NewReader(body))
	require.NoError(h.t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for name, value := range headers {
		if name == "Host" {
			request.Host = value
		}
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(h.t, err)
	defer func() { require.NoError(h.t, response.Body.Close()) }()
	said, err := io.ReadAll(response.Body)
	require.NoError(h.t, err)
	return response.StatusCode, response.Header, string(said)
}

const listing = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func TestWhoMayNotAskOverGraphQLMayNotOverMCP(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{organisation: hiring(guest), config: func(c *wire.Config) {
		c.Origins, c.Issuers = []string{"https://app.example.org"}, []string{"https://login.example.org"}
	}})
	good := h.token(h.organisation.Name, asker, time.Now(), time.Hour)
	status, _, _ := h.raw("/mcp", good, listing, nil)
	require.Equal(t, http.StatusOK, status)

	for name, token := range map[string]string{"none": "", "expired": h.token(h.organisation.Name, asker, time.Now().Add(-2*time.Hour), time.Hour),
		"of nobody": h.token(h.organisation.Name, "nobody", time.Now(), time.Hour), "of nowhere": h.token("nowhere", asker, time.Now(), time.Hour), "forged": good + "x"} {
		status, header, said := h.raw("/mcp", token, listing, nil)
		require.Equal(t, http.StatusUnauthorized, status, name)
		require.Equal(t, `Bearer resource_metadata="`+h.url()+`/.well-known/oauth-protected-resource/mcp"`, header.Get("WWW-Authenticate"), name)
		require.Contains(t, said, "UNAUTHENTICATED")
	}
	for name, headers := range map[string]map[string]string{"page of another site": {"Origin": "https://evil.example"},
		"name led here": {"Host": "evil.example", "Origin": "http://evil.example"}, "name led here, no page": {"Host": "evil.example"}} {
		status, header, _ := h.raw("/mcp", good, listing, headers)
		require.Equal(t, http.StatusForbidden, status, name)
		require.Empty(t, header.Get("Access-Control-Allow-Origin"), name)
	}
	status, header, _ := h.raw("/mcp", good, listing, map[string]string{"Origin": "https://app.example.org"})
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "https://app.example.org", header.Get("Access-Control-Allow-Origin"))
	status, _, said := h.raw("/mcp", good, `{"jsonrpc":"2.0","id":1,"method":"`+strings.Repeat("x", 1<<20)+`"}`, nil)
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
	require.Contains(t, said, "OVER_LIMIT")
	status, _, _ = h.raw("/mcp", good, `[`+listing+`]`, nil)
	require.Equal(t, http.StatusBadRequest, status)

	response, err := http.Get(h.url() + "/.well-known/oauth-protected-resource/mcp")
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	metadata, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"resource":"`+h.url()+`/mcp","resource_name":"Gantry","bearer_methods_supported":["header"],"authorization_servers":["https://login.example.org"]}`, string(metadata))

	token := h.token(h.organisation.Name, guest, time.Now(), time.Hour)
	status, _, _ = h.raw("/mcp", token, listing, nil)
	require.Equal(t, http.StatusOK, status)
	without := h.organisation
	without.Principals = slices.DeleteFunc(slices.Clone(without.Principals), func(p policy.Principal) bool { return p.ID == guest })
	h.apply(without)
	status, _, _ = h.raw("/mcp", token, listing, nil)
	require.Equal(t, http.StatusUnauthorized, status, "somebody who is no longer of the organisation")
}

// guest is an accountant whom nothing of the organisation names.
const guest = "gina.guest"

// hiring adds an accountant to an organisation.
func hiring(id string) func(*agents.Organisation) {
	return func(o *agents.Organisation) {
		at := slices.IndexFunc(o.Principals, func(p policy.Principal) bool { return p.ID == colleague })
		o.Principals = append(slices.Clone(o.Principals), o.Principals[at])
		o.Principals[len(o.Principals)-1].ID = id
	}
}

// Whatever of another organisation, or of people whom one has nothing to do
// with, is named over MCP is answered as what does not exist.
func TestFault_J10_IDsOfOthersAreAbsentOverMCP(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plan{})
	h.open()
	h.apply(twin(t, h.organisation, "northwind"))
	h.apply(twin(t, h.organisation, "southwind"))
	theirs := h.begun("northwind", "agent-northwind")
	before := h.told("northwind") + h.told("southwind")
	probes := 0
	for _, one := range []struct{ organisation, principal string }{{"southwind", asker}, {"southwind", operator}, {"northwind", outsider}} {
		token := h.token(one.organisation, one.principal, time.Now(), time.Hour)
		same := func(tool, argument, theirs, absent string, more map[string]any) {
			t.Helper()
			answers := []string{}
			for _, value := range []string{theirs, absent} {
				arguments := map[string]any{argument: value}
				for name, value := range more {
					arguments[name] = value
				}
				asked, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments}})
				require.NoError(t, err)
				_, _, said := h.raw("/mcp", token, string(asked), map[string]string{"Mcp-Protocol-Version": "2025-11-25"})
				answers = append(answers, strings.ReplaceAll(said, value, ""))
			}
			require.Equal(t, answers[1], answers[0], "%s %s", tool, argument)
			probes++
		}
		key := func() map[string]any { return map[string]any{"idempotencyKey": uuid.NewString()} }
		for kind, id := range theirs.ids {
			for _, said := range []string{id, readdressed(t, id, one.organisation)} {
				nothing := absent(t, readdressed(t, theirs.ids["run"], one.organisation))
				same("read_run", "run", said, nothing, nil)
				same("cancel_run", "run", said, nothing, key())
				same("answer_question", "question", said, nothing, map[string]any{"idempotencyKey": kind, "answer": "yes"})
				same("start_run", "conversation", said, nothing, map[string]any{"idempotencyKey": kind, "agent": reconciler, "goal": "anything"})
			}
		}
		for _, cursor := range theirs.cursors {
			same("list_runs", "after", cursor, absent(t, cursor), nil)
		}
		if one.organisation == "southwind" { // which agents there are, more people know
			same("start_run", "agent", theirs.names["agent"], theirs.names["agent"]+"-of-nobody", map[string]any{"idempotencyKey": "a", "goal": "anything"})
			same("list_runs", "agent", theirs.names["agent"], theirs.names["agent"]+"-of-nobody", nil)
		}
	}
	fmt.Printf("level: L6 MCP probes %d, differences 0\n", probes)
	require.Equal(t, before, h.told("northwind")+h.told("southwind"), "nothing was done, here or there")
}

package wire_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	protocol "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents/credential"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/a2a"
	"gantry.dev/orchestrator/policy"
)

// agentAt is where an agent is spoken to over A2A.
func (p *person) agentAt(agent string) string {
	return strings.TrimSuffix(p.url, "/graphql") + "/a2a/" + agent
}

// speaksA2A is somebody's client of an agent, over JSON-RPC or REST.
func (p *person) speaksA2A(agent string, over protocol.TransportProtocol) *a2aclient.Client {
	p.t.Helper()
	card, err := agentcard.NewResolver(nil).Resolve(p.t.Context(), p.agentAt(agent))
	require.NoError(p.t, err)
	web := &http.Client{Transport: bearing{p.token}}
	c, err := a2aclient.NewFromCard(p.t.Context(), card, a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []protocol.TransportProtocol{over}}),
		a2aclient.WithJSONRPCTransport(web), a2aclient.WithRESTTransport(web))
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = c.Destroy() })
	return c
}

// stamps are what differs between any two errors: moments, and ids of events.
var stamps = regexp.MustCompile(`"timestamp":"[^"]*"|(?m)^id: .*$`)

func message(text string) *protocol.SendMessageRequest {
	return &protocol.SendMessageRequest{Message: protocol.NewMessage(protocol.MessageRoleUser, protocol.NewTextPart(text))}
}

func TestARunIsATaskOverA2A(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, tomas := h.as(asker), h.as(controller)
	for _, over := range []protocol.TransportProtocol{protocol.TransportProtocolJSONRPC, protocol.TransportProtocolHTTPJSON} {
		c := amara.speaksA2A(reconciler, over)
		asked := message("Reconcile INV-1004 or INV-1008")
		if over == protocol.TransportProtocolHTTPJSON {
			asked = message("Reconcile INV-1008 or INV-1004")
		}
		states := []protocol.TaskState{}
		var task protocol.TaskInfo
		for event, err := range c.SendStreamingMessage(t.Context(), asked) {
			require.NoError(t, err)
			task = event.TaskInfo()
			switch e := event.(type) {
			case *protocol.Task:
				states = append(states, e.Status.State)
			case *protocol.TaskStatusUpdateEvent:
				states = append(states, e.Status.State)
				if e.Status.State == protocol.TaskStateInputRequired {
					require.Contains(t, e.Status.Message.Parts[0].Text(), "question")
				}
			}
		}
		require.Equal(t, protocol.TaskStateInputRequired, states[len(states)-1], "%s %v", over, states)

		repeated, err := c.SendMessage(t.Context(), asked)
		require.NoError(t, err)
		require.Equal(t, task, repeated.TaskInfo(), "the same message is the same task")

		answer := message(map[protocol.TransportProtocol]string{protocol.TransportProtocolJSONRPC: "INV-1004", protocol.TransportProtocolHTTPJSON: "INV-1008"}[over])
		answer.Message.TaskID = task.TaskID
		_, err = h.as(outsider).speaksA2A(reconciler, over).SendMessage(t.Context(), answer)
		require.ErrorIs(t, err, protocol.ErrTaskNotFound)
		got, err := c.SendMessage(t.Context(), answer)
		require.NoError(t, err)
		held := got.(*protocol.Task)
		require.Equal(t, protocol.TaskStateInputRequired, held.Status.State)
		require.Contains(t, held.Status.Message.Parts[0].Text(), "decide")
		again, err := c.SendMessage(t.Context(), answer)
		require.Error(t, err, "it is held now, and a repeat says no more: %v", again)
		yes := message("Yes, do it, I approve.")
		yes.Message.TaskID = task.TaskID
		_, err = c.SendMessage(t.Context(), yes)
		require.ErrorIs(t, err, protocol.ErrUnsupportedOperation, "no message decides a call")

		told := false
		var last protocol.Event
		for event, err := range c.SubscribeToTask(t.Context(), &protocol.SubscribeToTaskRequest{ID: task.TaskID}) {
			require.NoError(t, err)
			if last == nil { // it is followed from here on
				require.Equal(t, protocol.TaskStateInputRequired, event.(*protocol.Task).Status.State)
				tomas.decide(tomas.held(string(task.TaskID)), true)
			}
			_, answered := event.(*protocol.TaskArtifactUpdateEvent)
			told, last = told || answered, event
		}
		require.Equal(t, protocol.TaskStateCompleted, last.(*protocol.TaskStatusUpdateEvent).Status.State)
		require.True(t, told, "the answer came before the end")
		done, err := c.GetTask(t.Context(), &protocol.GetTaskRequest{ID: task.TaskID})
		require.NoError(t, err)
		require.NotEmpty(t, done.Artifacts[0].Parts[0].Text())
		require.Equal(t, task.ContextID, done.ContextID)
		_, err = c.CancelTask(t.Context(), &protocol.CancelTaskRequest{ID: task.TaskID})
		require.ErrorIs(t, err, protocol.ErrTaskNotCancelable)
		listed, err := c.ListTasks(t.Context(), &protocol.ListTasksRequest{ContextID: task.ContextID})
		require.NoError(t, err)
		require.Len(t, listed.Tasks, 1)
	}
	require.Equal(t, 1, h.entries("INV-1004"))
	require.Equal(t, 1, h.entries("INV-1008"))
}

func TestATaskIsCancelledOverA2AAndGoesOnInItsContext(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	c := h.as(asker).speaksA2A(reconciler, protocol.TransportProtocolJSONRPC)
	begun, err := c.SendMessage(t.Context(), message("Reconcile INV-1004 or INV-1008"))
	require.NoError(t, err)
	first := begun.TaskInfo()
	other := h.as(asker).speaksA2A("policy-librarian", protocol.TransportProtocolJSONRPC)
	_, err = other.GetTask(t.Context(), &protocol.GetTaskRequest{ID: first.TaskID})
	require.ErrorIs(t, err, protocol.ErrTaskNotFound, "a task of another agent")
	cancelled, err := c.CancelTask(t.Context(), &protocol.CancelTaskRequest{ID: first.TaskID})
	require.NoError(t, err)
	require.Equal(t, protocol.TaskStateCanceled, cancelled.Status.State)
	next := message("Reconcile INV-1004 or INV-1008")
	next.Message.ContextID = first.ContextID
	begun, err = c.SendMessage(t.Context(), next)
	require.NoError(t, err)
	require.Equal(t, first.ContextID, begun.TaskInfo().ContextID)
	require.NotEqual(t, first.TaskID, begun.TaskInfo().TaskID)
	listed, err := c.ListTasks(t.Context(), &protocol.ListTasksRequest{ContextID: first.ContextID})
	require.NoError(t, err)
	require.Len(t, listed.Tasks, 2)
}

// The public card says the same of every name; the whole one is told to who may
// use the agent.
func TestCardsOverA2ATellNobodyWhichAgentsThereAre(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	get := func(agent, token string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url()+"/a2a/"+agent+"/.well-known/agent-card.json", http.NoBody)
		require.NoError(t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer func() { require.NoError(t, response.Body.Close()) }()
		said, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, strings.ReplaceAll(string(said), agent, "")
	}
	_, there := get(reconciler, "")
	status, absent := get("nobody-at-all", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, absent, there)
	status, whole := get(reconciler, h.as(asker).token)
	require.Equal(t, http.StatusOK, status)
	require.NotEqual(t, there, whole)
	for _, agent := range []string{reconciler, "nobody-at-all"} {
		status, said := get(agent, h.as(outsider).token)
		require.Equal(t, http.StatusNotFound, status, agent)
		require.Equal(t, "404 page not found\n", said)
		status, _ = get(agent, "forged")
		require.Equal(t, http.StatusUnauthorized, status, agent)
	}
	extended, err := h.as(asker).speaksA2A(reconciler, protocol.TransportProtocolJSONRPC).GetExtendedAgentCard(t.Context(), &protocol.GetExtendedAgentCardRequest{})
	require.NoError(t, err)
	require.Contains(t, extended.Description, "nvoice")
}

// Whatever of another organisation, or of people whom one has nothing to do
// with, is named over A2A is answered as what does not exist.
func TestFault_J10_IDsOfOthersAreAbsentOverA2A(t *testing.T) {
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
		same := func(method string, params func(named string) any, theirs, absent string) {
			t.Helper()
			answers := []string{}
			for _, value := range []string{theirs, absent} {
				asked, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params(value)})
				require.NoError(t, err)
				_, _, said := h.raw("/a2a/"+reconciler, token, string(asked), nil)
				answers = append(answers, stamps.ReplaceAllString(strings.ReplaceAll(said, value, ""), ""))
			}
			require.Contains(t, answers[1], "error")
			require.Equal(t, answers[1], answers[0], method)
			probes++
		}
		id := func(named string) any { return map[string]any{"id": named} }
		text := func(field string) func(string) any {
			key := uuid.NewString()
			return func(named string) any {
				return map[string]any{"message": map[string]any{"messageId": key, "role": "ROLE_USER", "parts": []any{map[string]any{"text": "Reconcile INV-1004."}}, field: named}}
			}
		}
		nothing := absent(t, readdressed(t, theirs.ids["run"], one.organisation))
		for _, named := range theirs.ids {
			for _, said := range []string{named, readdressed(t, named, one.organisation)} {
				same("GetTask", id, said, nothing)
				same("CancelTask", id, said, nothing)
				same("SubscribeToTask", id, said, nothing)
				same("SendMessage", text("taskId"), said, nothing)
				same("SendStreamingMessage", text("taskId"), said, nothing)
				same("SendMessage", text("contextId"), said, nothing)
			}
		}
	}
	fmt.Printf("level: L6 A2A probes %d, differences 0\n", probes)
	require.Equal(t, before, h.told("northwind")+h.told("southwind"), "nothing was done, here or there")
}

// vault has one token, for whoever it is asked for.
type vault struct{ token string }

func (v vault) Secret(_ context.Context, use credential.Use) (credential.Secret, error) {
	return credential.Bound(v.token, use.Audience), nil
}

// An agent that is offered over A2A is used as a tool over it, and told twice
// under one key does one thing.
func TestAnOfferedAgentIsUsedAsAToolOverA2A(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	address, err := url.Parse(h.url())
	require.NoError(t, err)
	port, err := strconv.Atoi(address.Port())
	require.NoError(t, err)
	egress, err := tool.NewEgress([]tool.Destination{{Host: address.Hostname(), Port: port, Internal: true}}, nil, nil)
	require.NoError(t, err)
	at := h.as(outsider).agentAt("policy-librarian")
	_, pin, err := a2a.Card(t.Context(), http.DefaultTransport, at)
	require.NoError(t, err)
	server, err := json.Marshal(tool.Peer{URL: at, Pin: pin, Message: "/question"})
	require.NoError(t, err)
	made, err := a2a.New(tool.Definition{Name: "northwind.librarian", Description: "Asks the librarian.", Kind: tool.KindA2A, Server: server, Credential: "northwind",
		Owner: "o", Contact: "c", Resource: "librarian", Impact: policy.Reversible, Class: policy.Keyed, Timeout: tool.Duration(patience), ResultBytes: 4096,
		Input:  json.RawMessage(`{"type":"object","properties":{"question":{"type":"string"}},"required":["question"],"additionalProperties":false}`),
		Result: policy.Marking{Integrity: policy.Untrusted}}, egress, vault{h.as(outsider).token})
	require.NoError(t, err)
	asked := tool.Invocation{Run: "elsewhere", Key: uuid.NewString(), Arguments: []byte(`{"question":"How many days of parental leave do we give?"}`)}
	first, err := tool.Invoke(t.Context(), made, asked)
	require.NoError(t, err)
	require.Nil(t, first.Ask)
	require.False(t, first.Failed)
	require.NotEmpty(t, first.Content)
	require.Equal(t, policy.Untrusted, first.Marking.Integrity)
	again, err := tool.Invoke(t.Context(), made, asked)
	require.NoError(t, err)
	require.Equal(t, first, again)
	var runs struct {
		Runs struct{ Edges []struct{ Cursor string } }
	}
	h.as(outsider).ask(`{runs(filter:{agent:"policy-librarian"}){edges{cursor}}}`, nil, &runs)
	require.Len(t, runs.Runs.Edges, 1, "told twice, and begun once")
}

package a2a_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/a2a"
	"gantry.dev/orchestrator/policy"
)

// Whatever an agent says in place of an answer, it costs the call and nothing
// else, and nobody takes it for "not done".
func TestAnAgentsNonsenseCostsTheCallOnly(t *testing.T) {
	for name, result := range map[string]string{
		"null": `null`, "number": `7`, "empty": `{}`, "list": `[]`, "null task": `{"task":null}`, "null message": `{"message":null}`, "no parts": `{"message":{"messageId":"a","role":"ROLE_AGENT"}}`,
		"null part": `{"message":{"messageId":"a","role":"ROLE_AGENT","parts":[null]}}`, "empty part": `{"message":{"messageId":"a","role":"ROLE_AGENT","parts":[{}]}}`,
		"no status": `{"task":{"id":"1","contextId":"2"}}`, "null status": `{"task":{"id":"1","contextId":"2","status":null,"artifacts":[null],"history":[null]}}`,
		"odd state":   `{"task":{"id":"1","contextId":"2","status":{"state":"DANCING"}}}`,
		"null update": `{"statusUpdate":null}`, "null artifact": `{"artifactUpdate":{"taskId":"1","artifact":null}}`, "empty update": `{"statusUpdate":{}}`,
		"both":     `{"task":{"id":"1","contextId":"2","status":{"state":"TASK_STATE_COMPLETED"}},"message":{"messageId":"a","role":"ROLE_AGENT","parts":[{"text":"x"}]}}`,
		"no words": `{"task":{"id":"1","contextId":"2","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"parts":[null]}}}}`,
	} {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streams %v", name, streams), func(t *testing.T) {
				r := &remote{}
				mux := http.NewServeMux()
				mux.HandleFunc("/agent/.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
					_, _ = fmt.Fprintf(w, `{"name":"x","capabilities":{"streaming":%v},"supportedInterfaces":[{"url":%q,"protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`, streams, r.url)
				})
				mux.HandleFunc("/agent", func(w http.ResponseWriter, request *http.Request) {
					var asked struct {
						ID     json.RawMessage `json:"id"`
						Method string          `json:"method"`
					}
					_ = json.NewDecoder(request.Body).Decode(&asked)
					reply := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, asked.ID, result)
					if strings.Contains(asked.Method, "Stream") {
						w.Header().Set("Content-Type", "text/event-stream")
						_, _ = fmt.Fprintf(w, "data: %s\n\ndata: null\n\n", reply)
						return
					}
					w.Header().Set("Content-Type", "application/json")
					_, _ = fmt.Fprint(w, reply)
				})
				server := httptest.NewServer(mux)
				t.Cleanup(server.Close)
				r.url = server.URL + "/agent"
				var err error
				_, r.pin, err = a2a.Card(t.Context(), http.DefaultTransport, r.url)
				require.NoError(t, err)
				d := r.definition(t, policy.Opaque)
				d.Timeout = tool.Duration(time.Second)
				of, err := a2a.New(d, guard(t, r.url), nil)
				require.NoError(t, err)
				got, err := tool.Invoke(t.Context(), of, tool.Invocation{Run: "r", Key: "k", Arguments: []byte(`{"brief":"x"}`)})
				if err != nil {
					var failure *tool.Failure
					require.ErrorAs(t, err, &failure)
					require.NotEqual(t, tool.FailedPanic, failure.Code)
					require.True(t, failure.Uncertain, failure.Error())
				}
				require.False(t, got.Failed)
			})
		}
	}
}

// A card whose ways are none is no way to speak to an agent.
func TestACardWithHoles(t *testing.T) {
	for _, card := range []string{`{"supportedInterfaces":[null]}`, `{"supportedInterfaces":null}`, `{}`, `{"supportedInterfaces":[{}],"capabilities":null,"skills":[null]}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, card) }))
		t.Cleanup(server.Close)
		r := &remote{url: server.URL}
		var err error
		_, r.pin, err = a2a.Card(t.Context(), http.DefaultTransport, r.url)
		require.NoError(t, err)
		for _, reference := range []string{"", "token"} {
			d := r.definition(t, policy.Opaque)
			d.Credential = reference
			of, err := a2a.New(d, guard(t, r.url), vault{})
			require.NoError(t, err)
			_, err = tool.Invoke(t.Context(), of, tool.Invocation{Run: "r", Key: "k", Arguments: []byte(`{"brief":"x"}`)})
			var failure *tool.Failure
			require.ErrorAs(t, err, &failure)
			require.NotEqual(t, tool.FailedPanic, failure.Code, card)
			require.False(t, failure.Uncertain)
		}
	}
}

package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/mcp"
)

// nothing is a schema that has nothing.
type nothing struct{}

func (nothing) Ask(context.Context, string, map[string]any) (json.RawMessage, error) {
	return nil, &edge.Fault{Code: edge.CodeNotFound, Message: "There is no such thing."}
}

func (nothing) Follow(context.Context, string, map[string]any) iter.Seq2[json.RawMessage, error] {
	return func(func(json.RawMessage, error) bool) {}
}

// Whatever a client says, the process goes on: it serves others, too.
func TestAClientBreaksNothing(t *testing.T) {
	handler := mcp.NewHandler(mcp.Config{Schema: nothing{}, Version: "1"}, "", func(door edge.Door) http.Handler { return door.Serve })
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	methods := []string{"initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/read", "resources/templates/list", "resources/subscribe", "resources/unsubscribe",
		"prompts/list", "prompts/get", "completion/complete", "logging/setLevel", "server/discover", "discover", "subscriptions/listen", "roots/list", "sampling/createMessage",
		"elicitation/create", "notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed", "notifications/elicitation/complete",
		"notifications/tools/list_changed", "tasks/get", "tasks/list", "tasks/cancel", "no/such"}
	params := []string{"", `,"params":null`, `,"params":{}`, `,"params":[]`, `,"params":7`, `,"params":{"_meta":null}`, `,"params":{"_meta":7}`, `,"params":{"_meta":{"progressToken":{}}}`,
		`,"params":{"name":null,"arguments":null}`, `,"params":{"name":"start_run","arguments":[1]}`, `,"params":{"name":"list_agents","arguments":null}`, `,"params":{"uri":"\u0000"}`, `,"params":{"requestId":{}}`,
		`,"params":{"name":"read_run","arguments":{"run":"x"},"inputResponses":{"a":null},"requestState":"x"}`,
		`,"params":{"protocolVersion":"2025-06-18","capabilities":null,"clientInfo":null}`, `,"params":{"ref":null,"argument":null}`, `,"params":{"cursor":"x"}`, `,"params":{"notifications":null}`,
		`,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":null,"io.modelcontextprotocol/clientCapabilities":null}}`}
	for _, version := range []string{"", "2025-03-26", "2025-06-18", "2026-07-28", "1"} {
		for _, method := range methods {
			for _, given := range params {
				for _, id := range []string{"", `"id":1,`, `"id":{},`} {
					ctx, cancel := context.WithCancel(t.Context())
					request, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL, strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0",%s"method":%q%s}`, id, method, given)))
					require.NoError(t, err)
					request.Header.Set("Content-Type", "application/json")
					request.Header.Set("Accept", "application/json, text/event-stream")
					if version != "" {
						request.Header.Set("Mcp-Protocol-Version", version)
						request.Header.Set("Mcp-Method", method)
						request.Header.Set("Mcp-Name", "list_agents")
					}
					response, err := web.Client().Do(request)
					require.NoError(t, err, "%s %s %s", method, given, id)
					require.NoError(t, response.Body.Close())
					cancel()
				}
			}
		}
	}
}

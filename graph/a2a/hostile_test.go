package a2a_test

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

	"gantry.dev/graph/a2a"
	"gantry.dev/graph/edge"
)

// nothing is a schema that has nothing.
type nothing struct{}

func (nothing) Ask(context.Context, string, map[string]any) (json.RawMessage, error) {
	return nil, &edge.Fault{Code: edge.CodeNotFound, Message: "There is no such thing."}
}

func (nothing) Follow(context.Context, string, map[string]any) iter.Seq2[json.RawMessage, error] {
	return func(func(json.RawMessage, error) bool) {}
}

// Whatever a client says, it gets an answer, and the process goes on.
func TestAClientBreaksNothing(t *testing.T) {
	web := httptest.NewServer(a2a.NewHandler(a2a.Config{Schema: nothing{}, Version: "1", Admit: func(door edge.Door) http.Handler { return door.Serve }}))
	t.Cleanup(web.Close)
	ask := func(method, path, body string) {
		request, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("A2A-Version", "1.0")
		response, err := web.Client().Do(request)
		require.NoError(t, err, "%s %s %s", method, path, body)
		require.NoError(t, response.Body.Close())
	}
	params := []string{`null`, `{}`, `[]`, `7`, `{"message":null}`, `{"message":{}}`, `{"message":{"messageId":"a","role":"ROLE_USER","parts":null}}`, `{"message":{"messageId":"a","role":"ROLE_USER","parts":[null]}}`,
		`{"message":{"messageId":"a","role":"ROLE_USER","parts":[{}]}}`, `{"message":{"messageId":"a","role":"ROLE_USER","parts":[{"text":null}]}}`, `{"message":{"messageId":"a","role":7,"parts":[{"text":"x"}]}}`,
		`{"message":{"messageId":"a","role":"ROLE_USER","parts":[{"text":"x","data":{}}]}}`, `{"message":{"messageId":"a","role":"ROLE_USER","taskId":"../x","parts":[{"text":"x"}]}}`,
		`{"message":{"messageId":"a","role":"ROLE_USER","parts":[{"text":"x"}]},"configuration":{"historyLength":-1,"taskPushNotificationConfig":{}}}`,
		`{"id":null}`, `{"id":"x","historyLength":-5}`, `{"pageSize":-1}`, `{"pageSize":1e9,"pageToken":"\u0000"}`, `{"status":"x","statusTimestampAfter":7}`, `{"taskId":"x","config":null}`}
	for _, method := range []string{"SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask", "GetExtendedAgentCard", "CreateTaskPushNotificationConfig",
		"GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig", "message/send", "tasks/resubscribe", "no"} {
		for _, given := range params {
			for _, id := range []string{`1`, `null`, `{}`, `"x"`} {
				ask(http.MethodPost, "/a2a/desk", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, given))
			}
		}
		ask(http.MethodPost, "/a2a/desk", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q}`, method))
	}
	for _, body := range params {
		for _, path := range []string{"message:send", "message:stream", "tasks", "tasks/x", "tasks/x:cancel", "tasks/x:subscribe", "tasks/%00", "tasks/x/pushNotificationConfigs", "tasks/x/pushNotificationConfigs/y", "extendedAgentCard", "", "no"} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				ask(method, "/a2a/desk/rest/"+path, body)
			}
		}
	}
	for _, body := range []string{``, `null`, `[]`, `[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]`, `7`, `{"jsonrpc":1}`} {
		ask(http.MethodPost, "/a2a/desk", body)
	}
}

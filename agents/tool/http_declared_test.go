package tool_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
)

func TestHTTPProbe(t *testing.T) {
	reply, status := `{"entries":[]}`, http.StatusOK
	var uri string
	r := newRemote(t, policy.Checkable, func(w http.ResponseWriter, request *http.Request) {
		uri = request.RequestURI
		w.Header().Set("Content-Type", tool.MediaJSON)
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, reply)
	})
	prober, ok := r.tool(t).(tool.Prober)
	require.True(t, ok)
	probe := func() (tool.Result, bool, error) {
		return tool.Probe(t.Context(), prober, r.definition, refundCall)
	}
	_, found, err := probe()
	require.NoError(t, err)
	require.False(t, found)
	require.Equal(t, "/v1/adjustments?key=key-1", uri)

	reply = `{"entries":[{"id":"a-1"}]}`
	result, found, err := probe()
	require.NoError(t, err)
	require.True(t, found)
	require.JSONEq(t, `{"id":"a-1"}`, string(result.Content))

	status = http.StatusNotFound
	_, found, err = probe()
	require.NoError(t, err)
	require.False(t, found)

	for _, status = range []int{500, 403, 302} {
		_, found, err = probe()
		require.False(t, found)
		require.True(t, failureOf(t, err).Uncertain, "still unknown")
	}
	status, reply = 200, "<html>"
	_, _, err = probe()
	require.True(t, failureOf(t, err).Uncertain)

	r.http.Query = nil
	r.definition.Class = policy.Opaque
	_, ok = r.tool(t).(tool.Prober)
	require.False(t, ok, "without a query there is nothing to probe")
}

func TestValidateHTTP(t *testing.T) {
	for says, change := range map[string]func(*remote){
		"KEYED tool needs":              func(r *remote) { r.http.IdempotencyHeader = "" },
		"CHECKABLE tool needs":          func(r *remote) { r.definition.Class, r.http.Query = policy.Checkable, nil },
		"auth and credential":           func(r *remote) { r.definition.Credential = "" },
		"the method of a KEYED":         func(r *remote) { r.http.Method = "GET" },
		"query: the method":             func(r *remote) { r.http.Query.Method = "DELETE" },
		"TOOL or UNTRUSTED":             func(r *remote) { r.definition.Result.Integrity = policy.Trusted },
		"scheme must be https":          func(r *remote) { r.http.URL = "ftp://example.org/" },
		"url: must be":                  func(r *remote) { r.http.URL = "https://{/invoice}/" },
		"without user":                  func(r *remote) { r.http.URL = "https://me@example.org/" },
		"{key} is for the query":        func(r *remote) { r.http.URL = "https://example.org/{key}" },
		"leads to no declared":          func(r *remote) { r.http.URL = "https://example.org/{/x}" },
		"is of type array":              func(r *remote) { r.http.URL = "https://example.org/{/tags}" },
		"body key":                      func(r *remote) { r.http.Body = map[string]string{"a": "/x"} },
		"no free header name":           func(r *remote) { r.http.Headers = map[string]string{"authorization": "x"} },
		"\"Idempotency-Key\" is no":     func(r *remote) { r.http.Headers = map[string]string{"idempotency-key": "x"}; r.http.ActorHeader = "" },
		"printable ASCII":               func(r *remote) { r.http.Headers = map[string]string{"X": "a\r\nb"} },
		"the scheme must be \"bearer\"": func(r *remote) { r.http.Auth.Scheme = "basic" },
		"status 302":                    func(r *remote) { r.http.Success = []int{302} },
		"status 409":                    func(r *remote) { r.http.Success, r.http.Refused = []int{409}, []int{409} },
		"found is no JSON pointer":      func(r *remote) { r.http.Query.Found = "entries" },
	} {
		r := newRemote(t, policy.Keyed, func(http.ResponseWriter, *http.Request) {})
		r.definition.Server, _ = json.Marshal(r.http)
		require.NoError(t, r.definition.Validate())
		change(r)
		r.definition.Server, _ = json.Marshal(r.http)
		require.ErrorContains(t, r.definition.Validate(), says)
	}
	r := newRemote(t, policy.Keyed, func(http.ResponseWriter, *http.Request) {})
	r.definition.Server = json.RawMessage(`{"method":"POST","url":"https://example.org/","proxy":"x"}`)
	require.ErrorContains(t, r.definition.Validate(), "unknown field")
	_, err := tool.NewHTTP(r.definition, nil, nil)
	require.Error(t, err)
}

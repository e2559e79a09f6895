package graph_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
)

func TestOnlyListedOriginsMayReadFromAPage(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Origins = []string{"https://app.example.org"} })
	for origin, allowed := range map[string]bool{"https://app.example.org": true, "http://app.example.org": false,
		"https://app.example.org.evil.org": false, "null": false} {
		for _, method := range []string{http.MethodOptions, http.MethodPost} {
			request, err := http.NewRequestWithContext(t.Context(), method, s.url+"/graphql", strings.NewReader(`{"query":"{viewer{name}}"}`))
			require.NoError(t, err)
			request.Header.Set("Origin", origin)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer "+s.token(t, "anna"))
			if method == http.MethodOptions {
				request.Header.Set("Access-Control-Request-Method", http.MethodPost)
			}
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Contains(t, response.Header.Values("Vary"), "Origin")
			if allowed {
				require.Equal(t, origin, response.Header.Get("Access-Control-Allow-Origin"))
				require.Less(t, response.StatusCode, 300)
			} else {
				require.Empty(t, response.Header.Get("Access-Control-Allow-Origin"), origin)
			}
			require.Empty(t, response.Header.Get("Access-Control-Allow-Credentials"), "there are no cookies")
		}
		_, response, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/graphql", &websocket.DialOptions{
			Subprotocols: []string{"graphql-transport-ws"}, HTTPHeader: http.Header{"Origin": {origin}}})
		if allowed {
			require.NoError(t, err)
			continue
		}
		require.Error(t, err, origin)
		if response != nil {
			require.Equal(t, http.StatusForbidden, response.StatusCode, origin)
		}
	}
}

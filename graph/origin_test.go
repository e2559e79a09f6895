package graph_test

import (
	"bytes"
	"log"
	"log/slog"
	"net/http"
	"os"
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

// told is a log whose lines are received.
type told chan string

func (l told) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func TestRefusedWebsocketIsLoggedByTheConfiguredLoggerOnly(t *testing.T) {
	var process bytes.Buffer
	own := make(told, 1)
	log.SetOutput(&process)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	s := serve(t, func(c *graph.Config) {
		c.Log = slog.New(slog.NewJSONHandler(own, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	_, response, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/graphql", &websocket.DialOptions{
		Subprotocols: []string{"graphql-transport-ws"}, HTTPHeader: http.Header{"Origin": {"https://evil.example.org"}}})
	require.Error(t, err)
	require.Equal(t, http.StatusForbidden, response.StatusCode)
	require.Contains(t, <-own, `"level":"DEBUG","msg":"graph: a websocket was refused"`)
	require.Empty(t, process.String())
}

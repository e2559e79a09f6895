package wire_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/credential"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
	"gantry.dev/cmd/gantry/wire"
)

// Each library puts the key into a header of its own: what it was given in the
// key's place stands in none of them.
func TestEveryProviderSendsTheKeyOfTheMoment(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"openai", "anthropic", "gemini"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := make(chan http.Header, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent <- r.Header
				w.WriteHeader(http.StatusUnauthorized)
			}))
			t.Cleanup(server.Close)
			provider, err := wire.ProviderAt(name, exchange.Server{BaseURL: server.URL, Key: "in-its-place", Transport: credential.Transport{
				Audience: server.URL, Stands: "in-its-place", Transport: exchange.Direct(),
				Secret: func(*http.Request) (credential.Secret, error) { return credential.Bound("the-key", server.URL), nil },
			}}, false)
			require.NoError(t, err)
			_, err = provider.Take(t.Context(), model.Request{Model: "m", MaxTokens: 1, Messages: []model.Message{{Role: model.User, Text: "Hello."}}}, nil)
			require.Error(t, err)
			headers := <-sent
			whole := ""
			for header, values := range headers {
				for _, value := range values {
					whole += header + ": " + value + "\n"
				}
			}
			require.Contains(t, whole, "the-key")
			require.NotContains(t, whole, "in-its-place")
		})
	}
}

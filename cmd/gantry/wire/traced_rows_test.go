package wire_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"

	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/telemetry"
	"gantry.dev/cmd/gantry/wire"
)

// collector keeps what it is told.
func collector(t *testing.T) (url string, told func() string) {
	var heard written
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = heard.Write(body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	return server.URL, func() string { return string(heard.bytes()) }
}

// traced plays a run with secrets in its texts under a tracer, to its end.
func traced(t *testing.T, config telemetry.Config, goal string) string {
	url, told := collector(t)
	config.Collector = url
	var log written
	h := openHouse(t, plan{ledger: noted, config: func(c *wire.Config) {
		c.Traces = config
		c.Log = slog.New(slog.NewJSONHandler(&log, nil))
	}})
	amara, tomas := h.as(asker), h.as(controller)
	run, err := amara.StartRun(t.Context(), client.Start{Agent: reconciler, Goal: goal})
	require.NoError(t, err)
	_, err = tomas.Decide(t.Context(), tomas.held(run.ID), true, reasonCanary)
	require.NoError(t, err)
	amara.ended(run.ID)
	h.close()
	require.NotContains(t, string(log.bytes()), "canary")
	return told()
}

// A trace shows what happened, and of what was said nothing: not even where
// texts may stand in it, if their labels are not for the collector or they look
// like secrets.
func TestCase_50_ATraceHoldsNoContent(t *testing.T) {
	t.Parallel()
	const secret = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
	goal := "Reconcile INV-1004. " + goalCanary + " " + secret
	happened := []string{"invoke_agent " + reconciler, "chat ", "execute_tool ledger.post_adjustment", "approval", "gen_ai.usage.input_tokens", "COMPLETED"}
	t.Run("by default", func(t *testing.T) {
		t.Parallel()
		told := traced(t, telemetry.Config{}, goal)
		for _, part := range happened {
			require.Contains(t, told, part)
		}
		for _, planted := range []string{goalCanary, resultCanary, reasonCanary, secret, "INV-1004", ledgerToken} {
			for form, text := range forms(planted) {
				require.NotContains(t, told, text, "%s as %s", planted, form)
			}
		}
	})
	t.Run("with texts", func(t *testing.T) {
		t.Parallel()
		told := traced(t, telemetry.Config{Content: true}, goal)
		require.Contains(t, told, goalCanary, "the goal has no label")
		require.Contains(t, told, "[concealed]")
		require.Contains(t, told, "[redacted]")
		for _, planted := range []string{resultCanary, reasonCanary, secret, ledgerToken} {
			require.NotContains(t, told, planted)
		}
	})
}

// A collector is told, and tells nobody: its words stand nowhere, and it sends
// traces nowhere else.
func TestACollectorSaysNothing(t *testing.T) {
	var elsewhere, said written
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = elsewhere.Write(append(body, '.'))
	}))
	t.Cleanup(other.Close)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { _, _ = said.Write([]byte(err.Error())) }))
	const words = "collector-canary"
	rejected := append([]byte{0x08, 1, 0x12, byte(len(words))}, words...)
	for _, answer := range []func(http.ResponseWriter, *http.Request){
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(append([]byte{0x0a, byte(len(rejected))}, rejected...))
		},
		func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
	} {
		asked := make(chan struct{}, 16)
		collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer(w, r)
			asked <- struct{}{}
		}))
		var log written
		h := openHouse(t, plan{ledger: noted, config: func(c *wire.Config) {
			c.Traces = telemetry.Config{Collector: collector.URL}
			c.Log = slog.New(slog.NewJSONHandler(&log, nil))
		}})
		amara, tomas := h.as(asker), h.as(controller)
		run, err := amara.StartRun(t.Context(), client.Start{Agent: reconciler, Goal: "Reconcile INV-1004."})
		require.NoError(t, err)
		_, err = tomas.Decide(t.Context(), tomas.held(run.ID), true, "")
		require.NoError(t, err)
		amara.ended(run.ID)
		h.close()
		<-asked
		collector.Close()
		require.NotContains(t, string(log.bytes())+string(said.bytes()), "canary")
		require.Empty(t, elsewhere.bytes())
	}
}

package wire_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/modeltest"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
)

// verified says that a run's chain holds.
func (p *person) verified(run string) bool {
	p.t.Helper()
	var got struct{ Audit struct{ Verified bool } }
	p.ask(`query($id:ID!){audit(run:$id){verified}}`, map[string]any{"id": run}, &got)
	return got.Audit.Verified
}

// A process that is told to end in the middle of a run leaves nothing half
// done; the next one goes on, and the effect happens once.
func TestRunGoesOnAfterItsProcessWasClosed(t *testing.T) {
	t.Parallel()
	for site, decided := range map[string]bool{
		"before started": false, "after started": false, "after turn_started": false, "before turn_answered": false, "after call_intended": false,
		"before call_ended": false, "before approval_requested": false, "after approval_requested": false,
		"before approval_decided": true, "after approval_decided": true, "effect begins": true, "effect done": true, "before verified": true, "before ended": true,
	} {
		t.Run(site, func(t *testing.T) {
			t.Parallel()
			reached := make(chan struct{})
			var once sync.Once
			watched := func(name string) {
				if name == site {
					once.Do(func() { close(reached) })
				}
			}
			h := openHouse(t, plan{config: func(c *wire.Config) { c.Site = watched }})
			run := h.as(asker).begin("INV-1004").ID
			if decided {
				tomas := h.as(controller)
				tomas.decide(tomas.held(run), true)
			}
			<-reached
			h.close()
			h.open()
			amara, tomas := h.as(asker), h.as(controller)
			if !decided {
				tomas.decide(tomas.held(run), true)
			}
			require.Equal(t, "COMPLETED", amara.ended(run).Status)
			require.True(t, amara.verified(run))
			require.Equal(t, 1, h.entries("INV-1004"))
		})
	}
}

// A model that does not answer does not hold up the end of the process.
func TestCloseDoesNotWaitForASilentModel(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	answer := `{"invoice":"INV-1002","finding":"MATCHES","adjustmentCents":0,"posted":false,"evidence":["none"]}`
	server := modeltest.NewServer(t, modeltest.Mute(began), modeltest.Whole(modeltest.Stream(model.Answer{Finish: model.FinishStop, Text: answer}, modeltest.Style{})))
	h := openHouse(t, plan{organisation: slowly(server.URL), config: func(c *wire.Config) {
		c.Secrets["slow-key"], c.Drain, c.Poll = "key", 100*time.Millisecond, 50*time.Millisecond
	}})
	run := h.as(asker).begin("INV-1002").ID
	<-began
	start := time.Now()
	h.close()
	require.Less(t, time.Since(start), patience)
	h.open()
	require.Equal(t, "COMPLETED", h.as(asker).ended(run).Status)
}

// A tool that did its work and does not say so does not hold up the end either:
// the next process asks under the same key, and the ledger holds one entry.
func TestCloseDoesNotWaitForASilentTool(t *testing.T) {
	t.Parallel()
	posted := make(chan struct{})
	var once sync.Once
	h := openHouse(t, plan{config: func(c *wire.Config) { c.Drain = 100 * time.Millisecond }, ledger: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			first := false
			if r.Method == http.MethodPost {
				once.Do(func() { first = true })
			}
			if !first {
				next.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(httptest.NewRecorder(), r)
			close(posted)
			<-r.Context().Done()
		})
	}})
	run, tomas := h.as(asker).begin("INV-1004").ID, h.as(controller)
	tomas.decide(tomas.held(run), true)
	<-posted
	h.close()
	require.Equal(t, 1, h.entries("INV-1004"))
	h.open()
	require.Equal(t, "COMPLETED", h.as(asker).ended(run).Status)
	require.Equal(t, 1, h.entries("INV-1004"))
}

// A reader who is not told of a restart hears every event once.
func TestReaderOutlivesARestart(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:0"
	h := openHouse(t, plan{config: func(c *wire.Config) { c.Listen = address }})
	address = h.platform.Address()
	amara, tomas := h.as(asker), h.as(controller)
	run := amara.begin("INV-1004").ID
	approval := tomas.held(run)
	waiting := make(chan struct{})
	var told []client.Event
	var tasks conc.WaitGroup
	tasks.Go(func() {
		_ = amara.Events(t.Context(), run, "", func(e client.Event) (bool, error) {
			if told = append(told, e); e.Kind == "approval_requested" {
				close(waiting)
			}
			return e.Kind != "ended", nil
		})
	})
	<-waiting
	h.close()
	h.open()
	tomas.decide(approval, true)
	tasks.Wait()
	require.Equal(t, amara.follow(run, "", isEnd), told)
}

// A SQLite file belongs to one process; a second one is told so and harms nothing.
func TestSecondProcessOnOneFileIsRefused(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	_, err := wire.Open(t.Context(), h.config())
	require.ErrorContains(t, err, "another process")
	amara := h.as(asker)
	require.Equal(t, "COMPLETED", amara.ended(amara.begin("INV-1002").ID).Status)
	h.close()
	h.open()
}

func TestConfigurationNamesEveryFault(t *testing.T) {
	_, err := wire.Open(t.Context(), wire.Config{Database: "mysql://user:password@host", Listen: "nowhere", Drain: -1})
	require.Error(t, err)
	for _, part := range []string{"folder", "database", "listen", "drain"} {
		require.ErrorContains(t, err, part)
	}
	require.NotContains(t, err.Error(), "password")
	_, err = wire.Open(t.Context(), wire.Config{Folder: t.TempDir()})
	require.ErrorContains(t, err, "gantry keys", "keys are not made by the way")
}

package wire_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/modeltest"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
)

// Whoever comes back with any cursor gets what follows it: no gap, nothing twice.
func TestRunEventsGoOnFromEveryCursor(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, tomas := h.as(asker), h.as(controller)
	run := amara.begin("INV-1004").ID
	live := make(chan []client.Event, 1)
	var tasks conc.WaitGroup
	tasks.Go(func() {
		var told []client.Event
		_ = amara.Events(t.Context(), run, "", func(e client.Event) (bool, error) {
			told = append(told, e)
			return e.Kind != "ended", nil
		})
		live <- told
	})
	tomas.decide(tomas.held(run), true)
	all := amara.follow(run, "", isEnd)
	tasks.Wait()
	require.Equal(t, all, <-live, "heard while it happened")
	for i, e := range all {
		require.Equal(t, int64(i+1), e.Seq)
	}
	for i, at := range all[:len(all)-1] {
		require.Equal(t, all[i+1:], amara.follow(run, at.Cursor, isEnd), "after event %d", i+1)
	}
	h.close()
	h.open()
	middle := len(all) / 2
	require.Equal(t, all[middle+1:], h.as(asker).follow(run, all[middle].Cursor, isEnd), "a cursor outlives the process")
	bad := h.as(asker).post(`subscription($id:ID!){runEvents(run:$id,after:"nonsense"){seq}}`, map[string]any{"id": run})
	require.Contains(t, string(bad), "CURSOR_INVALID")
}

func isEnd(e client.Event) bool { return e.Kind == "ended" }

// speak answers as a model that goes on with its text until it was heard.
func speak(head, tail string, heard <-chan struct{}) modeltest.Behaviour {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(delta map[string]any, finish any) {
			raw, _ := json.Marshal(map[string]any{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "test-model",
				"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
			_, _ = fmt.Fprintf(w, "data: %s\n\n", raw)
			w.(http.Flusher).Flush()
		}
		say(map[string]any{"role": "assistant", "content": head}, nil)
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for n := 0; ; n++ {
			select {
			case <-pace.C:
				say(map[string]any{"content": fmt.Sprintf("word%d ", n)}, nil)
				continue
			case <-heard:
			case <-r.Context().Done():
				return
			}
			break
		}
		say(map[string]any{"content": tail}, nil)
		say(map[string]any{}, "stop")
		_, _ = w.Write([]byte("data: [DONE]\n\n"))
	}
}

// slowly lets the reconciler's turns be taken by a model that is served over
// HTTP.
func slowly(endpoint string) func(o *agents.Organisation) {
	return func(o *agents.Organisation) {
		o.Models = append(o.Models, agents.Model{Name: "slow", Provider: "openai", Model: "slow-1", Endpoint: endpoint, Secret: "slow-key", Tier: 1,
			Context: 200_000, MaxOutput: 100_000, Tools: true, Prices: agents.Prices{Input: 1, CacheRead: 1, CacheWrite: 1, Output: 1}})
		revised(reconciler, func(r *agents.Revision) { r.Models = []string{"slow"} })(o)
	}
}

type delta struct {
	Turn, Attempt int
	Text          string
	LiveOnly      bool
}

const turnText = `subscription($id:ID!){told:turnText(run:$id){turn attempt text liveOnly}}`

// The text of a turn is heard while the model speaks; who is not cleared for
// what the model read hears that it speaks, and no word.
func TestTurnTextIsHeardWhileTheModelSpeaks(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	first := modeltest.Stream(model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{
		{ProviderID: "c1", Name: "files_read", Arguments: []byte(`{"path":"finance/invoices/INV-1002.json"}`)}}}, modeltest.Style{})
	server := modeltest.NewServer(t, modeltest.Whole(first),
		speak(`{"invoice":"INV-1002","adjustmentCents":0,"posted":false,"evidence":["read"],"finding":"`, `"}`, heard))
	h := openHouse(t, plan{organisation: slowly(server.URL), config: func(c *wire.Config) { c.Secrets["slow-key"] = "sk-of-the-test" }})
	amara, oskar := h.as(asker), h.as(operator)
	run := amara.begin("INV-1002").ID

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const enough = 5
	var listening atomic.Int32
	deltas := make([][]delta, 2)
	var tasks conc.WaitGroup
	for i, p := range []*person{amara, oskar} {
		tasks.Go(func() {
			_ = subscribe(ctx, p, turnText, map[string]any{"id": run}, func(d delta) bool {
				deltas[i] = append(deltas[i], d)
				if len(deltas[i]) == enough && listening.Add(1) == 2 {
					close(heard) // the model ends only now
				}
				return len(deltas[i]) < enough
			})
		})
	}
	tasks.Wait()
	ended := amara.ended(run)
	require.Equal(t, "COMPLETED", ended.Status)
	require.Len(t, deltas[0], enough)
	require.Len(t, deltas[1], enough)
	var said strings.Builder
	for i, d := range deltas[0] {
		said.WriteString(d.Text)
		require.Equal(t, 2, d.Turn)
		require.True(t, d.LiveOnly)
		require.Equal(t, delta{2, 1, "[redacted]", true}, deltas[1][i])
	}
	require.Contains(t, ended.End.Result.Value, said.String(), "what was heard stands in the journal's text without a gap")
	require.Equal(t, "slow", ended.Turns[1].Model)
	for _, received := range server.Received() {
		require.Equal(t, "Bearer sk-of-the-test", received.Header.Get("Authorization"))
	}
	require.Contains(t, string(server.Received()[1].Body), "supplierNumber", "the model got what it asked to read")
}

// A model whose secret is not configured is passed over for the next one.
func TestModelWithoutItsSecretIsLeftOut(t *testing.T) {
	t.Parallel()
	server := modeltest.NewServer(t, modeltest.Status(http.StatusInternalServerError, "never"))
	h := openHouse(t, plan{organisation: func(o *agents.Organisation) {
		slowly(server.URL)(o)
		revised(reconciler, func(r *agents.Revision) { r.Models = []string{"slow", "invoice-reconciler-script"} })(o)
	}})
	amara := h.as(asker)
	ended := amara.ended(amara.begin("INV-1002").ID)
	require.Equal(t, "COMPLETED", ended.Status)
	require.Equal(t, "invoice-reconciler-script", ended.Turns[0].Model)
	require.Empty(t, server.Received())
}

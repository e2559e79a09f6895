package wire_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/cmd/gantry/wire"
)

// outing is a provider that is out until it is told otherwise.
type outing struct{ back *atomic.Bool }

func (o outing) Take(context.Context, model.Request, func(string)) (model.Answer, error) {
	if !o.back.Load() {
		return model.Answer{}, &model.Error{Kind: model.Overloaded, Status: 529}
	}
	return model.Answer{Finish: model.FinishStop, Text: "INV-1002 is settled.", Usage: model.Usage{Input: 1_000_000, Output: 10}}, nil
}

// A run waits for a model in sight of whoever asks, and another process goes on
// with it when its time has come. What it cost is then told beside what it would
// have cost.
func TestFault_D2_ARunWaitsOutAnOutageAndAnotherProcessGoesOn(t *testing.T) {
	t.Parallel()
	var back atomic.Bool
	h := openHouse(t, plan{organisation: func(o *agents.Organisation) {
		for i, name := range []string{"near", "far"} {
			price := int64(i+1) * 1_000
			o.Models = append(o.Models, agents.Model{Name: name, Provider: "openai", Model: name, Endpoint: "http://" + name + ".test/v1", Tier: 1, Context: 200_000,
				MaxOutput: 1_000, Tools: true, Residency: "local", AsOf: "2026-11-30", Prices: agents.Prices{Input: price, CacheRead: price, CacheWrite: price, Output: price}})
		}
		revised(reconciler, func(r *agents.Revision) {
			r.Models, r.Limits.TurnAttempts, r.Completion = []string{"near", "far"}, 1, agents.Completion{}
		})(o)
	}, config: func(c *wire.Config) {
		c.Poll = 100 * time.Millisecond // timers are noticed by it
		c.Provider = func(agents.Model) (model.Provider, error) { return outing{&back}, nil }
	}})
	amara := h.as(asker)
	id := amara.begin("INV-1002").ID
	amara.until(id, "models_out")
	var seen struct {
		Run struct {
			Status     string
			WaitingFor []string
			Outage     struct {
				Turn, Wait int
				Cause      string
				RetryAt    time.Time
			}
			Explanation struct{ Stop struct{ Lines []string } }
		}
	}
	const look = `query($id:ID!){run(id:$id){status waitingFor outage{turn wait cause retryAt} explanation{stop{lines}}}}`
	amara.ask(look, map[string]any{"id": id}, &seen)
	require.Equal(t, "WAITING", seen.Run.Status)
	require.Equal(t, []string{"MODELS"}, seen.Run.WaitingFor)
	require.Equal(t, 1, seen.Run.Outage.Turn)
	require.Equal(t, "OVERLOADED", seen.Run.Outage.Cause)
	require.Contains(t, strings.Join(seen.Run.Explanation.Stop.Lines, "\n"), "tries again by itself")
	require.Contains(t, strings.Join(seen.Run.Explanation.Stop.Lines, "\n"), "OVERLOADED")

	models, err := amara.Models(t.Context())
	require.NoError(t, err)
	for _, m := range models {
		if m.Name == "near" {
			require.Contains(t, m.Agents, reconciler)
			require.Equal(t, "OVERLOADED", m.Standing.Cause)
			require.Equal(t, "2026-11-30", m.AsOf)
		}
	}

	h.close()
	back.Store(true)
	h.open()
	amara = h.as(asker)
	ended := amara.ended(id)
	require.Equal(t, "COMPLETED", ended.Status)
	rows, err := amara.ModelReport(t.Context(), reconciler, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	raw, _ := json.Marshal(rows)
	require.Len(t, rows, 1, string(raw))
	require.Equal(t, "near", rows[0].Model, "the cheapest that is right")
	require.Equal(t, int64(1), rows[0].Turns)
	require.Equal(t, int64(1_001), rows[0].Spent.MicroUSD)
	require.Len(t, rows[0].Others, 1)
	far := rows[0].Others[0]
	require.Equal(t, []any{"far", int64(1), int64(2_001), int64(1_001)}, []any{far.Model, far.Turns, far.Cost, far.Instead})
	none, err := h.as(outsider).ModelReport(t.Context(), reconciler, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Empty(t, none, "of runs whose cost they may not see nobody is told")
}

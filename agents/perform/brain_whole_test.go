package perform_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/memory"
	"gantry.dev/memory/memorytest"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// sharing notes what it read under the goal "note …", and answers any other.
const sharing = `
def turn(ctx):
    if "note" in ctx.messages[1].text:
        if ctx.turn == 0:
            return {"calls": [{"name": "things.read", "arguments": {"id": "a"}}]}
        if ctx.turn == 1:
            return {"calls": [{"name": "memory.remember", "arguments": {"text": "The canary thing weighs nine tons.", "kind": "FINDING", "space": "organisation"}}]}
    return {"text": "done"}`

// Runs of several people share one memory, each with its own view of it; what
// one of them forgets is gone from the runs of all.
func TestRunsShareOneMemoryEachWithItsOwnView(t *testing.T) {
	o := withMemoryTools(remembering(sharing, agents.DegradeOnOutage))
	inside(t, o, func(t *testing.T, h *house) {
		shared := memorytest.NewBrain(memorytest.Config{NowMs: func() int64 { return time.Now().UnixMilli() }, NewID: h.source.ID,
			Rules: func(string) memory.Rules {
				return memory.Rules{Known: func(label policy.Label) bool { return label == "secret" }}
			}})
		h.memory = shared
		h.reconfigure(o)
		noting := h.start("note the thing")
		h.work()
		require.Equal(t, run.StatusCompleted, h.state(noting).Status)

		asked := func(who string) run.Recalled {
			order := h.order("How heavy is the canary thing?")
			order.Person, order.By = h.person(who), run.Identity{Principal: who}
			admitted, err := h.admission().Start(t.Context(), order)
			require.NoError(t, err)
			h.work()
			recalled := h.state(admitted.Run).Recalled()
			if len(recalled) == 0 {
				return run.Recalled{}
			}
			require.Len(t, recalled, 1)
			return recalled[0]
		}
		require.Zero(t, asked("carl"), "who is not cleared for what the run had read gets nothing of it")
		found := asked("ada")
		require.Equal(t, policy.Marking{Labels: policy.NewLabels("secret"), Integrity: policy.Untrusted}, found.Marking)
		require.Contains(t, written(h.requests[len(h.requests)-1].Messages, nil), "nine tons")

		item, err := shared.Item(t.Context(), o.Reader(h.person("ada")), found.Item)
		require.NoError(t, err)
		require.Equal(t, view.Source{Kind: view.FromRun, Principal: "agent:clerk", Run: noting, Model: "safe"}, item.Source)
		_, err = shared.Forget(t.Context(), o.Reader(h.person("ada")), memory.Selector{Items: []string{found.Item}})
		require.NoError(t, err)
		count, runs, err := h.EraseItems(t.Context(), []string{found.Item})
		require.NoError(t, err)
		require.Equal(t, 3, count, "what was to be remembered, the answer to it, and what another run said from it")
		require.Len(t, runs, 2)
		require.NotContains(t, journalOf(t, h, noting), "nine tons")
		require.Zero(t, asked("ada"))
	})
}

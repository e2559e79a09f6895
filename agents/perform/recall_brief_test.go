package perform_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/run"
)

// What came to mind for a turn that stands in brief by now comes to mind again,
// and what stands in the prompt as it is does not.
func TestWhatStandsInBriefComesToMindAgain(t *testing.T) {
	o := remembering(answering, agents.DegradeOnOutage)
	for i := range o.Models {
		o.Models[i].Context = 4_000
	}
	o.Tools[0].ResultBytes, o.Agents[0].Limits.Turns, o.Agents[0].Tools[0].Calls = 100_000, 40, 40
	inside(t, o, func(t *testing.T, h *house) {
		h.brain.put("a", view.Organisation, plain, "trains cost 90")
		h.reading(14, 1_500, nil)
		aloud := h.does["things.read"]
		h.does["things.read"] = func(ctx context.Context, invocation tool.Invocation) (tool.Result, error) {
			result, err := aloud(ctx, invocation)
			if n := string(invocation.Arguments); strings.Contains(n, `"t1"`) || strings.Contains(n, `"t2"`) || strings.Contains(n, `"t13"`) {
				result.Content = append(result.Content, " of trains"...)
			}
			return result, err
		}
		id := h.start("look")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		compactions := compacted(h, id)
		require.NotEmpty(t, compactions)
		var turns []int
		for i := range state.Turns {
			for _, remembrance := range state.Turns[i].Memory {
				require.Equal(t, []string{"a"}, itemsOf(remembrance.Items))
				turns = append(turns, state.Turns[i].Number)
			}
		}
		require.Equal(t, []int{2, 14}, turns, "once while it stands there, and again")
		require.Contains(t, written(h.requests[2].Messages, nil), "trains cost 90")
		require.Contains(t, written(h.requests[13].Messages, nil), "trains cost 90")
		for n, request := range h.requests {
			require.Equal(t, n, request.Turns, "a turn that stands in brief counts")
		}
	})
}

package perform_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// A private side takes its labels off what it yields, since that was agreed to.
// It takes no distrust off: what somebody outside may have written chooses no
// argument of an effect without a person, by no detour. It is untrusted whatever
// the private side read, or else the yield would tell of it.
func TestWhatAPrivateSideYieldsChoosesNothingWithoutAPerson(t *testing.T) {
	for name, integrity := range map[string]policy.Integrity{"it read a tool's": policy.FromTool, "it read a stranger's": policy.Untrusted} {
		t.Run(name, func(t *testing.T) {
			inside(t, withPrivateSide(func(o *agents.Organisation) {
				o.Tools[0].Result.Integrity = integrity
				*o = steerable(*o)
			}), func(t *testing.T, h *house) {
				h.twoSided(yesNo, `{"pay":9}`, isHigh)
				asked := h.take
				h.take = func(ctx context.Context, request model.Request, deltas func(string)) (model.Answer, error) {
					if !strings.Contains(request.Messages[1].Text, "PRIVATE:") && len(request.Messages) == 4 {
						return model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{{Name: "things.write", Arguments: json.RawMessage(`{"id":"1"}`)}}}, nil
					}
					return asked(ctx, request, deltas)
				}
				h.does["things.write"] = func(context.Context, tool.Invocation) (tool.Result, error) {
					return tool.Result{Content: []byte(`{}`), MediaType: tool.MediaJSON}, nil
				}
				admitted, err := h.borrowed("Is it within?")
				require.NoError(t, err)
				h.work()
				state := h.state(admitted.Run)
				require.Equal(t, run.OutcomeOK, state.Call(1).Outcome)
				require.Empty(t, state.Call(1).Result.Marking.Labels)
				require.Equal(t, policy.Untrusted, state.Marking.Integrity)
				require.Equal(t, policy.Hold, state.Call(2).Verdict.Answer)
				require.Zero(t, h.invoked["things.write"])
			})
		})
	}
}

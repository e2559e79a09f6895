package perform_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// delegating has, besides the clerk, the agent "lead", which may hand work to
// the clerk and to itself.
func delegating() agents.Organisation {
	o := newOrganisation("def turn(ctx):\n    return {\"text\": \"x\"}\n")
	o.Tools = append(o.Tools, tool.NewDelegate("olga", "carl").Definition())
	o.Builtins.Agents = &agents.AgentTools{Owner: "olga", Contact: "carl"}
	lead := o.Agents[0]
	lead.Name, lead.Instructions = "lead", "Lead the others."
	lead.Tools = append([]agents.ToolUse{{Name: tool.DelegateName, Impact: policy.ImpactRead, Calls: 200}}, lead.Tools...)
	lead.Limits.Depth, lead.Limits.FanOut, lead.Limits.RunsAtOnce, lead.Limits.CallsPerTurn = 3, 100, 20, 200
	lead.Delegates = []agents.Delegate{{Agent: "clerk", As: []run.Kind{run.SubAgent, run.Sidecar}, MicroUSD: 50_000, Tokens: 50_000}, {Agent: "lead"}}
	o.Agents = append(o.Agents, lead)
	return o
}

// handOn is an answer that hands on one brief for each entry.
func handOn(orders ...tool.Delegation) model.Answer {
	answer := model.Answer{Finish: model.FinishCalls}
	for _, order := range orders {
		raw, _ := json.Marshal(order) // an order always marshals
		answer.Calls = append(answer.Calls, model.Proposed{Name: tool.DelegateName, Arguments: raw})
	}
	return answer
}

func says(text string) model.Answer { return model.Answer{Text: text, Finish: model.FinishStop} }

// last is the last text of a prompt.
func last(request model.Request) string { return request.Messages[len(request.Messages)-1].Text }

func leads(request model.Request) bool {
	return strings.Contains(request.Messages[0].Text, "Lead the others.")
}

func (h *house) lead(goal string) string {
	h.t.Helper()
	order := h.order(goal)
	order.Agent = "lead"
	admitted, err := h.admission().Start(h.t.Context(), order)
	require.NoError(h.t, err)
	return admitted.Run
}

func TestChildrenWorkAndTheirResultsComeBackInOrder(t *testing.T) {
	inside(t, delegating(), func(t *testing.T, h *house) {
		h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
			switch {
			case !leads(request):
				return says("done: " + last(request)), nil
			case len(request.Messages) == 2:
				return handOn(tool.Delegation{Agent: "clerk", Brief: "first"}, tool.Delegation{Agent: "clerk", Brief: "second"}), nil
			}
			var replies []string
			for _, message := range request.Messages {
				if message.Role == model.ToolReply {
					replies = append(replies, message.Text)
				}
			}
			return says(strings.Join(replies, "|")), nil
		}
		id := h.lead("go")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Len(t, state.Children, 2)
		unverified := regexp.MustCompile(`UNVERIFIED: [^\n]+\n`)
		require.Equal(t, "done: first|done: second", unverified.ReplaceAllString(h.text(state.Ended.Result), ""))
		child := h.state(run.ChildOfCall(id, 1))
		require.Equal(t, []run.Link{{Run: id, Agent: "lead"}}, child.Started.Lineage)
		require.Equal(t, []string{"ada", "agent:lead", "agent:clerk"}, child.Started.Chain)
		require.Equal(t, run.SubAgent, child.Started.RunKind)
		require.Zero(t, state.Budget.Reserved)
		require.Equal(t, child.Head, state.Children[0].Ended.Head)
	})
}

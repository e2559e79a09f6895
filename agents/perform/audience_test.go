package perform_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/run"
)

// What is of one person alone does not come into a conversation by the answer to
// that person, and is there for them where they are alone with the agent.
func TestARunRecallsWhatAllMayReadWhoHearIt(t *testing.T) {
	o := withMemoryTools(remembering(answering, agents.DegradeOnOutage))
	helper := o.Agents[0]
	helper.Name = "helper"
	o.Agents = append(o.Agents, helper)
	inside(t, o, func(t *testing.T, h *house) {
		h.brain.put("a", view.Organisation, plain, "Hotels cost at most 200.")
		h.brain.put("b", view.SpaceOf(view.SpacePerson, "ada"), plain, "hotels that ada books in secret")
		require.NoError(t, h.Converse(t.Context(), "o", "talk"))
		require.NoError(t, h.SetBudget(t.Context(), h.organisation.ConversationNode(), run.Amount{MicroUSD: 5_000_000, Tokens: 5_000_000}))
		recalled := func(participants ...string) (items []string, spaces []view.Space) {
			order := h.order("hotels")
			order.Conversation, order.Participants = "talk", participants
			admitted, err := h.admission().Start(t.Context(), order)
			require.NoError(t, err)
			h.steer(admitted.Run, "and which hotels of ada?", run.Steer{})
			h.work()
			require.Equal(t, run.StatusCompleted, h.state(admitted.Run).Status)
			for _, one := range h.state(admitted.Run).Recalled() {
				items = append(items, one.Item)
			}
			return items, h.brain.readers[len(h.brain.readers)-1].Read
		}
		items, _ := recalled("ada")
		require.Contains(t, items, "b")
		items, _ = recalled()
		require.Contains(t, items, "b")
		items, _ = recalled("ada", "agent:clerk")
		require.Contains(t, items, "b", "the agent that answers is nobody else")
		for _, others := range [][]string{{"ada", "carl"}, {"carl", "ada", "eve"}, {"ada", "nobody"}, {"ada", "agent:clerk", "agent:helper"}} {
			items, spaces := recalled(others...)
			require.NotContains(t, items, "b", others)
			require.NotContains(t, spaces, view.SpaceOf(view.SpacePerson, "ada"), others)
		}
		items, _ = recalled("ada", "carl")
		require.Equal(t, []string{"a"}, items)
		items, _ = recalled("ada", "agent:clerk", "agent:helper")
		require.Equal(t, []string{"a"}, items, "an agent that listens reads what is the organisation's, too")
	})
}

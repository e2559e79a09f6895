package perform_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/prompt"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// writer proposes a write, reads something secret, and answers.
const writer = `
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": "things.write", "arguments": {"id": "a"}}]}
    if ctx.turn == 1:
        return {"calls": [{"name": "things.read", "arguments": {"id": "a"}}]}
    return {"text": "done"}`

// What a model gave beside its answer comes back to it with that answer, and to
// no other model.
func TestAThreadGoesBackToTheModelThatGaveIt(t *testing.T) {
	organisation := newOrganisation(writer)
	for i := range organisation.Models {
		organisation.Models[i].Model = organisation.Models[i].Name + "-1"
	}
	inside(t, organisation, func(t *testing.T, h *house) {
		said := 0
		h.answer = func(answer model.Answer) model.Answer {
			said++
			answer.Thread = []byte{byte(said), 0xff}
			return answer
		}
		id := h.start("Write, then read.")
		h.work()
		require.Len(t, h.requests, 3)
		require.Equal(t, "quick-1", h.requests[1].Model)
		require.Equal(t, "safe-1", h.requests[2].Model, "the other one may not read what was read")
		require.Equal(t, []byte{1, 0xff}, answersOf(h.requests[1])[0].Thread)
		for _, message := range answersOf(h.requests[2]) {
			require.Empty(t, message.Thread)
			require.Empty(t, message.ThreadOf)
		}

		state := h.state(id)
		require.Equal(t, "script:quick-1", state.Turns[1].Answer.ThreadOf)
		require.Equal(t, "script:safe-1", state.Turns[2].Answer.ThreadOf)
		require.Equal(t, policy.NewLabels("secret"), state.Turns[2].Answer.Thread.Marking.Labels, "it is marked as what its model saw")
		require.Equal(t, string([]byte{3, 0xff}), h.text(state.Turns[2].Answer.Thread))

		in := h.input(state)
		whole, err := prompt.Compile(in)
		require.NoError(t, err)
		require.Equal(t, []byte{2, 0xff}, answersOf(model.Request{Messages: whole.Messages})[1].Thread)
		delete(in.Texts, state.Turns[1].Answer.Thread.ID)
		erased, err := prompt.Compile(in)
		require.NoError(t, err)
		require.Empty(t, answersOf(model.Request{Messages: erased.Messages})[1].Thread, "what is erased is left out")
		require.NotEqual(t, whole.Digest, erased.Digest)
	})
}

func answersOf(request model.Request) []model.Message {
	return slices.DeleteFunc(slices.Clone(request.Messages), func(m model.Message) bool { return m.Role != model.Assistant })
}

// An erasure reaches a thread as it does every other text of an event.
func TestAThreadIsATextOfItsAnswer(t *testing.T) {
	answered := run.TurnAnswered{Text: &run.Text{ID: "t"}, Thread: &run.Text{ID: "h"}}
	require.Equal(t, []run.Text{{ID: "t"}, {ID: "h"}}, answered.Texts())
}

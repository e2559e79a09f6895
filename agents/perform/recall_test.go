package perform_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

var plain = policy.Marking{}

func TestWhatTheGoalBringsToMindStandsInTheFirstPrompt(t *testing.T) {
	inside(t, remembering(answering, agents.DegradeOnOutage), func(t *testing.T, h *house) {
		h.brain.put("a", view.Organisation, plain, "Hotels cost at most 200.")
		h.brain.put("b", view.Organisation, plain, "Trains are first choice; hotels need a reason.")
		h.brain.put("c", view.Organisation, policy.Marking{Labels: policy.NewLabels("nobody")}, "hotels of the board")
		h.brain.put("d", view.SpaceOf(view.SpacePerson, "eve"), plain, "hotels of eve")
		id := h.start("Which hotels and trains")
		h.work()
		started := h.state(id).Started
		require.Len(t, started.Snapshot.Memory, 2)
		require.Equal(t, []string{"b", "a"}, []string{started.Snapshot.Memory[0].Item, started.Snapshot.Memory[1].Item})
		require.Equal(t, started.Snapshot.Digest(), started.SnapshotDigest)
		require.Equal(t, run.StatusCompleted, h.state(id).Status)
		prompt := h.requests[0].Messages
		require.Len(t, prompt, 3)
		require.Contains(t, prompt[1].Text, "source=m1:handbook.md/3 labels= integrity=TRUSTED]]\nAbout b\nTrains are first choice")
		require.Contains(t, prompt[1].Text, "source=m2:handbook.md/3")
		require.Equal(t, "Which hotels and trains", prompt[2].Text)
		require.NotContains(t, journalOf(t, h, id), "Trains are first choice", "no text of memory is in the journal")
	})
}

// journalOf is everything that is recorded of a run, with its texts.
func journalOf(t *testing.T, h *house, id string) string {
	t.Helper()
	_, records, err := h.Load(t.Context(), id, 0)
	require.NoError(t, err)
	var all strings.Builder
	for _, record := range records {
		all.Write(record.Body)
	}
	var ids []string
	for _, text := range h.state(id).Texts() {
		ids = append(ids, text.ID)
	}
	texts, err := h.Payloads(t.Context(), ids)
	require.NoError(t, err)
	for _, payload := range texts {
		all.Write(payload.Bytes)
	}
	return all.String()
}

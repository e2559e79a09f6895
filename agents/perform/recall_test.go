package perform_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal/journaltest"
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

func TestAPromptWithMemoryAsTheModelGetsIt(t *testing.T) {
	script := `
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": "memory.recall", "arguments": {"query": "trains", "spaces": ["organisation"], "limit": 2}}]}
    return {"text": "done [m1: handbook.md/3]"}`
	inside(t, withMemoryTools(remembering(script, agents.DegradeOnOutage)), func(t *testing.T, h *house) {
		h.brain.put("a", view.Organisation, policy.Marking{Integrity: policy.FromTool}, "Hotels cost at most 200.\nAsk [[before]].")
		h.brain.put("b", view.Organisation, policy.Marking{Labels: policy.NewLabels("secret"), Integrity: policy.Untrusted}, "Trains are first choice.")
		h.start("hotels")
		h.steer("id1", "and what of the way?", run.Steer{})
		h.work()
		last := h.requests[1]
		const golden = "testdata/prompt_memory.txt"
		got := written(last.Messages, nil)
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), got)
	})
}

func TestARecallKeepsToItsBudget(t *testing.T) {
	for name, c := range map[string]struct {
		budget agents.Recall
		items  []string
	}{
		"items":                     {agents.Recall{Tokens: 1000, Items: 2}, []string{"a", "b"}},
		"tokens":                    {agents.Recall{Tokens: 20, Items: 9}, []string{"b", "c"}},
		"kinds are memory's to ask": {agents.Recall{Tokens: 1000, Items: 9, Kinds: []view.Kind{view.Fact}}, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := remembering(answering, agents.DegradeOnOutage)
			o.Agents[0].Memory = &c.budget
			inside(t, o, func(t *testing.T, h *house) {
				h.brain.put("a", view.Organisation, plain, "hotels and trains "+strings.Repeat("x", 100))
				h.brain.put("b", view.Organisation, plain, "hotels, this one")
				h.brain.put("c", view.Organisation, plain, "hotels, that one")
				id := h.start("hotels trains")
				require.Equal(t, c.items, itemsOf(h.state(id).Recalled()))
				require.Equal(t, c.budget.Kinds, h.brain.questions[0].Kinds)
				require.Empty(t, h.brain.questions[0].Spaces, "all that the run may read")
			})
		})
	}
}

func TestTheGoalIsAskedAboutWithWhatWasSaidBefore(t *testing.T) {
	inside(t, remembering(answering, agents.DegradeOnOutage), func(t *testing.T, h *house) {
		require.NoError(t, h.Converse(t.Context(), "o", "talk"))
		require.NoError(t, h.SetBudget(t.Context(), h.organisation.ConversationNode(), run.Amount{MicroUSD: 5_000_000, Tokens: 5_000_000}))
		order := h.order("and there?")
		order.Conversation = "talk"
		var payloads []engine.Payload
		for _, words := range []string{"long ago", "to Rome", "for a week", "in May"} {
			text, payload := engine.Seal(h.source, "r0", "ada", plain, []byte(words))
			order.History, payloads = append(order.History, run.Message{Author: "ada", Text: text}), append(payloads, payload)
		}
		earlier := journaltest.Write("r0", 0, 1)
		earlier.Payloads = payloads
		require.NoError(t, h.Append(t.Context(), earlier))
		_, err := h.admission().Start(t.Context(), order)
		require.NoError(t, err)
		require.Equal(t, "and there?\nto Rome\nfor a week\nin May", h.brain.questions[0].Text)
	})
}

// Who has the journal, and guesses what was forgotten, cannot tell whether the
// guess is right.
func TestFault_K15_ADigestOfWhatIsForgottenAnswersNoGuess(t *testing.T) {
	inside(t, remembering(answering, agents.DegradeOnOutage), func(t *testing.T, h *house) {
		h.brain.put("a", view.Organisation, plain, "hotels cost 200")
		shown, err := h.brain.Items(t.Context(), view.Reader{Read: []view.Space{view.Organisation}}, []string{"a"})
		require.NoError(t, err)
		form, err := canon.Marshal(shown["a"])
		require.NoError(t, err)
		recalled := h.state(h.start("hotels")).Recalled()[0]
		goal := []byte("salt of 16 bytes") // what goes with the subject's key
		require.Equal(t, run.Fingerprint(goal, form), recalled.Digest, "who has the key can tell")
		for _, key := range [][]byte{nil, []byte("id1"), []byte("a"), []byte(recalled.Etag)} {
			require.NotEqual(t, run.Fingerprint(key, form), recalled.Digest)
		}
		plainly := sha256.Sum256(form)
		require.NotContains(t, hex.EncodeToString(plainly[:]), recalled.Digest)
	})
}

func TestFault_K15_ARunWhoseSubjectWasErasedRecallsUnderNoEmptyKey(t *testing.T) {
	inside(t, remembering(answering, agents.DegradeOnOutage), func(t *testing.T, h *house) {
		h.brain.put("a", view.Organisation, plain, "hotels cost 200")
		h.brain.breakDown(true)
		id := h.start("hotels")
		h.brain.breakDown(false)
		require.NoError(t, h.EraseSubject(t.Context(), "ada"))
		h.steer(id, "hotels again", run.Steer{})
		h.work()
		require.Equal(t, run.StatusCompleted, h.state(id).Status)
		shown, err := h.brain.Items(t.Context(), view.Reader{Read: []view.Space{view.Organisation}}, []string{"a"})
		require.NoError(t, err)
		form, err := canon.Marshal(shown["a"])
		require.NoError(t, err)
		recalled := h.state(id).Recalled()
		require.Len(t, recalled, 1, "the steer alone was asked about")
		require.NotEqual(t, run.Fingerprint(nil, form), recalled[0].Digest)
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

// Forgetting takes what was said from the item, too, and nothing that was said
// before it was shown.
func TestCase_42_WhatWasSaidFromAForgottenItemGoesWithIt(t *testing.T) {
	inside(t, remembering(calling("things.write", `{"id": "a"}`), agents.DegradeOnOutage), func(t *testing.T, h *house) {
		h.brain.put("b", view.Organisation, plain, "trains cost 90")
		h.does["things.write"] = saying("the trains")
		id := h.start("look")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Equal(t, []string{"b"}, itemsOf(state.Turns[1].Memory[0].Items))
		answer := state.Turns[1].Answer.Text
		require.Equal(t, "done", h.text(answer))
		count, runs, err := h.EraseItems(t.Context(), []string{"b"})
		require.NoError(t, err)
		require.Equal(t, 1, count)
		require.Equal(t, []string{id}, runs)
		texts, err := h.Payloads(t.Context(), []string{answer.ID, state.Started.Goal.ID, state.Call(1).Arguments.ID})
		require.NoError(t, err)
		require.NotContains(t, texts, answer.ID)
		require.Len(t, texts, 2)
	})
}

package perform_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

var agentSpace = view.SpaceOf(view.SpaceAgent, "clerk")

func (b *brain) List(_ context.Context, reader view.Reader, filter memory.Filter, _ string, _ int) (page memory.Page, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.out {
		return page, errOut
	}
	for _, item := range b.items {
		if sees(reader, item) && slices.Contains(filter.Kinds, item.Kind) {
			page.Items = append(page.Items, item)
		}
	}
	return page, nil
}

func (b *brain) putTrait(id string, marking policy.Marking, text string) {
	b.put(id, agentSpace, marking, text)
	b.items[len(b.items)-1].Kind = view.Trait
}

// An agent speaks as people let it learn, and as nothing else: what it proposed
// to itself, what is labelled and what is no trait stays out of its
// instructions, and so does what was forgotten since.
func TestAPersonaSpeaksWithTheTraitsThatPeoplePromoted(t *testing.T) {
	o := remembering(calling("things.write", `{"id": "a"}`), agents.DegradeOnOutage)
	o.Agents[0].Spaces.Read = append(o.Agents[0].Spaces.Read, "agent")
	inside(t, o, func(t *testing.T, h *house) {
		h.brain.putTrait("short", plain, "Answer in\nthree sentences.")
		h.brain.putTrait("sources", plain, "Name the page.")
		h.brain.putTrait("proposed", policy.Marking{Integrity: policy.Untrusted}, "Always agree.")
		h.brain.putTrait("labelled", policy.Marking{Labels: policy.NewLabels("secret")}, "Speak of the merger.")
		h.brain.put("fact", agentSpace, plain, "The clerk has red hair.")
		h.does["things.write"] = func(context.Context, tool.Invocation) (tool.Result, error) {
			h.brain.forget("short")
			return tool.Result{Content: []byte("written"), MediaType: tool.MediaText}, nil
		}
		id := h.start("look")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.ElementsMatch(t, []string{"short", "sources"}, itemsOf(state.Started.Snapshot.Traits))
		require.Equal(t, state.Started.Snapshot.Digest(), state.Started.SnapshotDigest)
		first, second := h.requests[0].Messages[0].Text, h.requests[1].Messages[0].Text
		require.Contains(t, first, "\n- Answer in three sentences.")
		require.Contains(t, first, "\n- Name the page.")
		require.NotContains(t, second, "three sentences")
		require.Contains(t, second, "\n- Name the page.")
		for _, never := range []string{"Always agree", "merger", "red hair"} {
			require.NotContains(t, first, never)
		}
		require.Empty(t, state.Marking.Labels)
	})
}

// Where the agent may not read its own space it has learned nothing.
func TestWithoutItsOwnSpaceAPersonaHasNoTraits(t *testing.T) {
	inside(t, remembering(answering, agents.DegradeOnOutage), func(t *testing.T, h *house) {
		h.brain.putTrait("short", plain, "Answer in three sentences.")
		id := h.start("look")
		h.work()
		require.Empty(t, h.state(id).Started.Snapshot.Traits)
		require.NotContains(t, h.requests[0].Messages[0].Text, "three sentences")
	})
}

// What a run got from memory, by itself or by a call, says who may hear what it
// writes; a trait goes to the agent's own space.
func TestWhatARunHeardGoesWithWhatItRemembers(t *testing.T) {
	script := `
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": "memory.recall", "arguments": {"query": "trains"}}]}
    if ctx.turn == 1:
        return {"calls": [{"name": "memory.remember", "arguments": {"text": "be brief", "kind": "TRAIT"}}]}
    return {"text": "done"}`
	o := withMemoryTools(remembering(script, agents.DegradeOnOutage))
	o.Agents[0].Spaces.Write = append(o.Agents[0].Spaces.Write, "agent")
	o.Agents[0].Memory = nil
	inside(t, o, func(t *testing.T, h *house) {
		h.brain.put("own", view.SpaceOf(view.SpacePerson, "ada"), plain, "trains by night")
		h.start("look")
		h.work()
		require.Len(t, h.brain.drafts, 1)
		require.Equal(t, agentSpace, h.brain.drafts[0].Space)
		require.Equal(t, view.Trait, h.brain.drafts[0].Kind)
		writer := h.brain.readers[len(h.brain.readers)-1]
		require.Equal(t, []view.Space{view.SpaceOf(view.SpacePerson, "ada")}, writer.Heard)
		require.Equal(t, "ada", writer.Subject)
	})
}

package perform_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/prompt"
	"gantry.dev/agents/tool"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

func TestCase_Line_14_AMemoryOutage(t *testing.T) {
	t.Run("degrade", func(t *testing.T) {
		inside(t, remembering(answering, agents.DegradeOnOutage), func(t *testing.T, h *house) {
			h.brain.put("a", view.Organisation, plain, "hotels")
			h.brain.breakDown(true)
			id := h.start("hotels")
			h.work()
			state := h.state(id)
			require.Equal(t, run.StatusCompleted, state.Status)
			require.Equal(t, []string{run.MemoryOut}, state.Started.Snapshot.MemoryMissing, "the record says so")
			require.Equal(t, []run.Remembrance{{Cause: run.RecallGoal, Missing: []string{run.MemoryOut}, Amendment: state.Turns[0].Memory[0].Amendment}}, state.Turns[0].Memory)
			require.NotEmpty(t, state.Turns[0].Memory[0].Amendment)
			require.Contains(t, written(h.requests[0].Messages, nil), "Memory could not be asked in full", "and so does the prompt")
		})
	})
	t.Run("wait", func(t *testing.T) {
		inside(t, remembering(answering, agents.WaitOnOutage), func(t *testing.T, h *house) {
			h.brain.put("a", view.Organisation, plain, "hotels")
			h.brain.breakDown(true)
			id := h.start("hotels")
			h.work()
			state := h.state(id)
			require.Equal(t, run.StatusQueued, state.Status)
			require.Equal(t, uint64(1), state.Version, "it waits without a record for each try")
			require.Empty(t, h.requests)
			require.Zero(t, state.Budget.Committed())
			h.brain.breakDown(false)
			h.work()
			state = h.state(id)
			require.Equal(t, run.StatusCompleted, state.Status)
			require.Equal(t, run.RecallGoal, state.Turns[0].Memory[0].Cause)
			require.Equal(t, "a", state.Turns[0].Memory[0].Items[0].Item)
			require.True(t, state.GoalAsked())
		})
	})
	t.Run("a part is missing", func(t *testing.T) {
		inside(t, remembering(answering, agents.WaitOnOutage), func(t *testing.T, h *house) {
			h.brain.put("a", view.Organisation, plain, "hotels")
			h.brain.degraded = []string{"DENSE"}
			id := h.start("hotels")
			h.work()
			snapshot := h.state(id).Started.Snapshot
			require.Len(t, snapshot.Memory, 1, "what is there is used")
			require.Equal(t, []string{"DENSE"}, snapshot.MemoryMissing)
			require.Equal(t, run.StatusCompleted, h.state(id).Status)
		})
	})
}

// calling proposes one call, then answers.
func calling(name, arguments string) string {
	return `
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": "` + name + `", "arguments": ` + arguments + `}]}
    return {"text": "done"}`
}

func TestFault_C13_TheToolSaysThatMemoryIsUnavailable(t *testing.T) {
	for name, c := range map[string]struct {
		tool, arguments string
		out             bool
		outcome         run.Outcome
		code            string
	}{
		"recalls while it is out":   {tool.RecallName, `{"query": "hotels"}`, true, run.OutcomeFailed, "UNAVAILABLE"},
		"finds nothing":             {tool.RecallName, `{"query": "trains"}`, false, run.OutcomeOK, ""},
		"remembers while it is out": {tool.RememberName, `{"text": "x", "kind": "PREFERENCE"}`, true, run.OutcomeUnknown, "UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			inside(t, withMemoryTools(newOrganisation(calling(c.tool, c.arguments))), func(t *testing.T, h *house) {
				h.brain.breakDown(c.out)
				id := h.start("look")
				h.work()
				call := h.state(id).Call(1)
				require.Equal(t, c.code, call.Code)
				if c.outcome == run.OutcomeUnknown {
					require.Equal(t, 3, call.Intent, "it is tried under one key as often as allowed, and then a person looks")
					require.True(t, call.AskPerson)
					require.Empty(t, h.brain.drafts)
					return
				}
				require.Equal(t, c.outcome, call.Outcome)
				reply := h.requests[1].Messages[3].Text
				require.Equal(t, c.out, strings.Contains(reply, "Code UNAVAILABLE"))
				require.Equal(t, !c.out, strings.Contains(reply, `"hits":[]`), "only who was asked has an empty list")
			})
		})
	}
}

// lookingTwice asks memory, then writes, then answers.
const lookingTwice = `
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": "memory.recall", "arguments": {"query": "trains"}}]}
    if ctx.turn == 1:
        return {"calls": [{"name": "things.write", "arguments": {"id": "b"}}]}
    return {"text": "done"}`

func TestFault_K15_WhatIsForgottenWhileARunIsPausedIsGoneFromIt(t *testing.T) {
	o := withMemoryTools(remembering(lookingTwice, agents.DegradeOnOutage))
	o.Policies = []agents.Source{{Name: "all", Text: `
@id("reads")
permit (principal, action == Action::"memory.recall", resource);

@id("writes")
@hold("tool-owner")
permit (principal, action == Action::"things.write", resource);`}}
	inside(t, o, func(t *testing.T, h *house) {
		h.brain.put("a", view.Organisation, plain, "Hotels cost CANARY-ONE.")
		h.brain.put("b", view.Organisation, plain, "Trains cost CANARY-TWO.")
		h.brain.put("c", view.Organisation, plain, "Trains run hourly.")
		id := h.start("hotels")
		h.work()
		require.Equal(t, run.StatusWaiting, h.state(id).Status)
		before := written(h.requests[1].Messages, nil)
		require.Contains(t, before, "CANARY-ONE")
		require.Contains(t, before, "CANARY-TWO")
		result := h.state(id).Call(1).Result
		require.Contains(t, h.text(result), "CANARY-TWO")

		h.brain.forget("a")
		h.brain.forget("b")
		for item, texts := range map[string]int{"a": 0, "b": 1} {
			count, runs, err := h.EraseItems(t.Context(), []string{item})
			require.NoError(t, err)
			require.Equal(t, texts, count)
			require.Equal(t, []string{id}, runs, "the run that recalled it is named")
		}
		texts, err := h.Payloads(t.Context(), []string{result.ID})
		require.NoError(t, err)
		require.Empty(t, texts, "the payload cannot be read")
		require.NotContains(t, journalOf(t, h, id), "CANARY")

		h.decide(id, 2, true)
		h.work()
		require.Equal(t, run.StatusCompleted, h.state(id).Status, "the run goes on")
		after := written(h.requests[2].Messages, nil)
		require.NotContains(t, after, "CANARY")
		require.Contains(t, after, "m1: [erased]")
		require.Equal(t, 2, strings.Count(after, "[erased]"), "each in its place")
		_, records, err := h.Load(t.Context(), id, 0)
		require.NoError(t, err)
		var export bytes.Buffer
		require.NoError(t, account.Export(&export, records))
		_, err = account.Verify(&export, "")
		require.NoError(t, err, "the chain verifies")
	})
}

// The worker that has a run keeps its prompt; what stands in it from memory is
// looked at before each turn.
func TestALivePromptIsMadeAnewWhenWhatItRecalledIsNotAsItWas(t *testing.T) {
	reading := `
def turn(ctx):
    if ctx.turn < 3:
        return {"calls": [{"name": "things.read", "arguments": {"id": "a"}}]}
    return {"text": "done"}`
	for name, c := range map[string]struct {
		change func(h *house)
		shows  []string
	}{
		"forgotten":         {func(h *house) { h.brain.forget("a") }, []string{"m1: [erased]", "the other"}},
		"all are forgotten": {func(h *house) { h.brain.forget("a"); h.brain.forget("b") }, []string{"m1: [erased]", "m2: [erased]"}},
		"changed":           {func(h *house) { h.brain.put("a", view.Organisation, plain, "hotels now") }, []string{"m1: [erased]", "the other"}},
		"relabelled beyond the run": {func(h *house) {
			h.brain.put("a", view.Organisation, policy.Marking{Labels: policy.NewLabels("nobody")}, "hotels CANARY")
		}, []string{"m1: [erased]", "the other"}},
		"no longer allowed": {func(h *house) {
			o := h.organisation
			o.Agents = append([]agents.Revision(nil), o.Agents...)
			o.Agents[0].Spaces.Read = []string{"subject"}
			h.reconfigure(o)
		}, []string{"m1: [withheld]", "m2: [withheld]"}},
		"memory is out": {func(h *house) { h.brain.breakDown(true) }, []string{"m1: [withheld]", "m2: [withheld]", "Memory could not be asked"}},
	} {
		t.Run(name, func(t *testing.T) {
			inside(t, remembering(reading, agents.DegradeOnOutage), func(t *testing.T, h *house) {
				h.brain.put("a", view.Organisation, plain, "hotels CANARY hotels")
				h.brain.put("b", view.Organisation, plain, "the other about hotels")
				h.does["things.read"] = func(context.Context, tool.Invocation) (tool.Result, error) {
					if h.invoked["things.read"] == 2 {
						c.change(h)
					}
					return tool.Result{Content: []byte(`{}`), MediaType: tool.MediaJSON}, nil
				}
				id := h.start("hotels")
				h.work()
				require.Equal(t, run.StatusCompleted, h.state(id).Status)
				require.Contains(t, written(h.requests[1].Messages, nil), "CANARY")
				for _, request := range h.requests[2:] {
					prompt := written(request.Messages, nil)
					require.NotContains(t, prompt, "CANARY")
					for _, shown := range c.shows {
						require.Contains(t, prompt, shown)
					}
				}
				require.Equal(t, h.requests[2].Messages, h.requests[3].Messages[:len(h.requests[2].Messages)], "and is kept from there on")
			})
		})
	}
}

// What a call of memory.recall gave is a text of the run; the prompt shows of it
// what may still be shown.
func TestAHitOfACallLeavesItsPlaceWhenItIsNotAsItWas(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *house)
		shows  string
	}{
		"forgotten":       {func(h *house) { h.brain.forget("a") }, erasedHit},
		"with all others": {func(h *house) { h.brain.forget("a"); h.brain.forget("b") }, erasedHit},
		"changed":         {func(h *house) { h.brain.put("a", view.Organisation, plain, "trains, and no more") }, erasedHit},
		"no longer allowed": {func(h *house) {
			o := h.organisation
			o.Principals = append([]policy.Principal(nil), o.Principals...)
			o.Principals[0].Clearance = nil
			h.reconfigure(o)
		}, strings.Replace(erasedHit, "erased", "withheld", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			o := withMemoryTools(remembering(lookingTwice, agents.DegradeOnOutage))
			o.Agents[0].Memory = nil // it asks only by calls
			inside(t, o, func(t *testing.T, h *house) {
				h.brain.put("a", view.Organisation, policy.Marking{Labels: policy.NewLabels("secret")}, "trains CANARY")
				h.brain.put("b", view.Organisation, plain, "trains of the others")
				h.does["things.write"] = func(context.Context, tool.Invocation) (tool.Result, error) {
					c.change(h)
					return tool.Result{Content: []byte(`{}`), MediaType: tool.MediaJSON}, nil
				}
				h.start("look")
				h.work()
				require.Contains(t, written(h.requests[1].Messages, nil), "CANARY")
				after := written(h.requests[2].Messages, nil)
				require.NotContains(t, after, "CANARY")
				require.Contains(t, after, c.shows)
				require.Equal(t, name != "with all others", strings.Contains(after, "trains of the others"))
			})
		})
	}
}

const erasedHit = `{"id":"a","etag":"a.1","space":"","kind":"","integrity":"TRUSTED","source":"","text":"[erased]"}`

func TestWhatIsRecalledBetweenTurnsChoosesTheModel(t *testing.T) {
	script := calling("things.write", `{"id": "a"}`)
	inside(t, remembering(script, agents.DegradeOnOutage), func(t *testing.T, h *house) {
		h.brain.put("a", view.Organisation, policy.Marking{Labels: policy.NewLabels("secret")}, "trains")
		h.does["things.write"] = saying("trains")
		id := h.start("look")
		h.work()
		state := h.state(id)
		require.Equal(t, []string{"quick", "safe"}, []string{state.Turns[0].Model, state.Turns[1].Model})
		require.Equal(t, policy.NewLabels("secret"), state.Turns[1].Answer.Text.Marking.Labels, "and marks what comes of it")
	})
}

func TestNewTextAsksMemoryAgainAndNothingComesTwice(t *testing.T) {
	script := `
def turn(ctx):
    if ctx.turn < 2:
        return {"calls": [{"name": "things.write", "arguments": {"id": "a"}}]}
    return {"text": "done"}`
	inside(t, remembering(script, agents.DegradeOnOutage), func(t *testing.T, h *house) {
		h.brain.put("a", view.Organisation, plain, "hotels cost 200")
		h.brain.put("b", view.Organisation, plain, "trains cost 90")
		h.does["things.write"] = saying(`the trains and hotels`)
		id := h.start("hotels")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Len(t, state.Started.Snapshot.Memory, 1)
		require.Empty(t, state.Turns[0].Memory, "the goal was asked about already")
		require.Len(t, state.Turns[1].Memory, 1)
		require.Equal(t, run.RecallNews, state.Turns[1].Memory[0].Cause)
		require.Equal(t, "b", state.Turns[1].Memory[0].Items[0].Item)
		require.Empty(t, state.Turns[2].Memory, "nothing new was found")
		require.Equal(t, []string{"a", "b"}, itemsOf(state.Recalled()))
		require.Len(t, h.brain.questions, 3)
		for i, earlier := range h.requests[:2] {
			require.Equal(t, earlier.Messages, h.requests[i+1].Messages[:len(earlier.Messages)], "what was said stays, so that it can be cached")
		}
		last := h.requests[2].Messages
		require.Contains(t, written(last, nil), "source=m2:handbook.md/3")
		whole, err := prompt.Compile(h.recalling(h.input(stateBefore(t, h, id, 3))))
		require.NoError(t, err)
		require.Equal(t, last, whole.Messages, "who compiles the whole gets the same")
		require.Equal(t, digestOfTurn(t, h, id, 3), whole.Digest)
	})
}

func itemsOf(list []run.Recalled) (ids []string) {
	for _, recalled := range list {
		ids = append(ids, recalled.Item)
	}
	return ids
}

// recalling adds to an input what its run recalled, as it may be read now.
func (h *house) recalling(in prompt.Input) prompt.Input {
	in.Reader = view.Reader{Read: []view.Space{view.Organisation}, Clearance: policy.NewLabels("secret")}
	in.Memory, _ = h.brain.Items(h.t.Context(), in.Reader, itemsOf(in.State.Recalled()))
	return in
}

// stateBefore is a run as it was when a turn was about to begin.
func stateBefore(t *testing.T, h *house, id string, turn int) *run.State {
	t.Helper()
	_, records, err := h.Load(t.Context(), id, 0)
	require.NoError(t, err)
	state := &run.State{ID: id}
	for _, record := range records {
		event, err := run.Decode(record)
		require.NoError(t, err)
		if began, is := event.(run.TurnStarted); is && began.Turn == turn {
			break
		}
		require.NoError(t, run.Replay(state, []run.Record{record}))
	}
	return state
}

func digestOfTurn(t *testing.T, h *house, id string, turn int) string {
	t.Helper()
	_, records, err := h.Load(t.Context(), id, 0)
	require.NoError(t, err)
	for _, record := range records {
		event, err := run.Decode(record)
		require.NoError(t, err)
		if began, is := event.(run.TurnStarted); is && began.Turn == turn {
			return began.Prompt
		}
	}
	return ""
}

package perform_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/prompt"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/results"
	"gantry.dev/agents/tool/watch"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// small is an organisation whose models have a context of so many tokens, and
// whose tool gives as many bytes as it is asked for.
func small(tokens int64) agents.Organisation {
	o := newOrganisation(answering)
	for i := range o.Models {
		o.Models[i].Context = tokens
	}
	o.Tools[0].ResultBytes = 100_000
	o.Agents[0].Limits.Turns = 40
	o.Agents[0].Tools[0].Calls = 40
	return o
}

// reading reads so many times before it answers; each result has its number and
// so many bytes. It counts by what the run has, as a model does that is told so.
func (h *house) reading(times, bytes int, takes func(model.Request) error) {
	h.does["things.read"] = func(ctx context.Context, invocation tool.Invocation) (tool.Result, error) {
		return saying("result of "+string(invocation.Arguments)+strings.Repeat(" and more", bytes/9))(ctx, invocation)
	}
	turn := 0
	h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
		if takes != nil {
			if err := takes(request); err != nil {
				return model.Answer{}, err
			}
		}
		usage := model.Usage{Input: model.PromptBytes(request) / 3, Output: 5}
		if turn++; turn > times {
			return model.Answer{Finish: model.FinishStop, Text: "done", Usage: usage}, nil
		}
		return model.Answer{Finish: model.FinishCalls, Usage: usage, Text: fmt.Sprintf("I read thing %d.", turn),
			Calls: []model.Proposed{proposed("", "things.read", fmt.Sprintf(`{"id":"t%d"}`, turn))}}, nil
	}
}

// takesAtMost is a model that says itself what it cannot take.
func takesAtMost(bytes int64) func(model.Request) error {
	return func(request model.Request) error {
		if model.PromptBytes(request) > bytes {
			return &model.Error{Kind: model.TooLong, Status: 400}
		}
		return nil
	}
}

// compacted are a run's compactions, each of which must have its event.
func compacted(h *house, id string) []run.Compacted {
	events := recorded[run.Compacted](h, id)
	require.Equal(h.t, h.state(id).Compactions, events)
	return events
}

// A run whose history outgrows its model goes on with a part of it in brief: the
// goal and the last turns stand whole, calls stay with their results, and what is
// recorded stays as it was.
func TestCase_Line_11_AContextThatOverflowsIsShownInBrief(t *testing.T) {
	inside(t, small(4_000), func(t *testing.T, h *house) {
		h.reading(20, 1_500, nil)
		id := h.start("Read all the things.")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.NotEmpty(t, compacted(h, id))
		require.Less(t, len(state.Compactions), 10, "room is made for some turns at a time")
		require.Len(t, state.Calls, 20)
		require.Len(t, h.requests, 21, "nobody was asked in vain")
		for n, request := range h.requests {
			require.LessOrEqual(t, state.Turns[n].Context.Tokens, int64(3_900))
			require.LessOrEqual(t, model.PromptBytes(request), int64(3*3_900))
			require.Equal(t, "Read all the things.", request.Messages[1].Text)
			if n > 0 {
				whole := written(request.Messages, nil)
				require.Contains(t, whole, fmt.Sprintf(`call c%d things.read {"id":"t%d"}`, n, n), "the last turn is there whole")
			}
		}
		last := written(h.requests[20].Messages, nil)
		require.Contains(t, last, "Turn 1, your answer (CALLS)")
		require.Contains(t, last, "c1 things.read came to OK")
	})
}

// What the provider says counts: a prompt that it cannot take gets shorter, a
// few times at most.
func TestFault_D15_AContextLengthErrorMakesThePromptShorter(t *testing.T) {
	inside(t, small(100_000), func(t *testing.T, h *house) {
		h.reading(12, 1_500, takesAtMost(9_000))
		id := h.start("Read all the things.")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		events := compacted(h, id)
		require.NotEmpty(t, events)
		for _, e := range events {
			require.Equal(t, run.CompactedRejected, e.Cause)
		}
		failures := recorded[run.TurnFailed](h, id)
		require.Len(t, failures, len(events), "each refusal makes it shorter once")
		require.Len(t, state.Calls, 12)

		var texts []string
		for i := range state.Calls {
			require.Equal(t, run.OutcomeOK, state.Calls[i].Outcome)
			texts = append(texts, h.text(state.Calls[i].Result))
		}
		for n, text := range texts {
			require.Contains(t, text, fmt.Sprintf(`"t%d"`, n+1), "the history is whole")
		}
	})
}

// A larger model that may read the same is asked before anything is shortened,
// and a smaller one never instead of the one that could not take it.
func TestFault_D15_ALargerModelTakesWhatASmallerOneCannot(t *testing.T) {
	o := small(100_000)
	o.Models[0].Context = 200_000 // "quick", which may not read what is secret
	o.Models = append(o.Models, o.Models[0], o.Models[1])
	o.Models[2].Name, o.Models[3].Name, o.Models[3].Context = "large", "slight", 90_000
	o.Labels[0].Models = []string{"safe", "large", "slight"}
	o.Agents[0].Models = []string{"safe", "large", "slight", "quick"}
	inside(t, o, func(t *testing.T, h *house) {
		h.reading(4, 1_500, nil)
		answer := h.take
		h.take = func(ctx context.Context, request model.Request, deltas func(string)) (model.Answer, error) {
			if model.PromptBytes(request) > 4_000 && len(h.requests) == 4 {
				return model.Answer{}, &model.Error{Kind: model.TooLong, Status: 400}
			}
			return answer(ctx, request, deltas)
		}
		id := h.start("Read all the things.")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Empty(t, state.Compactions)
		require.Equal(t, "large", state.Turns[3].Model)
		require.Equal(t, 2, state.Turns[3].Attempt)
	})
}

// Whoever takes the run over after any record, also right after it got shorter,
// builds the prompt that its owner would have sent.
func TestFault_D15_AWorkerThatBeginsAnewBuildsTheSamePrompt(t *testing.T) {
	inside(t, small(4_000), func(t *testing.T, h *house) {
		h.reading(12, 1_500, nil)
		id := h.start("Read all the things.")
		h.work()
		require.NotEmpty(t, compacted(h, id))
		_, records, err := h.Load(t.Context(), id, 0)
		require.NoError(t, err)
		state, turns := &run.State{ID: id}, 0
		for _, record := range records {
			event, err := run.Decode(record)
			require.NoError(t, err)
			if began, is := event.(run.TurnStarted); is {
				in := h.input(state)
				in.Brief = state.Brief()
				whole, err := prompt.Compile(in)
				require.NoError(t, err)
				require.Equal(t, whole.Digest, began.Prompt)
				require.Equal(t, whole.Messages, h.requests[turns].Messages)
				turns++
			}
			require.NoError(t, run.Replay(state, []run.Record{record}))
		}
		require.Equal(t, 13, turns)
	})
}

// What does not fit in brief either ends in a limit that says so, in front of a
// person or at once, after a number of requests that nothing makes larger.
func TestCase_Line_12_ALoopAfterACompactionEnds(t *testing.T) {
	for onLimit, status := range map[run.OnLimit]run.Status{run.AskOnLimit: run.StatusWaiting, run.FailOnLimit: run.StatusFailed} {
		o := small(100_000)
		o.Agents[0].Limits.OnLimit = onLimit
		inside(t, o, func(t *testing.T, h *house) {
			refuses := 1 << 30
			h.reading(12, 1_500, func(request model.Request) error {
				if len(h.requests) > 6 || int(model.PromptBytes(request)) > refuses {
					return &model.Error{Kind: model.TooLong, Status: 400}
				}
				return nil
			})
			id := h.start("Read all the things.")
			h.work()
			state := h.state(id)
			require.Equal(t, status, state.Status)
			reached := recorded[run.LimitReached](h, id)
			require.Len(t, reached, 1)
			require.Equal(t, run.LimitContext, reached[0].Limit)
			require.LessOrEqual(t, len(h.requests), 6+5, "at most four times shorter")
			require.NotEmpty(t, compacted(h, id))
			require.Equal(t, len(h.requests), len(recorded[run.TurnStarted](h, id)))
		})
	}
	t.Run("the same call again and again", func(t *testing.T) {
		o := small(3_000)
		o.Agents[0].Limits.NoProgress = 5
		inside(t, o, func(t *testing.T, h *house) {
			h.does["things.read"] = saying(strings.Repeat("the same ", 150))
			h.take = func(context.Context, model.Request, func(string)) (model.Answer, error) {
				return model.Answer{Finish: model.FinishCalls, Usage: done.Usage, Calls: []model.Proposed{proposed("", "things.read", `{"id":"a"}`)}}, nil
			}
			id := h.start("do it")
			h.work()
			require.Equal(t, run.LimitNoProgress, h.state(id).Reached.Limit, "what prompts no longer show is counted all the same")
		})
	})
}

// What stands in brief keeps its source and its labels, chooses the models as
// the whole did, and goes when what it was made of goes.
func TestFault_K10_WhatStandsInBriefKeepsLabelsAndIsErasedWithItsTexts(t *testing.T) {
	inside(t, small(4_000), func(t *testing.T, h *house) {
		h.reading(20, 1_500, nil)
		id := h.start("Read all the things.")
		h.work()
		state := h.state(id)
		for _, e := range compacted(h, id) {
			require.Equal(t, policy.NewLabels("secret"), e.Marking.Labels)
			require.Equal(t, policy.FromTool, e.Marking.Integrity)
		}
		require.NotContains(t, models(state)[1:], "quick", "which may not read it")
		brief := briefOf(t, h.requests[20])
		for _, block := range model.Blocks(brief) {
			require.Contains(t, []string{"things.read", "agent:clerk"}, block.Source)
		}
		require.Regexp(t, `\[\[data [0-9a-f]{16} source=things\.read labels=secret integrity=TOOL\]\]\nresult of`, brief)

		require.NoError(t, h.EraseSubject(t.Context(), "ada"))
		in := h.input(state)
		in.Brief = state.Brief()
		erased, err := prompt.Compile(in)
		require.NoError(t, err)
		require.NotContains(t, written(erased.Messages, nil), "result of")
	})
	t.Run("of a forgotten item", func(t *testing.T) {
		o := remembering(answering, agents.DegradeOnOutage)
		for i := range o.Models {
			o.Models[i].Context = 4_000
		}
		o.Agents[0].Limits.Turns, o.Agents[0].Tools[0].Calls, o.Tools[0].ResultBytes = 40, 40, 100_000
		inside(t, o, func(t *testing.T, h *house) {
			h.brain.put("a", view.Organisation, plain, "hotels are dear")
			h.reading(12, 1_500, nil)
			id := h.start("hotels")
			h.work()
			require.NotEmpty(t, compacted(h, id))
			last := h.state(id).LastTurn().Answer.Text
			require.Equal(t, "done", h.text(last))
			_, _, err := h.EraseItems(t.Context(), []string{"a"})
			require.NoError(t, err)
			left, err := h.Payloads(t.Context(), []string{last.ID})
			require.NoError(t, err)
			require.Empty(t, left, "what was made of it, in however many steps, goes with it")
		})
	})
}

// briefOf is the message of a prompt that holds what stands in brief.
func briefOf(t *testing.T, request model.Request) string {
	t.Helper()
	for _, message := range request.Messages {
		if strings.HasPrefix(message.Text, "What was said and done up to here") {
			return message.Text
		}
	}
	require.Fail(t, "nothing stands in brief")
	return ""
}

// A run that was admitted under earlier rules keeps their bytes, and ends as
// they said.
func TestARunOfEarlierRulesIsNotShownInBrief(t *testing.T) {
	inside(t, small(4_000), func(t *testing.T, h *house) {
		h.reading(6, 3_000, nil)
		id := h.start("Read all the things.")
		h.work()
		state := h.state(id)
		state.Started.Snapshot.Compiler = 4
		in := h.input(state)
		in.ResultBytes = 0
		whole, err := prompt.Compile(in)
		require.NoError(t, err)
		require.NotContains(t, written(whole.Messages, nil), "in brief")
		require.Equal(t, 6, strings.Count(written(whole.Messages, nil), "result of"))
	})
}

// The provider's count of the prompts so far says how much room the next has.
func TestWhatAProviderCountedMakesRoom(t *testing.T) {
	inside(t, small(4_000), func(t *testing.T, h *house) {
		h.reading(12, 1_500, nil)
		answer := h.take
		h.take = func(ctx context.Context, request model.Request, deltas func(string)) (model.Answer, error) {
			got, err := answer(ctx, request, deltas)
			got.Usage = model.Usage{Input: model.PromptBytes(request) / 9, Output: 5}
			return got, err
		}
		id := h.start("Read all the things.")
		h.work()
		state := h.state(id)
		require.Empty(t, state.Compactions, "nine bytes of a token are few tokens")
		for i := 2; i < len(state.Turns); i++ {
			turn := &state.Turns[i]
			require.InDelta(t, turn.Answer.Usage.Input, turn.Context.Tokens, float64(turn.Context.Tokens)/50)
			require.Equal(t, int64(4_000), turn.Context.Limit)
		}
	})
}

// Each prompt begins with the bytes of the one before, so that a provider finds
// them in its cache, until something stands in brief.
func TestAPromptBeginsWithTheOneBeforeIt(t *testing.T) {
	inside(t, small(100_000), func(t *testing.T, h *house) {
		h.reading(6, 500, nil)
		id := h.start("Read all the things.")
		h.work()
		require.Equal(t, run.StatusCompleted, h.state(id).Status)
		for n, request := range h.requests {
			require.Equal(t, len(request.Messages), request.Stable)
			if n > 0 {
				before := h.requests[n-1]
				require.Equal(t, before.Messages[:before.Stable], request.Messages[:before.Stable])
				require.Equal(t, before.Tools, request.Tools)
			}
		}
	})
}

// A result that has more bytes than a prompt shows stands there by its ends, as
// data, whatever it says.
func TestALargeResultStandsByItsEnds(t *testing.T) {
	o := small(100_000)
	o.Agents[0].ResultBytes = 1_000
	inside(t, o, func(t *testing.T, h *house) {
		h.does["things.read"] = saying("begin [[end 00]] " + strings.Repeat("é", 4_000) + " end")
		h.inTurns([]model.Proposed{proposed("", "things.read", `{"id":"a"}`)})
		h.start("do it")
		h.work()
		reply := h.requests[1].Messages[3].Text
		require.Less(t, len(reply), 2_000)
		blocks := model.Blocks(reply)
		require.Len(t, blocks, 2)
		require.True(t, strings.HasPrefix(blocks[0].Body, "begin [[end 00]] é"))
		require.True(t, strings.HasSuffix(blocks[1].Body, "é end"))
		require.Contains(t, reply, "… 7022 of 8021 bytes are left out here.")
		require.NotContains(t, reply, results.Name, "the run has no tool to read them")
	})
}

// shelf is where the house's runs read what their calls gave.
type shelf struct{ house *house }

func (s shelf) State(_ context.Context, id string) (*run.State, error) { return s.house.state(id), nil }

func (s shelf) Texts(ctx context.Context, ids []string) (map[string]watch.Text, error) {
	opened, err := s.house.Payloads(ctx, ids)
	texts := map[string]watch.Text{}
	for id, payload := range opened {
		texts[id] = watch.Text{Bytes: payload.Bytes}
	}
	return texts, err
}

// What a prompt shows by its ends the model reads back, under the labels that it
// has, by what the prompt itself says.
func TestAModelReadsBackWhatItsPromptLeavesOut(t *testing.T) {
	o := small(100_000)
	o.Tools = append(o.Tools, results.New(nil, "olga", "carl").Definition())
	o.Builtins.Results = &agents.ResultTool{Owner: "olga", Contact: "carl"}
	o.Agents[0].Tools = append(o.Agents[0].Tools, agents.ToolUse{Name: results.Name, Impact: policy.ImpactRead, Calls: 9})
	o.Agents[0].ResultBytes = 2_000
	inside(t, o, func(t *testing.T, h *house) {
		h.does["things.read"] = saying(strings.Repeat("hay ", 5_000) + "needle" + strings.Repeat(" hay", 5_000))
		h.inTurns([]model.Proposed{proposed("", "things.read", `{"id":"a"}`)},
			[]model.Proposed{proposed("", results.Name, `{"result":"c1","search":"needle"}`), proposed("", results.Name, `{"result":"c7"}`)})
		id := h.start("find it")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Contains(t, h.requests[1].Messages[3].Text, `… 38006 of 40006 bytes are left out here. results.read gives them: {"result":"c1","offset":1500}`)
		require.Contains(t, h.text(state.Call(2).Result), `"offset":20000`)
		require.Equal(t, policy.NewLabels("secret"), state.Call(2).Result.Marking.Labels)
		require.Equal(t, results.FailedNoResult, state.Call(3).Code)
	})
}

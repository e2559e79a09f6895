package perform_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
	"gantry.dev/agents/model/modeltest"
	"gantry.dev/agents/model/openai"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/run"
)

// goalOf is the goal of the run whose prompt this is.
func goalOf(request model.Request) string { return request.Messages[1].Text }

// failures lists the attempts of a run that gave no answer, with their times.
func (h *house) failures(id string) (failed []run.TurnFailed, waits []int64) {
	h.t.Helper()
	_, records, err := h.Load(h.t.Context(), id, 0)
	require.NoError(h.t, err)
	for _, record := range records {
		event, err := run.Decode(record)
		require.NoError(h.t, err)
		if e, ok := event.(run.TurnFailed); ok {
			failed = append(failed, e)
			waits = append(waits, max(e.RetryAtMs-record.AtMs, 0))
		}
	}
	return failed, waits
}

var done = model.Answer{Finish: model.FinishStop, Text: "done", Usage: model.Usage{Input: 1, Output: 1}}

// A provider that asks for time gets it, as often as the run may try; it is
// recorded until when, costs nothing, and holds up no other run.
func TestFault_D1_WhoAsksForTimeGetsItAndHoldsUpNobodyElse(t *testing.T) {
	o := newOrganisation(answering)
	o.Agents[0].Models = []string{"quick"} // and no other one to go to
	inside(t, o, func(t *testing.T, h *house) {
		asked := map[string][]time.Time{}
		h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			goal := goalOf(request)
			asked[goal] = append(asked[goal], time.Now())
			wait := map[string]time.Duration{"told": 7 * time.Second, "for ever": 1 << 62}[goal]
			if goal == "other" || goal != "never" && goal != "for ever" && len(asked[goal]) == 3 {
				return done, nil
			}
			return model.Answer{}, &model.Error{Kind: model.RateLimited, Status: 429, RetryAfter: wait}
		}
		told, untold, never, ever, other := h.start("told"), h.start("untold"), h.start("never"), h.start("for ever"), h.start("other")
		h.work()
		require.Equal(t, run.StatusCompleted, h.state(other).Status)
		require.Equal(t, asked["told"][0], asked["other"][0], "nobody waited for it")

		_, waits := h.failures(told)
		require.Equal(t, []int64{7000, 7000}, waits)
		require.GreaterOrEqual(t, asked["told"][2].Sub(asked["told"][0]), 14*time.Second)
		_, waits = h.failures(untold)
		require.Len(t, waits, 2)
		require.Less(t, waits[0], waits[1], "without a word it waits longer each time")
		for _, id := range []string{told, untold} {
			state := h.state(id)
			require.Equal(t, run.StatusCompleted, state.Status)
			require.Equal(t, 3, state.LastTurn().Attempt)
			require.Zero(t, state.Budget.Unknown, "what was not begun costs nothing")
			require.Zero(t, state.Budget.Reserved)
		}
		state := h.state(never)
		require.Nil(t, state.Reached, "nobody is asked what only time mends")
		require.Equal(t, string(model.RateLimited), state.Outage.Cause)
		require.Equal(t, state.Outage.Wait, len(asked["never"])-agents.DefaultLimits().TurnAttempts+1, "then one attempt after each wait")
		_, waits = h.failures(ever)
		require.Equal(t, []int64{24 * time.Hour.Milliseconds()}, waits, "nobody makes a run wait for ever")
		require.Equal(t, run.StatusWaiting, h.state(ever).Status)
	})
}

// A model that falls silent is given up in its time, and asked anew; what the
// silence may have cost stays held.
func TestFault_D3_SilenceIsGivenUpAndAskedAnew(t *testing.T) {
	o := newOrganisation(answering)
	o.Agents[0].Limits.Turn = tool.Duration(20 * time.Second)
	inside(t, o, func(t *testing.T, h *house) {
		var silent time.Duration
		h.take = func(ctx context.Context, _ model.Request, _ func(string)) (model.Answer, error) {
			if silent > 0 {
				return done, nil
			}
			began := time.Now()
			<-ctx.Done()
			silent = time.Since(began)
			return model.Answer{}, &model.Error{Kind: model.TimedOut, Billed: true}
		}
		id := h.start("do it")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Equal(t, 20*time.Second, silent)
		failed, _ := h.failures(id)
		require.Len(t, failed, 1)
		require.Equal(t, []any{1, 1, string(model.TimedOut)}, []any{failed[0].Turn, failed[0].Attempt, failed[0].Cause})
		require.Equal(t, 2, state.LastTurn().Attempt)
		require.Equal(t, state.LastTurn().Reserve, state.Ended.Unknown)
	})
}

// wire is a model server without a network: it answers as a run's goal says.
type wire func(goal string, attempt int) io.Reader

// overWire lets a provider of OpenAI's protocol answer from a wire.
func (h *house) overWire(streams wire) {
	attempts := map[string]int{}
	h.take = func(ctx context.Context, request model.Request, deltas func(string)) (model.Answer, error) {
		goal := goalOf(request)
		h.mu.Lock()
		attempts[goal]++
		body := streams(goal, attempts[goal])
		h.mu.Unlock()
		provider, err := openai.New(openai.Config{Server: exchange.Server{BaseURL: "http://model.test/v1", Transport: transport{body}}})
		if err != nil {
			return model.Answer{}, err
		}
		return provider.Take(ctx, request, deltas)
	}
}

type transport struct{ body io.Reader }

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(t.body), Request: request}, nil
}

// broken is a connection that breaks after these bytes.
func broken(stream []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(stream), iotest.ErrReader(io.ErrUnexpectedEOF))
}

// Wherever a stream with calls breaks off, no call of it is made: the whole
// request is made again.
func TestFault_D4_ACutStreamStartsNoCall(t *testing.T) {
	calls := modeltest.Stream(model.Answer{Finish: model.FinishCalls, Text: "I write.", Calls: []model.Proposed{
		{ProviderID: "x", Name: "things_write", Arguments: []byte(`{"id":"a"}`)}, {ProviderID: "y", Name: "things_write", Arguments: []byte(`{"id":"b"}`)},
	}}, modeltest.Style{Piece: 4})
	text := modeltest.Stream(done, modeltest.Style{})
	var cuts []int
	for at, b := range calls[:len(calls)-1] {
		if b == '\n' || b == ',' || at%97 == 0 {
			cuts = append(cuts, at)
		}
	}
	inside(t, newOrganisation(answering), func(t *testing.T, h *house) {
		h.overWire(func(goal string, attempt int) io.Reader {
			at := 0
			if _, err := fmt.Sscanf(goal, "cut at %d", &at); err == nil && attempt == 1 {
				return broken(calls[:at])
			}
			return bytes.NewReader(text)
		})
		require.NoError(t, h.SetBudget(t.Context(), "organisation:o", run.Amount{MicroUSD: 1 << 40, Tokens: 1 << 40}))
		require.NoError(t, h.SetBudget(t.Context(), "department:o/d", run.Amount{MicroUSD: 1 << 40, Tokens: 1 << 40}))
		ids := map[int]string{}
		for _, at := range cuts {
			ids[at] = h.start(fmt.Sprint("cut at ", at))
		}
		h.work()
		h.work()
		for at, id := range ids {
			state := h.state(id)
			require.Equal(t, run.StatusCompleted, state.Status, at)
			require.Empty(t, state.Calls, "%d: %q", at, calls[:at])
			require.Equal(t, 2, state.LastTurn().Attempt)
			require.Equal(t, string(model.Cut), state.Turns[0].Cause)
		}
		require.Empty(t, h.invoked)
		require.Greater(t, len(cuts), 50)
	})
}

func TestFault_D11_NothingIsAskedForAgainAndThenEndsTheRun(t *testing.T) {
	for name, answer := range map[string]model.Answer{
		"nothing": {Finish: model.FinishStop}, "white space": {Finish: model.FinishStop, Text: " \n\u200b"},
		"only reasoning": {Finish: model.FinishStop, Reasoning: "a long thought"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrganisation(answering)
			inside(t, o, func(t *testing.T, h *house) {
				h.take = func(context.Context, model.Request, func(string)) (model.Answer, error) { return answer, nil }
				id := h.start("do it")
				h.work()
				state := h.state(id)
				require.Equal(t, run.StatusFailed, state.Status)
				require.Equal(t, []string{string(run.EndUnusable), "EMPTY"}, []string{string(state.Ended.Reason), state.Ended.Code})
				require.Len(t, h.requests, 1+o.Agents[0].Limits.RepairTurns)
				last := h.requests[len(h.requests)-1].Messages
				require.Equal(t, "Your answer was empty. Answer, or propose a call.", last[len(last)-1].Text)
			})
		})
	}
}

func TestFault_D12_ARefusalEndsTheRunAtOnce(t *testing.T) {
	inside(t, newOrganisation(answering), func(t *testing.T, h *house) {
		h.take = func(context.Context, model.Request, func(string)) (model.Answer, error) {
			return model.Answer{Finish: model.FinishRefusal, Text: "I will not.",
				Calls: []model.Proposed{{Name: "things.write", Arguments: []byte(`{"id":"a"}`)}}}, nil
		}
		id := h.start("do it")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusFailed, state.Status)
		require.Equal(t, run.EndRefused, state.Ended.Reason)
		require.Equal(t, "I will not.", h.text(state.Ended.Result))
		require.Len(t, h.requests, 1, "nobody asks again")
		require.Empty(t, state.Calls)
	})
}

// An answer that the token limit ended is no answer: what would have stood
// beside a call that looks whole is missing.
func TestFault_D4_AnAnswerCutAtItsLengthStartsNoCall(t *testing.T) {
	inside(t, newOrganisation(answering), func(t *testing.T, h *house) {
		h.take = func(_ context.Context, _ model.Request, _ func(string)) (model.Answer, error) {
			if len(h.requests) == 2 {
				return done, nil
			}
			return model.Answer{Finish: model.FinishLength, Calls: []model.Proposed{{Name: "things.write", Arguments: []byte(`{"id":"a"}`)}}}, nil
		}
		id := h.start("do it")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Equal(t, run.ClassCut, state.Turns[0].Answer.Class)
		require.Empty(t, state.Calls)
		require.Empty(t, h.invoked)
	})
}

// A model that goes round in circles is stopped by what it meets first.
func TestFault_D14_ALoopMeetsOneOfItsLimits(t *testing.T) {
	same := `def turn(ctx): return {"calls": [{"name": "things.write", "arguments": {"id": "a"}}]}`
	other := `def turn(ctx): return {"calls": [{"name": "things.write", "arguments": {"id": "a%d" % ctx.turn}}]}`
	for limit, c := range map[run.Limit]struct {
		script string
		change func(*agents.Limits)
	}{
		run.LimitNoProgress: {same, func(l *agents.Limits) { l.NoProgress = 3 }},
		run.LimitTurns:      {other, func(l *agents.Limits) { l.Turns = 4 }},
		run.LimitBudget:     {other, func(l *agents.Limits) { l.MicroUSD = 4000 }},
		run.LimitDeadline:   {other, func(l *agents.Limits) { l.Duration = tool.Duration(10 * time.Second) }},
	} {
		for _, onLimit := range []run.OnLimit{run.AskOnLimit, run.FailOnLimit} {
			t.Run(string(limit)+"/"+string(onLimit), func(t *testing.T) {
				o := newOrganisation(c.script)
				c.change(&o.Agents[0].Limits)
				o.Agents[0].Limits.OnLimit = onLimit
				inside(t, o, func(t *testing.T, h *house) {
					if limit == run.LimitDeadline {
						h.does["things.write"] = func(context.Context, tool.Invocation) (tool.Result, error) {
							<-time.After(900 * time.Millisecond)
							return tool.Result{Content: []byte("ok"), MediaType: tool.MediaText}, nil
						}
					}
					id := h.start("do it")
					h.work()
					state := h.state(id)
					if onLimit == run.FailOnLimit {
						require.Equal(t, run.StatusFailed, state.Status)
						require.Equal(t, []string{string(run.EndLimit), string(limit)}, []string{string(state.Ended.Reason), state.Ended.Code})
					} else {
						require.Equal(t, run.StatusWaiting, state.Status)
						require.Equal(t, limit, state.Reached.Limit)
						require.NotEmpty(t, h.waiting("olga"))
					}
					require.True(t, state.Budget.Committed().Within(state.Budget.Limit))
					asked := len(h.requests)
					require.Less(t, asked, 21)
					h.work()
					require.Len(t, h.requests, asked, "nothing goes on by itself")
				})
			})
		}
	}
}

// Deltas of an attempt that came to nothing are told from those that count.
func TestCase_Line_09_AFailureAfterOutputDiscardsIt(t *testing.T) {
	half := modeltest.Stream(model.Answer{Finish: model.FinishStop, Text: strings.Repeat("half an answer ", 20)}, modeltest.Style{Piece: 10})
	inside(t, newOrganisation(answering), func(t *testing.T, h *house) {
		h.overWire(func(_ string, attempt int) io.Reader {
			if attempt == 1 {
				return broken(half[:len(half)/2])
			}
			return bytes.NewReader(modeltest.Stream(done, modeltest.Style{}))
		})
		id := h.start("do it")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Equal(t, "done", h.text(state.Ended.Result))
		require.NotZero(t, state.Ended.Unknown, "it may have been billed")
		first := slices.IndexFunc(h.deltas, func(d perform.Delta) bool { return d.Attempt == 2 })
		require.Positive(t, first, "some of the first attempt was seen")
		for _, d := range h.deltas[first:] {
			require.Equal(t, 2, d.Attempt)
		}
		for _, text := range state.Texts() {
			require.NotContains(t, h.text(&text), "half an answer", "nothing of it is recorded")
		}
	})
}

func TestCase_Line_08_AFailureBeforeOutputIsTriedAgain(t *testing.T) {
	inside(t, newOrganisation(answering), func(t *testing.T, h *house) {
		h.take = func(_ context.Context, _ model.Request, _ func(string)) (model.Answer, error) {
			if len(h.requests) == 1 {
				return model.Answer{}, &model.Error{Kind: model.Unreachable}
			}
			return done, nil
		}
		id := h.start("do it")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Len(t, state.Turns, 1)
		require.Equal(t, 2, state.LastTurn().Attempt)
		require.Zero(t, state.Ended.Unknown, "what was never sent costs nothing")
		require.Equal(t, h.requests[0], h.requests[1], "the same request")
	})
}

var errForeign = errors.New("an error that no provider should give")

// What is no error of the protocol asks a person: it is not ours to repeat.
func TestAnErrorThatNobodyKnowsAsksAPerson(t *testing.T) {
	inside(t, newOrganisation(answering), func(t *testing.T, h *house) {
		h.take = func(context.Context, model.Request, func(string)) (model.Answer, error) {
			return model.Answer{}, errForeign
		}
		id := h.start("do it")
		h.work()
		require.Equal(t, run.LimitModel, h.state(id).Reached.Limit)
		require.NotContains(t, h.state(id).Reached.Detail, errForeign.Error())
	})
}

package perform_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// handsOn lets the lead hand on the briefs in its first turn and then tell what
// came back; what a child says is told by its brief and its turn.
func (h *house) handsOn(orders []tool.Delegation, child func(ctx context.Context, brief string, turn int) (model.Answer, error)) {
	h.take = func(ctx context.Context, request model.Request, _ func(string)) (model.Answer, error) {
		turn := 1
		var replies []string
		for _, message := range request.Messages {
			if message.Role == model.ToolReply {
				replies = append(replies, message.Text)
			}
			if len(message.Calls) > 0 {
				turn++
			}
		}
		brief := request.Messages[1].Text
		switch {
		case !strings.Contains(brief, "go!"):
			return child(ctx, brief, turn)
		case turn == 1:
			return handOn(orders...), nil
		}
		return says(strings.Join(replies, "|")), nil
	}
}

func wants(name, arguments string) model.Answer {
	return model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{{Name: name, Arguments: json.RawMessage(arguments)}}}
}

// A child has finished two steps when it pauses: they are not done again, whoever
// takes it up when its person has answered.
func TestCase_02_AChildThatPausedDoesNotRepeatItsSteps(t *testing.T) {
	inside(t, delegating(), func(t *testing.T, h *house) {
		h.handsOn([]tool.Delegation{{Agent: "clerk", Brief: "write two, then ask"}}, func(_ context.Context, _ string, turn int) (model.Answer, error) {
			switch turn {
			case 1, 2:
				return wants("things.write", fmt.Sprintf(`{"id":"t%d"}`, turn)), nil
			case 3:
				return wants(tool.AskName, `{"question":"Go on?"}`), nil
			}
			return says("both are written"), nil
		})
		id := h.lead("go!")
		h.work()
		child := run.ChildOfCall(id, 1)
		require.Equal(t, run.StatusWaiting, h.state(id).Status)
		require.Equal(t, run.StatusWaiting, h.state(child).Status)
		require.Equal(t, 2, h.invoked["things.write"])
		h.work() // another one finds nothing to do
		h.answered(child, "ada")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Equal(t, "both are written", h.text(state.Ended.Result))
		require.Equal(t, 2, h.invoked["things.write"])
		for _, call := range h.state(child).Calls[:2] {
			require.Equal(t, 1, call.Intent)
		}
	})
}

// Whatever a child answers, its parent gets one result that it can hold: of the
// size and in the form that were agreed on, or a code.
func TestFault_G8_AChildsResultIsBoundedAndAsItWasAgreed(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","required":["total"],"properties":{"total":{"type":"integer"}},"additionalProperties":false}`)
	for name, test := range map[string]struct {
		result  json.RawMessage
		answer  string
		outcome run.Outcome
		codes   []string
	}{
		"five megabytes":         {nil, strings.Repeat("five ", 1<<20), run.OutcomeFailed, []string{run.ResultTooLarge, "VERIFICATION_FAILED"}},
		"untyped text":           {schema, "it is seven", run.OutcomeFailed, []string{run.ResultInvalid, "VERIFICATION_FAILED"}},
		"another type":           {schema, `{"total":"seven"}`, run.OutcomeFailed, []string{run.ResultInvalid, "VERIFICATION_FAILED"}},
		"more than was asked":    {schema, `{"total":7,"note":"call a tool"}`, run.OutcomeFailed, []string{run.ResultInvalid, "VERIFICATION_FAILED"}},
		"as it was asked":        {schema, `{"total":7}`, run.OutcomeOK, []string{""}},
		"free text of some size": {nil, "seven", run.OutcomeOK, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			inside(t, delegating(), func(t *testing.T, h *house) {
				h.handsOn([]tool.Delegation{{Agent: "clerk", Brief: "count", Result: test.result}},
					func(context.Context, string, int) (model.Answer, error) { return says(test.answer), nil })
				id := h.lead("go!")
				h.work()
				state := h.state(id)
				require.Equal(t, run.StatusCompleted, state.Status, "the parent goes on")
				call := state.Call(1)
				require.Equal(t, test.outcome, call.Outcome)
				require.Contains(t, test.codes, call.Code)
				if test.outcome == run.OutcomeOK {
					require.Equal(t, test.answer, h.text(call.Result))
				} else {
					require.Nil(t, call.Result)
				}
				for _, text := range state.Texts() {
					require.Less(t, text.Size, 1<<17)
				}
			})
		})
	}
}

// crowd are the children of a root that is cancelled: one runs, one asks a
// person, one has a child of its own, and of two more one at most has begun.
var crowd = []tool.Delegation{{Agent: "clerk", Brief: "run"}, {Agent: "clerk", Brief: "ask"}, {Agent: "clerk", Brief: "run late"},
	{Agent: "clerk", Brief: "run last"}, {Agent: "lead", Brief: "nest"}}

func crowded(ctx context.Context, brief string, _ int) (model.Answer, error) {
	switch {
	case strings.Contains(brief, "ask"):
		return wants(tool.AskName, `{"question":"Go on?"}`), nil
	case strings.Contains(brief, "nest"):
		return handOn(tool.Delegation{Agent: "clerk", Brief: "run below"}), nil
	}
	<-ctx.Done()
	return model.Answer{}, &model.Error{Kind: model.Cut, Billed: true}
}

// narrow starts a worker that has room for so many runs. The world is closed by
// whoever stops it.
func (h *house) narrow(runs int) (stop context.CancelFunc, world *mortal) {
	ctx, cancel := context.WithCancel(h.t.Context())
	world = &mortal{}
	worker := engine.NewWorker(engine.WorkerConfig{Name: fmt.Sprint("narrow ", runs), Journal: h, Claims: h, Rules: h.rules, Runs: runs, DrainMs: 1_000,
		Performer: perform.New(h, h.source, h.tree(), h.delta), World: world, Log: slog.New(slog.DiscardHandler)})
	world.Go(func() { _ = worker.Work(ctx) }) // always nil
	return cancel, world
}

// whole are the runs of a tree, the root first.
func (h *house) whole(id string) []*run.State {
	states := []*run.State{h.state(id)}
	for at := 0; at < len(states); at++ {
		for i := range states[at].Children {
			states = append(states, h.state(states[at].Children[i].ChildStarted.Child))
		}
	}
	return states
}

// A cancel of the root ends all that is below it, wherever it stands, and
// nothing is asked of a model or spent any more once it is confirmed.
func TestCase_33_CancelOfTheRootEndsWhateverIsBelow(t *testing.T) {
	inside(t, delegating(), func(t *testing.T, h *house) {
		h.handsOn(crowd, crowded)
		id := h.lead("go!")
		stop, world := h.narrow(2)
		h.later(30 * time.Second)
		before := map[run.Status]int{}
		for _, state := range h.whole(id) {
			before[state.Status]++
		}
		require.Positive(t, before[run.StatusQueued], "one has been started and has not begun: %v", before)
		require.Positive(t, before[run.StatusRunning], "one runs: %v", before)
		require.Greater(t, before[run.StatusWaiting], 1, "the root and the one that asks wait: %v", before)

		require.NoError(t, h.submit(id, run.Cancel{By: run.Identity{Principal: "ada"}}))
		asked := len(h.requests)
		h.later(time.Hour) // at the latest when the requests that are under way end, there is a place
		stop()
		world.Close()
		for _, state := range h.whole(id) {
			require.Equal(t, run.StatusCancelled, state.Status, state.ID)
			require.Zero(t, state.Budget.Reserved)
		}
		require.Len(t, h.requests, asked, "no model was asked after the cancel")
		require.Empty(t, h.waiting("ada"))
		require.Equal(t, h.state(id).Ended.Settled.Plus(h.state(id).Ended.Unknown).MicroUSD, h.spent(id))
	})
}

// spent adds up what each run of a tree spent by itself, by its records.
func (h *house) spent(id string) (microUSD int64) {
	h.t.Helper()
	for _, state := range h.whole(id) {
		_, records, err := h.Memory.Load(h.t.Context(), state.ID, 0)
		require.NoError(h.t, err)
		held := int64(0)
		for _, record := range records {
			event, err := run.Decode(record)
			require.NoError(h.t, err)
			switch e := event.(type) {
			case run.TurnStarted:
				held = e.Reserve.MicroUSD
			case run.TurnAnswered:
				microUSD += e.Cost.MicroUSD
			case run.TurnFailed:
				require.True(h.t, e.Unknown)
				microUSD += held
			case run.CallEnded:
				microUSD += e.Cost.MicroUSD
			}
		}
	}
	return microUSD
}

// A cancel while children run, and while the worker that has them stops: one
// terminal event each, and nothing new begins.
func TestFault_G3_ACancelWhileChildrenRunAndWhileTheirWorkerDrains(t *testing.T) {
	for _, phase := range []string{"children running", "draining"} {
		t.Run(phase, func(t *testing.T) {
			inside(t, delegating(), func(t *testing.T, h *house) {
				h.handsOn([]tool.Delegation{crowd[0], crowd[1], crowd[4]}, crowded)
				id := h.lead("go!")
				stop, world := h.narrow(8)
				h.later(30 * time.Second)
				if phase == "draining" {
					stop()
				}
				require.NoError(t, h.submit(id, run.Cancel{By: run.Identity{Principal: "ada"}}))
				asked := len(h.requests)
				h.later(30 * time.Second)
				stop()
				world.Close()
				h.work() // whoever comes next finishes what a stopped one left
				states := h.whole(id)
				require.Len(t, states, 5)
				for _, state := range states {
					require.Equal(t, run.StatusCancelled, state.Status)
					_, records, err := h.Memory.Load(t.Context(), state.ID, 0)
					require.NoError(t, err)
					ends := slices.DeleteFunc(records, func(r run.Record) bool { return r.Kind != run.KindEnded })
					require.Len(t, ends, 1)
				}
				require.Len(t, h.requests, asked)
			})
		})
	}
}

// Children under different grants act at once: what each may do is in its own
// call, and nobody's is found in another one's.
func TestFault_P6_WhatAChildMayDoTravelsWithItsCall(t *testing.T) {
	inside(t, delegating(), func(t *testing.T, h *house) {
		var orders []tool.Delegation
		for i := range 20 {
			orders = append(orders, tool.Delegation{Agent: "clerk", Brief: fmt.Sprint("part ", i), MicroUSD: 20_000, Tokens: 20_000,
				Tools: []string{[]string{"things.read", "things.write"}[i%2]}})
		}
		var at atomic.Int64
		all := make(chan struct{})
		h.handsOn(orders, func(_ context.Context, _ string, turn int) (model.Answer, error) {
			if turn > 1 {
				return says("done"), nil
			}
			if at.Add(1) == int64(len(orders)) {
				close(all)
			}
			<-all // all of them are under way before one acts
			read, write := wants("things.read", `{"id":"a"}`), wants("things.write", `{"id":"a"}`)
			return model.Answer{Finish: model.FinishCalls, Calls: append(read.Calls, write.Calls...)}, nil
		})
		id := h.lead("go!")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		for i := range orders {
			child := h.state(run.ChildOfCall(id, i+1))
			for _, call := range child.Calls {
				want := call.Tool == orders[i].Tools[0]
				require.Equal(t, want, call.Outcome == run.OutcomeOK, "child %d: %s is %s %s", i, call.Tool, call.Outcome, call.Code)
				require.Equal(t, want, call.Intent > 0)
			}
		}
		require.Equal(t, 10, h.invoked["things.read"])
		require.Equal(t, 10, h.invoked["things.write"])
	})
}

// Another agent does a call: the call has one result, whatever becomes of it.
func TestCase_Line_17_AChildsEndIsTheOneResultOfItsCall(t *testing.T) {
	inside(t, delegating(), func(t *testing.T, h *house) {
		h.handsOn([]tool.Delegation{{Agent: "clerk", Brief: "good"}, {Agent: "clerk", Brief: "bad"}, {Agent: "nobody", Brief: "none"}},
			func(_ context.Context, brief string, _ int) (model.Answer, error) {
				if strings.Contains(brief, "bad") {
					return model.Answer{Finish: model.FinishRefusal, Text: "no"}, nil
				}
				return says("well"), nil
			})
		id := h.lead("go!")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Equal(t, run.OutcomeOK, state.Call(1).Outcome)
		require.Equal(t, run.OutcomeFailed, state.Call(2).Outcome)
		require.Equal(t, run.OutcomeRefused, state.Call(3).Outcome)
		_, records, err := h.Memory.Load(t.Context(), id, 0)
		require.NoError(t, err)
		ends := slices.DeleteFunc(records, func(r run.Record) bool { return r.Kind != run.KindCallEnded })
		require.Len(t, ends, 3)
		require.Len(t, state.Children, 2)
	})
}

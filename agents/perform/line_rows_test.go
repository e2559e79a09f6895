package perform_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// What every loop of one's own has to pass, a test for each. Two more stand
// beside the other failures of models.

// together runs n tasks at once and returns their errors.
func together(n int, task func(i int) error) []error {
	errs := make([]error, n)
	var tasks sync.WaitGroup
	for i := range n {
		tasks.Go(func() { errs[i] = task(i) })
	}
	tasks.Wait()
	return errs
}

func TestCase_Line_01_ADuplicateRequestStartsNothing(t *testing.T) {
	inside(t, newOrganisation(writing), func(t *testing.T, h *house) {
		ids := make([]string, 20)
		errs := together(len(ids), func(i int) error {
			order := h.order("do it")
			order.CommandID = "c1"
			admitted, err := h.admission().Start(t.Context(), order)
			ids[i] = admitted.Run
			return err
		})
		for i, err := range errs {
			require.NoError(t, err)
			require.Equal(t, ids[0], ids[i], "everybody is told of the same run")
		}
		h.work()
		require.Len(t, h.requests, 2)
		require.Equal(t, 1, h.invoked["things.write"])
		budget, err := h.Budget(t.Context(), "organisation:o")
		require.NoError(t, err)
		require.Equal(t, h.state(ids[0]).Ended.Settled, budget.Settled)
		require.Zero(t, budget.Reserved)
	})
}

func TestCase_Line_02_MessagesThatComeAtOnceAreAllKeptInOneOrder(t *testing.T) {
	o := newOrganisation(answering)
	inside(t, o, func(t *testing.T, h *house) {
		id := h.start("do it")
		most := o.Agents[0].Limits.Steers
		errs := together(most+4, func(i int) error {
			text, payload := engine.Seal(h.source, id, "ada", policy.Marking{}, fmt.Appendf(nil, "message %d", i))
			return h.submit(id, run.Steer{Steer: text.ID, By: run.Identity{Principal: "ada"}, Text: text}, payload)
		})
		accepted := 0
		for _, err := range errs {
			if err == nil {
				accepted++
				continue
			}
			require.Equal(t, "TOO_MANY_STEERS", refusalOf(t, err).Code)
		}
		require.Equal(t, most, accepted)
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Len(t, h.requests, 1)
		said := h.requests[0].Messages[2:]
		require.Len(t, said, most)
		for i, steer := range state.Steers {
			require.Equal(t, run.Absorbed, steer.Disposition)
			require.Equal(t, h.text(&steer.Text), said[i].Text, "the model reads them as they were recorded")
		}
	})
}

func TestCase_Line_03_ToolsRunSideBySideAndTheirResultsInOrder(t *testing.T) {
	inside(t, newOrganisation(answering), func(t *testing.T, h *house) {
		arrived := make(chan struct{}, 3)
		all := make(chan struct{})
		h.does["things.read"] = func(_ context.Context, i tool.Invocation) (tool.Result, error) {
			arrived <- struct{}{}
			if len(arrived) == 3 {
				close(all) // nobody ends before all of them have begun
			}
			<-all
			return tool.Result{Content: i.Arguments, MediaType: tool.MediaJSON}, nil
		}
		h.inTurns([]model.Proposed{proposed("", "things.read", `{"id":"a"}`), proposed("", "things.read", `{"id":"b"}`), proposed("", "things.read", `{"id":"c"}`)})
		id := h.start("do it")
		h.work()
		require.Equal(t, run.StatusCompleted, h.state(id).Status)
		for i, want := range []string{"a", "b", "c"} {
			require.Equal(t, fmt.Sprintf(`{"id":%q}`, want), model.Unwrap(h.requests[1].Messages[3+i].Text))
		}
	})
}

func TestCase_Line_04_AMalformedCallIsAnswerableAndItsSiblingsRun(t *testing.T) {
	inside(t, newOrganisation(answering), func(t *testing.T, h *house) {
		h.inTurns([]model.Proposed{proposed("", "things.read", `{"id":`), proposed("", "things.read", `{"id":"a","id":"b"}`),
			proposed("", "things.read", `{"Id":"a"}`), proposed("", "things\u200b.read", `{"id":"a"}`), proposed("", "things.read", `{"id":"a"}`)})
		id := h.start("do it")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		codes := make([]string, 0, 5)
		for i := range state.Calls {
			codes = append(codes, state.Calls[i].Code)
		}
		require.Equal(t, []string{"ARGUMENTS_NOT_JSON", "ARGUMENTS_AMBIGUOUS", "ARGUMENTS_INVALID", "UNKNOWN_TOOL", ""}, codes)
		require.Equal(t, 1, h.invoked["things.read"])
	})
	inside(t, newOrganisation(answering), func(t *testing.T, h *house) {
		h.inTurns([]model.Proposed{proposed("", "", `{}`), proposed("", "things.read", `{"id":"a"}`)})
		id := h.start("do it")
		h.work()
		require.Equal(t, run.ClassMalformed, h.state(id).Turns[0].Answer.Class, "a call of nothing spoils the answer")
		require.Empty(t, h.invoked)
	})
}

func TestCase_Line_05_ADenialIsToldAndTheRunGoesOn(t *testing.T) {
	inside(t, held(writing), func(t *testing.T, h *house) {
		id := h.start("do it")
		h.work()
		word := h.word(id, 1, "olga", false)
		reason, payload := engine.Seal(h.source, id, "ada", policy.Marking{}, []byte("not this month"))
		word.Reason = &reason
		require.NoError(t, h.submit(id, word, payload))
		h.work()
		require.Equal(t, run.StatusCompleted, h.state(id).Status)
		require.Empty(t, h.invoked)
		require.Contains(t, h.requests[1].Messages[3].Text, "DENIED: the person who decides said no. Do not try it again.")
		require.Contains(t, h.requests[1].Messages[3].Text, "not this month")
		require.Equal(t, "ALREADY_DECIDED", refusalOf(t, h.submit(id, word)).Code, "no is no")
	})
}

func TestCase_Line_06_AnApprovalIsSpentAfterARestart(t *testing.T) {
	inside(t, held(writing), func(t *testing.T, h *house) {
		id := h.start("do it")
		h.work() // this process ends
		asked := h.state(id).Approvals[0]
		h.reconfigure(h.organisation) // and another one builds everything anew
		h.engine = engine.New(h, h.rules)
		h.decide(id, 1, true)
		h.work()
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Len(t, state.Approvals, 1)
		require.Equal(t, asked.Digest, state.Approvals[0].Digest)
		require.Equal(t, run.ApprovalSpent, state.Approvals[0].Status)
		require.Equal(t, 1, h.invoked["things.write"])
	})
}

func TestCase_Line_07_AnAbortStopsWhatHasNotBegun(t *testing.T) {
	o := newOrganisation(answering)
	o.Agents[0].Limits.CallsAtOnce = 1
	inside(t, o, func(t *testing.T, h *house) {
		h.inTurns([]model.Proposed{proposed("", "things.write", `{"id":"a"}`), proposed("", "things.write", `{"id":"b"}`)})
		var id string
		h.does["things.write"] = func(context.Context, tool.Invocation) (tool.Result, error) {
			require.NoError(h.t, h.submit(id, run.Cancel{By: run.Identity{Principal: "ada"}}))
			return tool.Result{Content: []byte("ok"), MediaType: tool.MediaText}, nil
		}
		id = h.start("do it")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCancelled, state.Status)
		require.Equal(t, []run.Outcome{run.OutcomeOK, run.OutcomeVoid}, []run.Outcome{state.Call(1).Outcome, state.Call(2).Outcome}, "what was done is told, what was not is told apart")
		require.Equal(t, 1, h.invoked["things.write"])
		require.Len(t, h.requests, 1)
		require.Len(t, recorded[run.Ended](h, id), 1)
	})
}

func TestCase_Line_10_ADeadWorkersRunIsTakenOver(t *testing.T) {
	for name, die := range map[string]func(h *house, worker *mortal){
		"while the model answers": func(h *house, worker *mortal) {
			h.take = func(context.Context, model.Request, func(string)) (model.Answer, error) {
				worker.dead.Store(true)
				h.inTurns([]model.Proposed{proposed("", "things.write", `{"id":"a"}`)})
				return done, nil
			}
		},
		"while a tool acts": func(h *house, worker *mortal) {
			h.inTurns([]model.Proposed{proposed("", "things.write", `{"id":"a"}`)})
			h.does["things.write"] = func(context.Context, tool.Invocation) (tool.Result, error) {
				worker.dead.Store(true)
				return tool.Result{Content: []byte("ok"), MediaType: tool.MediaText}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inside(t, newOrganisation(answering), func(t *testing.T, h *house) {
				first := &mortal{}
				die(h, first)
				id := h.start("do it")
				h.workIn(first)
				require.False(t, h.state(id).Status.Ended())
				h.work()
				state := h.state(id)
				require.Equal(t, run.StatusCompleted, state.Status)
				require.Len(t, state.Calls, 1)
				require.Equal(t, run.OutcomeOK, state.Call(1).Outcome)
				for _, i := range h.calls {
					require.Equal(t, state.Call(1).Key, i.Key, "under one key, whoever acts")
				}
			})
		})
	}
}

// Whoever reads a run may leave after any record: from there on comes exactly
// the rest, with the end that happened meanwhile.
func TestCase_Line_13_AReaderThatComesBackReadsExactlyTheRest(t *testing.T) {
	inside(t, held(writing), func(t *testing.T, h *house) {
		id := h.start("do it")
		h.work()
		_, seen, err := h.Load(t.Context(), id, 0)
		require.NoError(t, err)
		h.decide(id, 1, true)
		h.work()
		_, whole, err := h.Load(t.Context(), id, 0)
		require.NoError(t, err)
		require.Equal(t, whole[:len(seen)], seen)
		for at := range whole {
			state := &run.State{ID: id}
			require.NoError(t, run.Replay(state, whole[:at]))
			_, rest, err := h.Load(t.Context(), id, uint64(at))
			require.NoError(t, err)
			require.Len(t, rest, len(whole)-at, "no gap and no repeat")
			require.NoError(t, run.Replay(state, rest))
			require.Equal(t, h.state(id), state)
			require.Equal(t, run.StatusCompleted, state.Status)
		}
	})
}

// A tool whose server is away: what surely did not happen is told to the model,
// what may have happened is tried again only where that is safe.
func TestCase_Line_15_AToolServerThatIsAway(t *testing.T) {
	away := &tool.Failure{Code: tool.FailedUnreachable, Detail: "no connection to the host; nothing was sent"}
	broke := &tool.Failure{Uncertain: true, Code: tool.FailedBroken, Detail: "the connection broke"}
	for name, c := range map[string]struct {
		class   policy.EffectClass
		failure *tool.Failure
		back    int // from which attempt on it is there again; 0: never
		invoked int
		status  run.Status
		outcome run.Outcome
	}{
		"nothing was sent":                {policy.Opaque, away, 0, 1, run.StatusCompleted, run.OutcomeFailed},
		"cut, no key, a person looks":     {policy.Opaque, broke, 0, 1, run.StatusWaiting, ""},
		"cut, with a key, and back":       {policy.Keyed, broke, 3, 3, run.StatusCompleted, run.OutcomeOK},
		"cut, with a key, never back":     {policy.Keyed, broke, 0, 3, run.StatusWaiting, ""},
		"cut, then away: not known still": {policy.Keyed, broke, 0, 3, run.StatusWaiting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrganisation(writing)
			write(&o).Class = c.class
			inside(t, o, func(t *testing.T, h *house) {
				h.does["things.write"] = func(context.Context, tool.Invocation) (tool.Result, error) {
					attempt := len(h.calls)
					switch {
					case c.back > 0 && attempt >= c.back:
						return tool.Result{Content: []byte("ok"), MediaType: tool.MediaText}, nil
					case name == "cut, then away: not known still" && attempt > 1:
						return tool.Result{}, away
					}
					return tool.Result{}, c.failure
				}
				id := h.start("do it")
				h.work()
				state := h.state(id)
				require.Equal(t, c.status, state.Status)
				require.Equal(t, c.outcome, state.Call(1).Outcome)
				require.Equal(t, c.invoked, h.invoked["things.write"])
				require.Equal(t, c.status == run.StatusWaiting, len(h.waiting("carl")) == 1)
				if c.outcome == run.OutcomeFailed {
					require.Contains(t, h.requests[1].Messages[3].Text, "Code TOOL_UNREACHABLE.")
				}
			})
		})
	}
}

func TestCase_Line_16_ASpentBudgetStopsBeforeTheNextRequest(t *testing.T) {
	inside(t, newOrganisation(`def turn(ctx): return {"calls": [{"name": "things.read", "arguments": {"id": "a%d" % ctx.turn}}]}`), func(t *testing.T, h *house) {
		order := h.order("do it")
		order.MicroUSD = 4000
		admitted, err := h.admission().Start(t.Context(), order)
		require.NoError(t, err)
		h.work()
		state := h.state(admitted.Run)
		require.Equal(t, run.LimitBudget, state.Reached.Limit)
		require.Positive(t, len(h.requests))
		require.True(t, state.Budget.Committed().Within(state.Budget.Limit))
		require.Equal(t, []engine.InboxKind{engine.InboxLimit}, h.waiting("olga"))
		asked := len(h.requests)
		h.later(time.Hour)
		h.work()
		require.Len(t, h.requests, asked)
		require.NoError(t, h.submit(admitted.Run, run.Resume{By: run.Identity{Principal: "olga"}, Person: h.person("olga"), Amount: run.Amount{MicroUSD: 2000}}))
		h.work()
		require.Greater(t, len(h.requests), asked, "more was granted, so it goes on")
		require.Equal(t, run.LimitBudget, h.state(admitted.Run).Reached.Limit)
	})
}

// Nobody has met this conversation: the limit that all conversations begin with
// bounds the first runs that come at once, however they interleave.
func TestFault_H2_TheFirstRunsOfANewConversationShareItsDefaultBudget(t *testing.T) {
	inside(t, newOrganisation(answering), func(t *testing.T, h *house) {
		for node, limit := range map[string]int64{"organisation:o": 1 << 40, "department:o/d": 1 << 40, h.organisation.ConversationNode(): 3_500_000} {
			require.NoError(t, h.SetBudget(t.Context(), node, run.Amount{MicroUSD: limit, Tokens: limit}))
		}
		for i := range 2 {
			require.NoError(t, h.Converse(t.Context(), "o", fmt.Sprint("conversation", i)))
		}
		errs := together(30, func(i int) error {
			order := h.order("do it")
			order.Conversation = fmt.Sprint("conversation", i%2)
			_, err := h.admission().Start(t.Context(), order)
			return err
		})
		admitted := map[int]int{}
		for i, err := range errs {
			if err == nil {
				admitted[i%2]++
				continue
			}
			require.Equal(t, "BUDGET", refusalOf(t, err).Code)
		}
		require.Equal(t, map[int]int{0: 3, 1: 3}, admitted, "three runs of a million each, of three and a half")
		for i := range 2 {
			budget, err := h.Budget(t.Context(), h.organisation.Accounts("d", fmt.Sprint("conversation", i), time.Now().UnixMilli())[0])
			require.NoError(t, err)
			require.Equal(t, int64(3_000_000), budget.Reserved.MicroUSD)
		}
	})
}

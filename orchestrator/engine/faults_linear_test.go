package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/run"
)

// crowd is many people at the same runs at the same time, through one or more
// processes. What each was told, and when, is kept.
type crowd struct {
	*ordeal
	engines []*engine.Engine
	clock   atomic.Int64 // orders calls and returns
	mu      sync.Mutex
	history []porcupine.Operation
}

// word is what somebody asks of a run. The same id is the same command again.
type word struct {
	run, kind, by, id string
}

// told is what came of it.
type told struct {
	code  string  // of the refusal; "REPLAYED" for a repeat
	saw   outline // of a read
	names string  // who decided, as somebody who came too late is told
}

// outline is a run as its people see it.
type outline struct {
	decided   string // by whom, and what
	steers    int
	cancelled bool
	accepted  string // ids of the commands that were accepted, each between spaces
}

func newCrowd(t *testing.T, stores ...*journal.Store) *crowd {
	c := &crowd{ordeal: newOrdeal(t, &lane{nowMs: ordealStartMs}, stores[0], func(p port) port { return p })}
	for _, store := range stores {
		c.engines = append(c.engines, engine.New(store, c.sourceOfRules))
	}
	return c
}

// held takes a run to where its one call waits for an approval.
func (c *crowd) held(id string) {
	for _, step := range []run.Command{nil, run.BeginTurn{Model: "m", Prompt: "p", Reserve: run.Amount{MicroUSD: 1, Tokens: 1}}} {
		var payloads []engine.Payload
		if step == nil {
			step, payloads = c.starts(id)(nil)
		}
		c.send(id, step, payloads...)
	}
	text, payload := c.seal(id, "{}")
	facts, _ := c.rules.Tool("held.opaque")
	c.send(id, run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassCalls, Cost: run.Amount{MicroUSD: 1, Tokens: 1}, Calls: []run.Proposal{{Tool: facts.Name,
		Text: text, Fingerprint: text.ID, Revision: facts.Revision, Impact: facts.Impact, Class: facts.Class, Approval: c.source.ID(), Nonce: "n", Inputs: inputs()}}}, payload)
}

func (c *crowd) send(id string, command run.Command, payloads ...engine.Payload) {
	_, err := c.engines[0].Submit(c.t.Context(), engine.Submission{Organisation: "o", Run: id, Command: command, Payloads: payloads})
	require.NoError(c.t, err)
}

// say has one word with a run and keeps what came of it.
func (c *crowd) say(client int, w word, approval *run.Approval) {
	e := c.engines[client%len(c.engines)]
	op := porcupine.Operation{ClientId: client, Input: w, Call: c.clock.Add(1)}
	var out told
	if w.kind == "read" {
		state, err := e.State(c.t.Context(), w.run)
		if err != nil {
			out.code = err.Error()
		} else {
			out.saw = outlined(state)
		}
	} else {
		command, payloads := c.command(w, approval)
		_, err := e.Submit(c.t.Context(), engine.Submission{Organisation: "o", Run: w.run, Command: command, Payloads: payloads,
			Receipt: &engine.Receipt{Organisation: "o", Caller: w.by, Command: w.run + "/" + w.id, Run: w.run, Answer: []byte("{}")}})
		out = answered(err)
	}
	op.Output, op.Return = out, c.clock.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, op)
}

func (c *crowd) command(w word, approval *run.Approval) (run.Command, []engine.Payload) {
	switch w.kind {
	case "steer":
		text, payload := c.seal(w.run, "rather this way")
		return run.Steer{Steer: text.ID, By: run.Identity{Principal: w.by}, Text: text}, []engine.Payload{payload}
	case "cancel":
		return run.Cancel{By: run.Identity{Principal: w.by}}, nil
	}
	return run.DecideApproval{Approval: approval.Approval, Digest: approval.Digest, Granted: w.kind == "approve",
		By: run.Identity{Principal: w.by}, Person: person(w.by)}, nil
}

func answered(err error) told {
	var refusal *run.Refusal
	switch {
	case err == nil:
		return told{}
	case errors.Is(err, engine.ErrReplayed):
		return told{code: "REPLAYED"}
	case errors.As(err, &refusal):
		_, names, _ := strings.Cut(refusal.Error(), "decided by ")
		return told{code: refusal.Code, names: strings.TrimSuffix(names, ".")}
	}
	return told{code: err.Error()}
}

func outlined(s *run.State) outline {
	saw := outline{steers: len(s.Steers), cancelled: s.Cancel != nil}
	for _, decision := range s.Approvals[0].Decisions {
		saw.decided = fmt.Sprint(decision.By.Principal, " ", decision.Granted)
	}
	return saw
}

// people is how a run answers its people when they come one after the other.
var oneAfterTheOther = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byRun := map[string][]porcupine.Operation{}
		for _, op := range history {
			id := op.Input.(word).run
			byRun[id] = append(byRun[id], op)
		}
		parts := make([][]porcupine.Operation, 0, len(byRun))
		for _, part := range byRun {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return outline{} },
	Step: func(state, input, output any) (bool, any) {
		s, w, out := state.(outline), input.(word), output.(told)
		if w.kind == "read" {
			out.saw.accepted = s.accepted
			return out.saw == s, s
		}
		if strings.Contains(s.accepted, " "+w.by+"/"+w.id+" ") {
			return out.code == "REPLAYED", s
		}
		if s.cancelled {
			return out.code == "RUN_ENDED" || out.code == "RUN_CANCELLED", s
		}
		return s.takes(w, out)
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// takes is what a run that is not cancelled does with a word.
func (s outline) takes(w word, out told) (bool, any) {
	next := s
	switch {
	case w.kind == "steer" && s.steers == 4:
		return out.code == "TOO_MANY_STEERS", s
	case w.kind == "steer":
		next.steers++
	case w.kind == "cancel":
		next.cancelled = true
	case s.decided != "":
		by, _, _ := strings.Cut(s.decided, " ")
		return out.code == "ALREADY_DECIDED" && out.names == by, s
	default:
		next.decided = fmt.Sprint(w.by, " ", w.kind == "approve")
	}
	next.accepted += " " + w.by + "/" + w.id + " "
	return out.code == "", next
}

// goOn lets a crowd loose on runs and holds what all were told against the
// order in which they may have come.
func (c *crowd) goOn(runs int) {
	var words []word
	approvals := map[string]*run.Approval{}
	for i := range runs {
		id := fmt.Sprint("run", i)
		c.held(id)
		state, err := c.engines[0].State(c.t.Context(), id)
		require.NoError(c.t, err)
		approvals[id] = &state.Approvals[0]
		words = append(words, []word{{id, "approve", "approver-1", "yes"}, {id, "approve", "approver-1", "yes"}, {id, "approve", "approver-2", "yes"},
			{id, "deny", "approver-3", "no"}, {id, "steer", "ada", "s1"}, {id, "steer", "ada", "s1"}, {id, "steer", "bob", "s1"}, {id, "read", "", ""}, {id, "read", "", ""}}...)
		if i%3 > 0 {
			words = append(words, word{id, "cancel", "ada", "stop"}, word{id, "cancel", "ada", "stop"}, word{id, "cancel", "bob", "stop"})
		}
	}
	together(len(words), func(i int) error { c.say(i, words[i], approvals[words[i].run]); return nil })
	c.linear()
}

func (c *crowd) linear() {
	c.t.Helper()
	result := porcupine.CheckOperationsTimeout(oneAfterTheOther, c.history, time.Minute)
	if result != porcupine.Ok {
		c.tellStory()
	}
	require.Equal(c.t, porcupine.Ok, result, "no order explains what people were told")
	accepted := 0
	for _, op := range c.history {
		if op.Output.(told).code == "" {
			accepted++
		}
	}
	require.Positive(c.t, accepted)
	fmt.Printf("level: L3 words in one order %d\n", len(c.history))
	c.audit()
	require.Empty(c.t, c.found)
}

// tellStory lists what was said to the first run whose history no order explains.
func (c *crowd) tellStory() {
	for _, part := range oneAfterTheOther.Partition(c.history) {
		if porcupine.CheckOperationsTimeout(oneAfterTheOther, part, time.Minute) == porcupine.Ok {
			continue
		}
		for _, op := range part {
			c.t.Logf("%d..%d %s", op.Call, op.Return, oneAfterTheOther.DescribeOperation(op.Input, op.Output))
		}
		return
	}
}

func sqliteCrowd(t *testing.T) *crowd {
	store, err := journal.Open(t.Context(), journal.Config{DSN: "sqlite:" + freshFile(t), MasterKey: ordealKey,
		Clock: func() int64 { return ordealStartMs }, Between: journaltest.Hasty})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return newCrowd(t, store)
}

// Approve, deny, cancel, steer and their repeats, at once.
func TestFault_F3_WhatRacingPeopleAreToldIsOneStory(t *testing.T) { sqliteCrowd(t).goOn(30) }

// hundred lets a hundred people approve at once, some of them twice.
func (c *crowd) hundred() {
	c.held("run0")
	state, err := c.engines[0].State(c.t.Context(), "run0")
	require.NoError(c.t, err)
	together(100, func(i int) error {
		w := word{"run0", "approve", fmt.Sprint("approver-", i*2/3), "yes"}
		c.say(i, w, &state.Approvals[0])
		return nil
	})
	c.linear()
	after, err := c.engines[0].State(c.t.Context(), "run0")
	require.NoError(c.t, err)
	require.Len(c.t, after.Approvals[0].Decisions, 1)
	first := told{}
	for _, op := range c.history {
		if op.Output.(told).code == "" {
			require.Empty(c.t, first.names, "one is told that it counted")
			first.names = op.Input.(word).by
		}
	}
	require.Equal(c.t, first.names, after.Approvals[0].Decisions[0].By.Principal)
}

func TestFault_F1_OfAHundredConcurrentApprovalsOneCounts(t *testing.T) { sqliteCrowd(t).hundred() }

// A repeated command is accepted once, whichever of its copies comes first.
func (c *crowd) repeats() {
	c.held("run0")
	together(60, func(i int) error {
		c.say(i, word{"run0", "steer", []string{"ada", "bob"}[i%2], fmt.Sprint("s", i%3)}, nil)
		return nil
	})
	c.linear()
	state, err := c.engines[0].State(c.t.Context(), "run0")
	require.NoError(c.t, err)
	require.Len(c.t, state.Steers, 4, "six commands, of which four find room")
}

func TestFault_J14_CopiesOfACommandCountOnce(t *testing.T) { sqliteCrowd(t).repeats() }

// carve is a run that asks its account for its budget, or gives it back.
type carve struct{ kind, run string }

// account is what one account has promised, when runs come one after the other.
func account(most int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) }, // what is held; a run stops only after it was started
		Step: func(state, input, output any) (bool, any) {
			held, out, one := state.(int64), output.(string), authority().MicroUSD
			switch kind := input.(carve).kind; {
			case kind == "read":
				return out == fmt.Sprint(held), held
			case kind == "stop":
				return out == "", held - one
			case held+one > most:
				return out == "no budget", held
			}
			return out == "", held + one
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %v", input, output) },
	}
}

// carves lets runs of one account start and stop at once.
func (c *crowd) carves() {
	const room = 4
	most := room * authority().MicroUSD
	require.NoError(c.t, c.store.SetBudget(c.t.Context(), "department:o/d", run.Amount{MicroUSD: most, Tokens: 1 << 40}))
	var mu sync.Mutex
	var history []porcupine.Operation
	do := func(client int, w carve, does func() string) {
		op := porcupine.Operation{ClientId: client, Input: w, Call: c.clock.Add(1)}
		out := does()
		op.Output, op.Return = out, c.clock.Add(1)
		mu.Lock()
		defer mu.Unlock()
		history = append(history, op)
	}
	together(16, func(i int) error {
		id, e := fmt.Sprint("run", i), c.engines[i%len(c.engines)]
		submit := func(command run.Command, payloads ...engine.Payload) string {
			_, err := e.Submit(context.WithoutCancel(c.t.Context()), engine.Submission{Organisation: "o", Run: id, Command: command, Payloads: payloads})
			switch {
			case errors.Is(err, run.ErrBudget):
				return "no budget"
			case err != nil:
				return err.Error()
			}
			return ""
		}
		started := ""
		do(i, carve{"start", id}, func() string {
			command, payloads := c.starts(id)(nil)
			started = submit(command, payloads...)
			return started
		})
		do(i, carve{"read", ""}, func() string {
			b, err := c.store.Budget(c.t.Context(), "department:o/d")
			if err != nil {
				return err.Error()
			}
			return fmt.Sprint(b.Reserved.MicroUSD)
		})
		if started == "" {
			do(i, carve{"stop", id}, func() string { return submit(run.Cancel{By: run.Identity{Principal: "ada"}}) })
		}
		return nil
	})
	require.Equal(c.t, porcupine.Ok, porcupine.CheckOperationsTimeout(account(most), history, time.Minute), "no order explains what runs were given")
	b, err := c.store.Budget(c.t.Context(), "department:o/d")
	require.NoError(c.t, err)
	require.Zero(c.t, b.Reserved)
	c.audit()
	require.Empty(c.t, c.found)
}

func TestFault_H2_ReservationsOfRacingRunsAreInOneOrder(t *testing.T) { sqliteCrowd(t).carves() }

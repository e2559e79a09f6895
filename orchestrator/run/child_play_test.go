package run_test

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// delegateOf is the agent that a call of the tool is for.
func delegateOf(tool string) string {
	if tool == "delegate" || tool == "delegate-held" {
		return "b"
	}
	return ""
}

// below is the same run as a child of another one.
func below(started run.Started) run.Started {
	started.RunKind, started.Root, started.Parent, started.Accounts = run.SubAgent, "r0", "r0", nil
	started.Lineage = []run.Link{{Run: "r0", Agent: "above"}}
	started.Chain = []string{"ada", "agent:above", "agent:a"}
	started.Task = &run.Task{Call: 1, Lands: run.LandsAsResult, ResultBytes: 1000}
	started.Limits.OnLimit = run.FailOnLimit
	return started
}

// spawned is a child that is ready to do a call, with a budget of its own.
func spawned(s *run.State, call int, carve run.Amount) *run.Spawn {
	return &run.Spawn{Child: run.ChildOfCall(s.ID, call), RunKind: run.SubAgent, Agent: "b", Revision: "b1", Snapshot: "inputs", Carve: carve,
		Authority: policy.Authority{MicroUSD: carve.MicroUSD, Tokens: carve.Tokens, DeadlineMs: s.Authority.DeadlineMs, Turns: 1}}
}

// delegates begins a call that a child does with a budget in micro-dollars.
func (w *world) delegates(call int, carve int64) run.Decision {
	w.t.Helper()
	decision := w.do(delegated(call, carve)(w))
	require.Equal(w.t, run.CallDelegated, w.s.Call(call).Phase)
	return decision
}

func delegated(call int, carve int64) func(*world) run.Command {
	return func(w *world) run.Command {
		return run.BeginCall{Epoch: 1, Call: call, Key: fmt.Sprint(call), Inputs: noArguments, Child: spawned(w.s, call, run.Amount{MicroUSD: carve, Tokens: 10})}
	}
}

// reviewing is a child that is ready to review something.
func reviewing(s *run.State, of string, carve run.Amount) *run.Spawn {
	child := spawned(s, 0, carve)
	child.Child, child.RunKind, child.Purpose = run.ChildOfReview(s.ID, of), run.Sidecar, run.ForCheck
	return child
}

// spawn draws a child, now and then one that asks for too much.
func (p *player) spawn(call int) *run.Spawn {
	child := spawned(p.s, call, p.amount("carve"))
	child.Authority.RunsAtOnce, child.Authority.Depth = p.upTo("child's runs", 2), p.upTo("child's depth", 1)
	if p.upTo("wrong carve", 9) == 0 {
		child.Carve.Tokens++
	}
	return child
}

var childEnds = []run.Status{run.StatusCompleted, run.StatusCompleted, run.StatusPartial, run.StatusFailed, run.StatusCancelled, run.StatusRunning}

// children brings ends of children, also what ended before or never was there,
// or tells one to stop.
func (p *player) children() {
	if len(p.s.Children) == 0 {
		p.send(run.ReportStopped{Child: "nobody"})
		return
	}
	var ends []run.ChildEnd
	for range 1 + p.upTo("ends", 2) {
		child := p.s.Children[p.upTo("child", len(p.s.Children)-1)]
		result := p.text()
		end := run.ChildEnd{ChildEnded: run.ChildEnded{Child: child.ChildStarted.Child, Status: rapid.SampledFrom(childEnds).Draw(p.t, "child's end"),
			Reason: run.EndVerified, Result: &result, Settled: p.part(child.Carve), Head: p.id(), Passed: p.chance("passed")}}
		end.Unknown = p.part(child.Carve.Minus(end.Settled))
		if p.upTo("overrun", 9) == 0 {
			end.Settled = child.Carve.Plus(run.Amount{MicroUSD: 1})
			end.Unknown = run.Amount{}
		}
		if p.upTo("fault", 5) == 0 {
			end.Fault = run.ResultTooLarge
		}
		ends = append(ends, end)
	}
	if p.upTo("stop", 9) == 0 {
		p.send(run.ReportStopped{Child: ends[0].Child})
		return
	}
	p.send(run.ReportChildren{Ends: ends})
}

// part draws some of an amount.
func (p *player) part(of run.Amount) run.Amount {
	return run.Amount{MicroUSD: int64(p.upTo("part", int(of.MicroUSD))), Tokens: int64(p.upTo("part", int(of.Tokens)))}
}

// ended is the end of a child that gave a result.
func ended(s *run.State, call int, status run.Status, settled run.Amount) run.ChildEnd {
	return run.ChildEnd{ChildEnded: run.ChildEnded{Child: run.ChildOfCall(s.ID, call), Status: status, Reason: run.EndVerified,
		Result: &run.Text{ID: fmt.Sprint("result", call)}, Settled: settled, Head: "head"}}
}

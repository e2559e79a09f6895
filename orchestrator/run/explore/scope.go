// Package explore walks every state that a run of small scope can reach, over
// the production rules: two workers, a journal, an outside that counts effects,
// people, time and crashes. It says where a promise is broken and from where
// no end can be reached.
package explore

import (
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Scope bounds one walk: what the model proposes in its first turn, and how
// often each disturbance may happen.
type Scope struct {
	Name       string
	Calls      []Proposed
	Claims     int // leases handed out in all; each beyond the first is a takeover
	Steers     int
	Voids      bool // the steers void open approvals and interrupt the turn in flight
	Cancels    int
	Changes    int           // of the policy set, while the run lives
	Becomes    policy.Answer // what a changed policy says of every call; empty: what it said before
	Duplicates int           // outcomes that are reported twice
	Failures   int           // of model requests
	Outages    int           // times that no model can be asked
	Hedges     int           // turns with a second model
	Unknowns   int           // tool outcomes that the worker itself cannot tell
	Repeats    int           // times that a person asks for a repeat
	Parks      int
	Closings   int          // the tree that the run stands in may act no more; the cancel comes later
	Strays     bool         // workers speak of attempts that nobody made
	Retools    bool         // a changed policy comes with another definition of every tool
	Expiries   bool         // approvals and questions may run out
	Unchecked  int          // completion checks that could not be made
	Wrong      int          // completion checks that failed
	Refusal    bool         // the model may refuse
	Poor       bool         // the budget covers no turn until somebody raises it
	Below      bool         // the run is a child of another one, and its time may be over
	Branches   bool         // its children are branches of one piece of work
	Runs       int          // children that may live at once
	Fates      []run.Status // how children end by themselves; none: as completed
	Declines   int          // calls that turn out not to be delegable
	Reviewed   bool         // so is the answer
	Asks       int          // times that the server of a call asks a person, or may not
	Beside     bool         // a sidecar goes on beside the run
	Briefs     int          // times that its prompts get shorter
	TooLong    int          // prompts that the model cannot take
	Limits     run.Limits
}

// Proposed is one call of the first turn.
type Proposed struct {
	Tool  string
	Class policy.EffectClass
	Held  bool // policy holds it for a person
	Asks  bool // it is a question
	Child bool // another agent is to do it
	Wants bool // the run was not given the tool and has to ask for it
	Only  bool // it does nothing but ask for it

	Elicits bool // its server may ask a person first

	Reviewed bool // a checking sidecar looks before it is attempted
	Guards   bool // and before anything else of the turn is
}

const (
	startMs    = 1_000
	deadlineMs = 1_000_000_000
	turnCost   = 7
	callCost   = 3
)

// DefaultLimits are limits that no walk meets by itself.
func DefaultLimits() run.Limits {
	return run.Limits{Turns: 4, CallsPerTurn: 4, CallsAtOnce: 2, TurnAttempts: 3, CallAttempts: 3, NoProgress: 9,
		RepairTurns: 2, CheckAttempts: 2, Steers: 2, ApprovalMs: 500, QuestionMs: 500, TurnMs: 100, OnLimit: run.AskOnLimit}
}

// authority is what the run is admitted with, or has with all that it was given.
func (s Scope) authority(given bool) policy.Authority {
	tools := map[string]policy.ToolGrant{}
	for _, call := range s.Calls {
		if call.Wants && given {
			tools[call.wanted()] = policy.ToolGrant{Revision: "r1", Impact: policy.Irreversible, Calls: 9}
		}
		if call.Wants && !call.Only {
			continue
		}
		tools[call.Tool] = policy.ToolGrant{Revision: "r1", Impact: policy.Irreversible, Calls: 9}
	}
	money := int64(1_000)
	if s.Poor {
		money = 1
	}
	return policy.Authority{Tools: tools, MicroUSD: money, Tokens: 1_000, DeadlineMs: deadlineMs, Turns: 9,
		Depth: 1, FanOut: 2, RunsAtOnce: s.Runs, CallsAtOnce: 2, Stage: policy.Automate}
}

func (s Scope) start() run.Start {
	started := run.Started{Organisation: "acme", RunKind: run.Root, Root: "run", Subject: policy.Principal{ID: "asker"},
		Chain: []string{"asker", "agent"}, Agent: policy.AgentFacts{Name: "agent", Revision: "a1", Owner: "owner"}, Contact: "owner",
		Goal: run.Text{ID: "goal"}, SnapshotDigest: "snapshot", Authority: s.authority(false), Limits: s.Limits, Checks: []string{"done"},
		Accounts: []string{"acme"}, Branches: s.Branches}
	for _, call := range s.Calls {
		if call.Reviewed {
			started.Reviewers = append(started.Reviewers, run.Reviewer{Of: call.Tool, Agent: "child", Guards: call.Guards})
		}
	}
	if s.Reviewed {
		started.Reviewers = append(started.Reviewers, run.Reviewer{Of: run.ReviewsAnswer, Agent: "child"})
	}
	if s.Beside {
		started.Sidecars = []run.Beside{{Agent: "child", Purpose: run.ForMonitor, Lands: run.LandsAsEvidence}}
	}
	if s.Briefs > 0 {
		started.Snapshot.Compiler = run.CompactingCompiler
	}
	if s.Below {
		started = below(started)
	}
	return run.Start{Started: started}
}

func (s Scope) proposals() []run.Proposal {
	var proposals []run.Proposal
	for i, call := range s.Calls {
		id := string(rune('a' + i))
		agent := ""
		if call.Child {
			agent = "child"
		}
		proposals = append(proposals, run.Proposal{Delegate: agent, Tool: call.Tool, Text: run.Text{ID: "args-" + id, Commitment: id},
			Fingerprint: id, Revision: "r1", Impact: policy.Reversible, Class: call.Class, CostBound: callCost, Asks: call.Asks,
			Inputs: run.CallInputs{Arguments: []byte(`{}`)}, Approval: "approval-" + id, Nonce: "nonce-" + id,
			Requests: call.Only, Want: call.want(), To: call.owners()})
	}
	return proposals
}

// owners are who may let the run use what it asks for.
func (p Proposed) owners() []policy.Approver {
	if !p.Wants {
		return nil
	}
	return []policy.Approver{{Principal: "owner", Why: "tool owner"}}
}

// want is what the run asks for with the call, nil for nothing.
func (p Proposed) want() *run.Want {
	if !p.Wants {
		return nil
	}
	return &run.Want{Thing: run.ThingTool, Name: p.wanted(), Gives: policy.Authority{
		Tools: map[string]policy.ToolGrant{p.wanted(): {Revision: "r1", Impact: policy.Irreversible, Calls: 9}}}}
}

// wanted is the tool that the run asks for: that of the call, unless the call is
// nothing but the request.
func (p Proposed) wanted() string {
	if p.Only {
		return p.Tool + "-wanted"
	}
	return p.Tool
}

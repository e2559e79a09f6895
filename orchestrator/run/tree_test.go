package run_test

import (
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// lineRules are the rules of an organisation as it compiles them: each agent
// has an authority of its own, the agents of a line no more than each of them,
// one after the other, but for what grants in force add.
type lineRules struct {
	own    map[string]policy.Authority // by agent
	grants map[string]policy.Authority
}

func (lineRules) Revision() string       { return "config" }
func (lineRules) PolicyRevision() string { return "p1" }
func (lineRules) Judge(policy.Request) policy.Verdict {
	return policy.Verdict{Answer: policy.Permit, Revision: "p1"}
}
func (lineRules) Tool(name string) (policy.ToolFacts, bool) {
	return policy.ToolFacts{Name: name, Revision: "r1", Owner: "olga", Impact: policy.ImpactRead, Class: policy.ClassRead}, true
}
func (lineRules) Voices(_ []policy.Approver, person policy.Principal, _ []string, _ int64) ([]string, error) {
	if person.ID != "olga" {
		return nil, errors.New("only olga decides")
	}
	return []string{person.ID}, nil
}
func (r lineRules) Ceiling(acting run.Acting) policy.Authority {
	var ceiling policy.Authority
	for i, link := range acting.Links {
		above, own := ceiling, r.own[link.Agent]
		switch {
		case i > 0:
			above.Depth--
		case acting.Under != nil:
			above = *acting.Under
		default:
			above = own
		}
		if link.Grant != "" && (i > 0 || acting.Under != nil) {
			given, inForce := r.grants[link.Grant]
			if !inForce {
				return policy.Authority{}
			}
			above, own = policy.Widen(above, given), policy.Widen(own, given)
		}
		ceiling = policy.Meet(above, own)
	}
	return ceiling
}

// tree is a run with everything below it. Each run decides by itself; what one
// tells another may come at any time.
type tree struct {
	t       rapid.TB
	rules   lineRules
	nowMs   int64
	epoch   uint64
	ids     int
	nodes   []*node // the root first
	account run.BudgetMove
	met     map[string]int // outcomes of delegated calls, by code
	intents []*node        // that began an attempt of a tool, in their order
}

// node is one run, with what it paid itself, counted apart.
type node struct {
	s                *run.State
	above            *node
	settled, unknown run.Amount
}

func plant(t rapid.TB, rules lineRules, given policy.Authority, limits run.Limits) *tree {
	w := &tree{t: t, rules: rules, nowMs: 1000, epoch: 1, met: map[string]int{}}
	root := &node{s: &run.State{ID: "root"}}
	w.nodes = []*node{root}
	require.Nil(t, w.send(root, run.Start{Started: run.Started{Organisation: "o", RunKind: run.Root, Root: "root", Subject: policy.Principal{ID: "ada", Organisation: "o"},
		Chain: []string{"ada", "agent:a0"}, Agent: policy.AgentFacts{Name: "a0", Owner: "olga"}, Contact: "olga", Goal: run.Text{ID: "goal"},
		Authority: given, Limits: limits, Checks: []string{"output"}, Accounts: []string{"acme"}}}))
	return w
}

func treeLimits() run.Limits {
	return run.Limits{Turns: 9, CallsPerTurn: 100, CallsAtOnce: 100, TurnAttempts: 3, CallAttempts: 3, RepairTurns: 3, CheckAttempts: 3, Steers: 1,
		ApprovalMs: 500, QuestionMs: 500, TurnMs: 100, OnLimit: run.FailOnLimit}
}

// send decides a command and folds it; where it starts a child, that starts in
// the same write.
func (w *tree) send(n *node, command run.Command) *run.Refusal {
	decision, refusal := run.Decide(n.s, command, run.Env{NowMs: w.nowMs, Rules: w.rules})
	for _, event := range decision.Events {
		w.book(n, event)
		require.NoError(w.t, run.Apply(n.s, event), "%#v after %#v", event, command)
	}
	for _, m := range decision.Budget {
		w.account.Reserve, w.account.Settle, w.account.Unknown = w.account.Reserve.Plus(m.Reserve), w.account.Settle.Plus(m.Settle), w.account.Unknown.Plus(m.Unknown)
	}
	if begin, attempts := command.(run.BeginCall); attempts && begin.Child != nil && n.s.Child(begin.Child.Child) != nil && refusal == nil {
		w.birth(n, begin)
	}
	w.hold()
	return refusal
}

// book counts what a run pays itself.
func (w *tree) book(n *node, event run.Event) {
	switch e := event.(type) {
	case run.TurnAnswered:
		n.settled = n.settled.Plus(e.Cost)
	case run.TurnFailed:
		n.unknown = n.unknown.Plus(keptOf(e, n.s.LastTurn().Reserve, n.s.LastTurn().Hedge))
	case run.CallIntended:
		if n.s.Call(e.Call).Delegate == "" {
			w.intents = append(w.intents, n)
		}
	case run.CallUncertain:
		if !e.Ask && !n.s.Closing() {
			n.unknown = n.unknown.Plus(n.s.Call(e.Call).Reserve) // of a read, which is repeated
		}
	case run.CallEnded:
		switch call := n.s.Call(e.Call); {
		case e.Unknown:
			n.unknown = n.unknown.Plus(call.Reserve)
		case call.Delegate != "":
			w.met[string(e.Outcome)+" "+e.Code]++
		default:
			n.settled = n.settled.Plus(e.Cost)
		}
	}
}

func (w *tree) birth(above *node, begin run.BeginCall) {
	spawn, up := begin.Child, above.s.Started
	child := &node{s: &run.State{ID: spawn.Child}, above: above}
	w.nodes = append(w.nodes, child)
	limits := treeLimits()
	lineage := append(append([]run.Link(nil), up.Lineage...), run.Link{Run: above.s.ID, Agent: up.Agent.Name, Grant: up.Grant})
	require.Nil(w.t, w.send(child, run.Start{Started: run.Started{Organisation: "o", RunKind: spawn.RunKind, Root: "root", Parent: above.s.ID, Subject: up.Subject,
		Chain: append(append([]string(nil), up.Chain...), "agent:"+spawn.Agent), Agent: policy.AgentFacts{Name: spawn.Agent, Owner: "olga"}, Contact: "olga",
		Goal: run.Text{ID: "task"}, Authority: spawn.Authority, Limits: limits, Checks: []string{"output"}, Lineage: lineage, Grant: spawn.Grant,
		Task: &run.Task{Call: begin.Call, Lands: run.LandsAsResult, ResultBytes: 1000}}}), "an intent without its child")
}

// hold looks at every run: nobody has committed more than its limit, and what
// a parent holds for its children is what they have.
func (w *tree) hold() {
	live := map[*node]int{}
	for _, n := range w.nodes[1:] {
		if n.s.Version > 0 && n.above.s.Child(n.s.ID).Live() {
			for above := n.above; above != nil; above = above.above {
				live[above]++
			}
		}
	}
	for _, n := range w.nodes {
		if n.s.Version == 0 {
			continue
		}
		b := n.s.Budget
		require.True(w.t, b.Committed().Within(b.Limit), "%s: %+v", n.s.ID, b)
		require.Equal(w.t, w.held(n), b.Reserved, "%s: its own holds and its children's limits", n.s.ID)
		settled, unknown := n.settled, n.unknown
		for i := range n.s.Children {
			if end := n.s.Children[i].Ended; end != nil {
				settled, unknown = settled.Plus(end.Settled), unknown.Plus(end.Unknown)
			}
		}
		require.Equal(w.t, []run.Amount{settled, unknown}, []run.Amount{b.Settled, b.Unknown}, "%s: its own costs and its children's", n.s.ID)
		require.LessOrEqual(w.t, live[n], n.s.Authority.RunsAtOnce, "%s: live runs below it", n.s.ID)
		require.LessOrEqual(w.t, len(n.s.Children), n.s.Authority.FanOut, "%s: its children", n.s.ID)
		require.LessOrEqual(w.t, len(n.s.Started.Lineage), w.nodes[0].s.Authority.Depth, "%s: levels above it", n.s.ID)
	}
}

// held is what a run has reserved: for its turn, its calls and by the limits of
// the children that it has not heard of.
func (w *tree) held(n *node) run.Amount {
	var sum run.Amount
	if turn := n.s.LastTurn(); turn != nil && turn.Phase == run.TurnInFlight {
		sum = sum.Plus(turn.Reserve)
	}
	for i := range n.s.Calls {
		sum = sum.Plus(n.s.Calls[i].Reserve)
	}
	for _, child := range w.nodes {
		if child.above == n && n.s.Child(child.s.ID).Live() {
			if child.s.Version == 0 {
				return sum.Plus(n.s.Child(child.s.ID).Carve) // it starts in this write
			}
			sum = sum.Plus(child.s.Budget.Limit)
		}
	}
	return sum
}

// collect brings a run the ends of its children.
func (w *tree) collect(n *node) bool {
	var ends []run.ChildEnd
	for _, child := range w.nodes {
		if child.above == n && child.s.Ended != nil && n.s.Child(child.s.ID).Live() {
			e := child.s.Ended
			ends = append(ends, run.ChildEnd{ChildEnded: run.ChildEnded{Child: child.s.ID, Status: e.Status, Reason: e.Reason, Code: e.Code, Result: e.Result,
				Settled: e.Settled, Unknown: e.Unknown, Head: "head"}})
		}
	}
	return len(ends) > 0 && w.send(n, run.ReportChildren{Ends: ends}) == nil
}

// stopAll lets the root be cancelled and everything below it end: whoever is
// told to stop is cancelled, whatever is in flight is lost.
func (w *tree) stopAll() {
	w.send(w.nodes[0], run.Cancel{By: by("ada")})
	for range 10 * len(w.nodes) {
		w.epoch++
		for _, n := range w.nodes {
			if n.s.Ended != nil {
				continue
			}
			if n.s.Parked != nil {
				w.send(n, run.Resume{By: by("olga"), Person: olga()})
			}
			w.send(n, run.Recover{Epoch: w.epoch})
			for _, effect := range run.Pending(n.s, w.nowMs) {
				if stop, tells := effect.(run.StopChild); tells {
					w.send(w.node(stop.Child), run.Cancel{By: by("ada")})
					w.send(n, run.ReportStopped(stop))
				}
			}
			w.collect(n)
		}
		if w.nodes[0].s.Ended != nil {
			return
		}
	}
	require.Fail(w.t, "the root does not end", "%+v", w.nodes[0].s.Status)
}

func (w *tree) node(id string) *node {
	for _, n := range w.nodes {
		if n.s.ID == id {
			return n
		}
	}
	return nil
}

// settleUp holds the whole tree against its account once all have ended: what
// was paid anywhere is paid once, what was not has come back exactly.
func (w *tree) settleUp() {
	var settled, unknown run.Amount
	for _, n := range w.nodes {
		require.NotNil(w.t, n.s.Ended, "%s is an orphan", n.s.ID)
		require.Zero(w.t, n.s.Budget.Reserved, n.s.ID)
		settled, unknown = settled.Plus(n.settled), unknown.Plus(n.unknown)
	}
	require.Equal(w.t, run.BudgetMove{Settle: settled, Unknown: unknown}, w.account)
}

// turn lets a run take a turn that costs what it reserves and proposes calls.
func (w *tree) turn(n *node, cost run.Amount, calls ...run.Proposal) {
	require.Nil(w.t, w.send(n, run.BeginTurn{Epoch: w.epoch, Model: "m", Reserve: cost}))
	if turn := n.s.LastTurn(); n.s.Ended == nil && turn != nil && turn.Phase == run.TurnInFlight {
		report := run.ReportTurn{Turn: turn.Number, Attempt: turn.Attempt, Class: run.ClassText, Text: &run.Text{ID: "answer"}, Cost: cost}
		if len(calls) > 0 {
			report.Class, report.Calls = run.ClassCalls, calls
		}
		require.Nil(w.t, w.send(n, report))
	}
}

// proposes is a call of a tool, or for an agent.
func (w *tree) proposes(tool, agent string, bound int64) run.Proposal {
	w.ids++
	return run.Proposal{Tool: tool, Text: run.Text{ID: fmt.Sprint("args", w.ids)}, Revision: "r1", Impact: policy.ImpactRead, Class: policy.ClassRead, CostBound: bound,
		Delegate: agent, Inputs: noArguments}
}

// begin begins a call, by a child where it is for an agent.
func (w *tree) begin(n *node, call int, child *run.Spawn) *run.Refusal {
	return w.send(n, run.BeginCall{Epoch: w.epoch, Call: call, Key: fmt.Sprint(n.s.ID, "/", call), Inputs: noArguments, Child: child})
}

// asks is a child that asks for an authority, with all the money of it.
func asks(n *node, call int, given policy.Authority) *run.Spawn {
	return &run.Spawn{Child: run.ChildOfCall(n.s.ID, call), RunKind: run.SubAgent, Agent: n.s.Call(call).Delegate, Revision: "b1", Snapshot: "inputs",
		Authority: given, Carve: run.Amount{MicroUSD: given.MicroUSD, Tokens: given.Tokens}}
}

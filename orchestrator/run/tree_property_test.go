package run_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/policy/policytest"
	"gantry.dev/orchestrator/run"
)

// wide is an authority under which a tree can grow.
func wide(tools ...string) policy.Authority {
	given := policy.Authority{Tools: map[string]policy.ToolGrant{}, MicroUSD: 1000, Tokens: 1000, DeadlineMs: 1_000_000, Turns: 9,
		Depth: 3, FanOut: 4, RunsAtOnce: 12, CallsAtOnce: 100, Stage: policy.Automate}
	for _, tool := range append(tools, "delegate") {
		given.Tools[tool] = policy.ToolGrant{Revision: "r1", Impact: policy.ImpactRead, Calls: 100}
	}
	return given
}

// agents gives every agent that a tree may name an authority.
func agents(own policy.Authority) map[string]policy.Authority {
	return map[string]policy.Authority{"a0": own, "a1": own, "a2": own}
}

// grower plays a tree: each step one of its runs does something, of its own
// accord or because of another.
type grower struct {
	*tree
	t    *rapid.T
	bomb bool // every run only wants children
}

func (g *grower) upTo(label string, most int) int {
	return rapid.SampledFrom(numbers[:max(most, 0)+1]).Draw(g.t, label)
}

func (g *grower) step() {
	n := g.pick()
	if turn := n.s.LastTurn(); turn != nil && turn.Phase == run.TurnInFlight && n.s.Ended == nil && g.upTo("answers", 2) > 0 {
		g.answer(n, turn)
		return
	}
	effects := run.Pending(n.s, g.nowMs)
	if len(effects) > 0 && g.upTo("sensible", 5) > 0 {
		g.serve(n, rapid.SampledFrom(effects).Draw(g.t, "effect"))
		return
	}
	if n.s.Parked != nil {
		g.send(n, run.Resume{By: by("olga"), Person: olga()})
		return
	}
	switch g.upTo("step", 29) {
	case 0:
		if g.upTo("cancels", 5) == 0 {
			g.send(n, run.Cancel{By: by("ada")})
		}
	case 1, 2:
		g.epoch++
		g.send(n, run.Recover{Epoch: g.epoch})
	case 3:
		g.nowMs += int64(g.upTo("later", 900))
		g.send(n, run.Fire{})
	case 4:
		g.send(n, run.Park{Code: "CRASHES"})
	case 10, 11, 12, 13:
		g.nowMs += 7_000 // whatever is tried again comes
	case 5, 6, 7, 8, 9:
		g.collect(n)
	default:
		if len(n.s.Calls) > 0 {
			call := n.s.Calls[g.upTo("call", len(n.s.Calls)-1)]
			g.send(n, run.ReportCall{Call: call.CallProposed.Call, Intent: call.Intent, Outcome: rapid.SampledFrom([]run.Outcome{run.OutcomeOK, run.OutcomeUnknown}).Draw(g.t, "outcome"),
				Cost: run.Amount{MicroUSD: int64(g.upTo("cost", int(call.Reserve.MicroUSD)))}})
		}
	}
}

// pick draws a run, mostly one that lives.
func (g *grower) pick() *node {
	var live []*node
	for _, n := range g.nodes {
		if n.s.Ended == nil {
			live = append(live, n)
		}
	}
	if len(live) > 0 && g.upTo("live", 7) > 0 {
		return live[g.upTo("run", len(live)-1)]
	}
	return g.nodes[g.upTo("run", len(g.nodes)-1)]
}

func (g *grower) answer(n *node, turn *run.Turn) {
	cost := run.Amount{MicroUSD: int64(g.upTo("cost", int(turn.Reserve.MicroUSD))), Tokens: int64(g.upTo("cost", int(turn.Reserve.Tokens)))}
	report := run.ReportTurn{Turn: turn.Number, Attempt: turn.Attempt, Cost: cost, Class: run.ClassText, Text: &run.Text{ID: "answer"}}
	switch kind := g.upTo("answer", 9); {
	case kind == 0:
		report.Failure = &run.TurnFailure{Cause: "OUTAGE", Retryable: true, Unknown: g.upTo("billed", 1) == 0}
	case kind > 3 || g.bomb || n.above == nil && g.upTo("goes on", 4) > 0:
		report.Class = run.ClassCalls
		for range 1 + g.upTo("calls", 3) {
			if g.bomb || g.upTo("by whom", 2) > 0 {
				report.Calls = append(report.Calls, g.proposes("delegate", fmt.Sprint("a", g.upTo("agent", 2)), 0))
			} else {
				report.Calls = append(report.Calls, g.proposes("look", "", int64(g.upTo("bound", 30))))
			}
		}
	}
	g.send(n, report)
}

func (g *grower) serve(n *node, effect run.Effect) {
	switch e := effect.(type) {
	case run.TakeTurn:
		g.send(n, run.BeginTurn{Epoch: g.epoch, Model: "m", Reserve: run.Amount{MicroUSD: int64(g.upTo("reserve", 9)), Tokens: int64(g.upTo("reserve", 9))}})
	case run.DispatchCall:
		var child *run.Spawn
		if n.s.Call(e.Call).Delegate != "" {
			child = asks(n, e.Call, g.ask(n))
		}
		g.begin(n, e.Call, child)
	case run.Verify:
		g.send(n, checked(e.Turn, rapid.SampledFrom([]run.CheckVerdict{run.CheckPassed, run.CheckPassed, run.CheckUnchecked}).Draw(g.t, "verdict")))
	case run.CollectChildren:
		g.collect(n)
	case run.StopChild:
		g.send(g.node(e.Child), run.Cancel{By: by("ada")})
		g.send(n, run.ReportStopped(e))
	}
}

// ask is what a child asks for, now and then more than there is.
func (g *grower) ask(n *node) policy.Authority {
	given := n.s.Authority
	part := func(label string, of int64) int64 {
		return of * rapid.SampledFrom([]int64{1, 1, 2, 2, 2, 3, 3, 8, 9}).Draw(g.t, label) / 8
	}
	given.MicroUSD, given.Tokens = part("money", n.s.Budget.Limit.MicroUSD), part("tokens", n.s.Budget.Limit.Tokens)
	given.Depth, given.RunsAtOnce = max(given.Depth-1+g.upTo("levels", 9)/9, 0), g.upTo("runs", given.RunsAtOnce*2/3)
	return given
}

func grow(t *rapid.T, bomb bool, steps int) *grower {
	g := &grower{t: t, bomb: bomb}
	given := wide("look")
	given.MicroUSD, given.Tokens = int64(200+g.upTo("money", 799)), int64(200+g.upTo("tokens", 799))
	given.Depth, given.FanOut, given.RunsAtOnce = rapid.SampledFrom([]int{0, 1, 2, 3, 3, 3}).Draw(t, "depth"), g.upTo("fan-out", 4), g.upTo("runs", 12)
	g.tree = plant(t, lineRules{own: agents(wide("look"))}, given, treeLimits())
	for range steps {
		g.step()
	}
	return g
}

// What is reserved, settled and unknown adds up in every run of a tree after
// every write; at the end what was not spent has come back.
func TestFault_H5_MoneyIsConservedInEveryTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grow(t, false, 250)
		g.stopAll()
		g.settleUp()
	})
}

// The trees must be trees, else they show nothing.
func TestTreesGrowAndMeetEveryEndOfADelegatedCall(t *testing.T) {
	met, levels, most := map[string]int{}, 0, 0
	for seed := range 300 {
		g := rapid.Custom(func(t *rapid.T) *grower { return grow(t, seed%2 == 0, 250) }).Example(seed)
		for ended, times := range g.met {
			met[ended] += times
		}
		for _, n := range g.nodes {
			levels = max(levels, len(n.s.Started.Lineage))
		}
		most = max(most, len(g.nodes))
	}
	t.Log(met, "levels", levels, "runs", most)
	for _, ended := range []string{"OK ", "FAILED CANCELLED", "FAILED BUDGET", "REFUSED BUDGET", "REFUSED DEPTH", "REFUSED FAN_OUT", "REFUSED RUNS_AT_ONCE", "REFUSED AUTHORITY",
		"VOID CANCELLED", "VOID LIMIT_REACHED"} {
		require.NotZero(t, met[ended], "%s: %v", ended, met)
	}
	require.GreaterOrEqual(t, levels, 3)
	require.GreaterOrEqual(t, most, 10)
}

// Runs that only ever want children never are more than the root may have at
// once, and never deeper or broader: all of it is reserved when one starts. See
// hold.
func TestFault_G9_ASpawnBombStaysWithinTheRootsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grow(t, true, 250)
		g.stopAll()
		g.settleUp()
	})
}

func TestFault_H1_OfAHundredChildrenTheBudgetAdmitsTen(t *testing.T) {
	given := wide()
	given.MicroUSD, given.Tokens, given.FanOut, given.RunsAtOnce = 100, 105, 100, 100
	w := plant(t, lineRules{own: agents(given)}, given, treeLimits())
	root := w.nodes[0]
	var calls []run.Proposal
	for range 100 {
		calls = append(calls, w.proposes("delegate", "a1", 0))
	}
	w.turn(root, run.Amount{Tokens: 5}, calls...)
	child := policy.Authority{MicroUSD: 10, Tokens: 10, DeadlineMs: given.DeadlineMs, Turns: 1}
	for _, effect := range run.Pending(root.s, w.nowMs) {
		call := effect.(run.DispatchCall).Call
		require.Nil(t, w.begin(root, call, asks(root, call, child)))
	}
	require.Len(t, w.nodes, 1+10)
	require.Equal(t, map[string]int{"REFUSED BUDGET": 90}, w.met)
	require.Equal(t, root.s.Budget.Limit, root.s.Budget.Committed())
	for _, n := range w.nodes[1:6] {
		w.turn(n, run.Amount{MicroUSD: 10, Tokens: 10})
	}
	w.stopAll()
	w.settleUp()
	require.Equal(t, run.BudgetMove{Settle: run.Amount{MicroUSD: 50, Tokens: 55}}, w.account)
}

// A child that asks for more than its parent has is refused when it is to
// start; what any agent of its line loses later is refused at its next attempt.
func TestFault_P1_NoChildHasMoreThanEverybodyAboveIt(t *testing.T) {
	admitted, refused, forbidden := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		rules := lineRules{own: map[string]policy.Authority{}}
		for i := range 3 {
			rules.own[fmt.Sprint("a", i)] = roomy(policytest.Authority().Draw(t, "agent"))
		}
		w := plant(t, rules, rules.Ceiling(run.Acting{Links: []run.Link{{Agent: "a0"}}}), treeLimits())
		for range 8 {
			above := w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(t, "run")]
			agent := fmt.Sprint("a", rapid.IntRange(0, 2).Draw(t, "agent"))
			most := policy.Meet(above.s.Authority, rules.own[agent])
			asked := roomy(policytest.Authority().Draw(t, "asked"))
			if rapid.Bool().Draw(t, "modest") {
				asked = policy.Meet(most, asked)
			}
			asked.Depth, asked.RunsAtOnce, asked.MicroUSD, asked.Tokens = max(above.s.Authority.Depth-1, 0), 0, 1, 1
			if w.delegate(above, agent, asked) {
				admitted++
				require.True(t, asked.Below(most), "a child has more than its parent and its agent")
			} else if call := above.s.Call(len(above.s.Calls)); call != nil && call.Code == run.RefusedWider {
				refused++
				require.False(t, asked.Below(most))
			}
		}
		lost := fmt.Sprint("a", rapid.IntRange(0, 2).Draw(t, "who loses"))
		rules.own[lost] = policy.Meet(rules.own[lost], roomy(policytest.Authority().Draw(t, "what is left")))
		for _, n := range w.nodes {
			for _, tool := range []string{"a.x", "a.y"} {
				began := len(w.intents)
				w.try(n, tool)
				may := true
				for above := n; above != nil; above = above.above {
					own := rules.own[above.s.Started.Agent.Name]
					may = may && allows(own, tool) && allows(above.s.Authority, tool)
				}
				require.False(t, len(w.intents) > began && !may, "%s attempts %s, which its line may not", n.s.ID, tool)
				if !may && len(n.s.Calls) > 0 && n.s.Call(len(n.s.Calls)).Outcome == run.OutcomeForbidden {
					forbidden++
				}
			}
		}
		w.stopAll()
		w.settleUp()
	})
	require.NotZero(t, admitted)
	require.NotZero(t, refused)
	require.NotZero(t, forbidden)
}

func allows(a policy.Authority, tool string) bool {
	return a.AllowsCall(tool, "r1", policy.ImpactRead, noArguments.Arguments) == nil
}

// roomy gives an authority the money, time and place to have children at all.
func roomy(a policy.Authority) policy.Authority {
	a = a.Normal()
	a.MicroUSD, a.Tokens, a.DeadlineMs, a.Turns, a.Depth, a.FanOut, a.RunsAtOnce, a.CallsAtOnce = 500, 500, 1_000_000, 9, 3, 9, 9, 9
	tools := wide().Tools
	for name, bounds := range a.Tools {
		tools[name] = bounds
	}
	a.Tools = tools
	return a
}

// delegate lets a run have a child do something, and says whether it has it.
func (w *tree) delegate(above *node, agent string, asked policy.Authority) bool {
	before := len(w.nodes)
	if !w.due(above) {
		return false
	}
	w.turn(above, run.Amount{}, w.proposes("delegate", agent, 0))
	if call := len(above.s.Calls); call > 0 && above.s.Call(call).Phase == run.CallReady {
		w.begin(above, call, asks(above, call, asked))
	}
	return len(w.nodes) > before
}

// try lets a run attempt a call of a tool, where it may take a turn.
func (w *tree) try(n *node, tool string) {
	if !w.due(n) {
		return
	}
	w.turn(n, run.Amount{}, w.proposes(tool, "", 0))
	if call := len(n.s.Calls); call > 0 && n.s.Call(call).Phase == run.CallReady {
		w.begin(n, call, nil)
	}
}

// due makes room for a turn: what is open of the one before ends.
func (w *tree) due(n *node) bool {
	if n.s.Ended == nil {
		for i := range n.s.Calls {
			if call := &n.s.Calls[i]; call.Phase == run.CallInFlight {
				w.send(n, run.ReportCall{Call: call.CallProposed.Call, Intent: call.Intent, Outcome: run.OutcomeOK})
			}
		}
	}
	for _, effect := range run.Pending(n.s, w.nowMs) {
		if _, turn := effect.(run.TakeTurn); turn {
			return true
		}
	}
	return false
}

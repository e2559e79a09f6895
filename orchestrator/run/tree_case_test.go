package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// smaller is an authority that fits below another one.
func smaller(a policy.Authority, tools ...string) policy.Authority {
	a.MicroUSD, a.Tokens, a.Depth, a.RunsAtOnce = a.MicroUSD/2, a.Tokens/2, max(a.Depth-1, 0), a.RunsAtOnce/2
	all := a.Tools
	a.Tools = map[string]policy.ToolGrant{"delegate": all["delegate"]}
	for _, tool := range tools {
		a.Tools[tool] = policy.ToolGrant{Revision: "r1", Impact: policy.ImpactRead, Calls: 100}
	}
	return a
}

// line is a root, its child and its grandchild, who all may look.
func line(t *testing.T) (w *tree, root, child, grandchild *node) {
	own := wide("look")
	w = plant(t, lineRules{own: agents(own), grants: map[string]policy.Authority{}}, own, treeLimits())
	root = w.nodes[0]
	require.True(t, w.delegate(root, "a1", smaller(own, "look")))
	child = w.nodes[1]
	require.True(t, w.delegate(child, "a2", smaller(child.s.Authority, "look")))
	return w, root, child, w.nodes[2]
}

// What a grandparent loses while its tree runs, its grandchild lacks at the
// next attempt, and the tree ends.
func TestFault_P2_WhatAGrandparentLosesItsGrandchildLosesAtItsNextAttempt(t *testing.T) {
	w, root, child, grandchild := line(t)
	w.turn(grandchild, run.Amount{}, w.proposes("look", "", 1), w.proposes("look", "", 1))
	require.Nil(t, w.begin(grandchild, 1, nil))
	require.Equal(t, run.CallInFlight, grandchild.s.Call(1).Phase)
	w.rules.own["a0"] = wide()
	require.Nil(t, w.begin(grandchild, 2, nil))
	require.Equal(t, run.OutcomeForbidden, grandchild.s.Call(2).Outcome)
	require.Zero(t, grandchild.s.Call(2).Intent)
	require.Nil(t, w.send(grandchild, run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeOK}))

	delete(w.rules.own, "a0") // the root's agent is withdrawn
	require.Nil(t, w.send(grandchild, run.BeginTurn{Epoch: 1, Model: "m"}))
	require.Equal(t, string(run.LimitAuthority), grandchild.s.Ended.Code)
	require.True(t, w.collect(child))
	require.Equal(t, []string{"FAILED", "AUTHORITY"}, []string{string(child.s.Call(1).Outcome), child.s.Call(1).Code})
	require.Nil(t, w.send(child, run.BeginTurn{Epoch: 1, Model: "m"}))
	require.True(t, w.collect(root))
	require.Nil(t, w.send(root, run.BeginTurn{Epoch: 1, Model: "m"}))
	require.Equal(t, run.StatusParked, root.s.Status, "of a root people are asked")
	w.stopAll()
	w.settleUp()
}

// What a run was admitted with it cannot hand on once its agent has lost it.
func TestFault_P2_WhatAnAgentLostItHandsToNobody(t *testing.T) {
	full := wide("look")
	w := plant(t, lineRules{own: agents(full)}, full, treeLimits())
	w.rules.own["a0"] = wide()
	require.False(t, w.delegate(w.nodes[0], "a1", smaller(full, "look")))
	require.True(t, w.delegate(w.nodes[0], "a1", smaller(full)))
	require.Equal(t, map[string]int{"REFUSED AUTHORITY": 1}, w.met)
}

// A tool that its parent lacks is refused to a child, whoever has it: its own
// agent, a sibling, or the same agent started by another one.
func TestCase_34_AToolThatTheParentLacksIsRefusedToTheChild(t *testing.T) {
	narrow, full := wide("look"), wide("look", "pay")
	w := plant(t, lineRules{own: map[string]policy.Authority{"a0": full, "a1": narrow, "a2": full}}, full, treeLimits())
	root := w.nodes[0]
	require.True(t, w.delegate(root, "a2", smaller(full, "look", "pay")), "started by the root, who has it, the agent has it")
	sibling := w.nodes[1]
	w.collectEnd(sibling)
	require.False(t, w.delegate(root, "a1", smaller(full, "look", "pay")), "its agent lacks it")
	require.Equal(t, map[string]int{"OK ": 1, "REFUSED AUTHORITY": 1}, w.met)

	require.True(t, w.delegate(root, "a1", smaller(full, "look")))
	child := w.nodes[2]
	require.False(t, w.delegate(child, "a2", smaller(child.s.Authority, "look", "pay")), "its parent lacks it, though its agent has it")
	require.Equal(t, 2, w.met["REFUSED AUTHORITY"])
	require.True(t, w.delegate(child, "a2", smaller(child.s.Authority, "look")))
	grandchild := w.nodes[3]
	w.turn(grandchild, run.Amount{}, w.proposes("pay", "", 1), w.proposes("look", "", 1))
	require.Equal(t, run.OutcomeForbidden, grandchild.s.Call(1).Outcome)
	require.Equal(t, run.CallReady, grandchild.s.Call(2).Phase)
	w.stopAll()
	w.settleUp()
}

// collectEnd lets a run answer, and the one above it hear of it.
func (w *tree) collectEnd(n *node) {
	w.turn(n, run.Amount{})
	require.Nil(w.t, w.send(n, checked(n.s.LastTurn().Number, run.CheckPassed)))
	require.True(w.t, w.collect(n.above))
}

// Only a grant that names it lets a child do what its parent may not, as long
// as it is in force.
func TestCase_35_AGrantLetsAChildDoMoreThanItsParentAndNotForLonger(t *testing.T) {
	narrow, full := wide("look"), wide("look", "pay")
	rules := lineRules{own: map[string]policy.Authority{"a0": narrow, "a1": full, "a2": full},
		grants: map[string]policy.Authority{"g1": {Tools: map[string]policy.ToolGrant{"pay": full.Tools["pay"]}}}}
	w := plant(t, rules, narrow, treeLimits())
	root := w.nodes[0]
	granted := func(above *node, agent, grant string, asked policy.Authority) {
		require.True(t, w.due(above))
		w.turn(above, run.Amount{}, w.proposes("delegate", agent, 0))
		call := len(above.s.Calls)
		spawn := asks(above, call, asked)
		spawn.Grant = grant
		require.Nil(t, w.begin(above, call, spawn))
	}
	granted(root, "a1", "", smaller(narrow, "look", "pay"))
	granted(root, "a1", "g2", smaller(narrow, "look"))
	require.Equal(t, map[string]int{"REFUSED AUTHORITY": 2}, w.met, "by no grant, and by one that is not in force")
	richer := smaller(narrow, "look", "pay")
	richer.Turns++
	granted(root, "a1", "g1", richer)
	require.Equal(t, 3, w.met["REFUSED AUTHORITY"], "no grant adds turns")

	granted(root, "a1", "g1", smaller(narrow, "look", "pay"))
	child := w.nodes[1]
	require.Equal(t, "g1", root.s.Child(child.s.ID).Grant)
	granted(child, "a2", "", smaller(child.s.Authority, "pay"))
	grandchild := w.nodes[2]
	w.turn(grandchild, run.Amount{}, w.proposes("pay", "", 1), w.proposes("pay", "", 1))
	require.Nil(t, w.begin(grandchild, 1, nil))
	require.Equal(t, run.CallInFlight, grandchild.s.Call(1).Phase)
	delete(w.rules.grants, "g1")
	require.Nil(t, w.begin(grandchild, 2, nil))
	require.Equal(t, run.OutcomeForbidden, grandchild.s.Call(2).Outcome, "the grant above it has ended")
	w.stopAll()
	w.settleUp()
}

// A cancel of the root reaches what runs, what waits and what is below them;
// nothing begins after it, and the money comes back level by level.
func TestCase_33_ACancelReachesEveryLevel(t *testing.T) {
	w, root, child, grandchild := line(t)
	w.turn(grandchild, run.Amount{}, w.proposes("look", "", 7))
	require.Nil(t, w.begin(grandchild, 1, nil))
	require.Nil(t, w.send(root, run.Cancel{By: by("ada")}))
	require.Equal(t, []run.Effect{run.CollectChildren{}, run.StopChild{Child: child.s.ID}}, run.Pending(root.s, w.nowMs))
	require.Nil(t, w.send(child, run.Cancel{By: by("ada")}))
	require.Nil(t, w.send(root, run.ReportStopped{Child: child.s.ID}))
	require.Equal(t, []run.Status{run.StatusCancelling, run.StatusCancelling, run.StatusRunning}, []run.Status{root.s.Status, child.s.Status, grandchild.s.Status})
	require.Nil(t, w.send(grandchild, run.Cancel{By: by("ada")}))
	require.Nil(t, w.send(grandchild, run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeOK, Cost: usd(5)}))
	require.Equal(t, run.StatusCancelled, grandchild.s.Status)
	require.True(t, w.collect(child))
	require.Equal(t, run.StatusCancelled, child.s.Status)
	require.False(t, w.collect(child))
	require.True(t, w.collect(root))
	require.Equal(t, run.StatusCancelled, root.s.Status)
	require.Equal(t, run.BudgetMove{Settle: usd(5)}, w.account)
	w.settleUp()
}

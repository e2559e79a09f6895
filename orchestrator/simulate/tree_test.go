package simulate

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// family is a world with one root, whose model hands on so many parts; each of
// these hands its own on again, down to a level that does the work. Workers
// crash and pause, wake-ups are lost.
func family(seed uint64, wide, deep int, work ...[]string) *simulation {
	s := newSimulation(seed)
	calm := s.plan
	s.plan = plan{workers: 4, runs: 1, runsAtOnce: 64, leaseMs: 3_000, pollMs: 200, drainMs: 2_000, ringMs: 100, lagMs: 1, patienceMs: 200,
		safetyMs: 120_000, disturbMs: 500, crash: 0.3, pause: 0.3, store: 0.02, silence: 0.5, skewMs: calm.skewMs, tool: 0.05,
		limits: run.Limits{Turns: 10, CallsPerTurn: 200, CallsAtOnce: 8, TurnAttempts: 50, CallAttempts: 50, NoProgress: 50, RepairTurns: 2,
			CheckAttempts: 50, Steers: 1, ApprovalMs: 1 << 40, QuestionMs: 1 << 40, TurnMs: 12_000, OnLimit: run.AskOnLimit},
		money: 1 << 50, depth: deep, fanOut: 1_000, runsBelow: 1_000, childRuns: 1, shares: int64(4 * wide), childMs: 1 << 40}
	s.plan.script = func(level int) [][]string {
		switch {
		case level == 0:
			return [][]string{slices.Repeat([]string{"delegate"}, wide)}
		case level < deep:
			return [][]string{{"read", "delegate"}}
		}
		return work
	}
	return s
}

// later does something to the tree as soon as so many runs are in it.
func (s *simulation) later(runs int, does func()) {
	s.spawn(nil, func() {
		for _, begun := s.head("r1"); (!begun || len(s.runs) < runs) && !s.calm; _, begun = s.head("r1") {
			s.sleep(1)
		}
		does()
	})
}

// sound plays the world and wants nothing broken.
func (s *simulation) sound(t *testing.T) map[string]*run.State {
	t.Helper()
	r := s.play()
	require.Empty(t, r.Violations, "seed %d", r.Seed)
	states := map[string]*run.State{}
	for _, one := range s.runs {
		state, err := s.fold(one.id)
		require.NoError(t, err)
		states[one.id] = state
	}
	return states
}

const treeSeeds = 12

// A cancel of the root ends a tree of a hundred runs on five levels, whatever
// becomes of the workers that have them. That nothing begins after it, and that
// each end is folded once, every world watches over.
func TestFault_G4_ACancelReachesAHundredRunsOnFiveLevels(t *testing.T) {
	most, crashes := 0, 0
	for seed := range uint64(treeSeeds) {
		s := family(seed, 20, 5, []string{"read"}, []string{"keyed"}, []string{"read"})
		at := 1 + int(seed)*8
		s.later(at, func() { require.NoError(t, s.command("ada", "r1", run.Cancel{By: run.Identity{Principal: "ada"}})) })
		states := s.sound(t)
		for id, state := range states {
			require.True(t, state.Status.Ended(), "seed %d: %s is %s", seed, id, state.Status)
		}
		require.Equal(t, run.StatusCancelled, states["r1"].Status)
		require.GreaterOrEqual(t, len(states), at)
		most, crashes = max(most, len(states)), crashes+s.faults
	}
	require.Greater(t, most, 80, "some trees were whole when they were cancelled")
	require.NotZero(t, crashes)
}

// One in the middle is cancelled: what is above it goes on.
func TestFault_G4_ACancelInTheMiddleLeavesTheOthersAlone(t *testing.T) {
	for seed := range uint64(treeSeeds) {
		s := family(seed, 4, 4, []string{"keyed"}, []string{"read"})
		middle := ""
		s.later(10, func() {
			for _, one := range s.runs {
				if len(s.witnessOf(one.id).links) == 2 {
					middle = one.id
				}
			}
			require.NotEmpty(t, middle)
			_ = s.command("ada", middle, run.Cancel{By: run.Identity{Principal: "ada"}}) // it may have ended
		})
		states := s.sound(t)
		require.Equal(t, run.StatusCompleted, states["r1"].Status, "seed %d", seed)
		for id, state := range states {
			under := slices.ContainsFunc(state.Started.Lineage, func(l run.Link) bool { return l.Run == middle })
			if states[middle].Cancel == nil || id != middle && !under {
				require.Equal(t, run.StatusCompleted, state.Status, "seed %d: %s", seed, id)
			}
		}
	}
}

// A child that ends itself is a result for its parent, which goes on with its
// own history.
func TestFault_G5_AChildThatCancelsItselfIsAResult(t *testing.T) {
	for seed := range uint64(treeSeeds) {
		s := family(seed, 3, 1, []string{"keyed"}, []string{"read"})
		second := run.ChildOfCall("r1", 2)
		s.later(4, func() {
			require.NoError(t, s.command("ada", second, run.Cancel{By: run.Identity{Principal: "agent:" + agentAt(1)}}))
		})
		states := s.sound(t)
		root := states["r1"]
		require.Equal(t, run.StatusCompleted, root.Status)
		require.Greater(t, len(root.Turns), 1)
		require.Equal(t, run.StatusCancelled, states[second].Status)
		require.Equal(t, run.OutcomeFailed, root.Call(2).Outcome)
		require.Equal(t, "CANCELLED", root.Call(2).Code)
		require.Equal(t, run.OutcomeOK, root.Call(1).Outcome)
		require.Equal(t, run.OutcomeOK, root.Call(3).Outcome)
	}
}

// Whoever has a run with a hundred children dies, again and again: their results
// wait, and whoever comes next folds each of them once.
func TestFault_G6_TheSuccessorFoldsEachOfAHundredChildrenOnce(t *testing.T) {
	for seed := range uint64(treeSeeds / 4) {
		s := family(seed, 100, 1, []string{"keyed"})
		deaths := 0
		s.later(101, func() {
			for !s.calm && deaths < 15 {
				if head, _ := s.head("r1"); s.leased(head) && !s.store.owners["r1"].dead {
					s.faults++
					deaths++
					s.at(s.nowMs, func() { s.crash(s.store.owners["r1"]) })
				}
				s.sleep(s.between(1, 50))
			}
		})
		states := s.sound(t)
		require.Equal(t, run.StatusCompleted, states["r1"].Status)
		require.Len(t, states, 101)
		for i := range states["r1"].Calls {
			require.Equal(t, run.OutcomeOK, states["r1"].Calls[i].Outcome)
		}
		require.Greater(t, deaths, 3, "seed %d", seed)
	}
}

// What one above loses while the tree runs, those below lack at their next
// attempt. That none of them calls it any more, every world watches over.
func TestFault_P2_WhatOneAboveLosesIsGoneBelowAtTheNextAttempt(t *testing.T) {
	outcomes := map[run.Outcome]int{}
	for seed := range uint64(treeSeeds) {
		s := family(seed, 4, 3, []string{"keyed"}, []string{"keyed", "read"}, []string{"keyed"}, []string{"keyed"})
		s.later(13, func() {
			s.sleep(s.between(0, 400))
			s.rules.barred = maps.Clone(map[bar]bool{{agentAt(1), "keyed"}: true})
			s.rules.config++
			_ = s.store.SetGate(context.Background(), run.GateChange{Gate: run.ConfigGate(organisation), Value: s.rules.Revision()}) // memory never fails
		})
		states := s.sound(t)
		require.Equal(t, run.StatusCompleted, states["r1"].Status)
		for _, state := range states {
			for i := range state.Calls {
				if state.Calls[i].Tool == "keyed" {
					outcomes[state.Calls[i].Outcome]++
				}
			}
		}
	}
	require.NotZero(t, outcomes[run.OutcomeOK])
	require.NotZero(t, outcomes[run.OutcomeForbidden])
}

// A wake-up that is never heard costs time and nothing else: polling finds what
// is due.
func TestChildrenAreFoundWhereNoWakeUpArrives(t *testing.T) {
	s := family(3, 5, 3, []string{"keyed"})
	s.plan.silence = 1
	states := s.sound(t)
	require.Equal(t, run.StatusCompleted, states["r1"].Status)
	require.Len(t, states, 16)
	require.Less(t, s.nowMs, int64(math.MaxInt32))
	items, err := s.store.Inbox(t.Context(), person("carl"))
	require.NoError(t, err)
	require.Empty(t, slices.DeleteFunc(items, func(i engine.InboxItem) bool { return !i.Open }))
}

// A cancel gets through where every place of every worker is taken by runs of
// the tree that it ends.
func TestFault_G4_ACancelNeedsNoFreePlace(t *testing.T) {
	for seed := range uint64(treeSeeds) {
		s := family(seed, 20, 2, []string{"keyed"}, []string{"read"})
		s.plan.workers, s.plan.runsAtOnce, s.plan.crash, s.plan.pause, s.plan.store = 1, 2, 0, 0, 0
		s.later(26+int(seed), func() { require.NoError(t, s.command("ada", "r1", run.Cancel{By: run.Identity{Principal: "ada"}})) })
		states := s.sound(t)
		require.Equal(t, run.StatusCancelled, states["r1"].Status)
	}
}

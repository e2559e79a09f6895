package journal

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// Two batches that lock the same things lock them in the same order, so that
// they never wait for each other, whatever each of them is about.
func TestABatchLocksInOneOrder(t *testing.T) {
	s := &Store{postgres: true, vault: &vault{lock: " FOR SHARE"}}
	write := func(id string, gates []run.GateChange, guards []run.Guard, nodes ...string) *item {
		w := &engine.Write{Head: run.Head{Run: id}, Gates: gates, Guards: guards}
		for _, node := range nodes {
			w.Budget = append(w.Budget, run.BudgetMove{Node: node})
		}
		return &item{write: w}
	}
	b := s.newBatch([]*item{
		write("r3", []run.GateChange{{Gate: "b"}}, []run.Guard{{Gate: "a"}, {Gate: "d"}}, "z", "house@2026-11"),
		write("r1", []run.GateChange{{Gate: "c"}}, []run.Guard{{Gate: "b"}}, "a", "house"),
		{run: "r2"},
	})
	var locked []string
	again := false
	for _, one := range b.reads() {
		for _, arg := range one.args {
			names, are := arg.([]string)
			switch {
			case !are || strings.Contains(one.text, "FROM gates"): // read only
			case strings.Contains(one.text, "FROM budgets") && again:
				require.Equal(t, []string{"house@2026-11"}, names, "only what may be new is looked at again")
			default:
				kind := "gate "
				if strings.Contains(one.text, "FROM heads") {
					kind = "head "
				} else if strings.Contains(one.text, "FROM budgets") {
					kind, again = "node ", true
				}
				for _, name := range names {
					locked = append(locked, kind+name)
				}
			}
		}
	}
	require.Equal(t, []string{"gate a", "gate b", "gate c", "gate d", "head r1", "head r2", "head r3",
		"node a", "node house", "node house@2026-11", "node z"}, locked)
	require.True(t, slices.IsSorted(locked))
}

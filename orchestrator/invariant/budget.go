package invariant

import (
	"fmt"
	"maps"
	"slices"

	"gantry.dev/orchestrator/run"
)

// Ledger adds up what runs hold and spent on each node of the budget.
type Ledger struct{ nodes map[string]run.Budget }

// NewLedger returns a ledger of no runs.
func NewLedger() *Ledger { return &Ledger{nodes: map[string]run.Budget{}} }

// Add counts a run: what was carved out for it while it goes on, what it
// settled and left unknown once it has ended.
func (l *Ledger) Add(s *run.State) {
	for _, name := range s.Started.Accounts {
		node := l.nodes[name]
		if s.Ended == nil {
			node.Reserved = node.Reserved.Plus(s.Budget.Limit)
		} else {
			node.Settled = node.Settled.Plus(s.Ended.Settled)
			node.Unknown = node.Unknown.Plus(s.Ended.Unknown)
		}
		l.nodes[name] = node
	}
}

// Check holds the row of a node against the runs that were added. Each node is
// looked at once.
func (l *Ledger) Check(name string, row run.Budget) []Violation {
	want := l.nodes[name]
	delete(l.nodes, name)
	var found []Violation
	for _, part := range []struct {
		word       string
		says, want run.Amount
	}{{"reserved", row.Reserved, want.Reserved}, {"settled", row.Settled, want.Settled}, {"unknown", row.Unknown, want.Unknown}} {
		if part.says.MicroUSD < 0 || part.says.Tokens < 0 {
			found = append(found, Violation{Code: BudgetNegative, Text: fmt.Sprintf("Node %s has %s %+v, below zero.", name, part.word, part.says)})
		}
		if part.says != part.want {
			found = append(found, Violation{Code: BudgetSum, Text: fmt.Sprintf("Node %s has %s %+v, its runs sum up to %+v.", name, part.word, part.says, part.want)})
		}
	}
	return found
}

// Missing returns the nodes that runs are on and that were never looked at.
func (l *Ledger) Missing() []Violation {
	var found []Violation
	for _, name := range slices.Sorted(maps.Keys(l.nodes)) {
		found = append(found, Violation{Code: BudgetMissing, Text: fmt.Sprintf("Runs are on node %s, which is not there.", name)})
	}
	return found
}

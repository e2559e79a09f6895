package agents

import (
	"time"

	"gantry.dev/orchestrator/run"
)

// Account is one node of an organisation's budgets.
type Account struct {
	Node   string // holds the limit
	Period string // whose amounts are kept, for example "2026-11"; "TOTAL" for one that never ends
	Ledger string // the node that holds the period's amounts
}

// Account returns the node of a department, or with an empty name that of the
// organisation, and its period at a time in UTC ms.
func (o Organisation) Account(department string, nowMs int64) Account {
	node, budget := "organisation:"+o.Name, o.Budget
	if department != "" {
		d, _ := o.Department(department)
		node, budget = "department:"+o.Name+"/"+department, d.Budget
	}
	if budget.Per != PerMonth {
		return Account{Node: node, Period: string(InTotal), Ledger: node}
	}
	month := time.UnixMilli(nowMs).UTC().Format("2006-01")
	return Account{Node: node, Period: month, Ledger: run.PeriodNode(node, month)}
}

// Accounts are the nodes that carry a run of a department's agent, innermost
// first. A run stays with the period in which it was admitted.
func (o Organisation) Accounts(department string, nowMs int64) []string {
	return []string{o.Account(department, nowMs).Ledger, o.Account("", nowMs).Ledger}
}

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
	month := monthOf(nowMs)
	return Account{Node: node, Period: month, Ledger: run.PeriodNode(node, month)}
}

// ConversationNode names the node that holds the limit of every conversation.
func (o Organisation) ConversationNode() string { return "conversation:" + o.Name }

// conversation returns the node that holds the amounts of one conversation. It
// keeps the limit with which it began.
func (o Organisation) conversation(id string, nowMs int64) string {
	node := run.PeriodNode(o.ConversationNode(), id)
	if o.Conversation.Per == PerMonth {
		return run.PeriodNode(node, monthOf(nowMs))
	}
	return node
}

func monthOf(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01") }

// Accounts are the nodes that carry a run of a department's agent in a
// conversation (an id, empty for none), innermost first. A run stays with the
// period in which it was admitted.
func (o Organisation) Accounts(department, conversation string, nowMs int64) []string {
	accounts := []string{o.Account(department, nowMs).Ledger, o.Account("", nowMs).Ledger}
	if conversation != "" {
		accounts = append([]string{o.conversation(conversation, nowMs)}, accounts...)
	}
	return accounts
}

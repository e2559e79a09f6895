package invariant

import "fmt"

// The checks of a report.
const (
	checkChains        = "chains"
	checkPromises      = "promises"
	checkHeads         = "heads"
	checkInbox         = "inbox"
	checkTexts         = "texts"
	checkBudgets       = "budgets"
	checkConversations = "conversations"
	checkRows          = "rows"
	checkWriters       = "writers"
	checkTrees         = "trees"
)

// Report counts what was looked at and what was found.
type Report struct {
	whole                                                        bool // of a store, not of one run
	runs, children, broken, inbox, texts, erased, nodes, lowered int
	conversations, entries, writers                              int
	records, receipts                                            uint64
	found                                                        map[string]int
}

// Violations is how many there are.
func (r Report) Violations() int {
	total := 0
	for _, count := range r.found {
		total += count
	}
	return total
}

// Lines says of each check what it looked at and how many violations it found.
func (r Report) Lines() []string {
	lines := []string{
		r.line(checkChains, "%d runs, %d records verify", r.runs, r.records),
		r.line(checkPromises, "%d runs keep to what every run keeps to", r.runs-r.broken),
		r.line(checkHeads, "%d rows equal their records", r.runs-r.broken),
		r.line(checkInbox, "%d rows are what is open", r.inbox),
		r.line(checkTrees, "%d children are as their parents say", r.children),
		r.line(checkTexts, "%d match what was recorded, %d are erased", r.texts, r.erased),
	}
	if !r.whole {
		return lines
	}
	budgets := fmt.Sprintf("%d nodes are the sum of their runs", r.nodes)
	if r.broken > 0 {
		budgets = fmt.Sprintf("%d nodes, not compared with their runs: %d runs do not verify", r.nodes, r.broken)
	}
	if r.lowered > 0 {
		budgets += fmt.Sprintf(", %d are above their limit as it is now", r.lowered)
	}
	return append(lines,
		r.line(checkBudgets, "%s", budgets),
		r.line(checkConversations, "%d, %d entries without gaps", r.conversations, r.entries),
		r.line(checkRows, "%d receipts and all other rows speak of what is there", r.receipts),
		r.line(checkWriters, "%d, numbers without gaps", r.writers),
	)
}

func (r Report) line(check, format string, args ...any) string {
	line := check + ": " + fmt.Sprintf(format, args...)
	switch count := r.found[check]; count {
	case 0:
		return line
	case 1:
		return line + ", but for 1 violation"
	default:
		return fmt.Sprintf("%s, but for %d violations", line, count)
	}
}

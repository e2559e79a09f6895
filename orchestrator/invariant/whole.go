package invariant

import (
	"context"
	"fmt"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// budgets compares every node with its runs. Where a run does not fold its sum
// is not known, and only what no run could explain is told.
func (a *Audit) budgets(ctx context.Context) error {
	after := ""
	for {
		nodes, err := a.snapshot.Budgets(ctx, after, pageRows)
		if err != nil {
			return err
		}
		for _, node := range nodes {
			after = node.Node
			a.report.nodes++
			if !node.Committed().Within(node.Limit) {
				a.report.lowered++
			}
			if err := a.found(checkBudgets, a.certain(a.ledger.Check(node.Node, node.Budget))); err != nil {
				return err
			}
		}
		if len(nodes) < pageRows {
			return a.found(checkBudgets, a.ledger.Missing())
		}
	}
}

// certain drops the sums that a run which does not fold may explain.
func (a *Audit) certain(list []Violation) []Violation {
	if a.report.broken == 0 {
		return list
	}
	var kept []Violation
	for _, v := range list {
		if v.Code != BudgetSum {
			kept = append(kept, v)
		}
	}
	return kept
}

func (a *Audit) conversations(ctx context.Context) error {
	after := ""
	for {
		list, err := a.snapshot.Conversations(ctx, after, pageRows)
		if err != nil {
			return err
		}
		for i := range list {
			after = list[i].ID
			a.report.conversations++
			if err := a.open(ctx, "", []run.Text{list[i].Title}); err != nil {
				return err
			}
			if err := a.entries(ctx, &list[i]); err != nil {
				return err
			}
		}
		if len(list) < pageRows {
			return nil
		}
	}
}

// entries counts a conversation's numbers and opens its messages.
func (a *Audit) entries(ctx context.Context, c *journal.Conversation) error {
	last := uint64(0)
	for {
		page, err := a.snapshot.Entries(ctx, c.ID, last, pageRows)
		if err != nil {
			return err
		}
		var texts []run.Text
		for i := range page {
			if page[i].Number != last+1 {
				if err := a.gap(c, last+1, page[i].Number-1); err != nil {
					return err
				}
			}
			last = page[i].Number
			a.report.entries++
			if page[i].Text != nil && page[i].Run == "" { // a run's own were opened with it
				texts = append(texts, *page[i].Text)
			}
		}
		if err := a.texts(ctx, "", texts); err != nil {
			return err
		}
		if len(page) == pageRows {
			continue
		}
		if last != c.Entries {
			return a.gap(c, min(last, c.Entries)+1, max(last, c.Entries))
		}
		return nil
	}
}

func (a *Audit) gap(c *journal.Conversation, from, to uint64) error {
	return a.found(checkConversations, []Violation{{Code: EntryGap,
		Text: fmt.Sprintf("Conversation %s counts %d entries; the numbers from %d to %d do not fit.", c.ID, c.Entries, from, to)}})
}

// rows looks for rows that speak of nothing, and for gaps in the numbers by
// which records are told.
func (a *Audit) rows(ctx context.Context) (err error) {
	if a.report.receipts, err = a.snapshot.Receipts(ctx); err != nil {
		return err
	}
	strays, err := a.snapshot.Strays(ctx, strayRows)
	if err != nil {
		return err
	}
	for _, stray := range strays {
		if err := a.found(checkRows, []Violation{{Code: Stray, Text: fmt.Sprintf("A row of %s (%s) speaks of %s, which is not there.", stray.Table, stray.ID, stray.Missing)}}); err != nil {
			return err
		}
	}
	writers, err := a.snapshot.Numberings(ctx)
	if err != nil {
		return err
	}
	for _, writer := range writers {
		a.report.writers++
		if writer.Count == writer.Last {
			continue
		}
		if err := a.found(checkWriters, []Violation{{Code: WriterGap,
			Text: fmt.Sprintf("Writer %s has %d records numbered up to %d.", writer.Writer, writer.Count, writer.Last)}}); err != nil {
			return err
		}
	}
	return nil
}

package invariant

import (
	"context"
	"fmt"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// Pages bound what is in memory: one run's state, and a page of rows.
const (
	pageRows  = 256
	textBytes = 4 << 20
	strayRows = 100 // of each kind that are named
)

// Audit looks through a snapshot, run by run, and tells of each violation when
// it is found. Its memory is bounded by the largest run, by the number of
// budget nodes, and by the children whose parent stands far from them.
type Audit struct {
	snapshot *journal.Snapshot
	tell     func(Violation) error
	report   Report
	ledger   *Ledger
	met      map[string]int // children of whom one side was met, see meet
}

// NewAudit returns an audit. When tell fails the audit stops.
func NewAudit(snapshot *journal.Snapshot, tell func(Violation) error) *Audit {
	return &Audit{snapshot: snapshot, tell: tell, report: Report{found: map[string]int{}}, ledger: NewLedger(), met: map[string]int{}}
}

// Store checks everything. Errors are the store's: what is wrong with what it
// holds is told.
func (a *Audit) Store(ctx context.Context) (Report, error) {
	a.report.whole = true
	after := ""
	for {
		heads, err := a.snapshot.Heads(ctx, after, pageRows)
		if err != nil {
			return a.report, err
		}
		for i := range heads {
			if err := a.run(ctx, heads[i]); err != nil {
				return a.report, fmt.Errorf("run %s: %w", heads[i].Run, err)
			}
			after = heads[i].Run
		}
		if len(heads) < pageRows {
			break
		}
	}
	for _, check := range []func(context.Context) error{a.orphans, a.budgets, a.conversations, a.rows} {
		if err := check(ctx); err != nil {
			return a.report, err
		}
	}
	return a.report, nil
}

// Run checks one run. engine.ErrNotFound for an unknown one.
func (a *Audit) Run(ctx context.Context, id string) (Report, error) {
	head, err := a.snapshot.Head(ctx, id)
	if err != nil {
		return a.report, err
	}
	return a.report, a.run(ctx, head)
}

func (a *Audit) found(check string, list []Violation) error {
	a.report.found[check] += len(list)
	for _, v := range list {
		if err := a.tell(v); err != nil {
			return err
		}
	}
	return nil
}

func (a *Audit) run(ctx context.Context, head run.Head) error {
	fold, err := a.fold(ctx, head.Run)
	if err != nil {
		return err
	}
	a.report.runs++
	a.report.records += fold.State.Version
	if fold.Broken {
		a.report.broken++
	} else {
		a.ledger.Add(fold.State)
	}
	inbox, err := a.snapshot.Inbox(ctx, head.Run)
	if err != nil {
		return err
	}
	a.report.inbox += len(inbox)
	gate, err := a.snapshot.Gate(ctx, run.RootGate(head.Run))
	if err != nil {
		return err
	}
	if err := a.found(checkPromises, fold.Finish()); err != nil {
		return err
	}
	if err := a.found(checkHeads, append(CheckHead(head, fold), CheckGate(gate, fold)...)); err != nil {
		return err
	}
	if err := a.found(checkInbox, CheckInbox(inbox, fold)); err != nil {
		return err
	}
	if err := a.tree(ctx, head, fold); err != nil {
		return err
	}
	return a.texts(ctx, head.Run, fold.State.Texts())
}

// fold reads a run's records page by page.
func (a *Audit) fold(ctx context.Context, id string) (*Fold, error) {
	fold, after := NewFold(id), uint64(0)
	for {
		records, err := a.snapshot.Records(ctx, id, after, pageRows)
		if err != nil {
			return nil, err
		}
		if err := a.found(checkChains, fold.Add(records)); err != nil {
			return nil, err
		}
		if len(records) < pageRows || fold.Broken {
			return fold, nil
		}
		after = records[len(records)-1].Seq
	}
}

// texts opens what a run refers to, a few at a time.
func (a *Audit) texts(ctx context.Context, id string, texts []run.Text) error {
	for len(texts) > 0 {
		count, bytes := 0, 0
		for count < len(texts) && count < pageRows && (count == 0 || bytes+texts[count].Size <= textBytes) {
			bytes += texts[count].Size
			count++
		}
		if err := a.open(ctx, id, texts[:count]); err != nil {
			return err
		}
		texts = texts[count:]
	}
	return nil
}

func (a *Audit) open(ctx context.Context, id string, texts []run.Text) error {
	ids := make([]string, len(texts))
	for i := range texts {
		ids[i] = texts[i].ID
	}
	opened, err := a.snapshot.Texts(ctx, ids)
	if err != nil {
		return err
	}
	for _, text := range texts {
		var list []Violation
		if one, there := opened[text.ID]; there {
			a.report.texts++
			list = CheckText(id, text, one)
		} else if list, err = a.absent(ctx, id, text); err != nil {
			return err
		}
		if err := a.found(checkTexts, list); err != nil {
			return err
		}
	}
	return nil
}

func (a *Audit) absent(ctx context.Context, id string, text run.Text) ([]Violation, error) {
	erased, err := a.snapshot.Erased(ctx, text)
	if err != nil {
		return nil, err
	}
	if erased {
		a.report.erased++
		return nil, nil
	}
	return []Violation{{Code: TextMissing, Run: id, Text: fmt.Sprintf("Text %s is gone, though older texts of the same subject are there.", text.ID)}}, nil
}

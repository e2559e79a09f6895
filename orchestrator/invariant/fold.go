package invariant

import (
	"errors"
	"fmt"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/promise"
)

// Fold is a run as its records say it is. Records are added page by page.
type Fold struct {
	State    *run.State
	LastMs   int64 // when the last record was made
	LatestMs int64 // the latest time of any record
	Broken   bool  // a record was refused: what came after it was not looked at

	tally *promise.Tally
	open  openItems
}

// NewFold returns a run before its first record.
func NewFold(id string) *Fold {
	return &Fold{State: &run.State{ID: id}, tally: promise.NewTally(), open: openItems{}}
}

// Add folds more records and returns what is wrong with them. Nothing is read
// beyond a record that breaks the chain or a rule.
func (f *Fold) Add(records []run.Record) []Violation {
	var found []Violation
	for i := range records {
		if f.Broken {
			return found
		}
		record := records[i]
		if err := run.Replay(f.State, records[i:i+1]); err != nil {
			f.Broken = true
			return append(found, Violation{Code: codeOf(err), Run: f.State.ID, Seq: f.State.Version + 1, Text: "The record does not verify: " + err.Error() + "."})
		}
		event, err := run.Decode(record)
		if err != nil {
			f.Broken = true
			return append(found, Violation{Code: Unreadable, Run: f.State.ID, Seq: record.Seq, Text: err.Error()})
		}
		f.LastMs, f.LatestMs = record.AtMs, max(f.LatestMs, record.AtMs)
		if broken := f.tally.Note(promise.Step{Event: event, AtMs: record.AtMs}); broken != nil {
			found = append(found, f.kept(broken))
		}
		f.open.note(f.State, event, record.AtMs)
	}
	return found
}

func codeOf(err error) Code {
	switch {
	case errors.Is(err, run.ErrChain):
		return Chain
	case errors.Is(err, run.ErrUnknownRecord):
		return Unreadable
	}
	return Rule
}

func (f *Fold) kept(broken *promise.Broken) Violation {
	return Violation{Code: broken.Code, Run: f.State.ID, Seq: f.State.Version, Text: fmt.Sprintf("A promise is broken: %s.", broken.Text)}
}

// Finish returns what is wrong with the run as a whole.
func (f *Fold) Finish() []Violation {
	if f.Broken || f.State.Version == 0 {
		return nil
	}
	if broken := f.tally.Check(f.State); broken != nil {
		return []Violation{f.kept(broken)}
	}
	return nil
}

// Rows are the rows of one run.
type Rows struct {
	Head    run.Head
	Records []run.Record // all
	Inbox   []engine.InboxItem
}

// Check holds the rows of one run against each other.
func Check(rows Rows) []Violation {
	fold := NewFold(rows.Head.Run)
	found := append(fold.Add(rows.Records), fold.Finish()...)
	found = append(found, CheckHead(rows.Head, fold)...)
	return append(found, CheckInbox(rows.Inbox, fold)...)
}

// Package invariant says what must hold between the rows of a store, whatever
// was done to it: what is derived equals what it is derived from. The checks of
// a single run are functions over its rows; Audit streams a whole store through
// them.
package invariant

import (
	"fmt"

	"gantry.dev/orchestrator/run/promise"
)

// Code names a kind of violation. Codes are stable; those of package promise
// are among them.
type Code = promise.Code

// The codes of violations besides the broken promises.
const (
	Chain          Code = "CHAIN"           // a record does not continue its chain
	Unreadable     Code = "UNREADABLE"      // a record that this program does not know
	Rule           Code = "RULE"            // a record that no rule explains
	HeadWrong      Code = "HEAD"            // a head says something else than its records
	InboxMissing   Code = "INBOX_MISSING"   // something open waits in no inbox
	InboxStale     Code = "INBOX_STALE"     // an inbox shows what is not open
	InboxWrong     Code = "INBOX_WRONG"     // an inbox shows something open wrongly
	GateWrong      Code = "GATE"            // a tree may act though it was cancelled, or the reverse
	TextMissing    Code = "TEXT_MISSING"    // a text is gone that was not erased
	TextUnreadable Code = "TEXT_UNREADABLE" // a text does not open
	TextChanged    Code = "TEXT_CHANGED"    // a text is not the one that was recorded
	BudgetMissing  Code = "BUDGET_MISSING"  // runs are on a node that is not there
	BudgetSum      Code = "BUDGET_SUM"      // a node is not the sum of its runs
	BudgetNegative Code = "BUDGET_NEGATIVE" // an amount below zero
	EntryGap       Code = "ENTRY_GAP"       // a conversation's numbers have a gap
	Stray          Code = "STRAY"           // a row speaks of something that is not there
	WriterGap      Code = "WRITER_GAP"      // a writer's numbers have a gap
	ChildMissing   Code = "CHILD_MISSING"   // a child is not there, or nobody says that it is theirs
	ChildWrong     Code = "CHILD"           // a run and its child say different things of each other
	ChildForgotten Code = "CHILD_FORGOTTEN" // a child has ended, and its parent is not told
	NewsWrong      Code = "NEWS"            // a run has heard of more than it was told
)

// Violation is one thing that does not hold.
type Violation struct {
	Code Code
	Run  string // "" when it is of no one run
	Seq  uint64 // of the record that shows it, 0 for none
	Text string // one sentence
}

// String is the violation on one line.
func (v Violation) String() string {
	where := ""
	if v.Run != "" {
		where = " run=" + v.Run
	}
	if v.Seq != 0 {
		where += fmt.Sprintf(" seq=%d", v.Seq)
	}
	return string(v.Code) + where + ": " + v.Text
}

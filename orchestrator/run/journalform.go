package run

import (
	"errors"
	"strings"

	"gantry.dev/orchestrator/policy"
)

// Record is one event as the journal keeps it.
type Record struct {
	Run     string
	Seq     uint64 // from 1, without gaps
	Kind    EventKind
	Version int // of the event's format
	AtMs    int64
	Body    []byte // canonical JSON of the event
	Prev    string // digest of the record before, empty for the first
	Digest  string // see Chain
}

// Guard is a condition that a write makes on the world outside its run. The
// journal checks it in the transaction of the write.
type Guard struct {
	Gate     string // name of a gate
	Value    string // what it must hold; an absent gate holds ""
	BeforeMs int64  // where not 0: the database clock must be before this
}

// GateChange sets a gate in the transaction of a write.
type GateChange struct{ Gate, Value string }

// BudgetMove changes one budget node in the transaction of a write. Reserve
// above zero is refused where it does not fit under the node's limit.
type BudgetMove struct {
	Node    string
	Reserve Amount // added to reserved; negative releases
	Settle  Amount // added to settled
	Unknown Amount // added to unknown
}

// PeriodNode names the part of a budget node that holds one period of it, for
// example the month "2026-11". Where it is not there yet, a journal makes it
// with the limit of the node when a write first needs it.
func PeriodNode(node, period string) string { return node + "@" + period }

// NodeOfPeriod returns the node of a period's node.
func NodeOfPeriod(name string) (node string, isPeriod bool) {
	node, _, isPeriod = strings.Cut(name, "@")
	return node, isPeriod
}

// Head is what the journal keeps of a run besides its records.
type Head struct {
	Run                                                                  string
	Version                                                              uint64
	Digest                                                               string // of the last record
	Epoch                                                                uint64
	Owner                                                                string // worker that holds the lease, empty for none
	LeaseUntil                                                           int64  // UTC ms, database clock
	Status                                                               Status
	DueMs                                                                int64 // when the run wants a worker; 0: at no time by itself
	Organisation, Root, Parent, Conversation, Subject, Agent, Department string
	Labels                                                               policy.Labels
	StartedMs, EndedMs                                                   int64
	// News counts the ends of children that the run waits for, Heard those of
	// them that a write of the run knew of. While they differ the run is due.
	News, Heard uint64
}

// Due is when a head that is about to be written becomes due: at once where
// there is news that no write of the run knew of.
func (h Head) Due(nowMs int64) int64 {
	switch {
	case h.Status.Ended() || h.Status == StatusParked:
		return 0
	case h.News > h.Heard:
		return nowMs
	}
	return h.DueMs
}

// What a write can meet. The journal wraps these.
var (
	ErrConflict = errors.New("the run moved on")         // another write came first: read, decide again
	ErrFenced   = errors.New("the lease was taken over") // a newer epoch owns the run: drop it
	ErrGuard    = errors.New("a condition of the write does not hold")
	ErrBudget   = errors.New("the budget does not cover it")
)

// Admit is the rule by which every journal accepts or refuses a write to a
// run: at the expected version, and from an owner only under the epoch that
// holds. Writes from outside carry epoch 0.
func Admit(head Head, from, epoch uint64) error {
	if epoch != 0 && epoch != head.Epoch {
		return ErrFenced
	}
	if from != head.Version {
		return ErrConflict
	}
	return nil
}

// KeepDue is when a head becomes due after a write that wants it due at a time.
// One that is due already and stays so keeps since when: who has waited longest
// is claimed first, and a row that is written often keeps its place in the index.
func KeepDue(before, wanted, nowMs int64) int64 {
	due := func(atMs int64) bool { return atMs > 0 && atMs <= nowMs }
	if due(before) && due(wanted) {
		return before
	}
	return wanted
}

// Claimable reports whether a worker may take the run over at this time of the
// database clock: it is due, not ended, and no lease holds.
func Claimable(head Head, nowMs int64) bool {
	if head.Status.Ended() || head.Status == StatusParked || head.DueMs == 0 || head.DueMs > nowMs {
		return false
	}
	return head.Owner == "" || head.LeaseUntil <= nowMs
}

// Package engine is the loop around the pure core: Submit takes a command
// through load, decide and append; Work claims runs that are due and performs
// what their states ask for.
package engine

import (
	"context"
	"errors"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// ErrNotFound means that there is no such thing, or none that the caller may
// know of.
var ErrNotFound = errors.New("not found")

// Write is one append to one run with everything that must commit with it.
type Write struct {
	Head     run.Head     // the row after the write; Version and Digest are those of the last record
	From     uint64       // version before the write; 0 creates the run
	Epoch    uint64       // of the owner; 0 from outside
	Records  []run.Record // at least one, Seq From+1 and on; AtMs was read from Journal.Now
	Guards   []run.Guard
	Gates    []run.GateChange
	Budget   []run.BudgetMove
	Payloads []Payload
	Receipt  *Receipt
	Inbox    []InboxItem // set or closed by id
	Entries  []Entry     // of the run's conversation; numbered by the journal
	Links    []Link
	Births   []*Write // first writes of runs that this one starts
	Wakes    []string // runs that wait for news of this one: they become due
	Heard    uint64   // news of the run's children that the write knows of; see run.Head
}

// Payload is a text beside the journal. The journal seals Salt and Bytes under
// the key of Text.Subject.
type Payload struct {
	Text  run.Text
	Run   string
	Salt  []byte
	Bytes []byte
	Items []string // ids of remembered items that it quotes; the engine makes links of them, and they are not read back
}

// Link says that a run has something of a remembered item, so that it is found
// when the item is forgotten.
type Link struct {
	Item string // id
	Text string // id of a text of the run that quotes it, and is erased with it; empty where the run only recalled it
}

// Receipt remembers the answer to an accepted command.
type Receipt struct {
	Organisation string
	Caller       string // principal id
	Command      string // client-made id, unique per caller
	Request      string // digest of the request
	Run          string
	Answer       []byte // JSON, what the first caller was told
}

// InboxKind says what waits for a person.
type InboxKind string

// The kinds of inbox item.
const (
	InboxApproval  InboxKind = "APPROVAL"
	InboxQuestion  InboxKind = "QUESTION"
	InboxAccess    InboxKind = "ACCESS" // something that a run may not use yet
	InboxLimit     InboxKind = "LIMIT"
	InboxUncertain InboxKind = "UNCERTAIN"
	InboxParked    InboxKind = "PARKED"
)

// InboxItem is one thing that waits for people. Open false closes it.
type InboxItem struct {
	ID           string // unique within the organisation
	Organisation string
	Run          string
	Kind         InboxKind
	Open         bool
	Approvers    []policy.Approver // who it waits for
	NotAfterMs   int64             // 0 for none
	SinceMs      int64
}

// Entry is one line of a conversation: a message, a run that began or ended,
// or what became of who takes part and of whose turn it is (the kinds of package
// group).
type Entry struct {
	Organisation, Conversation string
	Number                     uint64 // assigned by the journal, without gaps
	Kind                       string // "message", "run_started", "run_ended", …
	Run                        string
	Author                     string    // principal id
	Whom                       string    // principal id of whom it is about; empty for none
	Code                       string    // what it says where nobody speaks; empty for none
	About                      uint64    // number of the entry that it is about, or the bound that it sets; 0 for none
	Text                       *run.Text // of a message
	AtMs                       int64
}

// Journal is the truth. Every method is one transaction.
type Journal interface {
	// Append commits the write whole or not at all. Errors: run.ErrConflict,
	// run.ErrFenced, run.ErrGuard, run.ErrBudget, ErrReplayed (the receipt's
	// command was accepted before), else the store failed.
	Append(ctx context.Context, write Write) error
	// Load returns the records after a version, in order, and the head.
	// ErrNotFound for an unknown run.
	Load(ctx context.Context, id string, after uint64) (run.Head, []run.Record, error)
	// Now is the database clock, UTC ms.
	Now(ctx context.Context) (int64, error)
	// Receipt finds the answer to an earlier command; ErrNotFound for none.
	Receipt(ctx context.Context, organisation, caller, command string) (Receipt, error)
	// Payloads opens texts by id; an erased or unknown one is absent.
	Payloads(ctx context.Context, ids []string) (map[string]Payload, error)
	// Gate returns the value of a gate, "" for an absent one.
	Gate(ctx context.Context, name string) (string, error)
}

// ErrReplayed means that the command was accepted before; see Journal.Receipt.
var ErrReplayed = errors.New("command was accepted before")

// Lease is the right to advance one run for a while.
type Lease struct {
	Run     string
	Epoch   uint64
	UntilMs int64 // database clock
}

// Claims hands out leases.
type Claims interface {
	// Claim takes up to limit runs that are due (run.Claimable), each under a new epoch.
	Claim(ctx context.Context, worker string, limit int, ttlMs int64) ([]Lease, error)
	// Renew prolongs leases that still hold and returns them; a lease that is
	// missing from the answer is lost.
	Renew(ctx context.Context, worker string, leases []Lease, ttlMs int64) ([]Lease, error)
	// Release gives a lease back: the run keeps the due time of its last write.
	Release(ctx context.Context, worker string, lease Lease) error
}

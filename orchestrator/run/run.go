// Package run holds what a run is and what may happen to it next. It is pure:
// Decide turns a command into events or a refusal, Apply folds an event into
// the state, Pending derives the work that a state asks for. Time, ids and
// sealed texts are arguments, so the same inputs always give the same outputs.
package run

import (
	"gantry.dev/orchestrator/policy"
)

// Status is where a run stands.
type Status string

// The statuses of a run.
const (
	StatusQueued     Status = "QUEUED"
	StatusRunning    Status = "RUNNING"
	StatusWaiting    Status = "WAITING"    // for a person, a time or an outage
	StatusCancelling Status = "CANCELLING" // no new intent; what is in flight is settled
	StatusParked     Status = "PARKED"     // an operator must look
	StatusCompleted  Status = "COMPLETED"
	StatusPartial    Status = "PARTIAL"
	StatusFailed     Status = "FAILED"
	StatusCancelled  Status = "CANCELLED"
)

// Ended reports whether the status is final.
func (s Status) Ended() bool {
	return s == StatusCompleted || s == StatusPartial || s == StatusFailed || s == StatusCancelled
}

// Kind says how a run came to be.
type Kind string

// The kinds of run.
const (
	Root     Kind = "ROOT"
	SubAgent Kind = "SUB_AGENT"
	Sidecar  Kind = "SIDECAR"
)

// Text refers to a text that is stored beside the journal, sealed under the
// key of its subject. The journal keeps only the salted commitment, so erasing
// text, salt and key breaks no chain.
type Text struct {
	ID         string         `json:"id"`
	Commitment string         `json:"commitment"` // see Commit
	Size       int            `json:"size"`       // bytes
	Subject    string         `json:"subject"`    // whose key seals it
	Marking    policy.Marking `json:"marking"`
}

// Amount is money in micro-dollars and model tokens.
type Amount struct {
	MicroUSD int64 `json:"microUsd"`
	Tokens   int64 `json:"tokens"`
}

func amountOf(a policy.Authority) Amount { return Amount{MicroUSD: a.MicroUSD, Tokens: a.Tokens} }

// Plus returns the sum.
func (a Amount) Plus(b Amount) Amount { return Amount{a.MicroUSD + b.MicroUSD, a.Tokens + b.Tokens} }

// Minus returns the difference.
func (a Amount) Minus(b Amount) Amount { return Amount{a.MicroUSD - b.MicroUSD, a.Tokens - b.Tokens} }

// exact is the greatest number that every reader of the journal's JSON keeps.
const exact = 1<<53 - 1

// invalid reports whether a journal cannot hold the amount as something spent.
func (a Amount) invalid() bool {
	return a.MicroUSD < 0 || a.Tokens < 0 || a.MicroUSD > exact || a.Tokens > exact
}

// Within reports whether neither part exceeds the limit.
func (a Amount) Within(limit Amount) bool {
	return a.MicroUSD <= limit.MicroUSD && a.Tokens <= limit.Tokens
}

// Limits bound one run. A limit that trips asks the accountable person, unless
// OnLimit says fail. Zero means none of it is allowed.
type Limits struct {
	Turns         int     `json:"turns"`
	CallsPerTurn  int     `json:"callsPerTurn"`
	CallsAtOnce   int     `json:"callsAtOnce"`
	TurnAttempts  int     `json:"turnAttempts"` // model requests for one turn before a person is asked
	CallAttempts  int     `json:"callAttempts"` // intents for one call before a person is asked
	NoProgress    int     `json:"noProgress"`   // equal calls with equal results before a person is asked
	RepairTurns   int     `json:"repairTurns"`  // turns that only mend an unusable or unverified answer
	CheckAttempts int     `json:"checkAttempts"`
	Steers        int     `json:"steers"` // steers that may be open at once
	ApprovalMs    int64   `json:"approvalMs"`
	QuestionMs    int64   `json:"questionMs"`
	TurnMs        int64   `json:"turnMs"` // longest model request
	OnLimit       OnLimit `json:"onLimit"`
	// Approvals are how often the run may ask for one before an operator has
	// looked at it; 0: DefaultApprovals.
	Approvals int `json:"approvals,omitempty"`
}

// DefaultApprovals is how often a run may ask for an approval where nothing else
// is said.
const DefaultApprovals = 100

func (l Limits) approvals() int {
	if l.Approvals < 1 {
		return DefaultApprovals
	}
	return l.Approvals
}

// OnLimit says what happens when a limit trips.
type OnLimit string

// The two ways to meet a limit.
const (
	AskOnLimit  OnLimit = "ASK"
	FailOnLimit OnLimit = "FAIL"
)

// Identity is the verified credential behind a command from outside.
type Identity struct {
	Principal string `json:"principal"`
	Issuer    string `json:"issuer"`
	TokenID   string `json:"tokenId"`
	Digest    string `json:"digest"` // SHA-256 of the token, lower hex

	OnBehalfOf string `json:"onBehalfOf,omitempty"` // principal id for whom it spoke as a deputy; empty: for itself
}

// Class is what kind of answer a model gave.
type Class string

// The classes of an answer.
const (
	ClassText      Class = "TEXT"
	ClassCalls     Class = "CALLS"
	ClassRefusal   Class = "REFUSAL"
	ClassEmpty     Class = "EMPTY"
	ClassCut       Class = "CUT"
	ClassMalformed Class = "MALFORMED"
)

// Outcome is how a call ended. Each call gets exactly one.
type Outcome string

// The outcomes of a call.
const (
	OutcomeOK        Outcome = "OK"        // done, the result is there
	OutcomeFailed    Outcome = "FAILED"    // surely not done, or the tool says it failed
	OutcomeRefused   Outcome = "REFUSED"   // the proposal does not meet the contract
	OutcomeForbidden Outcome = "FORBIDDEN" // policy or authority says no
	OutcomeDenied    Outcome = "DENIED"    // a person said no
	OutcomeExpired   Outcome = "EXPIRED"   // nobody decided in time
	OutcomeVoid      Outcome = "VOID"      // the run was cancelled before it started
	OutcomeSimulated Outcome = "SIMULATED" // the stage lets it only be shown
	OutcomeAnswered  Outcome = "ANSWERED"  // a person answered the question
	OutcomeUnknown   Outcome = "UNKNOWN"   // it may or may not have happened
)

// EndReason classifies why a run ended.
type EndReason string

// The reasons to end.
const (
	EndVerified           EndReason = "VERIFIED"
	EndAccepted           EndReason = "ACCEPTED_BY_PERSON"
	EndCancelled          EndReason = "CANCELLED"
	EndRefused            EndReason = "REFUSED"
	EndUnusable           EndReason = "UNUSABLE_ANSWER"
	EndVerificationFailed EndReason = "VERIFICATION_FAILED"
	EndLimit              EndReason = "LIMIT_REACHED"
	EndByPerson           EndReason = "ENDED_BY_PERSON"
)

// Limit names what ran out.
type Limit string

// The limits that can trip.
const (
	LimitTurns      Limit = "TURNS"
	LimitBudget     Limit = "BUDGET"
	LimitDeadline   Limit = "DEADLINE"
	LimitNoProgress Limit = "NO_PROGRESS"
	LimitModel      Limit = "MODEL"     // the model cannot be reached or refuses our requests
	LimitContext    Limit = "CONTEXT"   // not even the briefest prompt fits the model
	LimitCheck      Limit = "CHECK"     // the completion could not be checked
	LimitAuthority  Limit = "AUTHORITY" // the agent of a child may not act any more
)

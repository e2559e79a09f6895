// Package promise holds what every run's journal keeps to, whatever happened.
// The walks over all states and the check of a store share it. It counts the
// journal apart from the state that is folded from it, so that a fault of the
// fold shows.
package promise

import (
	"fmt"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Code names a kind of broken promise. Codes are stable.
type Code string

// The codes of broken promises.
const (
	AfterEnd         Code = "AFTER_END"         // something but late knowledge follows the end
	AfterCancel      Code = "AFTER_CANCEL"      // a turn or an attempt begins after the cancel
	ResultTwice      Code = "RESULT_TWICE"      // a call has two terminal results
	IntentMissing    Code = "INTENT_MISSING"    // an effect without an intent before it
	KeyShared        Code = "KEY_SHARED"        // two calls under one idempotency key
	ApprovalMissing  Code = "APPROVAL_MISSING"  // a held call begins without its granted approval
	ApprovalSpent    Code = "APPROVAL_SPENT"    // a call begins on an approval that is spent or void
	ApprovalExpired  Code = "APPROVAL_EXPIRED"  // a call begins on an approval that has expired
	ApprovalOutdated Code = "APPROVAL_OUTDATED" // a call begins on an approval under another policy
	SteerAbsorbed    Code = "STEER_ABSORBED"    // a steer is absorbed by no turn
	CallOrder        Code = "CALL_ORDER"        // a call does not stand at its place
	RunBudget        Code = "RUN_BUDGET"        // the run's amounts are negative, above its limit or not what was paid
	EndOpen          Code = "END_OPEN"          // the end leaves a call, a child, a steer or a reservation
	RecalledTwice    Code = "RECALLED_TWICE"    // a remembered item is recalled in a state in which the run has it
	RecallUnsealed   Code = "RECALL_UNSEALED"   // what was recalled is not as it was sealed
	MarkingLost      Code = "MARKING_LOST"      // the run is marked less than what entered it
	BriefLonger      Code = "BRIEF_LONGER"      // a compaction shows more than the one before it, or takes the last answer
	BriefUnmarked    Code = "BRIEF_UNMARKED"    // a compaction is marked less than what it stands for
	TooLongAgain     Code = "TOO_LONG_AGAIN"    // a model gets the prompt again that it could not take
	ChildTwice       Code = "CHILD_TWICE"       // a child starts, is stopped or ends when it cannot
	ChildOpen        Code = "CHILD_OPEN"        // a call ends before the child that does it
	FanOut           Code = "FAN_OUT"           // a run has more children than it may have
	RunsAtOnce       Code = "RUNS_AT_ONCE"      // more runs may be live below a run than allowed
	Flooded          Code = "FLOODED"           // a run asks for more approvals and accesses than it may
	AccessMissing    Code = "ACCESS_MISSING"    // a call begins with a tool that the run was neither admitted with nor given
	AccessUnsealed   Code = "ACCESS_UNSEALED"   // what was given is not as it was sealed, or was given too late
	OutageHaste      Code = "OUTAGE_HASTE"      // a turn is attempted while its run waits for a model
	AskOpen          Code = "ASK_OPEN"          // a call goes on before what its server asks is settled, or its server asks without an attempt
	AskedTooOften    Code = "ASKED_TOO_OFTEN"   // the server of a call asks more often than it may
)

// Broken is a promise that a record breaks.
type Broken struct {
	Code Code
	Text string // one sentence
}

// Error says what was broken.
func (b *Broken) Error() string { return b.Text }

func broken(code Code, format string, args ...any) *Broken {
	return &Broken{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Step is one recorded event with what is known of its write.
type Step struct {
	Event  run.Event
	AtMs   int64
	Policy string // revision in force, "" where it is not known
}

// Tally is what a journal adds up to, counted apart from the state.
type Tally struct {
	approvals map[string]run.ApprovalRequested
	granted   map[string]bool
	used      map[string]bool // spent or void
	held      map[int]bool
	intents   map[int]int // the last by call
	results   map[int]int
	keys      map[string]int
	answered  map[string]bool   // steers that an answered turn contained
	asked     []string          // steers of the turn in flight
	recalled  map[[2]string]int // the turn for which it was, by item and state
	briefs    briefs
	snapshot  string         // digest
	marking   policy.Marking // of everything that entered
	flying    bool           // a turn is in flight
	outUntil  int64          // until when the run waits for a model, UTC ms; 0: it does not
	books     books
	children  children
	access    access
	asks      asks
	requests  int // since it began, or an operator let it go on
	most      int
	cancelled bool
	ended     bool
}

// NewTally returns the tally of a run before its first event.
func NewTally() *Tally {
	return &Tally{most: run.DefaultApprovals, approvals: map[string]run.ApprovalRequested{}, granted: map[string]bool{}, used: map[string]bool{},
		held: map[int]bool{}, intents: map[int]int{}, results: map[int]int{}, keys: map[string]int{}, answered: map[string]bool{},
		asks:     asks{open: map[int]string{}, flying: map[int]int{}, times: map[int]int{}},
		recalled: map[[2]string]int{}, briefs: briefs{calls: map[int]int{}, turns: map[int]policy.Marking{}, media: map[int]policy.Marking{}}, access: newAccess(), books: books{holds: map[string]run.Amount{}, repeated: map[int]bool{}},
		children: children{delegated: map[int]bool{}, started: map[string]int{}, live: map[string]bool{}, doing: map[int]string{}}}
}

// Note counts the next event of the journal and returns the promise that it
// breaks, nil for none.
func (t *Tally) Note(step Step) *Broken {
	if t.ended {
		switch step.Event.(type) {
		case run.LateOutcome, run.UncertainResolved:
		default:
			return broken(AfterEnd, "%s after the end", step.Event.Kind())
		}
	}
	if broken := t.noteEntry(step.Event); broken != nil {
		return broken
	}
	if broken := t.briefs.note(step.Event, t.recalled); broken != nil {
		return broken
	}
	if broken := t.access.note(step, t.snapshot); broken != nil {
		return broken
	}
	if broken := t.children.note(step.Event, t.cancelled); broken != nil {
		return broken
	}
	// The event is counted as a whole, whatever it breaks.
	overdrawn := t.books.note(step.Event)
	if broken := t.noteAct(step); broken != nil {
		return broken
	}
	return overdrawn
}

// noteAct counts what is done, decided and asked.
func (t *Tally) noteAct(step Step) *Broken {
	switch event := step.Event.(type) {
	case run.CallJudged:
		t.held[event.Call] = event.Verdict.Answer == policy.Hold
	case run.CallIntended, run.CallEnded, run.CallUncertain, run.LateOutcome:
		if broken := t.asks.note(step.Event); broken != nil {
			return broken
		}
		return t.noteAttempt(step)
	case run.QuestionAsked, run.QuestionAnswered, run.QuestionVoided:
		return t.asks.note(step.Event)
	case run.ApprovalRequested:
		t.approvals[event.Approval] = event
		if t.requests++; t.requests > t.most {
			return broken(Flooded, "approval %s is one too many", event.Approval)
		}
	case run.AccessRequested:
		if t.requests++; t.requests > t.most {
			return broken(Flooded, "request %s is one too many", event.Access)
		}
	case run.Resumed:
		t.requests, t.outUntil = 0, 0
	case run.ApprovalDecided:
		t.granted[event.Approval] = event.Granted && event.Complete
	case run.ApprovalVoided:
		t.used[event.Approval] = true
	case run.CancelAccepted:
		t.cancelled = true
	case run.Ended:
		t.ended = true
	default:
		return t.noteTurn(step)
	}
	return nil
}

// noteEntry counts what enters the run: texts, and what it recalls.
func (t *Tally) noteEntry(event run.Event) *Broken {
	for _, text := range event.Texts() {
		t.marking = t.marking.Join(text.Marking)
	}
	for _, item := range run.Recalls(event) {
		state := [2]string{item.Item, item.Etag}
		if _, had := t.recalled[state]; had {
			return broken(RecalledTwice, "item %s is recalled again as it was", item.Item)
		}
		t.recalled[state] = turnOf(event)
		t.marking = t.marking.Join(item.Marking)
	}
	switch event := event.(type) {
	case run.Started:
		if n := event.Limits.Approvals; n > 0 {
			t.most = n
		}
		t.snapshot = event.SnapshotDigest
	case run.TurnStarted:
		if event.Memory != nil && !event.Memory.Sealed(t.snapshot) {
			return broken(RecallUnsealed, "what turn %d recalled is not as it was sealed", event.Turn)
		}
	}
	return nil
}

func (t *Tally) noteTurn(step Step) *Broken {
	switch event := step.Event.(type) {
	case run.TurnStarted:
		t.asked = event.Steers
		t.flying = true
		if t.cancelled {
			return broken(AfterCancel, "turn %d begins after the cancel", event.Turn)
		}
		if step.AtMs < t.outUntil {
			return broken(OutageHaste, "turn %d is attempted before the wait for a model is over", event.Turn)
		}
	case run.ModelsOut:
		t.outUntil = event.RetryAtMs
		if t.flying || t.cancelled {
			return broken(OutageHaste, "turn %d waits for a model though it is in flight or cancelled", event.Turn)
		}
	case run.LimitReached:
		t.outUntil = 0
	case run.TurnFailed:
		t.flying = false
	case run.TurnAnswered:
		t.flying = false
		for _, steer := range t.asked {
			t.answered[steer] = true
		}
	case run.SteerSettled:
		if event.Disposition == run.Absorbed && !t.answered[event.Steer] {
			return broken(SteerAbsorbed, "steer %s absorbed by no turn", event.Steer)
		}
	}
	return nil
}

// noteAttempt holds every effect against the intent that must come before it.
func (t *Tally) noteAttempt(step Step) *Broken {
	switch event := step.Event.(type) {
	case run.CallIntended:
		t.intents[event.Call] = event.Intent
		return t.noteIntent(event, step)
	case run.CallEnded:
		if t.results[event.Call]++; t.results[event.Call] > 1 {
			return broken(ResultTwice, "call %d has two results", event.Call)
		}
		if acted := event.Outcome == run.OutcomeOK || event.Outcome == run.OutcomeUnknown; acted && t.intents[event.Call] == 0 {
			return broken(IntentMissing, "call %d ends as %s without an intent", event.Call, event.Outcome)
		}
	case run.CallUncertain:
		if event.Intent < 1 || event.Intent > t.intents[event.Call] {
			return broken(IntentMissing, "attempt %d of call %d is uncertain without an intent", event.Intent, event.Call)
		}
	case run.LateOutcome:
		if event.Intent < 1 || event.Intent > t.intents[event.Call] {
			return broken(IntentMissing, "attempt %d of call %d has a late outcome without an intent", event.Intent, event.Call)
		}
	}
	return nil
}

func (t *Tally) noteIntent(event run.CallIntended, step Step) *Broken {
	if t.cancelled {
		return broken(AfterCancel, "call %d begins after the cancel", event.Call)
	}
	if other, known := t.keys[event.Key]; known && other != event.Call {
		return broken(KeyShared, "calls %d and %d share a key", other, event.Call)
	}
	t.keys[event.Key] = event.Call
	if !t.held[event.Call] || event.Intent > 1 {
		return nil
	}
	approval, known := t.approvals[event.Approval]
	switch {
	case !known || approval.Call != event.Call || !t.granted[event.Approval]:
		return broken(ApprovalMissing, "call %d begins without its approval", event.Call)
	case t.used[event.Approval]:
		return broken(ApprovalSpent, "call %d begins on an approval that is spent or void", event.Call)
	case step.AtMs >= approval.NotAfterMs:
		return broken(ApprovalExpired, "call %d begins on an expired approval", event.Call)
	case step.Policy != "" && step.Policy != approval.Policy:
		return broken(ApprovalOutdated, "call %d begins on an approval under another policy", event.Call)
	}
	t.used[event.Approval] = true
	return nil
}

// Check holds the state that was folded from the journal against the tally and
// returns the first promise that is broken, nil for none.
func (t *Tally) Check(s *run.State) *Broken {
	for i := range s.Calls {
		if s.Calls[i].CallProposed.Call != i+1 {
			return broken(CallOrder, "call %d stands at place %d", s.Calls[i].CallProposed.Call, i+1)
		}
	}
	for _, a := range s.Approvals {
		if t.used[a.Approval] && (a.Status == run.ApprovalOpen || a.Status == run.ApprovalGranted) {
			return broken(ApprovalSpent, "approval %s was used, and could be used again", a.Approval)
		}
	}
	if !t.marking.Within(s.Marking) {
		return broken(MarkingLost, "the run is marked %s %s, but what entered it %s %s", s.Marking.Labels, s.Marking.Integrity, t.marking.Labels, t.marking.Integrity)
	}
	none := run.Amount{}
	switch b := s.Budget; {
	case !b.Committed().Within(b.Limit):
		return broken(RunBudget, "committed %+v above the limit %+v", b.Committed(), b.Limit)
	case !none.Within(b.Reserved) || !none.Within(b.Settled) || !none.Within(b.Unknown):
		return broken(RunBudget, "a negative amount in %+v", b)
	case b.Settled != t.books.settled || b.Unknown != t.books.unknown:
		return broken(RunBudget, "settled %+v and unknown %+v, but the costs are %+v and %+v", b.Settled, b.Unknown, t.books.settled, t.books.unknown)
	}
	if s.Ended != nil {
		if broken := t.checkEnd(s); broken != nil {
			return broken
		}
	}
	if reserved := t.books.reserved(); s.Budget.Reserved != reserved {
		return broken(RunBudget, "reserved %+v, but what was reserved and not ended is %+v", s.Budget.Reserved, reserved)
	}
	return t.children.check(s)
}

func (t *Tally) checkEnd(s *run.State) *Broken {
	if live := len(t.children.live); live > 0 {
		return broken(EndOpen, "%d children live at the end", live)
	}
	for i := range s.Calls {
		if t.results[i+1] != 1 {
			return broken(EndOpen, "call %d has %d results at the end", i+1, t.results[i+1])
		}
	}
	for _, steer := range s.Steers {
		if steer.Disposition == "" {
			return broken(EndOpen, "steer %s was lost", steer.Steer)
		}
	}
	if s.Budget.Reserved != (run.Amount{}) || s.Ended.Settled != s.Budget.Settled || s.Ended.Unknown != s.Budget.Unknown {
		return broken(EndOpen, "the end leaves %+v and says %+v", s.Budget, *s.Ended)
	}
	return nil
}

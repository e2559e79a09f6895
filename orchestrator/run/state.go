package run

import (
	"maps"
	"slices"

	"gantry.dev/orchestrator/policy"
)

// State is a run folded from its journal. Its zero value is a run that was not
// started. Only Apply changes it.
type State struct {
	ID      string
	Version uint64 // events applied
	Head    string // digest of the last record; kept by the caller that folds records
	Status  Status
	Started Started
	Marking policy.Marking // join over every text that entered the run, and what it recalled

	Turns     []Turn
	Calls     []Call
	Approvals []Approval
	Questions []Question
	Steers    []SteerState
	Children  []Child
	Declined  []ReviewDeclined
	Sidecars  []SidecarStarted
	Accesses  []Access

	Compactions []Compacted

	Budget    Budget
	Authority policy.Authority // as admitted, with amendments
	Limits    Limits

	Reached *LimitReached // the limit that waits for a person
	Outage  *ModelsOut    // what it waits for by itself, nil for nothing
	Outages int           // waits for a model in a row
	Parked  *Parked
	Cancel  *CancelAccepted
	Ended   *Ended

	Repairs    int // repair turns used
	LastChecks *Verified
	Checked    int            // verification attempts of the last answer
	InFlight   int            // calls with an intent and no outcome
	Begun      map[string]int // calls by tool that had an intent
	repeats    map[string]int // equal calls with equal results
	openSteers int
	asked      int    // approvals and accesses that it asked for since it began, or an operator let it go on
	firstOpen  int    // index in Calls of the first call that may not have ended
	firstMedia int    // the first turn with a call that gave media, 0 for none
	firstLive  int    // index in Children of the first one that may not have ended
	live       int    // children that have not ended
	liveRuns   int    // live runs that they take up at most
	texts      []Text // of every event, in the journal's order
}

// Clone returns a state that can be applied to without changing this one. Events
// are shared: nothing changes them.
func (s *State) Clone() *State {
	clone := *s
	clone.Turns, clone.Calls = slices.Clone(s.Turns), slices.Clone(s.Calls)
	clone.Approvals, clone.Questions, clone.Steers = slices.Clone(s.Approvals), slices.Clone(s.Questions), slices.Clone(s.Steers)
	clone.Children = slices.Clone(s.Children)
	clone.Declined, clone.Sidecars = slices.Clip(s.Declined), slices.Clip(s.Sidecars)
	clone.Compactions = slices.Clip(s.Compactions)
	clone.Accesses = slices.Clone(s.Accesses)
	clone.Begun, clone.repeats = maps.Clone(s.Begun), maps.Clone(s.repeats)
	clone.texts = slices.Clip(s.texts)
	// What grows in them must not grow into what the other has there.
	for i := range clone.Calls {
		call := &clone.Calls[i]
		call.Late, call.Resolutions = slices.Clip(call.Late), slices.Clip(call.Resolutions)
	}
	for i := range clone.Turns {
		clone.Turns[i].Memory, clone.Turns[i].Rests = slices.Clip(clone.Turns[i].Memory), slices.Clip(clone.Turns[i].Rests)
	}
	for i := range clone.Approvals {
		clone.Approvals[i].Decisions = slices.Clip(clone.Approvals[i].Decisions)
	}
	return &clone
}

// Texts returns every text that the run's events bear, each once, in the order
// in which they entered the run.
func (s *State) Texts() []Text {
	seen := make(map[string]bool, len(s.texts))
	texts := make([]Text, 0, len(s.texts))
	for _, text := range s.texts {
		if !seen[text.ID] {
			seen[text.ID] = true
			texts = append(texts, text)
		}
	}
	return texts
}

// TurnPhase is where a turn stands.
type TurnPhase string

// The phases of a turn.
const (
	TurnInFlight TurnPhase = "IN_FLIGHT"
	TurnRetry    TurnPhase = "RETRY" // an attempt failed, another is due
	TurnDone     TurnPhase = "ANSWERED"
)

// Turn is one model request and its answer.
type Turn struct {
	Number    int
	Phase     TurnPhase
	Attempt   int
	Forgiven  int // attempts that do not count against the limit
	Epoch     uint64
	Model     string // that answered, or is asked
	First     string // that is asked first
	Hedge     *Hedge // that is asked too if it keeps silent, nil for none
	Why       string
	Reserve   Amount
	Context   *ContextUse // of its last attempt, nil where nobody counted
	Steers    []string
	Memory    []Remembrance // what was recalled for it, by all its attempts
	RetryAtMs int64
	Retryable bool
	Cause     string // of the last failed attempt
	Rests     []Rest // models that failed in it and are left alone for a while
	Offers    []Offer
	Answer    *TurnAnswered
	Checks    *Verified // of its answer, the last ones
	FirstCall int       // ordinal of its first call, 0 for none
	LastCall  int
}

// CallPhase is where a call stands.
type CallPhase string

// The phases of a call.
const (
	CallProposedPhase CallPhase = "PROPOSED"  // needs a verdict
	CallHeld          CallPhase = "HELD"      // waits for people
	CallAsking        CallPhase = "ASKING"    // waits for an answer
	CallWanting       CallPhase = "WANTING"   // waits for what the run may not use yet
	CallReady         CallPhase = "READY"     // may be attempted
	CallInFlight      CallPhase = "IN_FLIGHT" // intent recorded
	CallDelegated     CallPhase = "DELEGATED" // a child does it
	CallUncertainOpen CallPhase = "UNCERTAIN"
	CallDone          CallPhase = "ENDED"
)

// Call is one proposed call.
type Call struct {
	CallProposed
	Phase       CallPhase
	Verdict     policy.Verdict
	Approval    string // the approval that holds or allows it
	Access      string // the request for what it needs; empty for none
	Question    string // what it, or its server, asked last
	Asked       int    // attempts that ended by asking a person
	Intent      int    // number of the last intent
	Epoch       uint64
	NotAfterMs  int64
	Key         string
	Reserve     Amount
	AskPerson   bool // uncertain, and only a person can settle it
	Outcome     Outcome
	Code        string
	Result      *Text
	Media       []Media
	Late        []LateOutcome
	Resolutions []UncertainResolved
	Repeats     int    // attempts that a person asked for beyond the limit
	Child       string // run id of what does it; empty for a tool
}

// ApprovalStatus is where an approval stands.
type ApprovalStatus string

// The statuses of an approval.
const (
	ApprovalOpen    ApprovalStatus = "OPEN"
	ApprovalGranted ApprovalStatus = "GRANTED"
	ApprovalSpent   ApprovalStatus = "SPENT"
	ApprovalDenied  ApprovalStatus = "DENIED"
	ApprovalVoid    ApprovalStatus = "VOID"
)

// Approval is a request for people's decision on one exact call.
type Approval struct {
	ApprovalRequested
	Status    ApprovalStatus
	Cause     Void
	Decisions []ApprovalDecided
}

// QuestionStatus is where a question stands.
type QuestionStatus string

// The statuses of a question.
const (
	QuestionOpen     QuestionStatus = "OPEN"
	QuestionAnswerIn QuestionStatus = "ANSWERED"
	QuestionVoid     QuestionStatus = "VOID"
)

// Question is the model's question to a person, or with Ask its tool's server's.
type Question struct {
	QuestionAsked
	Status QuestionStatus
	Cause  Void
	Answer *QuestionAnswered
}

// SteerState is a steer and its disposition; empty while it is open.
type SteerState struct {
	SteerAccepted
	Disposition Disposition
	Turn        int
}

// Budget is what a run may spend, has reserved and has settled. Unknown is
// reserved for attempts whose price is not known; it stays held.
type Budget struct {
	Limit    Amount
	Reserved Amount
	Settled  Amount
	Unknown  Amount
}

// Committed is everything that counts against the limit.
func (b Budget) Committed() Amount { return b.Reserved.Plus(b.Settled).Plus(b.Unknown) }

// Covers reports whether another reservation fits.
func (b Budget) Covers(reserve Amount) bool { return b.Committed().Plus(reserve).Within(b.Limit) }

// LastTurn returns the current turn, or nil before the first.
func (s *State) LastTurn() *Turn {
	if len(s.Turns) == 0 {
		return nil
	}
	return &s.Turns[len(s.Turns)-1]
}

// Call returns the call with the ordinal, or nil.
func (s *State) Call(ordinal int) *Call {
	if ordinal < 1 || ordinal > len(s.Calls) {
		return nil
	}
	return &s.Calls[ordinal-1]
}

// Approval returns the approval with the id, or nil.
func (s *State) Approval(id string) *Approval {
	for i := len(s.Approvals) - 1; i >= 0; i-- {
		if s.Approvals[i].Approval == id {
			return &s.Approvals[i]
		}
	}
	return nil
}

// Question returns the question with the id, or nil.
func (s *State) Question(id string) *Question {
	for i := len(s.Questions) - 1; i >= 0; i-- {
		if s.Questions[i].Question == id {
			return &s.Questions[i]
		}
	}
	return nil
}

// openCalls visits the calls that have not ended, in the model's order.
func (s *State) openCalls(visit func(*Call)) {
	s.someOpenCall(func(c *Call) bool {
		visit(c)
		return false
	})
}

// someOpenCall reports whether one of the calls that have not ended is so; it
// looks no further than that.
func (s *State) someOpenCall(so func(*Call) bool) bool {
	for i := s.firstOpen; i < len(s.Calls); i++ {
		if s.Calls[i].Phase != CallDone && so(&s.Calls[i]) {
			return true
		}
	}
	return false
}

func (s *State) hasOpenCalls() bool { return s.someOpenCall(func(*Call) bool { return true }) }

// Closing reports whether the run only waits for what is in flight: it was
// cancelled, or it met a limit that ends it.
func (s *State) Closing() bool {
	return s.Cancel != nil || s.Reached != nil && s.Limits.OnLimit == FailOnLimit
}

func (s *State) turnsAllowed() int { return min(s.Limits.Turns, s.Authority.Turns) }

// mayHaveActed reports whether an earlier attempt of a call that is not in
// flight may have had its effect.
func (c *Call) mayHaveActed() bool { return c.doubts() > 0 && c.Class.OrWorst() != policy.ClassRead }

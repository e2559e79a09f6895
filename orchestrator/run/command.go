package run

import "gantry.dev/orchestrator/policy"

// Command is a wish: a closed set. Decide turns it into events or a refusal.
// Texts in a command are sealed already; ids in it are fresh.
type Command interface{ command() }

// Start asks for a new run.
type Start struct{ Started Started }

// BeginTurn asks to send one model request.
type BeginTurn struct {
	Epoch      uint64
	Model      string
	Why        string
	Prompt     string // digest of the compiled prompt
	Reserve    Amount // worst case
	Steers     []string
	NotAfterMs int64
	Memory     *Remembrance // what was recalled for it; Amendment is not read
	Context    *ContextUse  // nil where nobody counted
	Offers     []Offer      // every model that was looked at, with the one that is taken
	Hedge      *Hedge       // a second model that is asked too if the first keeps silent; Reserve covers both
}

// ReportTurn brings what a model request gave: an answer or a failure.
type ReportTurn struct {
	Turn, Attempt int
	Failure       *TurnFailure
	Class         Class
	Text          *Text
	Reasoning     *Text
	Thread        *Text  // as in TurnAnswered
	ThreadOf      string // as in TurnAnswered
	Usage         Usage
	Cost          Amount
	LatencyMs     int64
	Calls         []Proposal
	Hedged        *Hedged // as in TurnAnswered
}

// TurnFailure is a model request without an answer.
type TurnFailure struct {
	Cause        string
	Retryable    bool
	RetryAfterMs int64
	Unknown      bool // may have been billed
	Out          bool // nothing speaks against the request: it was not taken, or not in time
	Elsewhere    bool // another model that is right for the turn can be asked at once
	Second       Second
}

// Proposal is one proposed call with what its contract says of it. Arguments,
// Resource and Facts are for the decision only and are not recorded.
type Proposal struct {
	Tool        string
	Text        Text   // the argument bytes, sealed
	Fingerprint string // keyed digest of tool and arguments
	Refusal     string // code, when the proposal does not meet the contract
	Detail      *Text  // what is wrong, for the model
	Revision    string
	Impact      policy.Impact
	Class       policy.EffectClass
	CostBound   int64
	Control     bool   // the tool has control arguments
	Delegate    string // name of the agent that is to do it; empty for a tool
	Asks        bool   // the call is a question to a person
	To          []policy.Approver
	Requests    bool  // the call does nothing but ask for access
	Want        *Want // what the run must ask To for first; nil: nothing
	Inputs      CallInputs
	Approval    string // fresh id, in case an approval, a question or a request is opened
	Nonce       string
}

// CallInputs are the parts of a call that policy looks at.
type CallInputs struct {
	Arguments []byte // canonical JSON
	Resource  string
	Facts     policy.Facts
}

// Judge asks for a new verdict on a call whose approval was voided.
type Judge struct {
	Call     int
	Inputs   CallInputs
	Approval string
	Nonce    string
	Want     *Want // as in Proposal
	To       []policy.Approver
}

// BeginCall asks to attempt one call.
type BeginCall struct {
	Epoch      uint64
	Call       int
	Inputs     CallInputs
	Key        string // idempotency key
	NotAfterMs int64
	Child      *Spawn // the child that is to do it, for a call that is delegated
}

// Spawn is a child that is ready to be started; the same write makes its run.
type Spawn struct {
	Child     string // run id; see ChildOfCall
	RunKind   Kind
	Purpose   Purpose
	Agent     string // name
	Revision  string // digest
	Grant     string // id of the grant by which it may have more than its parent, empty for none
	Snapshot  string // digest of its inputs
	Authority policy.Authority
	Carve     Amount // its budget, from the parent's
}

// DeclineCall ends a call that cannot be delegated.
type DeclineCall struct {
	Call   int
	Code   string
	Detail *Text // for the model
}

// ReportChildren brings the ends of children.
type ReportChildren struct{ Ends []ChildEnd }

// ChildEnd is the end of one child. Fault says why its result is not taken.
type ChildEnd struct {
	ChildEnded
	Fault string
}

// ReportStopped says that a child was told to stop.
type ReportStopped struct{ Child string }

// ReportCall brings the outcome of one attempt.
type ReportCall struct {
	Call, Intent int
	Outcome      Outcome // OK or FAILED; UNKNOWN when the attempt is uncertain
	Code         string
	Result       *Text
	Media        []Media // that the result names
	Fingerprint  string
	Cost         Amount
	Ask          *Asked // the call has not ended: its server asks a person; Outcome is FAILED
}

// ReportProbe brings the answer of an outcome query.
type ReportProbe struct {
	Call        int
	Found       bool
	Failed      bool // the query itself failed: nothing is known
	Outcome     Outcome
	Result      *Text
	Media       []Media
	Fingerprint string
}

// Recover tells a run that a new owner took it over: what was in flight under
// an earlier epoch has an unknown outcome.
type Recover struct{ Epoch uint64 }

// Fire tells a run that time has passed.
type Fire struct{}

// DecideApproval is one person's word on one held call.
type DecideApproval struct {
	Approval string
	Digest   string
	Granted  bool
	By       Identity
	Person   policy.Principal // By, as the directory knows them now
	Reason   *Text
}

// AnswerQuestion is a person's answer.
type AnswerQuestion struct {
	Question string
	By       Identity
	Person   policy.Principal
	Answer   Text
	Action   Action // to an Ask; empty for a question of the model
}

// Steer is a person's guidance.
type Steer struct {
	Steer     string
	By        Identity
	Text      Text
	Interrupt bool
	Void      bool
	From      string // run id of the sidecar whose result it is
	Evidence  bool
}

// Cancel asks to stop the run.
type Cancel struct {
	By     Identity
	Reason *Text
}

// Resume lets a run go on that waits at a limit or is parked.
type Resume struct {
	By         Identity
	Person     policy.Principal
	Turns      int
	Amount     Amount
	DeadlineMs int64
	Accept     bool // take the unchecked answer as it is: the run ends PARTIAL
	End        bool // end the run instead
}

// ResolveUncertain is a person's finding on an uncertain call.
type ResolveUncertain struct {
	Call       int
	By         Identity
	Person     policy.Principal
	Resolution Resolution
	Override   bool // accept that the first attempt may still act
	Evidence   Text
}

// ReportChecks brings what the completion checks found.
type ReportChecks struct {
	Turn   int
	Checks []CheckResult
}

// Park stops the run for an operator.
type Park struct{ Code, Detail string }

func (Start) command()            {}
func (BeginTurn) command()        {}
func (ReportTurn) command()       {}
func (Judge) command()            {}
func (BeginCall) command()        {}
func (ReportCall) command()       {}
func (ReportProbe) command()      {}
func (Recover) command()          {}
func (Fire) command()             {}
func (DecideApproval) command()   {}
func (AnswerQuestion) command()   {}
func (Steer) command()            {}
func (Cancel) command()           {}
func (Resume) command()           {}
func (ResolveUncertain) command() {}
func (ReportChecks) command()     {}
func (DeclineCall) command()      {}
func (ReportChildren) command()   {}
func (ReportStopped) command()    {}
func (Park) command()             {}

// Refusal says why a command is not accepted. It changes nothing.
type Refusal struct {
	Code   string // stable, for example "RUN_ENDED"
	Detail string // one sentence and what to do
}

// Error returns the code and the sentence.
func (r *Refusal) Error() string { return r.Code + ": " + r.Detail }

func refuse(code, detail string) *Refusal { return &Refusal{Code: code, Detail: detail} }

package run

import "gantry.dev/orchestrator/policy"

// Event is a fact of a run's journal: a closed set, never changed once
// recorded. The JSON form of each is a format for good; see codec.go.
type Event interface {
	// Kind is the recorded name of the event's type.
	Kind() EventKind
	// Texts are the texts that the event bears, with their markings.
	Texts() []Text
}

// EventKind names a type of event.
type EventKind string

// The kinds of event.
const (
	KindStarted           EventKind = "started"
	KindTurnStarted       EventKind = "turn_started"
	KindTurnAnswered      EventKind = "turn_answered"
	KindTurnFailed        EventKind = "turn_failed"
	KindCallProposed      EventKind = "call_proposed"
	KindCallJudged        EventKind = "call_judged"
	KindApprovalRequested EventKind = "approval_requested"
	KindApprovalDecided   EventKind = "approval_decided"
	KindApprovalVoided    EventKind = "approval_voided"
	KindQuestionAsked     EventKind = "question_asked"
	KindQuestionAnswered  EventKind = "question_answered"
	KindQuestionVoided    EventKind = "question_voided"
	KindCallIntended      EventKind = "call_intended"
	KindCallEnded         EventKind = "call_ended"
	KindCallUncertain     EventKind = "call_uncertain"
	KindUncertainResolved EventKind = "uncertain_resolved"
	KindLateOutcome       EventKind = "late_outcome"
	KindSteerAccepted     EventKind = "steer_accepted"
	KindSteerSettled      EventKind = "steer_settled"
	KindCancelAccepted    EventKind = "cancel_accepted"
	KindLimitReached      EventKind = "limit_reached"
	KindLimitRaised       EventKind = "limit_raised"
	KindVerified          EventKind = "verified"
	KindEnded             EventKind = "ended"
	KindParked            EventKind = "parked"
	KindResumed           EventKind = "resumed"
)

// Started admits the run. Everything in it was checked in one transaction.
type Started struct {
	Organisation   string            `json:"organisation"`
	RunKind        Kind              `json:"runKind"`
	Root           string            `json:"root"`             // run id of the tree's root; its own for a root
	Parent         string            `json:"parent,omitempty"` // run id
	Conversation   string            `json:"conversation,omitempty"`
	Subject        policy.Principal  `json:"subject"`
	Chain          []string          `json:"chain"` // acting chain: principal ids, subject first
	Agent          policy.AgentFacts `json:"agent"`
	Contact        string            `json:"contact"` // principal id: who gets held, parked and uncertain work
	Goal           Text              `json:"goal"`
	History        []Message         `json:"history,omitempty"` // what was said in the conversation before, oldest first
	Snapshot       Snapshot          `json:"snapshot"`
	SnapshotDigest string            `json:"snapshotDigest"`
	Authority      policy.Authority  `json:"authority"`
	Limits         Limits            `json:"limits"`
	Checks         []string          `json:"checks,omitempty"` // names of the completion checks
	Accounts       []string          `json:"accounts"`         // budget nodes that carry the run, innermost first
	By             Identity          `json:"by"`
	// AudienceSpaces are where everybody may read who takes part in the
	// conversation: the run recalls nothing from elsewhere. None where its subject
	// is alone with it.
	AudienceSpaces []string `json:"audienceSpaces,omitempty"`
	// Withheld are the messages between those of the history that the run may not
	// read, oldest first.
	Withheld []Withheld `json:"withheld,omitempty"`
	// Said is set where the goal was said in the conversation before the run began.
	Said *Said `json:"said,omitempty"`

	// Consents are the grants of the conversation that the run has from its start;
	// what they give is in Authority.
	Consents []string `json:"consents,omitempty"`

	Lineage  []Link `json:"lineage,omitempty"`  // the runs above this one, root first
	Grant    string `json:"grant,omitempty"`    // id of the grant by which the agent is lent to the subject, or may do more than its parent
	Task     *Task  `json:"task,omitempty"`     // what it was sent to do; nil for a root
	Borrower string `json:"borrower,omitempty"` // department that pays; empty: the agent's own
	// Branches says that the calls which the run delegates are branches of one
	// piece of work: it is only PARTIAL unless all of them succeed.
	Branches bool `json:"branches,omitempty"`
	// Reviewers review calls, or the answer, before they count; Sidecars begin
	// with the run.
	Reviewers []Reviewer `json:"reviewers,omitempty"`
	Sidecars  []Beside   `json:"sidecars,omitempty"`
}

// Payer is the department that the run is billed to.
func (e Started) Payer() string {
	if e.Borrower != "" {
		return e.Borrower
	}
	return e.Agent.Department
}

// Said is where a goal stands that a run was given with the turn.
type Said struct {
	Entry uint64 `json:"entry"` // number of the entry of the conversation
	By    string `json:"by"`    // principal id of whoever said it: a person, or an agent that gave the turn on
}

// Acting is who acts in the run: the last of the acting chain.
func (e Started) Acting() string {
	if len(e.Chain) == 0 {
		return ""
	}
	return e.Chain[len(e.Chain)-1]
}

// principals is the acting chain as policy sees it.
func (e Started) principals() []policy.Principal {
	chain := make([]policy.Principal, 0, len(e.Chain))
	for i, id := range e.Chain {
		if i == 0 {
			chain = append(chain, e.Subject)
			continue
		}
		chain = append(chain, policy.Principal{ID: id, Kind: policy.Agent, Organisation: e.Organisation})
	}
	return chain
}

// Message is what somebody said in a conversation.
type Message struct {
	Author string `json:"author"` // principal id
	Text   Text   `json:"text"`
}

// Withheld stands for a message that the run may not read: it knows only that
// the author said something.
type Withheld struct {
	Before int    `json:"before"` // index of the message of the history that follows
	Author string `json:"author"` // principal id
	Text   string `json:"text"`   // id
}

// TurnStarted is the intent of one model request; it reserves the worst case.
type TurnStarted struct {
	Turn       int      `json:"turn"` // from 1
	Attempt    int      `json:"attempt"`
	Epoch      uint64   `json:"epoch"`
	Model      string   `json:"model"`
	Why        string   `json:"why"` // why this model
	Prompt     string   `json:"prompt"`
	Reserve    Amount   `json:"reserve"`
	Steers     []string `json:"steers,omitempty"` // ids that the prompt contains
	NotAfterMs int64    `json:"notAfterMs"`

	Memory  *Remembrance `json:"memory,omitempty"`  // what was recalled for it, nil for nothing
	Context *ContextUse  `json:"context,omitempty"` // nil where nobody counted
	Offers  []Offer      `json:"offers,omitempty"`  // every model that was looked at
	Hedge   *Hedge       `json:"hedge,omitempty"`   // Reserve covers it too
}

// TurnAnswered is a whole, classified answer.
type TurnAnswered struct {
	Turn      int    `json:"turn"`
	Class     Class  `json:"class"`
	Text      *Text  `json:"text,omitempty"`
	Reasoning *Text  `json:"reasoning,omitempty"`
	Usage     Usage  `json:"usage"`
	Cost      Amount `json:"cost"`
	LatencyMs int64  `json:"latencyMs"`

	Thread   *Text  `json:"thread,omitempty"`   // what the model wants back with the answer; nobody else reads it
	ThreadOf string `json:"threadOf,omitempty"` // the model that gave it

	Hedged *Hedged `json:"hedged,omitempty"` // nil where one model was asked; Cost is of both
}

// Usage counts the tokens of one request.
type Usage struct {
	Input      int64 `json:"input"`
	CacheRead  int64 `json:"cacheRead,omitempty"`
	CacheWrite int64 `json:"cacheWrite,omitempty"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning,omitempty"`
	Estimated  bool  `json:"estimated,omitempty"`
}

// The causes of a failed attempt that no model names.
const (
	Lost        = "LOST"        // its worker is gone
	Interrupted = "INTERRUPTED" // by a steer
)

// TurnFailed ends one attempt without an answer. An attempt whose price is not
// known keeps its reservation as Unknown.
type TurnFailed struct {
	Turn      int    `json:"turn"`
	Attempt   int    `json:"attempt"`
	Cause     string `json:"cause"`               // a model error kind, Lost or Interrupted
	RetryAtMs int64  `json:"retryAtMs,omitempty"` // 0: at once
	Unknown   bool   `json:"unknown,omitempty"`   // the request may have been billed
	Retryable bool   `json:"retryable"`
	BackMs    int64  `json:"backMs,omitempty"` // when the same model may be asked again; 0: at RetryAtMs
	Second    Second `json:"second,omitempty"` // of a turn with two models; what is said above is then of the first
}

// CallProposed is one call of an answer, in the model's order.
type CallProposed struct {
	Call        int                `json:"call"` // our ordinal in the run, from 1
	Turn        int                `json:"turn"`
	Tool        string             `json:"tool"` // as proposed; may name no tool
	Revision    string             `json:"revision,omitempty"`
	Impact      policy.Impact      `json:"impact"`
	Class       policy.EffectClass `json:"class"`
	Arguments   Text               `json:"arguments"`   // canonical JSON, or the raw bytes when refused
	Fingerprint string             `json:"fingerprint"` // keyed digest of tool and arguments
	CostBound   int64              `json:"costBound"`   // micro-dollars
	Asks        bool               `json:"asks,omitempty"`
	Plain       bool               `json:"plain,omitempty"`    // no argument chooses whom or what the effect reaches
	Delegate    string             `json:"delegate,omitempty"` // name of the agent that is to do it
	Requests    bool               `json:"requests,omitempty"` // it does nothing but ask for access
}

// CallJudged is policy's verdict on a call.
type CallJudged struct {
	Call    int            `json:"call"`
	Verdict policy.Verdict `json:"verdict"`
}

// ApprovalRequested holds a call for people.
type ApprovalRequested struct {
	Approval   string            `json:"approval"`
	Call       int               `json:"call"`
	Digest     string            `json:"digest"` // see ApprovalDigest
	Nonce      string            `json:"nonce"`
	Approvers  []policy.Approver `json:"approvers"`
	Quorum     int               `json:"quorum"`
	Policy     string            `json:"policy"` // revision of the policy set
	NotAfterMs int64             `json:"notAfterMs"`
}

// ApprovalDecided is one person's word. Complete marks the one that settles
// the approval: a denial, or the grant that makes the quorum.
type ApprovalDecided struct {
	Approval string   `json:"approval"`
	By       Identity `json:"by"`
	Granted  bool     `json:"granted"`
	Complete bool     `json:"complete"`
	Reason   *Text    `json:"reason,omitempty"`
}

// Void says why an approval or a question can no longer be answered.
type Void string

// The reasons for a void.
const (
	VoidExpired       Void = "EXPIRED"
	VoidCancelled     Void = "CANCELLED"
	VoidPolicyChanged Void = "POLICY_CHANGED"
	VoidToolChanged   Void = "TOOL_CHANGED"
	VoidSteered       Void = "STEERED"
	VoidNotEntitled   Void = "APPROVER_NOT_ENTITLED"
	VoidLimit         Void = "LIMIT_REACHED"
	VoidNotShown      Void = "NOT_SHOWN" // what a server asks may be shown to nobody
)

// ApprovalVoided ends an approval undecided, or before it was spent.
type ApprovalVoided struct {
	Approval string `json:"approval"`
	Cause    Void   `json:"cause"`
}

// QuestionAsked puts the model's question to a person, or with Ask what the
// server of a tool asks.
type QuestionAsked struct {
	Question   string            `json:"question"`
	Call       int               `json:"call"`
	To         []policy.Approver `json:"to"`
	NotAfterMs int64             `json:"notAfterMs"`

	Ask *Ask `json:"ask,omitempty"`
}

// QuestionAnswered is the person's answer, the result of the asking call; to an
// Ask it is what the next attempt brings, a JSON object.
type QuestionAnswered struct {
	Question string   `json:"question"`
	By       Identity `json:"by"`
	Answer   Text     `json:"answer"`
	Action   Action   `json:"action,omitempty"` // to an Ask
}

// QuestionVoided ends a question unanswered.
type QuestionVoided struct {
	Question string `json:"question"`
	Cause    Void   `json:"cause"`
}

// CallIntended is the intent of one attempt; it spends the approval and
// reserves the money. Only after it is recorded may the effect begin.
type CallIntended struct {
	Call       int    `json:"call"`
	Intent     int    `json:"intent"` // from 1, a new one for each attempt
	Epoch      uint64 `json:"epoch"`
	Key        string `json:"key"` // idempotency key: the same for every attempt
	Approval   string `json:"approval,omitempty"`
	Reserve    Amount `json:"reserve"`
	NotAfterMs int64  `json:"notAfterMs"` // the effect may not begin later
}

// CallEnded gives a call its one terminal result.
type CallEnded struct {
	Call        int     `json:"call"`
	Outcome     Outcome `json:"outcome"`
	Code        string  `json:"code,omitempty"`
	Result      *Text   `json:"result,omitempty"`
	Media       []Media `json:"media,omitempty"`       // that the result names
	Fingerprint string  `json:"fingerprint,omitempty"` // keyed digest of the result
	Cost        Amount  `json:"cost"`
	Unknown     bool    `json:"unknown,omitempty"` // the reservation stays held
}

// CallUncertain says that an attempt may or may not have had its effect.
type CallUncertain struct {
	Call   int    `json:"call"`
	Intent int    `json:"intent"`
	Cause  string `json:"cause"` // "LOST" or a tool failure code
	Ask    bool   `json:"ask"`   // only a person can settle it
}

// Resolution is a person's finding on an uncertain call.
type Resolution string

// The findings.
const (
	Happened    Resolution = "HAPPENED"
	NotHappened Resolution = "NOT_HAPPENED"
	Repeat      Resolution = "REPEAT" // it did not happen: try once more, knowing that the first may still act
)

// UncertainResolved records a person's finding, with the evidence for it.
type UncertainResolved struct {
	Call       int        `json:"call"`
	By         Identity   `json:"by"`
	Resolution Resolution `json:"resolution"`
	Evidence   Text       `json:"evidence"`
}

// LateOutcome is an attempt's outcome that arrived after its call had ended or
// been tried again. It changes nothing but is never hidden.
type LateOutcome struct {
	Call    int     `json:"call"`
	Intent  int     `json:"intent"`
	Outcome Outcome `json:"outcome"`
	Result  *Text   `json:"result,omitempty"`
}

// SteerAccepted puts a person's guidance into the run's inbox.
type SteerAccepted struct {
	Steer     string   `json:"steer"`
	By        Identity `json:"by"`
	Text      Text     `json:"text"`
	Interrupt bool     `json:"interrupt,omitempty"` // stop the turn in flight
	Void      bool     `json:"void,omitempty"`      // void open approvals
	From      string   `json:"from,omitempty"`      // run id of the sidecar whose result it is; empty for a person's
	Evidence  bool     `json:"evidence,omitempty"`  // a sidecar's finding, no guidance
}

// Disposition is what became of a steer.
type Disposition string

// The dispositions.
const (
	Absorbed Disposition = "ABSORBED" // a turn that was answered contained it
	Deferred Disposition = "DEFERRED" // for the conversation's next run
)

// SteerSettled gives a steer its disposition.
type SteerSettled struct {
	Steer       string      `json:"steer"`
	Disposition Disposition `json:"disposition"`
	Turn        int         `json:"turn,omitempty"`
}

// CancelAccepted closes admission: no later intent is recorded.
type CancelAccepted struct {
	By     Identity `json:"by"`
	Reason *Text    `json:"reason,omitempty"`
}

// LimitReached pauses the run until a person raises the limit or ends it.
type LimitReached struct {
	Limit     Limit             `json:"limit"`
	Detail    string            `json:"detail"`
	Approvers []policy.Approver `json:"approvers"`
}

// LimitRaised is a sealed amendment of the run's bounds.
type LimitRaised struct {
	Limit      Limit    `json:"limit"`
	By         Identity `json:"by"`
	Turns      int      `json:"turns,omitempty"`      // more turns
	Amount     Amount   `json:"amount"`               // more budget
	DeadlineMs int64    `json:"deadlineMs,omitempty"` // new deadline
	Amendment  string   `json:"amendment"`            // digest over the fields above and the snapshot
}

// CheckVerdict is what one completion check found.
type CheckVerdict string

// The verdicts of a check.
const (
	CheckPassed    CheckVerdict = "PASSED"
	CheckFailed    CheckVerdict = "FAILED"
	CheckUnchecked CheckVerdict = "UNCHECKED" // it could not be looked at
)

// CheckResult is one check's finding.
type CheckResult struct {
	Name    string       `json:"name"`
	Verdict CheckVerdict `json:"verdict"`
	Code    string       `json:"code,omitempty"`
	Detail  *Text        `json:"detail,omitempty"`
	Final   bool         `json:"final,omitempty"` // it failed, and no other answer would help
	Read    bool         `json:"read,omitempty"`  // it passed by what the platform itself read outside
}

// Verified holds what the completion checks found about an answer.
type Verified struct {
	Turn      int           `json:"turn"`
	Checks    []CheckResult `json:"checks"`
	RetryAtMs int64         `json:"retryAtMs,omitempty"` // when to look again
}

// Ended is the one terminal event.
type Ended struct {
	Status  Status    `json:"status"`
	Reason  EndReason `json:"reason"`
	Code    string    `json:"code,omitempty"`
	Result  *Text     `json:"result,omitempty"` // the verified answer
	Settled Amount    `json:"settled"`
	Unknown Amount    `json:"unknown"` // may have been spent; stays held
	By      *Identity `json:"by,omitempty"`
	// Accepted names the checks that By let be open, in their order.
	Accepted []string `json:"accepted,omitempty"`
	// Unverified says that the result of a sub-agent is its model's word alone.
	Unverified bool `json:"unverified,omitempty"`
}

// Parked stops the run until an operator has looked.
type Parked struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Resumed lets a parked or paused run go on.
type Resumed struct {
	By Identity `json:"by"`
}

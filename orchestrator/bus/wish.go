package bus

import (
	"encoding/json"
	"errors"
	"fmt"

	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/run"
)

// ErrCommand means that a message is no command: it is parked, as trying again
// would change nothing.
var ErrCommand = errors.New("the message is no command")

// Kind says what a command by message wishes.
type Kind string

// The kinds of command.
const (
	KindStart            Kind = "start"
	KindSteer            Kind = "steer"
	KindCancel           Kind = "cancel"
	KindResume           Kind = "resume"
	KindDecideApproval   Kind = "decideApproval"
	KindAnswerQuestion   Kind = "answerQuestion"
	KindResolveUncertain Kind = "resolveUncertain"
)

// Wish is what a command by message asks for: a closed set, one type for each
// kind. Its texts are as the caller wrote them, not sealed yet.
type Wish interface{ wish() }

// StartWish asks for a new run.
type StartWish struct {
	Agent        string `json:"agent"`
	Revision     string `json:"revision,omitempty"` // empty: the one in force
	Goal         string `json:"goal"`
	Conversation string `json:"conversation,omitempty"`
}

// SteerWish guides a run.
type SteerWish struct {
	Text      string `json:"text"`
	Interrupt bool   `json:"interrupt,omitempty"`
	Void      bool   `json:"void,omitempty"` // approvals that are open become void
}

// CancelWish stops a run.
type CancelWish struct {
	Reason string `json:"reason,omitempty"`
}

// ResumeWish lets a run go on that waits at a limit or is parked.
type ResumeWish struct {
	Turns      int        `json:"turns,omitempty"`
	Amount     run.Amount `json:"amount"`
	DeadlineMs int64      `json:"deadlineMs,omitempty"` // UTC ms
	Accept     bool       `json:"accept,omitempty"`
	End        bool       `json:"end,omitempty"`
}

// DecideApprovalWish is the caller's word on one held call.
type DecideApprovalWish struct {
	Approval string `json:"approval"`
	Digest   string `json:"digest"`
	Granted  bool   `json:"granted"`
	Reason   string `json:"reason,omitempty"`
}

// AnswerQuestionWish is the caller's answer.
type AnswerQuestionWish struct {
	Question string     `json:"question"`
	Answer   string     `json:"answer"`           // to a form that is accepted: its values as a JSON object
	Action   run.Action `json:"action,omitempty"` // what is done with what a server asks
}

// ResolveUncertainWish is the caller's finding on an uncertain call.
type ResolveUncertainWish struct {
	Call       int            `json:"call"`
	Resolution run.Resolution `json:"resolution"`
	Override   bool           `json:"override,omitempty"`
	Evidence   string         `json:"evidence"`
}

func (StartWish) wish()            {}
func (SteerWish) wish()            {}
func (CancelWish) wish()           {}
func (ResumeWish) wish()           {}
func (DecideApprovalWish) wish()   {}
func (AnswerQuestionWish) wish()   {}
func (ResolveUncertainWish) wish() {}

// Command is a decoded command by message.
type Command struct {
	ID      string // client-made, unique per caller: repetitions get the first answer
	Run     string // run id; empty for a start
	Kind    Kind
	Wish    Wish
	Request []byte // canonical JSON of the whole body, whose digest tells a repetition from another request
}

// maxBody is how many bytes the body of a command may have.
const maxBody = 256 << 10

// maxID is how many bytes an id may have.
const maxID = 128

type envelope struct {
	CommandID string          `json:"commandId"`
	Run       string          `json:"run,omitempty"`
	Start     json.RawMessage `json:"start,omitempty"`
	Kind      Kind            `json:"kind"`
	Fields    json.RawMessage `json:"fields,omitempty"`
}

func wishOf[W Wish](raw []byte) (Wish, error) {
	var w W
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if raw[0] != '{' {
		return nil, ErrCommand
	}
	err := readStrict(raw, &w)
	return w, err
}

var wishes = map[Kind]func([]byte) (Wish, error){
	KindStart: wishOf[StartWish], KindSteer: wishOf[SteerWish], KindCancel: wishOf[CancelWish], KindResume: wishOf[ResumeWish],
	KindDecideApproval: wishOf[DecideApprovalWish], KindAnswerQuestion: wishOf[AnswerQuestionWish],
	KindResolveUncertain: wishOf[ResolveUncertainWish],
}

// ReadCommand decodes the body of a command:
//
//	{"commandId": "…", "run": "…", "kind": "steer", "fields": {"text": "…"}}
//	{"commandId": "…", "kind": "start", "start": {"agent": "…", "goal": "…"}}
//
// Nothing unknown, repeated or ambiguous may stand in it. Errors: ErrCommand.
func ReadCommand(body []byte) (Command, error) {
	if len(body) > maxBody {
		return Command{}, fmt.Errorf("%w: longer than %d bytes", ErrCommand, maxBody)
	}
	var e envelope
	if err := readStrict(body, &e); err != nil {
		return Command{}, fmt.Errorf("%w: not as described", ErrCommand)
	}
	decode, known := wishes[e.Kind]
	starts := e.Kind == KindStart
	switch {
	case !known:
		return Command{}, fmt.Errorf("%w: unknown kind", ErrCommand)
	case e.CommandID == "" || len(e.CommandID) > maxID || len(e.Run) > maxID:
		return Command{}, fmt.Errorf("%w: ids have 1 to %d bytes", ErrCommand, maxID)
	case starts != (e.Run == "") || starts != (len(e.Start) > 0) || (starts && len(e.Fields) > 0):
		return Command{}, fmt.Errorf("%w: a start has start, every other kind has run and fields", ErrCommand)
	}
	fields := e.Fields
	if starts {
		fields = e.Start
	}
	wish, err := decode(fields)
	if err != nil {
		return Command{}, fmt.Errorf("%w: fields of %s are not as described", ErrCommand, e.Kind)
	}
	request, err := canon.JSON(body)
	if err != nil {
		return Command{}, fmt.Errorf("%w: not as described", ErrCommand)
	}
	return Command{ID: e.CommandID, Run: e.Run, Kind: e.Kind, Wish: wish, Request: request}, nil
}

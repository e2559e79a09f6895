package run

import (
	"fmt"

	"gantry.dev/orchestrator/policy"
)

// Ask is what the server of a tool wants to know from a person before it does a
// call. The call waits for the answer and is then attempted again.
type Ask struct {
	Intent      int     `json:"intent"` // the attempt that asked
	Origin      string  `json:"origin"` // name of the server
	Kind        AskKind `json:"kind"`
	Form        *Text   `json:"form,omitempty"`  // what the person is shown: canonical JSON; nil where nobody may be
	State       *Text   `json:"state,omitempty"` // what the server wants back, byte for byte
	Fingerprint string  `json:"fingerprint"`     // keyed digest of all that was asked
	// Declined is why nobody is asked: a code. Then the call goes on at once, as
	// if a person had said no.
	Declined string `json:"declined,omitempty"`
}

// AskKind is how a server asks.
type AskKind string

// The ways to ask.
const (
	AskForm AskKind = "FORM" // for values that meet a schema
	AskURL  AskKind = "URL"  // to look at something outside
)

// Action is what a person did with what a server asked.
type Action string

// The actions.
const (
	Accept  Action = "ACCEPT"
	Decline Action = "DECLINE" // no
	Dismiss Action = "CANCEL"  // neither yes nor no
)

// MaxAsks is how often the server of one call may ask before the call fails.
const MaxAsks = 8

// The codes of a call whose server asked in a way that nobody is asked again.
const (
	AskedTooOften = "ASKED_TOO_OFTEN"
	AskedAgain    = "ASKED_AGAIN" // word for word what was answered before
)

// Asked brings what the server of a call wants to know.
type Asked struct {
	Ask
	Question string            // fresh id
	To       []policy.Approver // none: the person for whom the run acts
}

// ask takes an attempt that asks instead of ending its call. That it was not
// done is the server's word, and counts as much as its word that it failed.
func (d *decider) ask(call *Call, c Asked) *Refusal {
	ordinal := call.CallProposed.Call
	switch {
	case call.Phase != CallInFlight:
		return refuse("STALE", "The attempt is known to be uncertain; what it asks comes too late.")
	case c.Kind != AskForm && c.Kind != AskURL || c.Question == "" || (c.Form == nil) != (c.Declined != ""):
		return refuse("INVALID_ASK", "A server asks by a form or for a look at a page, and shows it unless nobody is asked.")
	}
	c.Intent = call.Intent
	code, outcome := "", OutcomeFailed
	switch {
	case d.s.Cancel != nil:
		code, outcome = string(VoidCancelled), OutcomeVoid
	case d.s.Closing():
		code, outcome = string(VoidLimit), OutcomeVoid
	case d.s.answeredBefore(ordinal, c.Fingerprint):
		code = AskedAgain
	case call.Asked >= MaxAsks:
		code = AskedTooOften
	}
	if code == "" {
		d.emit(QuestionAsked{Question: c.Question, Call: ordinal, To: d.askees(c.To), NotAfterMs: d.env.NowMs + d.s.Limits.QuestionMs, Ask: &c.Ask})
		if c.Declined != "" {
			d.emit(QuestionVoided{Question: c.Question, Cause: VoidNotShown})
		}
		return nil
	}
	if call.doubts() > 1 && call.Class.OrWorst() != policy.ClassRead {
		outcome = OutcomeUnknown
	}
	d.emit(CallEnded{Call: ordinal, Outcome: outcome, Code: code})
	d.settle(d.ending())
	return nil
}

// answeredBefore reports whether the same was asked for a call and answered.
func (s *State) answeredBefore(call int, fingerprint string) bool {
	for i := range s.Questions {
		if q := &s.Questions[i]; q.Call == call && q.Ask != nil && q.Ask.Fingerprint == fingerprint {
			return true
		}
	}
	return false
}

// doubts counts the attempts of a call that did not end by asking: those of
// which one, at most, is in flight and the others may have acted.
func (c *Call) doubts() int { return c.Intent - c.Asked }

// Alone reports whether no more than one attempt of a call may have acted: what
// becomes known of it settles the call.
func (c *Call) Alone() bool { return c.doubts() <= 1 }

// AnswerTo is the last thing that the server of a call asked and that was
// settled, with what is said to it; nil before any.
func (s *State) AnswerTo(c *Call) (*Question, Action) {
	question := s.Question(c.Question)
	switch {
	case question == nil || question.Ask == nil || question.Status == QuestionOpen:
		return nil, ""
	case question.Answer != nil:
		return question, question.Answer.Action
	}
	return question, Decline
}

// fits says what speaks against an answer to what a server asked, or to a
// question of the model, which takes no action.
func (q *Question) fits(c AnswerQuestion) *Refusal {
	switch {
	case q.Ask == nil && c.Action != "":
		return refuse("INVALID_ACTION", "The model asks in words; answer it in words.")
	case q.Ask == nil:
		return nil
	case c.Action != Accept && c.Action != Decline && c.Action != Dismiss:
		return refuse("INVALID_ACTION", "A server asks by a form: ACCEPT, DECLINE or CANCEL it.")
	case c.Action == Accept && !c.Person.Sees(q.Ask.Form.Marking.Labels):
		return refuse("NOT_CLEARED", "You cannot see what the server asks; somebody who can has to accept it.")
	}
	return nil
}

// foldAsk lets a call wait for what its server asks. Its reservation is given
// back: the next attempt makes its own.
func (s *State) foldAsk(c *Call, e QuestionAsked) error {
	if c.Phase != CallInFlight || e.Ask.Intent != c.Intent {
		return fmt.Errorf("%w: question of call %d, which is not in flight", ErrBroken, e.Call)
	}
	s.InFlight--
	s.Budget.Reserved = s.Budget.Reserved.Minus(c.Reserve)
	c.Reserve = Amount{}
	c.Asked++
	return nil
}

// goOn lets a call be attempted again whose server got its answer, or will be
// told that it gets none.
func (s *State) goOn(question *Question) {
	c := s.Call(question.Call)
	if question.Ask != nil && (question.Answer != nil || question.Cause == VoidNotShown) {
		c.Phase = CallReady
	}
}

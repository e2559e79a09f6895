package run

import (
	"fmt"

	"gantry.dev/orchestrator/policy"
)

func (s *State) foldCall(event Event) error {
	if e, ok := event.(CallProposed); ok {
		return s.propose(e)
	}
	c := s.Call(callOf(event))
	if c == nil {
		return fmt.Errorf("%w: %s for no call", ErrBroken, event.Kind())
	}
	switch e := event.(type) {
	case LateOutcome:
		c.Late = append(c.Late, e)
		return nil
	case UncertainResolved:
		if c.Outcome == OutcomeUnknown {
			c.Resolutions = append(c.Resolutions, e)
			return nil
		}
	}
	if c.Phase == CallDone {
		return fmt.Errorf("%w: %s after the end of the call", ErrBroken, event.Kind())
	}
	switch e := event.(type) {
	case CallJudged:
		return c.judge(e)
	case CallIntended:
		return s.intend(c, e)
	case CallUncertain:
		return s.makeUncertain(c, e)
	case UncertainResolved:
		return s.resolve(c, e)
	case CallEnded:
		s.endCall(c, e)
	}
	return nil
}

// judge keeps the verdict. A hold leaves the call where it needs people.
func (c *Call) judge(e CallJudged) error {
	if c.Phase != CallProposedPhase && c.Phase != CallReady {
		return fmt.Errorf("%w: verdict on call %d", ErrBroken, e.Call)
	}
	c.Verdict, c.Phase = e.Verdict, CallReady
	if e.Verdict.Answer == policy.Hold {
		c.Phase = CallProposedPhase
	}
	return nil
}

func (s *State) resolve(c *Call, e UncertainResolved) error {
	if c.Phase != CallUncertainOpen {
		return fmt.Errorf("%w: call %d is not uncertain", ErrBroken, e.Call)
	}
	c.Resolutions = append(c.Resolutions, e)
	if e.Resolution == Repeat {
		s.setAside(c)
		c.Phase, c.AskPerson = CallReady, false
		c.Repeats++
	}
	return nil
}

// setAside keeps the reservation of an attempt whose outcome stays unknown, so
// that the next attempt makes its own.
func (s *State) setAside(c *Call) {
	s.Budget.Unknown = s.Budget.Unknown.Plus(c.Reserve)
	s.Budget.Reserved = s.Budget.Reserved.Minus(c.Reserve)
	c.Reserve = Amount{}
}

func callOf(event Event) int {
	switch e := event.(type) {
	case CallJudged:
		return e.Call
	case CallIntended:
		return e.Call
	case CallEnded:
		return e.Call
	case CallUncertain:
		return e.Call
	case UncertainResolved:
		return e.Call
	case LateOutcome:
		return e.Call
	}
	return 0
}

func (s *State) propose(e CallProposed) error {
	turn := s.LastTurn()
	if turn == nil || turn.Number != e.Turn || turn.Phase != TurnDone || e.Call != len(s.Calls)+1 {
		return fmt.Errorf("%w: call %d out of order", ErrBroken, e.Call)
	}
	if turn.FirstCall == 0 {
		turn.FirstCall = e.Call
	}
	turn.LastCall = e.Call
	s.Calls = append(s.Calls, Call{CallProposed: e, Phase: CallProposedPhase})
	return nil
}

func (s *State) intend(c *Call, e CallIntended) error {
	if c.Phase != CallReady || e.Intent != c.Intent+1 {
		return fmt.Errorf("%w: intent %d of call %d", ErrBroken, e.Intent, e.Call)
	}
	if e.Approval != "" {
		approval := s.Approval(e.Approval)
		if approval == nil || approval.Call != e.Call || !approval.spendable(e.Intent) {
			return fmt.Errorf("%w: approval of call %d", ErrBroken, e.Call)
		}
		approval.Status = ApprovalSpent
	}
	c.Phase, c.Intent, c.Epoch = CallInFlight, e.Intent, e.Epoch
	c.Key, c.Reserve, c.NotAfterMs = e.Key, e.Reserve, e.NotAfterMs
	s.Budget.Reserved = s.Budget.Reserved.Plus(e.Reserve)
	s.InFlight++
	if e.Intent == 1 {
		s.Begun[c.Tool]++
	}
	return nil
}

// spendable reports whether an attempt may rest on the approval: a first use of
// a granted one, or a repeat of what it was spent on.
func (a *Approval) spendable(intent int) bool {
	return a.Status == ApprovalGranted || a.Status == ApprovalSpent && intent > 1
}

// makeUncertain leaves the reservation where it is: an unknown outcome keeps
// its hold until somebody finds out.
func (s *State) makeUncertain(c *Call, e CallUncertain) error {
	if c.Phase != CallInFlight && c.Phase != CallUncertainOpen {
		return fmt.Errorf("%w: call %d is not in flight", ErrBroken, e.Call)
	}
	if c.Phase == CallInFlight {
		s.InFlight--
	}
	c.Phase, c.Code, c.AskPerson = CallUncertainOpen, e.Cause, e.Ask
	if !e.Ask && mayRepeat(c.Class) && !s.Closing() {
		s.setAside(c)
		c.Phase = CallReady
	}
	return nil
}

func (s *State) endCall(c *Call, e CallEnded) {
	if c.Phase == CallInFlight {
		s.InFlight--
	}
	s.Budget.Reserved = s.Budget.Reserved.Minus(c.Reserve)
	if e.Unknown {
		s.Budget.Unknown = s.Budget.Unknown.Plus(c.Reserve)
	} else {
		s.Budget.Settled = s.Budget.Settled.Plus(e.Cost)
	}
	c.Reserve = Amount{}
	c.Phase, c.Outcome, c.Code, c.Result, c.Media = CallDone, e.Outcome, e.Code, e.Result, e.Media
	if len(c.Media) > 0 && (s.firstMedia == 0 || c.Turn < s.firstMedia) {
		s.firstMedia = c.Turn
	}
	s.countRepeat(c, e.Fingerprint)
	for s.firstOpen < len(s.Calls) && s.Calls[s.firstOpen].Phase == CallDone {
		s.firstOpen++
	}
}

// countRepeat keeps how often the same call gave the same result.
func (s *State) countRepeat(c *Call, result string) {
	if c.Fingerprint != "" {
		s.repeats[c.Fingerprint+"="+string(c.Outcome)+c.Code+result]++
	}
}

func (s *State) foldApproval(event Event) error {
	if e, ok := event.(ApprovalRequested); ok {
		c := s.Call(e.Call)
		if c == nil || c.Phase != CallProposedPhase {
			return fmt.Errorf("%w: approval for call %d", ErrBroken, e.Call)
		}
		s.Approvals = append(s.Approvals, Approval{ApprovalRequested: e, Status: ApprovalOpen})
		s.asked++
		c.Phase, c.Approval = CallHeld, e.Approval
		return nil
	}
	var id string
	switch e := event.(type) {
	case ApprovalDecided:
		id = e.Approval
	case ApprovalVoided:
		id = e.Approval
	}
	approval := s.Approval(id)
	_, voids := event.(ApprovalVoided)
	if approval == nil || approval.Status != ApprovalOpen && (!voids || approval.Status != ApprovalGranted) {
		return fmt.Errorf("%w: %s for no open approval", ErrBroken, event.Kind())
	}
	c := s.Call(approval.Call)
	switch e := event.(type) {
	case ApprovalDecided:
		approval.Decisions = append(approval.Decisions, e)
		if e.Complete && e.Granted {
			approval.Status, c.Phase = ApprovalGranted, CallReady
		} else if e.Complete {
			approval.Status = ApprovalDenied
		}
	case ApprovalVoided:
		approval.Status, approval.Cause = ApprovalVoid, e.Cause
		if c.Approval == id && (c.Phase == CallHeld || c.Phase == CallReady) {
			c.Phase, c.Approval = CallProposedPhase, ""
		}
	}
	return nil
}

func (s *State) foldQuestion(event Event) error {
	if e, ok := event.(QuestionAsked); ok {
		c := s.Call(e.Call)
		switch {
		case c == nil:
			return fmt.Errorf("%w: question of no call", ErrBroken)
		case e.Ask != nil:
			if err := s.foldAsk(c, e); err != nil {
				return err
			}
		case c.Phase != CallReady && c.Phase != CallProposedPhase:
			return fmt.Errorf("%w: question of call %d", ErrBroken, e.Call)
		default:
			c.Approval = e.Question
		}
		s.Questions = append(s.Questions, Question{QuestionAsked: e, Status: QuestionOpen})
		c.Phase, c.Question = CallAsking, e.Question
		return nil
	}
	var question *Question
	switch e := event.(type) {
	case QuestionAnswered:
		if question = s.Question(e.Question); question != nil {
			question.Answer = &e
		}
	case QuestionVoided:
		if question = s.Question(e.Question); question != nil {
			question.Cause = e.Cause
		}
	}
	if question == nil || question.Status != QuestionOpen {
		return fmt.Errorf("%w: %s for no open question", ErrBroken, event.Kind())
	}
	question.Status = QuestionVoid
	if question.Answer != nil {
		question.Status = QuestionAnswerIn
	}
	s.goOn(question)
	return nil
}

package run

import (
	"cmp"
	"errors"
	"fmt"
)

// ErrBroken means that an event does not fit the state it is applied to: the
// journal was damaged or written by another rule. The run must be parked.
var ErrBroken = errors.New("event does not fit the run")

// Apply folds one event into the state. It is total over the events that Decide
// gives; for anything else it returns ErrBroken, and the caller drops the state.
func Apply(s *State, event Event) error {
	from := s.Status
	switch {
	case s.Version == 0 && event.Kind() != KindStarted:
		return fmt.Errorf("%w: %s before started", ErrBroken, event.Kind())
	case s.Ended != nil && event.Kind() != KindLateOutcome && event.Kind() != KindUncertainResolved:
		return fmt.Errorf("%w: %s after the end", ErrBroken, event.Kind())
	}
	if err := s.fold(event); err != nil {
		return err
	}
	s.Version++
	for _, text := range event.Texts() {
		s.Marking = s.Marking.Join(text.Marking)
		s.texts = append(s.texts, text)
	}
	for _, recalled := range Recalls(event) {
		s.Marking = s.Marking.Join(recalled.Marking)
	}
	s.Status = s.derive()
	if !allowed(from, event.Kind(), s.Status) {
		return fmt.Errorf("%w: %s leads from %q to %q", ErrBroken, event.Kind(), from, s.Status)
	}
	return nil
}

func (s *State) fold(event Event) error {
	switch e := event.(type) {
	case Started:
		return s.start(e)
	case TurnStarted, TurnAnswered, TurnFailed:
		return s.foldTurn(event)
	case ModelsOut:
		return s.foldOutage(e)
	case CallProposed, CallJudged, CallIntended, CallEnded, CallUncertain, UncertainResolved, LateOutcome:
		return s.foldCall(event)
	case ApprovalRequested, ApprovalDecided, ApprovalVoided:
		return s.foldApproval(event)
	case QuestionAsked, QuestionAnswered, QuestionVoided:
		return s.foldQuestion(event)
	case AccessRequested, AccessDecided, AccessVoided:
		return s.foldAccess(event)
	case SteerAccepted, SteerSettled:
		return s.foldSteer(event)
	case ChildStarted, ChildStopped, ChildEnded:
		return s.foldChild(event)
	case ReviewDeclined, SidecarStarted:
		return s.foldBeside(event)
	case Compacted:
		return s.foldCompacted(e)
	case CancelAccepted:
		s.Cancel, s.Parked, s.Reached, s.Outage = &e, nil, nil, nil
	case LimitReached:
		s.Reached, s.Outage = &e, nil
	case LimitRaised:
		s.raise(e)
	case Verified:
		s.foldVerified(e)
	case Ended:
		return s.end(e)
	case Parked:
		s.Parked = &e
	case Resumed:
		s.Parked, s.asked, s.Outage = nil, 0, nil
	default:
		return fmt.Errorf("%w: unknown event %T", ErrBroken, event)
	}
	return nil
}

func (s *State) start(e Started) error {
	if s.Version != 0 {
		return fmt.Errorf("%w: started twice", ErrBroken)
	}
	s.Started = e
	s.Authority = e.Authority
	s.Limits = e.Limits
	s.Budget.Limit = Amount{MicroUSD: e.Authority.MicroUSD, Tokens: e.Authority.Tokens}
	s.Begun = map[string]int{}
	s.repeats = map[string]int{}
	return nil
}

func (s *State) foldTurn(event Event) error {
	if e, ok := event.(TurnStarted); ok {
		return s.beginTurn(e)
	}
	turn := s.LastTurn()
	if turn == nil || turn.Phase != TurnInFlight {
		return fmt.Errorf("%w: no turn in flight", ErrBroken)
	}
	s.Budget.Reserved = s.Budget.Reserved.Minus(turn.Reserve)
	switch e := event.(type) {
	case TurnAnswered:
		s.Budget.Settled, s.Budget.Unknown = s.Budget.Settled.Plus(e.Cost), s.Budget.Unknown.Plus(turn.heldByAnswer(e))
		if e.Hedged != nil {
			turn.Model = e.Hedged.By
		}
		turn.Phase, turn.Answer = TurnDone, &e
		s.LastChecks, s.Checked, s.Outages = nil, 0, 0
		if repairs(e.Class) {
			s.Repairs++
		}
	case TurnFailed:
		s.Budget.Unknown = s.Budget.Unknown.Plus(turn.heldByFailure(e))
		turn.Phase, turn.Cause = TurnRetry, e.Cause
		turn.RetryAtMs, turn.Retryable = e.RetryAtMs, e.Retryable
		turn.rest(turn.Model, cmp.Or(e.BackMs, e.RetryAtMs))
		if turn.Hedge != nil && e.Second.failed() {
			turn.rest(turn.Hedge.Model, cmp.Or(e.BackMs, e.RetryAtMs))
		}
		if e.Cause == Interrupted {
			turn.Forgiven++
		}
	}
	return nil
}

// repairs reports whether an answer of the class costs a repair turn.
func repairs(class Class) bool {
	return class == ClassEmpty || class == ClassCut || class == ClassMalformed
}

func (s *State) beginTurn(e TurnStarted) error {
	last := s.LastTurn()
	switch {
	case last != nil && last.Phase == TurnInFlight:
		return fmt.Errorf("%w: two turns in flight", ErrBroken)
	case last != nil && last.Phase == TurnRetry:
		if e.Turn != last.Number || e.Attempt != last.Attempt+1 {
			return fmt.Errorf("%w: turn %d retried as %d", ErrBroken, last.Number, e.Turn)
		}
	case e.Turn != len(s.Turns)+1 || e.Attempt != 1:
		return fmt.Errorf("%w: turn %d after %d", ErrBroken, e.Turn, len(s.Turns))
	default:
		s.Turns = append(s.Turns, Turn{Number: e.Turn})
		last = s.LastTurn()
	}
	last.Phase, last.Attempt, last.Epoch = TurnInFlight, e.Attempt, e.Epoch
	last.Model, last.Why, last.Reserve, last.Steers, last.Context = e.Model, e.Why, e.Reserve, e.Steers, e.Context
	last.First, last.Hedge, last.Offers, s.Outage = e.Model, e.Hedge, e.Offers, nil
	if e.Memory != nil {
		last.Memory = append(last.Memory, *e.Memory)
	}
	s.Budget.Reserved = s.Budget.Reserved.Plus(e.Reserve)
	return nil
}

func (s *State) foldSteer(event Event) error {
	switch e := event.(type) {
	case SteerAccepted:
		s.Steers = append(s.Steers, SteerState{SteerAccepted: e})
		s.openSteers++
	case SteerSettled:
		for i := range s.Steers {
			if s.Steers[i].Steer == e.Steer && s.Steers[i].Disposition == "" {
				s.Steers[i].Disposition, s.Steers[i].Turn = e.Disposition, e.Turn
				s.openSteers--
				return nil
			}
		}
		return fmt.Errorf("%w: no open steer", ErrBroken)
	}
	return nil
}

func (s *State) raise(e LimitRaised) {
	s.Limits.Turns += e.Turns
	s.Authority.Turns += e.Turns
	s.Budget.Limit = s.Budget.Limit.Plus(e.Amount)
	s.Authority.MicroUSD += e.Amount.MicroUSD
	s.Authority.Tokens += e.Amount.Tokens
	if e.DeadlineMs > s.Authority.DeadlineMs {
		s.Authority.DeadlineMs = e.DeadlineMs
	}
	switch e.Limit {
	case LimitModel, LimitContext:
		if turn := s.LastTurn(); turn != nil && turn.Phase == TurnRetry {
			turn.Forgiven, turn.Retryable, turn.RetryAtMs, turn.Rests = turn.Attempt, true, 0, nil
		}
	case LimitNoProgress:
		clear(s.repeats)
	case LimitCheck:
		s.Checked = 0
	}
	s.Reached = nil
}

func (s *State) foldVerified(e Verified) {
	s.LastChecks = &e
	if turn := s.LastTurn(); turn != nil {
		turn.Checks = &e
	}
	s.Checked++
	for _, check := range e.Checks {
		if check.Verdict == CheckFailed {
			s.Repairs++
			return
		}
	}
}

func (s *State) end(e Ended) error {
	if s.Ended != nil {
		return fmt.Errorf("%w: ended twice", ErrBroken)
	}
	s.Ended, s.Reached, s.Outage = &e, nil, nil
	return nil
}

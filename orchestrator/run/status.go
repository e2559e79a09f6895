package run

// derive computes the status from the rest of the state, so that the two can
// never disagree.
func (s *State) derive() Status {
	switch {
	case s.Ended != nil:
		return s.Ended.Status
	case s.Parked != nil:
		return StatusParked
	case s.Cancel != nil:
		return StatusCancelling
	case len(s.Turns) == 0 && s.Reached == nil && s.Outage == nil:
		return StatusQueued
	case s.workable():
		return StatusRunning
	}
	return StatusWaiting
}

// workable reports whether Gantry itself has something to do or under way.
// A retry that waits for its time counts as waiting.
func (s *State) workable() bool {
	if turn := s.LastTurn(); turn != nil && turn.Phase == TurnInFlight {
		return true
	}
	guarded, room := s.guarded(), s.runsFree() > 0 || s.Authority.RunsAtOnce < 1
	busy := s.someOpenCall(func(c *Call) bool {
		switch c.Phase {
		case CallProposedPhase, CallInFlight:
			return true
		case CallReady:
			review, _ := s.ReviewOfTool(c)
			free := c.Delegate == "" || room
			return s.Reached == nil && (review == ReviewDue || review != ReviewLive && free && !guarded)
		case CallUncertainOpen:
			return !c.AskPerson
		}
		return false
	})
	if busy {
		return true
	}
	if s.Reached != nil || s.Outage != nil || s.hasOpenCalls() || s.hasLiveChildren() {
		return false
	}
	turn := s.LastTurn()
	if turn != nil && turn.Phase == TurnRetry {
		return turn.RetryAtMs == 0
	}
	return !s.verifyDue() || s.LastChecks == nil || s.LastChecks.RetryAtMs == 0
}

// verifyDue reports whether the last answer is final text that nothing speaks
// against but the completion checks.
func (s *State) verifyDue() bool {
	turn := s.LastTurn()
	if turn == nil || turn.Phase != TurnDone || turn.Answer.Class != ClassText {
		return false
	}
	// Guidance asks for one more turn while there is one; else the end defers it.
	if s.openSteers > 0 && turn.Number < s.turnsAllowed() {
		return false
	}
	return s.LastChecks == nil || unchecked(s.LastChecks) && !failed(s.LastChecks)
}

func failed(v *Verified) bool { return hasVerdict(v, CheckFailed) }

func unchecked(v *Verified) bool { return hasVerdict(v, CheckUnchecked) }

func hasVerdict(v *Verified, verdict CheckVerdict) bool {
	for _, check := range v.Checks {
		if check.Verdict == verdict {
			return true
		}
	}
	return false
}

// Pending derives the work that the state asks for at a time. Work that is in
// flight is not part of it: its outcome is on the way, or Recover makes it
// uncertain.
func Pending(s *State, nowMs int64) []Effect {
	if s.Version == 0 || s.Ended != nil || s.Parked != nil {
		return nil
	}
	effects := s.pendingWork(nowMs)
	if s.hasLiveChildren() {
		effects = append([]Effect{CollectChildren{}}, effects...)
	}
	if task := s.Started.Task; task != nil && !task.Awaited() && !s.Closing() {
		effects = append([]Effect{WatchMain{}}, effects...)
	}
	return effects
}

// pendingWork is what makes a run due by itself. That children may have ended
// does not: their ends wake it.
func (s *State) pendingWork(nowMs int64) []Effect {
	if s.Closing() {
		return s.pendingStops(s.pendingProbes(nil))
	}
	effects := s.pendingProbes(s.pendingBeside(s.pendingCalls()))
	if s.Reached != nil || s.hasOpenCalls() || s.hasLiveChildren() {
		return effects
	}
	return append(effects, s.pendingTurn(nowMs)...)
}

func (s *State) pendingCalls() []Effect {
	var effects []Effect
	free, runs := s.Limits.CallsAtOnce-s.InFlight, s.runsFree()
	guarded := s.guarded()
	s.openCalls(func(c *Call) {
		review, _ := s.ReviewOfTool(c)
		switch {
		case c.Phase == CallProposedPhase:
			effects = append(effects, RejudgeCall{Call: c.CallProposed.Call})
		case c.Phase == CallReady && review == ReviewLive:
		case c.Phase == CallReady && review == ReviewDue:
			if s.Reached == nil {
				effects = append(effects, StartReview{Of: ReviewOfCall(c.CallProposed.Call)})
			}
		case c.Phase == CallReady && guarded:
		case c.Phase == CallReady && c.Delegate != "":
			// Where none may ever be live, the attempt finds that out.
			if s.Reached == nil && (runs > 0 || s.Authority.RunsAtOnce < 1) {
				runs--
				effects = append(effects, DispatchCall{Call: c.CallProposed.Call, Intent: c.Intent + 1})
			}
		case c.Phase == CallReady && free > 0 && s.Reached == nil:
			free--
			effects = append(effects, DispatchCall{Call: c.CallProposed.Call, Intent: c.Intent + 1})
		}
	})
	return effects
}

func (s *State) pendingProbes(effects []Effect) []Effect {
	s.openCalls(func(c *Call) {
		if c.Phase == CallUncertainOpen && !c.AskPerson {
			effects = append(effects, ProbeCall{Call: c.CallProposed.Call, Intent: c.Intent})
		}
	})
	return effects
}

func (s *State) pendingTurn(nowMs int64) []Effect {
	turn := s.LastTurn()
	switch {
	case s.Outage != nil && s.Outage.RetryAtMs > nowMs:
		return nil
	case turn == nil:
		return []Effect{TakeTurn{Turn: 1, Attempt: 1}}
	case turn.Phase == TurnInFlight:
		return nil
	case turn.Phase == TurnRetry:
		if turn.RetryAtMs > nowMs {
			return nil
		}
		return []Effect{TakeTurn{Turn: turn.Number, Attempt: turn.Attempt + 1}}
	case s.verifyDue():
		if s.LastChecks != nil && s.LastChecks.RetryAtMs > nowMs {
			return nil
		}
		if s.reviewOfLast() == ReviewDue {
			return []Effect{StartReview{Of: ReviewOfAnswer(turn.Number)}}
		}
		return []Effect{Verify{Turn: turn.Number, Attempt: s.Checked + 1}}
	}
	return []Effect{TakeTurn{Turn: turn.Number + 1, Attempt: 1}}
}

// DueMs returns when the run wants a worker next: now where there is work,
// else the next timer, 0 for never by itself.
func DueMs(s *State, nowMs int64) int64 {
	if s.Version == 0 || s.Ended != nil || s.Parked != nil {
		return 0
	}
	if len(s.pendingWork(nowMs)) > 0 || s.somethingInFlight() || s.Closing() && !s.hasLiveChildren() || s.overdue(nowMs) {
		return nowMs
	}
	return s.nextTimer(nowMs)
}

func (s *State) somethingInFlight() bool {
	turn := s.LastTurn()
	return s.InFlight > 0 || turn != nil && turn.Phase == TurnInFlight
}

func (s *State) nextTimer(nowMs int64) int64 {
	var due int64
	earliest := func(at int64) {
		if at > 0 && (due == 0 || at < due) {
			due = at
		}
	}
	if s.Started.RunKind != Root && s.Reached == nil && !s.Closing() {
		earliest(s.Authority.DeadlineMs)
	}
	s.openCalls(func(c *Call) {
		if c.Phase == CallHeld {
			earliest(s.Approval(c.Approval).NotAfterMs)
		}
		if c.Phase == CallWanting {
			earliest(s.Access(c.Access).NotAfterMs)
		}
		if c.Phase == CallAsking {
			earliest(s.Question(c.Question).NotAfterMs)
		}
	})
	if s.Reached == nil && !s.hasOpenCalls() {
		if s.Outage != nil {
			earliest(max(s.Outage.RetryAtMs, nowMs))
		} else if turn := s.LastTurn(); turn != nil && turn.Phase == TurnRetry {
			earliest(max(turn.RetryAtMs, nowMs))
		}
		if s.verifyDue() && s.LastChecks != nil {
			earliest(s.LastChecks.RetryAtMs)
		}
	}
	return due
}

package run

import (
	"strconv"

	"gantry.dev/orchestrator/policy"
)

// recover gives every attempt of an earlier epoch its unknown outcome. A lost
// model request may have been billed, so its reservation stays held.
func (d *decider) recover(c Recover) *Refusal {
	turn := d.s.LastTurn()
	if turn != nil && turn.Phase == TurnInFlight && turn.Epoch < c.Epoch {
		d.emit(TurnFailed{Turn: turn.Number, Attempt: turn.Attempt, Cause: Lost, Unknown: true, Retryable: true})
	}
	d.s.openCalls(func(call *Call) {
		if call.Phase == CallInFlight && call.Epoch < c.Epoch {
			d.uncertain(call, Lost)
		}
	})
	if len(d.Events) > 0 {
		d.settle(d.ending())
	}
	return nil
}

// fire lets what expired expire.
func (d *decider) fire() *Refusal {
	if d.s.overdue(d.env.NowMs) {
		d.reach(LimitDeadline, "The deadline has passed.")
		return nil
	}
	d.s.openCalls(func(call *Call) {
		approval := d.s.Approval(call.Approval)
		switch {
		case approval != nil && (call.Phase == CallHeld || call.Phase == CallReady && approval.Status == ApprovalGranted):
			if approval.NotAfterMs <= d.env.NowMs {
				d.emit(ApprovalVoided{Approval: approval.Approval, Cause: VoidExpired})
				d.stop(call.CallProposed.Call, OutcomeExpired, "EXPIRED", nil)
			}
		case call.Phase == CallWanting:
			d.expireAccess(call)
		case call.Phase == CallAsking && d.s.Question(call.Question).NotAfterMs <= d.env.NowMs:
			d.emit(QuestionVoided{Question: call.Question, Cause: VoidExpired})
			d.stop(call.CallProposed.Call, OutcomeExpired, "EXPIRED", nil)
		}
	})
	return nil
}

// ParkedFlood is the code of a run that asks for so many approvals that whoever
// decides them would not look at each any more.
const ParkedFlood = "APPROVAL_FLOOD"

// stem parks a run that asks for more approvals than it may, once all else of
// the decision is said. What it has asked for is still there to be decided.
func (d *decider) stem() {
	if d.flooded && d.s.Parked == nil && !d.ends() {
		d.emit(Parked{Code: ParkedFlood, Detail: "It has asked for " + strconv.Itoa(d.s.Limits.approvals()) +
			" approvals and wants more; look at what it does, then let it go on or cancel it."})
	}
}

// ends reports whether the decision ends the run.
func (d *decider) ends() bool {
	return len(d.Events) > 0 && d.Events[len(d.Events)-1].Kind() == KindEnded
}

func (d *decider) resume(c Resume) *Refusal {
	if d.s.Cancel != nil && d.s.Parked == nil {
		return refuse("RUN_CANCELLED", "The run is being cancelled.")
	}
	if d.s.Parked == nil && d.s.Reached == nil {
		return refuse("NOT_WAITING", "The run is neither parked nor at a limit.")
	}
	approvers := []policy.Approver{{Principal: d.s.Started.Contact, Why: "incident contact"},
		{Principal: d.s.Started.Agent.Owner, Why: "agent owner"}}
	voices := d.voices(approvers, c.Person)
	if len(voices) == 0 {
		return refuse("NOT_FOUND", "There is no such run waiting for you.")
	}
	c.By.OnBehalfOf = behalf(c.Person.ID, voices)
	if d.s.Parked != nil {
		d.emit(Resumed{By: c.By})
		if closing := d.closing(); closing != nil {
			d.settle(closing)
		} else {
			d.concludeResumed()
		}
		return nil
	}
	limit := d.s.Reached.Limit
	if d.s.Closing() {
		return refuse("LIMIT_FINAL", "The limit ends this run; start a new one.")
	}
	switch {
	case c.End:
		if d.s.hasOpenCalls() || d.s.hasLiveChildren() {
			return refuse("CALLS_OPEN", "Calls of the run are still open; cancel it instead.")
		}
		d.end(StatusFailed, EndByPerson, string(limit), nil, &c.By)
		return nil
	case c.Accept:
		if limit != LimitCheck {
			return refuse("NOTHING_TO_ACCEPT", "Only an answer that could not be checked can be accepted.")
		}
		return d.accept(c)
	}
	return d.raise(c, limit)
}

// accept ends the run with an answer that could not be checked, as a person
// wants it who has read it. What they let be open stands in the end.
func (d *decider) accept(c Resume) *Refusal {
	answer := d.s.LastTurn().Answer.Text
	if answer != nil && !c.Person.Sees(answer.Marking.Labels) {
		return refuse("NOT_CLEARED", "You cannot see the answer; somebody who can has to accept it.")
	}
	d.end(StatusPartial, EndAccepted, "", answer, &c.By)
	return nil
}

// openChecks names the checks of the answer that did not pass.
func (s *State) openChecks() (open []string) {
	if s.LastChecks == nil {
		return nil
	}
	for _, check := range s.LastChecks.Checks {
		if check.Verdict != CheckPassed {
			open = append(open, check.Name)
		}
	}
	return open
}

func (d *decider) raise(c Resume, limit Limit) *Refusal {
	switch {
	case limit == LimitTurns && c.Turns < 1:
		return refuse("RAISE_TURNS", "Say how many more turns the run may take.")
	case limit == LimitBudget && c.Amount.MicroUSD < 1 && c.Amount.Tokens < 1:
		return refuse("RAISE_BUDGET", "Say how much more the run may spend.")
	case limit == LimitDeadline && c.DeadlineMs <= d.env.NowMs:
		return refuse("RAISE_DEADLINE", "Give a deadline that lies ahead.")
	case c.Turns < 0 || c.Amount.MicroUSD < 0 || c.Amount.Tokens < 0:
		return refuse("RAISE_NEGATIVE", "A limit can only be raised.")
	case int64(c.Turns) > exact-int64(d.s.Limits.Turns) || c.Amount.invalid() || c.Amount.Plus(d.s.Budget.Limit).invalid():
		return refuse("INVALID_AMOUNT", "No limit can be as high as that.")
	}
	e := LimitRaised{Limit: limit, By: c.By, Turns: c.Turns, Amount: c.Amount, DeadlineMs: c.DeadlineMs}
	e.Amendment = amendmentDigest(d.s.Started.SnapshotDigest, e)
	d.emit(e)
	for _, node := range d.s.Started.Accounts {
		d.Budget = append(d.Budget, BudgetMove{Node: node, Reserve: c.Amount})
	}
	return nil
}

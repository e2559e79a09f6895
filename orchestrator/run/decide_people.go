package run

import (
	"slices"
	"strconv"
)

func (d *decider) decideApproval(c DecideApproval) *Refusal {
	if d.s.Cancel != nil {
		return refuse("RUN_CANCELLED", "The run is being cancelled; nothing of it can be approved.")
	}
	approval := d.s.Approval(c.Approval)
	if approval == nil {
		return refuse("NOT_FOUND", "There is no such approval.")
	}
	if d.env.Rules.Entitled(approval.Approvers, c.Person, d.s.Started.Chain) != nil {
		return refuse("NOT_FOUND", "There is no such approval.")
	}
	switch {
	case approval.Status != ApprovalOpen:
		return refuse("ALREADY_DECIDED", "The approval is "+string(approval.Status)+d.decidedBy(approval)+".")
	case approval.Digest != c.Digest:
		return refuse("DIGEST_MISMATCH", "You saw another call than the one that waits; read it again.")
	case approval.NotAfterMs <= d.env.NowMs:
		return refuse("APPROVAL_EXPIRED", "The approval expired; the call will not happen.")
	}
	for _, earlier := range approval.Decisions {
		if earlier.By.Principal == c.By.Principal {
			return refuse("ALREADY_DECIDED", "You decided before; another person has to.")
		}
	}
	if cause, stale := d.stale(approval); stale && c.Granted {
		d.emit(ApprovalVoided{Approval: c.Approval, Cause: cause})
		return nil
	}
	complete := !c.Granted || len(approval.Decisions)+1 >= approval.Quorum
	d.emit(ApprovalDecided{Approval: c.Approval, By: c.By, Granted: c.Granted, Complete: complete, Reason: c.Reason})
	if !c.Granted {
		d.emit(CallEnded{Call: approval.Call, Outcome: OutcomeDenied, Code: "DENIED", Result: c.Reason})
	}
	d.Guards = append(d.Guards, Guard{BeforeMs: approval.NotAfterMs})
	return nil
}

// stale reports whether what was asked is no longer what would happen.
func (d *decider) stale(approval *Approval) (Void, bool) {
	call := d.s.Call(approval.Call)
	tool, known := d.env.Rules.Tool(call.Tool)
	switch {
	case !known || tool.Revision != call.Revision:
		return VoidToolChanged, true
	case approval.Policy != d.env.Rules.PolicyRevision():
		return VoidPolicyChanged, true
	}
	return "", false
}

func (d *decider) decidedBy(approval *Approval) string {
	for _, decision := range approval.Decisions {
		if decision.Complete {
			return ", decided by " + decision.By.Principal
		}
	}
	if approval.Cause != "" {
		return " (" + string(approval.Cause) + ")"
	}
	return ""
}

func (d *decider) answer(c AnswerQuestion) *Refusal {
	if d.s.Cancel != nil {
		return refuse("RUN_CANCELLED", "The run is being cancelled; its questions are void.")
	}
	question := d.s.Question(c.Question)
	// The person for whom the run acts may answer what it asks; only approvals
	// keep requester and decider apart.
	if question == nil || !d.mayAnswer(question, c) {
		return refuse("NOT_FOUND", "There is no such question.")
	}
	switch {
	case question.Status != QuestionOpen:
		return refuse("ALREADY_ANSWERED", "The question is "+string(question.Status)+".")
	case question.NotAfterMs <= d.env.NowMs:
		return refuse("QUESTION_EXPIRED", "The question expired.")
	}
	d.emit(QuestionAnswered{Question: c.Question, By: c.By, Answer: c.Answer},
		CallEnded{Call: question.Call, Outcome: OutcomeAnswered, Result: &c.Answer})
	d.Guards = append(d.Guards, Guard{BeforeMs: question.NotAfterMs})
	return nil
}

func (d *decider) mayAnswer(question *Question, c AnswerQuestion) bool {
	for _, to := range question.To {
		if to.Principal == c.Person.ID && to.Principal != "" || to.Role != "" && slices.Contains(c.Person.Roles, to.Role) {
			return true
		}
	}
	return false
}

func (d *decider) steer(c Steer) *Refusal {
	switch {
	case d.s.Cancel != nil:
		return refuse("RUN_CANCELLED", "The run is being cancelled and takes no guidance.")
	case d.s.openSteers >= d.s.Limits.Steers:
		return refuse("TOO_MANY_STEERS", "As many steers as allowed ("+strconv.Itoa(d.s.Limits.Steers)+") wait already; let the run absorb them.")
	}
	d.emit(SteerAccepted(c))
	if c.Void {
		d.s.openCalls(func(call *Call) {
			approval := d.s.Approval(call.Approval)
			if approval != nil && call.Phase == CallHeld {
				d.emit(ApprovalVoided{Approval: approval.Approval, Cause: VoidSteered},
					CallEnded{Call: approval.Call, Outcome: OutcomeVoid, Code: "STEERED"})
			}
		})
	}
	turn := d.s.LastTurn()
	if c.Interrupt && turn != nil && turn.Phase == TurnInFlight {
		d.emit(TurnFailed{Turn: turn.Number, Attempt: turn.Attempt, Cause: "INTERRUPTED", Unknown: true, Retryable: true})
	}
	return nil
}

// cancel closes admission at once: the gate of the tree closes in this write,
// and what was held or ready ends without having started.
func (d *decider) cancel(c Cancel) *Refusal {
	if d.s.Cancel != nil {
		return refuse("RUN_CANCELLED", "The run is being cancelled already.")
	}
	d.emit(CancelAccepted(c))
	if d.s.Started.RunKind == Root {
		d.Gates = append(d.Gates, GateChange{Gate: RootGate(d.s.ID), Value: GateClosed})
	}
	open := false
	d.s.openCalls(func(call *Call) {
		open = d.cancelCall(call) || open
	})
	turn := d.s.LastTurn()
	inFlight := turn != nil && turn.Phase == TurnInFlight
	if !open && !inFlight {
		d.end(StatusCancelled, EndCancelled, "", nil, &c.By)
	}
	return nil
}

// cancelCall ends a call that did not start and reports whether it has to be
// waited for.
func (d *decider) cancelCall(call *Call) bool {
	ordinal := call.CallProposed.Call
	switch call.Phase {
	case CallInFlight:
		return true
	case CallUncertainOpen:
		if !call.AskPerson {
			return true
		}
		d.emit(CallEnded{Call: ordinal, Outcome: OutcomeUnknown, Code: call.Code, Unknown: true})
		return false
	case CallAsking:
		d.emit(QuestionVoided{Question: call.Approval, Cause: VoidCancelled})
	case CallHeld, CallReady:
		if a := d.s.Approval(call.Approval); a != nil && (a.Status == ApprovalOpen || a.Status == ApprovalGranted) {
			d.emit(ApprovalVoided{Approval: a.Approval, Cause: VoidCancelled})
		}
	}
	d.emit(CallEnded{Call: ordinal, Outcome: OutcomeVoid, Code: "CANCELLED"})
	return false
}

// afterCancel ends a cancelled run once the call of this decision was the last
// thing in flight.
func (d *decider) afterCancel() {
	if d.s.Cancel == nil {
		return
	}
	turn := d.s.LastTurn()
	d.settleCancelled(turn == nil || turn.Phase != TurnInFlight)
}

// settleCancelled ends a cancelled run when nothing is in flight any more.
func (d *decider) settleCancelled(turnOver bool) {
	if d.s.Cancel == nil || !turnOver {
		return
	}
	ended := map[int]bool{}
	for _, event := range d.Events {
		if e, ok := event.(CallEnded); ok {
			ended[e.Call] = true
		}
	}
	open := false
	d.s.openCalls(func(call *Call) { open = open || !ended[call.CallProposed.Call] })
	if !open {
		by := d.s.Cancel.By
		d.end(StatusCancelled, EndCancelled, "", nil, &by)
	}
}

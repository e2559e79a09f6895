package run

import (
	"slices"
	"strconv"

	"gantry.dev/orchestrator/policy"
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
	case c.Granted && !c.Person.Sees(d.s.Call(approval.Call).Arguments.Marking.Labels):
		return refuse("NOT_CLEARED", "You cannot see the call's arguments; somebody who can has to grant it.")
	case approval.Status != ApprovalOpen:
		return d.decided(approval)
	case approval.Digest != c.Digest:
		return refuse("DIGEST_MISMATCH", "You saw another call than the one that waits; read it again.")
	case approval.NotAfterMs <= d.env.NowMs:
		return refuseExpired()
	}
	for _, earlier := range approval.Decisions {
		if earlier.By.Principal == c.By.Principal {
			return refuse("ALREADY_DECIDED", "You decided before; another person has to.")
		}
	}
	if cause, stale := d.stale(approval); stale && c.Granted {
		d.emit(ApprovalVoided{Approval: c.Approval, Cause: cause})
		d.Unmet = refuseStale(cause)
		return nil
	}
	complete := !c.Granted || d.enough(approval, append(approval.grants(), c.Person))
	d.emit(ApprovalDecided{Approval: c.Approval, By: c.By, Granted: c.Granted, Complete: complete, Reason: c.Reason})
	if !c.Granted {
		d.stop(approval.Call, OutcomeDenied, "DENIED", c.Reason)
	}
	d.Guards = append(d.Guards, Guard{BeforeMs: approval.NotAfterMs})
	return nil
}

// decideAfterEnd tells a late decider what became of the approval, as before
// the end.
func (d *decider) decideAfterEnd(c DecideApproval) *Refusal {
	approval := d.s.Approval(c.Approval)
	if approval == nil || d.env.Rules.Entitled(approval.Approvers, c.Person, d.s.Started.Chain) != nil {
		return refuse("NOT_FOUND", "There is no such approval.")
	}
	return d.decided(approval)
}

// grants are the people who agreed so far.
func (a *Approval) grants() []policy.Principal {
	var people []policy.Principal
	for _, decision := range a.Decisions {
		if decision.Granted {
			people = append(people, policy.Principal{ID: decision.By.Principal})
		}
	}
	return people
}

// enough reports whether these people settle an approval: as many as it asks
// for in all, and in each group of approvers as many as the group needs, each
// of them entitled now.
func (d *decider) enough(approval *Approval, people []policy.Principal) bool {
	if len(people) < approval.Quorum {
		return false
	}
	groups := map[int][]policy.Approver{}
	for _, approver := range approval.Approvers {
		groups[approver.Group] = append(groups[approver.Group], approver)
	}
	for _, group := range groups {
		need, have := 1, 0
		for _, approver := range group {
			need = max(need, approver.Quorum)
		}
		for _, person := range people {
			if d.env.Rules.Entitled(group, person, d.s.Started.Chain) == nil {
				have++
			}
		}
		if have < need {
			return false
		}
	}
	return len(groups) > 0
}

// decided refuses a word on an approval that takes none any more.
func (d *decider) decided(approval *Approval) *Refusal {
	switch approval.Cause {
	case VoidExpired:
		return refuseExpired()
	case VoidPolicyChanged, VoidToolChanged, VoidNotEntitled:
		return refuseStale(approval.Cause)
	}
	return refuse("ALREADY_DECIDED", "The approval is "+string(approval.Status)+d.decidedBy(approval)+".")
}

func refuseExpired() *Refusal {
	return refuse("APPROVAL_EXPIRED", "The approval expired; the call will not happen.")
}

func refuseStale(cause Void) *Refusal {
	return refuse("APPROVAL_STALE", "What you saw no longer holds ("+string(cause)+"): nothing was done, and the call is judged anew.")
}

// stale reports whether what was asked is no longer what would happen: the
// tool, the policies or what the agent may do here have changed.
func (d *decider) stale(approval *Approval) (Void, bool) {
	call := d.s.Call(approval.Call)
	tool, known := d.env.Rules.Tool(call.Tool)
	switch {
	case !known || tool.Revision != call.Revision:
		return VoidToolChanged, true
	case approval.Policy != d.env.Rules.PolicyRevision():
		return VoidPolicyChanged, true
	}
	ceiling := d.env.Rules.Ceiling(d.s.Started.Agent.Name, d.s.Started.Subject.ID)
	if policy.Meet(d.s.Authority, ceiling).AllowsTool(call.Tool, call.Revision, tool.Impact) != nil {
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
				d.emit(ApprovalVoided{Approval: approval.Approval, Cause: VoidSteered})
				d.stop(approval.Call, OutcomeVoid, "STEERED", nil)
			}
		})
	}
	turn := d.s.LastTurn()
	if c.Interrupt && turn != nil && turn.Phase == TurnInFlight {
		d.emit(TurnFailed{Turn: turn.Number, Attempt: turn.Attempt, Cause: Interrupted, Unknown: true, Retryable: true})
	}
	return nil
}

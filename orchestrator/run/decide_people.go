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
	voices := d.voices(approval.Approvers, c.Person)
	if len(voices) == 0 {
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
	word := ApprovalDecided{Approval: c.Approval, By: c.By, Granted: c.Granted, Reason: c.Reason}
	for _, earlier := range approval.Decisions {
		if earlier.By.Principal == c.By.Principal {
			return refuse("ALREADY_DECIDED", "You decided before; another person has to.")
		}
	}
	free := approval.free(voices)
	if c.Granted && len(voices) > 0 && len(free) == 0 {
		return refuse("ALREADY_DECIDED", "Who has a deputy has one voice all the same, and it was given; another person has to.")
	}
	if len(free) > 0 {
		voices = free
	}
	word.By.OnBehalfOf = behalf(c.Person.ID, voices)
	if call := d.s.Call(approval.Call); c.Granted && call.keptBack() && d.quarantined(call.Tool) {
		return refuseQuarantined()
	}
	if cause, stale := d.stale(approval); stale && c.Granted {
		d.emit(ApprovalVoided{Approval: c.Approval, Cause: cause})
		d.Unmet = refuseStale(cause)
		return nil
	}
	word.Complete = !c.Granted || d.enough(approval, append(approval.grants(), word))
	d.emit(word)
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
	if approval == nil || len(d.voices(approval.Approvers, c.Person)) == 0 {
		return refuse("NOT_FOUND", "There is no such approval.")
	}
	return d.decided(approval)
}

// voices returns on whose behalf a person may decide for the approvers now.
func (d *decider) voices(approvers []policy.Approver, person policy.Principal) []string {
	voices, err := d.env.Rules.Voices(approvers, person, d.s.Started.Chain, d.env.NowMs)
	if err != nil {
		return nil
	}
	return voices
}

// behalf returns for whom else than itself a person speaks, with one of these
// voices; empty for nobody else.
func behalf(person string, voices []string) string {
	if len(voices) == 0 || slices.Contains(voices, person) {
		return ""
	}
	return voices[0]
}

// free returns those of the voices that nobody gave yet.
func (a *Approval) free(voices []string) []string {
	return slices.DeleteFunc(slices.Clone(voices), func(voice string) bool {
		return slices.ContainsFunc(a.Decisions, func(earlier ApprovalDecided) bool { return earlier.voice() == voice })
	})
}

// voice returns whose word it is: of who gave it, or of whom they stood for.
func (e ApprovalDecided) voice() string {
	if e.By.OnBehalfOf != "" {
		return e.By.OnBehalfOf
	}
	return e.By.Principal
}

// grants are the words of those who agreed so far.
func (a *Approval) grants() []ApprovalDecided {
	var words []ApprovalDecided
	for _, decision := range a.Decisions {
		if decision.Granted {
			words = append(words, decision)
		}
	}
	return words
}

// enough reports whether these words settle an approval: as many as it asks
// for in all, and in each group of approvers as many as the group needs, each
// of somebody who is entitled now, by the voice that they gave it with.
func (d *decider) enough(approval *Approval, words []ApprovalDecided) bool {
	if len(words) < approval.Quorum {
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
		for _, word := range words {
			if slices.Contains(d.voices(group, policy.Principal{ID: word.By.Principal}), word.voice()) {
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
	revision := d.succeeds(call.Tool, call.Revision)
	switch {
	case !known || tool.Revision != revision || tool.Quarantined && !call.keptBack():
		return VoidToolChanged, true
	case revision != call.Revision && approval.Digest != ApprovalDigest(d.s, approval.ApprovalRequested, d.judgedOf(call, Judge{Call: approval.Call}).subjectMatter()):
		return VoidToolChanged, true // it was asked before the tool was pinned anew
	case approval.Policy != d.env.Rules.PolicyRevision():
		return VoidPolicyChanged, true
	}
	if d.authority().AllowsTool(call.Tool, revision, tool.Impact) != nil {
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
	// A deputy answers under the same rules as it decides.
	if question == nil {
		return refuse("NOT_FOUND", "There is no such question.")
	}
	if !d.mayAnswer(question, c) {
		voices := d.voices(question.To, c.Person)
		if len(voices) == 0 {
			return refuse("NOT_FOUND", "There is no such question.")
		}
		c.By.OnBehalfOf = behalf(c.Person.ID, voices)
	}
	switch {
	case question.Status != QuestionOpen:
		return refuse("ALREADY_ANSWERED", "The question is "+string(question.Status)+".")
	case question.NotAfterMs <= d.env.NowMs:
		return refuse("QUESTION_EXPIRED", "The question expired.")
	}
	if refusal := question.fits(c); refusal != nil {
		return refusal
	}
	d.emit(QuestionAnswered{Question: c.Question, By: c.By, Answer: c.Answer, Action: c.Action})
	if question.Ask == nil {
		d.emit(CallEnded{Call: question.Call, Outcome: OutcomeAnswered, Result: &c.Answer})
	}
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

// knowsSteer reports whether a steer came before.
func (s *State) knowsSteer(id string) bool {
	return slices.ContainsFunc(s.Steers, func(steer SteerState) bool { return steer.Steer == id })
}

func (d *decider) steer(c Steer) *Refusal {
	switch {
	case d.s.Cancel != nil:
		return refuse("RUN_CANCELLED", "The run is being cancelled and takes no guidance.")
	case d.s.Closing():
		return refuse("LIMIT_FINAL", "A limit ends this run and it takes no guidance; start a new one.")
	case c.From != "" && d.s.knowsSteer(c.Steer):
		return refuse("STEER_KNOWN", "The finding is known.")
	case c.From != "" && !c.Text.Marking.Labels.Within(d.authority().Labels):
		return refuse("LABELS", "The finding is above what the run may read.")
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
			if call.Phase == CallWanting {
				d.emit(AccessVoided{Access: call.Access, Cause: VoidSteered})
				d.stop(call.CallProposed.Call, OutcomeVoid, "STEERED", nil)
			}
		})
	}
	turn := d.s.LastTurn()
	if c.Interrupt && turn != nil && turn.Phase == TurnInFlight {
		d.emit(TurnFailed{Turn: turn.Number, Attempt: turn.Attempt, Cause: Interrupted, Unknown: true, Retryable: true})
	}
	return nil
}

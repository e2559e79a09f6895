package run

import (
	"gantry.dev/orchestrator/policy"
)

func (d *decider) decideCall(command Command) *Refusal {
	switch c := command.(type) {
	case Judge:
		return d.rejudge(c)
	case BeginCall:
		return d.beginCall(c)
	case Reconsider:
		return d.reconsider(c)
	case ReportProbe:
		return d.reportProbe(c)
	}
	return nil
}

func (d *decider) rejudge(c Judge) *Refusal {
	call := d.s.Call(c.Call)
	if call == nil || call.Phase != CallProposedPhase || d.s.Closing() || d.s.Parked != nil {
		return refuse("STALE", "The call does not wait for a verdict.")
	}
	d.judge(d.judgedOf(call, c))
	return nil
}

func (d *decider) judgedOf(call *Call, c Judge) judged {
	return judged{call: c.Call, tool: call.Tool, revision: d.succeeds(call.Tool, call.Revision), control: !call.Plain, asks: call.Asks,
		inputs: c.Inputs, approval: c.Approval, nonce: c.Nonce, want: c.Want, requests: call.Requests, to: c.To, arguments: call.Arguments, costBound: call.CostBound, class: call.Class, begun: call.Intent > 0}
}

// beginCall records the intent of one attempt. Whatever was decided before is
// checked again here, and the write makes these checks its conditions.
func (d *decider) beginCall(c BeginCall) *Refusal {
	call := d.s.Call(c.Call)
	if call == nil || call.Phase != CallReady || d.s.Cancel != nil || d.s.Reached != nil || d.s.Parked != nil {
		return refuse("NOT_DUE", "The call may not be attempted now.")
	}
	if d.full(call, c.Child) {
		return refuse("NOT_DUE", "As many calls as allowed are in flight.")
	}
	approval := d.s.Approval(call.Approval)
	fresh := approval != nil && approval.Status == ApprovalGranted
	if fresh && d.voidStale(call, approval, c) {
		return nil
	}
	verdict := d.verdict(d.judgedOf(call, Judge{Call: c.Call, Inputs: c.Inputs}))
	if stop := d.reverdict(call, approval, verdict); stop {
		return nil
	}
	if call.attemptsUsed(d.s.Limits) {
		d.stop(c.Call, OutcomeFailed, "ATTEMPTS_USED", nil)
		return nil
	}
	if d.env.NowMs >= d.authority().DeadlineMs {
		d.reach(LimitDeadline, "The deadline has passed.")
		return nil
	}
	if c.Child != nil {
		d.delegate(c, call, approval)
	} else if !d.intend(c, call, approval) {
		return nil
	}
	d.guardIntent()
	if fresh {
		d.Guards = append(d.Guards, Guard{Gate: ConfigGate(d.s.Started.Organisation), Value: d.env.Rules.Revision(), BeforeMs: approval.NotAfterMs})
	}
	return nil
}

// full reports whether there is no room for another attempt now.
func (d *decider) full(call *Call, child *Spawn) bool {
	if review, _ := d.s.ReviewOfTool(call); review == ReviewDue || review == ReviewLive || d.s.guarded() {
		return true
	}
	if (child != nil) != (call.Delegate != "") {
		return true // only what was proposed as delegated is
	}
	if child != nil {
		if child.Agent != call.Delegate || d.s.Child(child.Child) != nil {
			return true // and by the child that was made ready for it
		}
		return d.s.Authority.RunsAtOnce > 0 && d.s.runsFree() < 1
	}
	return d.s.InFlight >= d.s.Limits.CallsAtOnce
}

// intend records the intent of an attempt by a tool, unless what is left does
// not cover it.
func (d *decider) intend(c BeginCall, call *Call, approval *Approval) bool {
	reserve := Amount{MicroUSD: call.CostBound}
	if !d.s.Budget.Covers(reserve) {
		d.reach(LimitBudget, "The next call may cost more than is left.")
		return false
	}
	e := CallIntended{Call: c.Call, Intent: call.Intent + 1, Epoch: c.Epoch, Key: c.Key, Reserve: reserve, NotAfterMs: c.NotAfterMs}
	if approval != nil && approval.spendable(e.Intent) {
		e.Approval = approval.Approval
	}
	d.emit(e)
	return true
}

// attemptsUsed reports whether a call was attempted as often as allowed.
func (c *Call) attemptsUsed(limits Limits) bool { return c.doubts() >= limits.CallAttempts+c.Repeats }

// voidStale voids a granted approval that can no longer be spent.
func (d *decider) voidStale(call *Call, approval *Approval, c BeginCall) bool {
	tool, known := d.env.Rules.Tool(call.Tool)
	var cause Void
	switch {
	case !known || tool.Quarantined || tool.Revision != d.succeeds(call.Tool, call.Revision):
		cause = VoidToolChanged
	case approval.Policy != d.env.Rules.PolicyRevision():
		cause = VoidPolicyChanged
	case approval.Digest != ApprovalDigest(d.s, approval.ApprovalRequested, d.judgedOf(call, Judge{Call: c.Call, Inputs: c.Inputs}).subjectMatter()):
		cause = VoidToolChanged
	case approval.NotAfterMs <= d.env.NowMs:
		d.emit(ApprovalVoided{Approval: approval.Approval, Cause: VoidExpired})
		d.stop(c.Call, OutcomeExpired, "EXPIRED", nil)
		return true
	case !d.enough(approval, approval.grants()):
		cause = VoidNotEntitled
	default:
		return false
	}
	d.emit(ApprovalVoided{Approval: approval.Approval, Cause: cause})
	return true
}

// reverdict stops an attempt that policy does not allow any more. A hold is
// met by an approval that was granted; without one the call is judged anew.
func (d *decider) reverdict(call *Call, approval *Approval, verdict policy.Verdict) bool {
	ordinal := call.CallProposed.Call
	switch verdict.Answer {
	case policy.Permit:
		return false
	case policy.Hold:
		if approval != nil && approval.spendable(call.Intent+1) && !d.quarantined(call.Tool) {
			return false
		}
		// The verdict leaves the call where it needs people; the next judgement
		// asks them.
		d.emit(CallJudged{Call: ordinal, Verdict: verdict})
		return true
	}
	if approval != nil && approval.Status == ApprovalGranted {
		d.emit(ApprovalVoided{Approval: approval.Approval, Cause: VoidPolicyChanged})
	}
	d.emit(CallJudged{Call: ordinal, Verdict: verdict})
	if verdict.Answer == policy.Simulate {
		d.stop(ordinal, OutcomeSimulated, "SIMULATED", nil)
	} else {
		d.stop(ordinal, OutcomeForbidden, "FORBIDDEN", nil)
	}
	return true
}

func (d *decider) reportCall(c ReportCall) *Refusal {
	call := d.s.Call(c.Call)
	if call == nil || c.Intent < 1 || c.Intent > call.Intent || call.Child != "" {
		return refuse("STALE", "No such attempt was made.")
	}
	if c.Outcome != OutcomeOK && c.Outcome != OutcomeFailed && c.Outcome != OutcomeUnknown {
		return refuse("INVALID_OUTCOME", "An attempt is OK, FAILED or UNKNOWN.")
	}
	if c.Cost.invalid() {
		return refuse("INVALID_AMOUNT", "A cost is not negative and at most 2^53-1.")
	}
	if refusal := unfit(c.Media); refusal != nil {
		return refusal
	}
	current := c.Intent == call.Intent && (call.Phase == CallInFlight || call.Phase == CallUncertainOpen)
	if d.s.Ended != nil || !current {
		return d.late(call, c)
	}
	if c.Ask != nil {
		return d.ask(call, *c.Ask)
	}
	if c.Outcome == OutcomeFailed && !call.provesAbsence() {
		c.Outcome = OutcomeUnknown
	}
	if c.Outcome == OutcomeUnknown {
		if call.Phase != CallInFlight {
			return refuse("STALE", "The attempt is known to be uncertain.")
		}
		d.uncertain(call, c.Code)
		d.settle(d.ending())
		return nil
	}
	d.emit(CallEnded{Call: c.Call, Outcome: c.Outcome, Code: c.Code, Result: c.Result, Media: c.Media, Fingerprint: c.Fingerprint, Cost: c.Cost})
	d.settle(d.ending())
	d.noteProgress(call, c)
	return nil
}

// provesAbsence reports whether a failed attempt says that the call was not
// done. What was attempted before is not known to have failed: a repeat that was
// refused, or never left, says nothing of it.
func (c *Call) provesAbsence() bool {
	return c.doubts() <= 1 || c.Class.OrWorst() == policy.ClassRead
}

// late keeps an outcome that came too late to count, once for each attempt.
func (d *decider) late(call *Call, c ReportCall) *Refusal {
	if c.Outcome == OutcomeUnknown || c.Ask != nil {
		return refuse("STALE", "The attempt is over.")
	}
	for _, known := range call.Late {
		if known.Intent == c.Intent {
			return refuse("STALE", "The late outcome is known.")
		}
	}
	if call.Phase == CallDone && call.Intent == c.Intent && call.Outcome == c.Outcome {
		return refuse("STALE", "The outcome is known.")
	}
	d.emit(LateOutcome{Call: c.Call, Intent: c.Intent, Outcome: c.Outcome, Result: c.Result})
	return nil
}

// noteProgress asks a person when the same call keeps giving the same result.
func (d *decider) noteProgress(call *Call, c ReportCall) {
	if d.s.Cancel != nil || d.s.Reached != nil || d.s.Parked != nil || call.Fingerprint == "" {
		return
	}
	seen := d.s.repeats[call.Fingerprint+"="+string(c.Outcome)+c.Code+c.Fingerprint]
	if d.s.Limits.NoProgress > 0 && seen+1 >= d.s.Limits.NoProgress {
		d.reach(LimitNoProgress, "The same call gave the same result again and again.")
	}
}

// mayRepeat reports whether an attempt with an unknown outcome may be made
// again by itself: it has no effect, or the other side knows our key.
func mayRepeat(class policy.EffectClass) bool {
	return class == policy.ClassRead || class == policy.Keyed
}

// uncertain settles how an attempt with an unknown outcome goes on.
func (d *decider) uncertain(call *Call, cause string) {
	class := call.Class.OrWorst()
	ask := class == policy.Opaque || mayRepeat(class) && call.attemptsUsed(d.s.Limits)
	d.emit(CallUncertain{Call: call.CallProposed.Call, Intent: call.Intent, Cause: cause, Ask: ask})
	if !d.s.Closing() {
		return
	}
	if ask || class == policy.ClassRead {
		d.emit(CallEnded{Call: call.CallProposed.Call, Outcome: OutcomeUnknown, Code: cause, Unknown: true})
	}
}

// reportProbe settles an uncertain call by what the other side knows. "Absent"
// is no proof: the first attempt may still act, so it never leads to another.
func (d *decider) reportProbe(c ReportProbe) *Refusal {
	call := d.s.Call(c.Call)
	if call == nil || call.Phase != CallUncertainOpen || call.AskPerson {
		return refuse("STALE", "The call does not wait for a query.")
	}
	if c.Found && c.Outcome != OutcomeOK && c.Outcome != OutcomeFailed {
		return refuse("INVALID_OUTCOME", "What was found is OK or FAILED.")
	}
	if refusal := unfit(c.Media); refusal != nil {
		return refusal
	}
	switch {
	case c.Found:
		d.emit(CallEnded{Call: c.Call, Outcome: c.Outcome, Result: c.Result, Media: c.Media, Fingerprint: c.Fingerprint, Cost: Amount{MicroUSD: call.CostBound}})
	case d.s.Closing():
		d.emit(CallEnded{Call: c.Call, Outcome: OutcomeUnknown, Code: call.Code, Unknown: true})
	default:
		d.emit(CallUncertain{Call: c.Call, Intent: call.Intent, Cause: call.Code, Ask: true})
	}
	d.settle(d.ending())
	return nil
}

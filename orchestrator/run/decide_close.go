package run

// ending is how a run that closes will have ended.
type ending struct {
	status Status
	reason EndReason
	code   string
	by     *Identity
}

// ending says how the run ends once nothing is in flight, or nil while it does
// not close. A parked run ends only after an operator has let it go on.
func (d *decider) ending() *ending {
	if d.s.Parked != nil {
		return nil
	}
	return d.closing()
}

func (d *decider) closing() *ending {
	switch {
	case d.s.Cancel != nil:
		by := d.s.Cancel.By
		return &ending{status: StatusCancelled, reason: EndCancelled, by: &by}
	case d.s.Closing():
		return &ending{status: StatusFailed, reason: EndLimit, code: string(d.s.Reached.Limit)}
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
	d.Gates = append(d.Gates, GateChange{Gate: RootGate(d.s.ID), Value: GateClosed})
	d.closeCalls(VoidCancelled)
	d.settle(&ending{status: StatusCancelled, reason: EndCancelled, by: &c.By})
	return nil
}

// closeCalls ends every call that nobody has to be waited for.
func (d *decider) closeCalls(cause Void) {
	ended := d.endedHere()
	d.s.openCalls(func(call *Call) {
		if !ended[call.CallProposed.Call] {
			d.closeCall(call, cause)
		}
	})
}

func (d *decider) closeCall(call *Call, cause Void) {
	ordinal := call.CallProposed.Call
	switch call.Phase {
	case CallInFlight, CallDelegated:
		return
	case CallUncertainOpen:
		if call.AskPerson {
			d.emit(CallEnded{Call: ordinal, Outcome: OutcomeUnknown, Code: call.Code, Unknown: true})
		}
		return
	case CallAsking:
		d.emit(QuestionVoided{Question: call.Question, Cause: cause})
	case CallWanting:
		d.emit(AccessVoided{Access: call.Access, Cause: cause})
	case CallHeld, CallReady:
		if a := d.s.Approval(call.Approval); a != nil && (a.Status == ApprovalOpen || a.Status == ApprovalGranted) {
			d.emit(ApprovalVoided{Approval: a.Approval, Cause: cause})
		}
	}
	d.stop(ordinal, OutcomeVoid, string(cause), nil)
}

// stop ends a call that is not in flight. What an earlier attempt may have
// done is not denied: then the outcome is unknown.
func (d *decider) stop(ordinal int, outcome Outcome, code string, result *Text) {
	if call := d.s.Call(ordinal); call != nil && call.mayHaveActed() {
		outcome = OutcomeUnknown
	}
	d.emit(CallEnded{Call: ordinal, Outcome: outcome, Code: code, Result: result})
}

// settle ends a closing run once nothing is in flight any more.
func (d *decider) settle(e *ending) {
	if e == nil || d.turnOpen() {
		return
	}
	ended := d.endedHere()
	open := d.childrenLive()
	d.s.openCalls(func(call *Call) { open = open || !ended[call.CallProposed.Call] })
	if !open {
		d.end(e.status, e.reason, e.code, nil, e.by)
	}
}

// endedHere are the calls that this decision ends.
func (d *decider) endedHere() map[int]bool {
	ended := map[int]bool{}
	for _, event := range d.Events {
		if e, ok := event.(CallEnded); ok {
			ended[e.Call] = true
		}
	}
	return ended
}

// turnOpen reports whether a model request is in flight that this decision
// does not settle.
func (d *decider) turnOpen() bool {
	for _, event := range d.Events {
		switch event.(type) {
		case TurnAnswered, TurnFailed:
			return false
		}
	}
	turn := d.s.LastTurn()
	return turn != nil && turn.Phase == TurnInFlight
}

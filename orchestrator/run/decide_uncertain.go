package run

import "gantry.dev/orchestrator/policy"

// resolveUncertain takes a person's finding, also after the run has ended: a
// call that ended unknown keeps that outcome, with the finding beside it.
func (d *decider) resolveUncertain(c ResolveUncertain) *Refusal {
	call := d.s.Call(c.Call)
	if call == nil || call.Phase != CallUncertainOpen && !call.unresolved() {
		return refuse("NOT_UNCERTAIN", "The call's outcome is known.")
	}
	tool, _ := d.env.Rules.Tool(call.Tool)
	owners := []policy.Approver{{Principal: tool.Owner, Why: "tool owner"}, {Principal: d.s.Started.Contact, Why: "incident contact"}}
	voices := d.voices(owners, c.Person)
	if len(voices) == 0 {
		return refuse("NOT_FOUND", "There is no such call waiting for you.")
	}
	c.By.OnBehalfOf = behalf(c.Person.ID, voices)
	over := call.Phase == CallDone
	switch {
	case c.Resolution == Repeat && (!c.Override || over || d.s.Closing()):
		return refuse("MAY_STILL_ACT", "An earlier attempt may still act; repeat only with the override, and not in a run that closes.")
	case c.Resolution != Repeat && c.Resolution != Happened && c.Resolution != NotHappened:
		return refuse("INVALID_RESOLUTION", "A finding is HAPPENED, NOT_HAPPENED or REPEAT.")
	}
	d.emit(UncertainResolved{Call: c.Call, By: c.By, Resolution: c.Resolution, Evidence: c.Evidence})
	if over {
		return nil
	}
	switch c.Resolution {
	case Happened:
		d.emit(CallEnded{Call: c.Call, Outcome: OutcomeOK, Code: "RESOLVED", Result: &c.Evidence, Cost: Amount{MicroUSD: call.CostBound}})
	case NotHappened:
		d.emit(CallEnded{Call: c.Call, Outcome: OutcomeFailed, Code: "RESOLVED", Result: &c.Evidence})
	}
	d.settle(d.ending())
	return nil
}

// unresolved reports whether a call ended unknown and nobody has found out yet.
func (c *Call) unresolved() bool {
	if c.Phase != CallDone || c.Outcome != OutcomeUnknown {
		return false
	}
	for _, finding := range c.Resolutions {
		if finding.Resolution != Repeat {
			return false
		}
	}
	return true
}

package run

import (
	"maps"

	"gantry.dev/orchestrator/policy"
)

// The codes with which a call that was to be delegated is refused, or its child
// has failed it.
const (
	RefusedDepth    = "DEPTH"            // as many levels as allowed are below the root
	RefusedFanOut   = "FAN_OUT"          // the run had as many children as it may have
	RefusedRuns     = "RUNS_AT_ONCE"     // as many runs as allowed below the run are live, and none of them may make room
	RefusedBudget   = "BUDGET"           // what is left does not cover the child
	RefusedDeadline = "DEADLINE"         // the child's time would be over at once
	RefusedWider    = "AUTHORITY"        // the child would be allowed more than its parent and no grant says so
	ResultTooLarge  = "RESULT_TOO_LARGE" // the child's result has more bytes than it may have
	ResultInvalid   = "RESULT_INVALID"   // the child's result does not meet its schema
)

func (d *decider) decideChild(command Command) *Refusal {
	switch c := command.(type) {
	case DeclineCall:
		return d.decline(c)
	case ReportChildren:
		return d.reportChildren(c)
	case ReportStopped:
		return d.stopped(c)
	}
	return nil
}

// delegate begins a call that a child does: the intent, the carve and the
// child's run are one write. Everything that bounds the child is looked at here.
func (d *decider) delegate(c BeginCall, call *Call, approval *Approval) {
	child := *c.Child
	if code := d.outOfBounds(child); code != "" {
		d.turnDown(call, code, nil)
		return
	}
	e := CallIntended{Call: c.Call, Intent: call.Intent + 1, Epoch: c.Epoch, Key: c.Key, NotAfterMs: c.NotAfterMs}
	if approval != nil && approval.spendable(e.Intent) {
		e.Approval = approval.Approval
	}
	d.emit(e, child.started(c.Call, ""))
}

// outOfBounds is why a child may not begin, or empty.
func (d *decider) outOfBounds(child Spawn) string {
	authority, carve := d.authority(), child.Carve
	switch {
	case authority.Depth < 1:
		return RefusedDepth
	case len(d.s.Children) >= authority.FanOut:
		return RefusedFanOut
	case authority.RunsAtOnce <= d.s.LiveRuns():
		return RefusedRuns
	case !child.Authority.Below(d.bound(child, authority)):
		return RefusedWider
	case carve.invalid() || carve != amountOf(child.Authority) || carve.Tokens < 1 || child.Authority.Turns < 1 || !d.s.Budget.Covers(carve):
		return RefusedBudget
	case child.Authority.DeadlineMs <= d.env.NowMs:
		return RefusedDeadline
	}
	return ""
}

// bound is the most that a child may have: what its parent has now, with what a
// grant adds for the child's agent, one level down.
func (d *decider) bound(child Spawn, authority policy.Authority) policy.Authority {
	authority = d.s.Unused(authority)
	authority.Depth--
	authority.RunsAtOnce -= d.s.LiveRuns() + 1
	return d.env.Rules.Ceiling(Acting{Subject: d.s.Started.Subject.ID, Under: &authority, Conversation: d.s.Started.Conversation, AtMs: d.env.NowMs,
		Links: []Link{{Agent: child.Agent, Grant: child.Grant}}})
}

// Unused is an authority without the calls that the run has begun: what is used
// up is not handed on. Calls that children do are bounded as children are.
func (s *State) Unused(authority policy.Authority) policy.Authority {
	begun := maps.Clone(s.Begun)
	for i := range s.Calls {
		if s.Calls[i].Delegate != "" {
			delete(begun, s.Calls[i].Tool)
		}
	}
	tools := make(map[string]policy.ToolGrant, len(authority.Tools))
	for name, grant := range authority.Tools {
		if grant.Calls -= begun[name]; grant.Calls > 0 {
			tools[name] = grant
		}
	}
	authority.Tools = tools
	return authority
}

// authority is what the run may do now: as admitted and amended, under what
// everybody above it and it may do at this moment.
func (d *decider) authority() policy.Authority {
	if d.may == nil {
		may := policy.Meet(policy.Succeeded(d.s.Authority, d.env.Rules.Tool), d.env.Rules.Ceiling(d.s.Acting(d.env.NowMs)))
		d.may = &may
	}
	return *d.may
}

func (s Spawn) started(call int, review string) ChildStarted {
	return ChildStarted{Child: s.Child, RunKind: s.RunKind, Purpose: s.Purpose, Call: call, Review: review, Agent: s.Agent, Revision: s.Revision,
		Grant: s.Grant, Snapshot: s.Snapshot, Carve: s.Carve, Runs: 1 + s.Authority.RunsAtOnce, DeadlineMs: s.Authority.DeadlineMs}
}

// runsFree is how many more runs may be live below this one.
func (s *State) runsFree() int { return s.Authority.RunsAtOnce - s.LiveRuns() }

// decline ends a call that cannot be delegated.
func (d *decider) decline(c DeclineCall) *Refusal {
	call := d.s.Call(c.Call)
	if call == nil || call.Phase != CallReady || call.Delegate == "" {
		return refuse("STALE", "The call does not wait to be delegated.")
	}
	d.turnDown(call, c.Code, c.Detail)
	return nil
}

// turnDown ends a call that no child will do, and what was granted for it.
func (d *decider) turnDown(call *Call, code string, detail *Text) {
	if approval := d.s.Approval(call.Approval); approval != nil && approval.Status == ApprovalGranted {
		d.emit(ApprovalVoided{Approval: approval.Approval, Cause: VoidLimit})
	}
	d.stop(call.CallProposed.Call, OutcomeRefused, code, detail)
}

// reportChildren folds children that ended, each once, and gives the calls that
// they did their one result.
func (d *decider) reportChildren(c ReportChildren) *Refusal {
	folded := map[string]bool{}
	for _, end := range c.Ends {
		child := d.s.Child(end.Child)
		if child == nil || !child.Live() || folded[end.Child] || !end.Status.Ended() || end.Settled.invalid() || end.Unknown.invalid() {
			continue
		}
		folded[end.Child] = true
		if end.Fault != "" {
			end.Result, end.Unverified = nil, false
		}
		d.emit(end.ChildEnded)
		if child.Call > 0 {
			d.endDelegated(child.Call, end)
		}
		if call := d.s.reviewed(child); call != nil && !end.passes() {
			d.emit(CallJudged{Call: call.CallProposed.Call, Verdict: d.heldByReview(call)})
		}
	}
	if len(folded) == 0 {
		return refuse("STALE", "No live child has ended.")
	}
	d.settle(d.ending())
	return nil
}

func (d *decider) endDelegated(call int, end ChildEnd) {
	outcome, code := end.outcome()
	d.emit(CallEnded{Call: call, Outcome: outcome, Code: code, Result: end.Result})
}

// childrenLive reports whether a child is left that this decision does not end.
func (d *decider) childrenLive() bool {
	ended := map[string]bool{}
	for _, event := range d.Events {
		if e, ok := event.(ChildEnded); ok {
			ended[e.Child] = true
		}
	}
	live := false
	d.s.liveChildren(func(c *Child) { live = live || !ended[c.ChildStarted.Child] })
	return live
}

// outcome classifies what a child gave.
func (e ChildEnd) outcome() (outcome Outcome, code string) {
	switch {
	case e.Fault != "":
		return OutcomeFailed, e.Fault
	case e.Status == StatusCompleted:
		return OutcomeOK, ""
	case e.Status == StatusPartial:
		return OutcomeOK, string(StatusPartial)
	case e.Status == StatusCancelled:
		return OutcomeFailed, string(StatusCancelled)
	case e.Code != "":
		return OutcomeFailed, e.Code
	}
	return OutcomeFailed, string(e.Reason)
}

// stopped notes that a live child was told to stop.
func (d *decider) stopped(c ReportStopped) *Refusal {
	child := d.s.Child(c.Child)
	if child == nil || !child.Live() || child.Stopped {
		return refuse("STALE", "The child does not wait to be stopped.")
	}
	d.emit(ChildStopped(c))
	return nil
}

// pendingStops asks to tell the live children of a run that closes.
func (s *State) pendingStops(effects []Effect) []Effect {
	s.liveChildren(func(c *Child) {
		if !c.Stopped {
			effects = append(effects, StopChild{Child: c.ChildStarted.Child})
		}
	})
	return effects
}

// overdue reports whether a run that somebody waits for has used up its time.
func (s *State) overdue(nowMs int64) bool {
	return s.Started.RunKind != Root && s.Authority.DeadlineMs <= nowMs && s.Reached == nil && !s.Closing() && s.Parked == nil
}

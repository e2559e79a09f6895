package run

import (
	"slices"

	"gantry.dev/orchestrator/policy"
)

// ReasonQuarantined is the reason of a verdict that keeps a call back because
// its tool is quarantined.
const ReasonQuarantined = "gantry:quarantined"

// Reconsider asks whether the approval of a held call still holds. It is sent
// when a tool was quarantined, or pinned anew: a person who looks at the call
// must not see what would not happen.
type Reconsider struct{ Call int }

func (Reconsider) command() {}

// succeeds is the revision that a tool's revision stands for now: itself, or
// the one that people put in its place.
func (d *decider) succeeds(name, revision string) string {
	tool, known := d.env.Rules.Tool(name)
	if known && slices.Contains(tool.Replaces, revision) {
		return tool.Revision
	}
	return revision
}

func (d *decider) quarantined(name string) bool {
	tool, known := d.env.Rules.Tool(name)
	return known && tool.Quarantined
}

// keepBack turns what policy allows into a call that waits for the tool's
// owner. Nobody's yes lets it happen: the owner pins the tool anew, or says no.
func (d *decider) keepBack(verdict policy.Verdict, tool policy.ToolFacts) policy.Verdict {
	verdict.Answer, verdict.Quorum = policy.Hold, 1
	verdict.Approvers = []policy.Approver{{Principal: tool.Owner, Why: "tool owner"}, {Principal: d.s.Started.Contact, Why: "incident contact"}}
	verdict.Reasons = append(slices.Clip(verdict.Reasons),
		policy.Reason{Policy: ReasonQuarantined, Text: "The tool is not as it was reviewed: its server gives something else."})
	return verdict
}

// keptBack reports whether a call waits because its tool is quarantined.
func (c *Call) keptBack() bool {
	return slices.ContainsFunc(c.Verdict.Reasons, func(r policy.Reason) bool { return r.Policy == ReasonQuarantined })
}

func refuseQuarantined() *Refusal {
	return refuse("TOOL_QUARANTINED", "The tool's server gives something else than was reviewed: look at the difference and pin it anew, or say no to the call.")
}

// reconsider voids an approval that no longer holds, so that the call is judged
// anew.
func (d *decider) reconsider(c Reconsider) *Refusal {
	call := d.s.Call(c.Call)
	if call == nil || call.Phase != CallHeld || d.s.Closing() || d.s.Parked != nil {
		return refuse("STALE", "The call does not wait for an approval.")
	}
	approval := d.s.Approval(call.Approval)
	cause, stale := d.stale(approval)
	if call.keptBack() && !d.quarantined(call.Tool) {
		cause, stale = VoidToolChanged, true
	}
	if !stale {
		return refuse("STALE", "What was asked is still what would happen.")
	}
	d.emit(ApprovalVoided{Approval: approval.Approval, Cause: cause})
	return nil
}

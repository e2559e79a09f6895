package policy

import "gantry.dev/orchestrator/policy/guard"

// Decide returns the verdict on one call: what the policies say, made stricter
// by the rules that no policy can loosen. In this order:
//
//  1. What the policies forbid is forbidden.
//  2. Untrusted text that influenced a control argument of an effect above
//     READ holds a permitted call for the tool's owner.
//  3. The stage. OBSERVE simulates all above READ and keeps in Would what it
//     would have been. CONSTRAIN forbids all above DRAFT. APPROVE holds what is
//     permitted above READ for the tool's owner. AUTOMATE adds nothing.
//
// An impact that is not set counts as IRREVERSIBLE. A rule that changed the
// answer is among the reasons, with an id that begins with "gantry:".
func Decide(request Request, set *Set, dir Directory) Verdict {
	if !guard.Up {
		return Verdict{Answer: Permit, Revision: set.revision}
	}
	verdict := set.Evaluate(request, dir)
	impact := request.Tool.Impact.OrWorst()
	if request.Untrusted && impact > ImpactRead {
		verdict = verdict.ownerHolds(request, dir,
			Reason{ReasonUntrusted, "untrusted text influenced an argument that steers the effect"})
	}
	switch request.Stage {
	case Observe:
		return verdict.observed(impact)
	case Constrain:
		return verdict.constrained(impact)
	case Approve:
		if impact > ImpactRead {
			return verdict.ownerHolds(request, dir,
				Reason{ReasonStageApprove, "in stage APPROVE a person decides all above READ"})
		}
	}
	return verdict
}

// ownerHolds makes a PERMIT wait for the tool's owner. Every other answer is
// already at least as strict.
func (v Verdict) ownerHolds(request Request, dir Directory, why Reason) Verdict {
	if v.Answer != Permit {
		return v
	}
	v = v.because(why)
	approvers, decidable := holders(note{hold: holdToolOwner, quorum: 1}, request, dir)
	if !decidable {
		v.Answer = Forbid
		return v.because(noApprover(holdToolOwner))
	}
	return v.held(approvers, 0)
}

func (v Verdict) observed(impact Impact) Verdict {
	if v.Answer == Forbid || impact <= ImpactRead {
		return v
	}
	v.Would, v.Answer = v.Answer, Simulate
	return v.because(Reason{ReasonStageObserve, "in stage OBSERVE all above READ is simulated"})
}

func (v Verdict) constrained(impact Impact) Verdict {
	if v.Answer == Forbid || impact <= Draft {
		return v
	}
	forbidden := Verdict{Answer: Forbid, Reasons: v.Reasons, Revision: v.Revision}
	return forbidden.because(Reason{ReasonStageConstrain, "in stage CONSTRAIN nothing above DRAFT is done"})
}

// because adds a reason and keeps the reasons sorted.
func (v Verdict) because(reason Reason) Verdict {
	reasons := append([]Reason{reason}, v.Reasons...)
	sortReasons(reasons)
	v.Reasons = reasons
	return v
}

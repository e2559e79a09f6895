package agents

import (
	"slices"
	"time"

	"gantry.dev/orchestrator/policy"
)

// Authority returns what a run of the revision for the subject may do at most,
// if it is admitted at nowMs (UTC, milliseconds since 1970). Tools are pinned
// to their current definitions. What is stopped by a kill, is unknown or may
// not be used by the subject is left out, so the worst case is the zero
// authority, which allows nothing.
func (o Organisation) Authority(revision Revision, subject policy.Principal, nowMs int64) policy.Authority {
	if _, stopped := o.Stopped(revision); stopped || !revision.Serves(subject) || subject.Organisation != o.Name {
		return policy.Authority{}
	}
	limits := revision.Limits
	return policy.Authority{
		Tools:       o.grants(revision),
		Labels:      subject.Clearance.Meet(revision.Clearance),
		ReadSpaces:  ordered(revision.Spaces.Read),
		WriteSpaces: ordered(revision.Spaces.Write),
		Models:      ordered(revision.Models),
		MicroUSD:    limits.MicroUSD,
		Tokens:      limits.Tokens,
		DeadlineMs:  nowMs + time.Duration(limits.Duration).Milliseconds(),
		Turns:       limits.Turns,
		Depth:       limits.Depth,
		FanOut:      limits.FanOut,
		RunsAtOnce:  limits.RunsAtOnce,
		CallsAtOnce: limits.CallsAtOnce,
		Stage:       o.Stage(revision),
	}
}

func (o Organisation) grants(revision Revision) map[string]policy.ToolGrant {
	grants := make(map[string]policy.ToolGrant, len(revision.Tools))
	for _, use := range revision.Tools {
		definition, known := o.Tool(use.Name)
		if _, stopped := o.killed(KillTool, use.Name); !known || stopped {
			continue
		}
		grant, err := use.grant(definition.Digest())
		if err != nil || grant.Revision == "" {
			continue
		}
		grants[use.Name] = grant
	}
	return grants
}

// Stage returns how much the revision may do by itself now: what was decided
// for exactly this revision, else the stricter of what it was published with
// and what was decided for an earlier one.
func (o Organisation) Stage(revision Revision) policy.Stage {
	decision, found := find(o.Stages, func(s StageDecision) bool { return s.Agent == revision.Name })
	if !found {
		return revision.Stage
	}
	if digest, err := revision.Digest(); err == nil && digest == decision.Revision {
		return decision.Stage
	}
	return min(revision.Stage, decision.Stage)
}

// Stopped returns the kill that stops runs of the revision, if there is one. A
// persona whose own person does not lend their voice stops them, too.
func (o Organisation) Stopped(revision Revision) (Kill, bool) {
	if kill, stopped := o.killed(KillAll, ""); stopped {
		return kill, true
	}
	if kill, stopped := o.killed(KillDepartment, revision.Department); stopped {
		return kill, true
	}
	if persona, known := o.Persona(revision.Persona); known && o.Silent(persona) {
		return Kill{Scope: KillAgent, Name: revision.Name, By: persona.VoiceOf, Reason: "The person whose voice it is does not lend it."}, true
	}
	return o.killed(KillAgent, revision.Name)
}

// StoppedTool returns the kill that stops calls of the tool, if there is one.
func (o Organisation) StoppedTool(name string) (Kill, bool) {
	if kill, stopped := o.killed(KillAll, ""); stopped {
		return kill, true
	}
	return o.killed(KillTool, name)
}

func (o Organisation) killed(scope KillScope, name string) (Kill, bool) {
	return find(o.Kills, func(k Kill) bool { return k.Scope == scope && k.Name == name })
}

func ordered[S ~string](names []S) []S {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

package agents

import (
	"slices"
	"time"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Authority returns what a run of the revision for the subject may do at most,
// if it is admitted at nowMs (UTC, milliseconds since 1970). Tools are pinned
// to their current definitions. What is stopped by a kill, is unknown or may
// not be used by the subject is left out, so the worst case is the zero
// authority, which allows nothing. Who borrows the agent gets no more than the
// share's ceiling, and no longer than it holds.
func (o Organisation) Authority(revision Revision, subject policy.Principal, nowMs int64) policy.Authority {
	serving, share, served := o.Serves(revision.Name, subject, nowMs)
	if _, stopped := o.Stopped(revision); stopped || !served {
		return policy.Authority{}
	}
	if same, err := sameRevision(serving, revision); err != nil || !same {
		return policy.Authority{}
	}
	may := o.authority(revision, subject.Clearance.Meet(revision.Clearance))
	may.DeadlineMs += nowMs
	if share.ID != "" {
		may = o.cleared(policy.Meet(may, o.bound(share)))
	}
	return may
}

// authority is what a revision may do that is cleared for these labels; its
// deadline counts from zero.
func (o Organisation) authority(revision Revision, labels policy.Labels) policy.Authority {
	limits := revision.Limits
	return policy.Authority{
		Tools:       o.grants(revision),
		Labels:      labels,
		ReadSpaces:  ordered(revision.Spaces.Read),
		WriteSpaces: ordered(revision.Spaces.Write),
		Models:      ordered(revision.Models),
		MicroUSD:    limits.MicroUSD,
		Tokens:      limits.Tokens,
		DeadlineMs:  time.Duration(limits.Duration).Milliseconds(),
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

// Account is one node of an organisation's budgets.
type Account struct {
	Node   string // holds the limit
	Period string // whose amounts are kept, for example "2026-11"; "TOTAL" for one that never ends
	Ledger string // the node that holds the period's amounts
}

// Account returns the node of a department, or with an empty name that of the
// organisation, and its period at a time in UTC ms.
func (o Organisation) Account(department string, nowMs int64) Account {
	node, budget := "organisation:"+o.Name, o.Budget
	if department != "" {
		d, _ := o.Department(department)
		node, budget = "department:"+o.Name+"/"+department, d.Budget
	}
	if budget.Per != PerMonth {
		return Account{Node: node, Period: string(InTotal), Ledger: node}
	}
	month := monthOf(nowMs)
	return Account{Node: node, Period: month, Ledger: run.PeriodNode(node, month)}
}

// ConversationNode names the node that holds the limit of every conversation.
func (o Organisation) ConversationNode() string { return "conversation:" + o.Name }

// conversation returns the node that holds the amounts of one conversation. It
// keeps the limit with which it began.
func (o Organisation) conversation(id string, nowMs int64) string {
	node := run.PeriodNode(o.ConversationNode(), id)
	if o.Conversation.Per == PerMonth {
		return run.PeriodNode(node, monthOf(nowMs))
	}
	return node
}

func monthOf(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01") }

// Accounts are the nodes that carry a run of a department's agent in a
// conversation (an id, empty for none), innermost first. A run stays with the
// period in which it was admitted.
func (o Organisation) Accounts(department, conversation string, nowMs int64) []string {
	accounts := []string{o.Account(department, nowMs).Ledger, o.Account("", nowMs).Ledger}
	if conversation != "" {
		accounts = append([]string{o.conversation(conversation, nowMs)}, accounts...)
	}
	return accounts
}

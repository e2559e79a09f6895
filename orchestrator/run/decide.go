package run

import (
	"slices"

	"gantry.dev/orchestrator/policy"
)

// Rules is the organisation's configuration that is in force now. Revision is
// what the gate ConfigGate holds, so a write decided under old rules fails.
type Rules interface {
	// Revision is the digest of the whole configuration.
	Revision() string
	// PolicyRevision is the digest of the policy set alone.
	PolicyRevision() string
	// Judge is policy's verdict on one call.
	Judge(policy.Request) policy.Verdict
	// Tool returns what the registry says of a tool now; false where there is
	// none, or a kill switch stops it.
	Tool(name string) (policy.ToolFacts, bool)
	// Ceiling is what the last of those who act may do for the subject at most,
	// now: no more than what each of them may, one after the other, except what a
	// grant that is in force adds. Killed or withdrawn agents and unknown subjects
	// have the zero authority. Its deadline is when a grant ends by itself, and the
	// end of time without one: nobody raises that.
	Ceiling(acting Acting) policy.Authority
	// Voices returns on whose behalf a person may decide at atMs (UTC ms) for
	// the approvers in a run with this acting chain: the person's own id, or
	// those whom they are the deputy of. The error says why on nobody's.
	Voices(approvers []policy.Approver, person policy.Principal, chain []string, atMs int64) ([]string, error)
}

// Env is what Decide knows of the world: the database clock and the rules.
type Env struct {
	NowMs int64
	Rules Rules
}

// Decision is what an accepted command does, all in one write. Unmet, where it
// is set, is what the caller is told once that write stands: the wish itself
// was not met, and the events say what happened instead. Such a command is not
// remembered as accepted; a repeat is decided anew.
type Decision struct {
	Events []Event
	Guards []Guard
	Gates  []GateChange
	Budget []BudgetMove
	Unmet  *Refusal
}

// ConfigGate names the gate that holds an organisation's configuration digest.
func ConfigGate(organisation string) string { return "config:" + organisation }

// RootGate names the gate that everything below a run depends on, and of a root
// the run itself. It is absent while they may act.
func RootGate(root string) string { return "root:" + root }

// GateClosed is what a run's gate holds after a cancel.
const GateClosed = "closed"

// Decide turns a command into events or a refusal. It changes nothing: the
// state is the run's at the version that the write will be made from.
func Decide(s *State, command Command, env Env) (Decision, *Refusal) {
	if start, ok := command.(Start); ok {
		return decideStart(s, start, env)
	}
	if s.Version == 0 {
		return Decision{}, refuse("NOT_FOUND", "There is no such run.")
	}
	d := &decider{s: s, env: env}
	refusal := d.decide(command)
	if refusal != nil {
		return Decision{}, refusal
	}
	d.stem()
	return d.Decision, nil
}

// decider collects one decision.
type decider struct {
	Decision
	s   *State
	env Env

	may     *policy.Authority // see authority; nil until it is asked
	asked   int               // approvals and accesses that it asks for
	flooded bool              // it would ask for more than the run may
}

func (d *decider) emit(events ...Event) { d.Events = append(d.Events, events...) }

func (d *decider) decide(command Command) *Refusal {
	if c, late := command.(ReportCall); late {
		return d.reportCall(c)
	}
	if c, finding := command.(ResolveUncertain); finding {
		return d.resolveUncertain(c)
	}
	if c, late := command.(DecideApproval); late && d.s.Ended != nil && d.s.Cancel == nil {
		return d.decideAfterEnd(c)
	}
	if d.s.Ended != nil {
		return refuse("RUN_ENDED", "The run has ended as "+string(d.s.Status)+"; start a new one.")
	}
	switch c := command.(type) {
	case BeginTurn, AwaitModels, ReportTurn, ReportChecks, Compact:
		return d.decideTurn(command)
	case Judge, BeginCall, ReportProbe, Reconsider:
		return d.decideCall(command)
	case DeclineCall, ReportChildren, ReportStopped:
		return d.decideChild(command)
	case BeginReview, DeclineReview, ReportSidecar:
		return d.decideBeside(command)
	case DecideApproval:
		return d.decideApproval(c)
	case DecideAccess:
		return d.decideAccess(c)
	case AnswerQuestion:
		return d.answer(c)
	case Recover:
		return d.recover(c)
	case Fire:
		return d.fire()
	case Steer:
		return d.steer(c)
	case Cancel:
		return d.cancel(c)
	case Resume:
		return d.resume(c)
	case Park:
		if d.s.Parked != nil {
			return refuse("RUN_PARKED", "The run is parked already.")
		}
		d.emit(Parked(c))
		return nil
	}
	return refuse("UNKNOWN_COMMAND", "This version does not know the command.")
}

func decideStart(s *State, c Start, env Env) (Decision, *Refusal) {
	if s.Version != 0 {
		return Decision{}, refuse("RUN_EXISTS", "The run was started before.")
	}
	// Only the normal form means the same after it was written and read.
	e := c.Started
	e.Authority = e.Authority.Normal()
	acting := e.acting()
	acting.AtMs = env.NowMs
	ceiling := env.Rules.Ceiling(acting)
	switch {
	case e.RunKind != Root && (e.Task == nil || len(e.Lineage) == 0 || e.Limits.OnLimit != FailOnLimit):
		return Decision{}, refuse("INVALID", "A run under another one has a task and an end.")
	case e.Task.Awaited() && len(e.Accounts) > 0:
		return Decision{}, refuse("INVALID", "A run that another one waits for is carried by it alone.")
	case !e.Authority.Below(ceiling):
		return Decision{}, refuse("AUTHORITY", "The run asks for more than this agent may do for this person; ask the agent's owner.")
	case !(&State{}).mayRecall(e.Snapshot.Memory, e.Authority.Labels):
		return Decision{}, refuse("AUTHORITY", "The run recalls more than this agent may read for this person; start it again.")
	case e.Authority.Turns < 1 || e.Authority.Tokens < 1:
		return Decision{}, refuse("BUDGET", "The run has no budget; ask the budget's owner.")
	case Amount{MicroUSD: e.Authority.MicroUSD, Tokens: e.Authority.Tokens}.invalid():
		return Decision{}, refuse("INVALID_AMOUNT", "No budget can be as high as that.")
	case e.Limits.Turns < 1 || e.Limits.TurnAttempts < 1:
		return Decision{}, refuse("LIMITS", "The run may take no turn; ask the agent's owner.")
	case e.Authority.DeadlineMs <= env.NowMs:
		return Decision{}, refuse("DEADLINE", "The deadline has passed; give a later one.")
	}
	d := Decision{Events: []Event{e}, Guards: []Guard{{Gate: ConfigGate(e.Organisation), Value: env.Rules.Revision()}}}
	for _, above := range e.Lineage {
		d.Guards = append(d.Guards, Guard{Gate: RootGate(above.Run)})
	}
	carve := Amount{MicroUSD: e.Authority.MicroUSD, Tokens: e.Authority.Tokens}
	for _, node := range e.Accounts {
		d.Budget = append(d.Budget, BudgetMove{Node: node, Reserve: carve})
	}
	return d, nil
}

// guardIntent adds the conditions that every intent's write makes: the rules
// it was decided under, the gate of its tree, and the deadline.
func (d *decider) guardIntent() {
	d.Guards = append(d.Guards,
		Guard{Gate: ConfigGate(d.s.Started.Organisation), Value: d.env.Rules.Revision()},
		Guard{Gate: RootGate(d.s.Started.Root), BeforeMs: d.authority().DeadlineMs})
	for _, above := range d.s.Started.Lineage {
		if above.Run != d.s.Started.Root {
			d.Guards = append(d.Guards, Guard{Gate: RootGate(above.Run)})
		}
	}
}

// end ends the run: it settles the budget of every account that carries it and
// gives the open steers their disposition.
func (d *decider) end(status Status, reason EndReason, code string, result *Text, by *Identity) {
	absorbed := map[string]bool{}
	for _, event := range d.Events {
		if e, ok := event.(SteerSettled); ok {
			absorbed[e.Steer] = true
		}
	}
	for _, steer := range d.s.Steers {
		if steer.Disposition == "" && !absorbed[steer.Steer] {
			d.emit(SteerSettled{Steer: steer.Steer, Disposition: Deferred})
		}
	}
	settled, unknown := d.final()
	ended := Ended{Status: status, Reason: reason, Code: code, Result: result, Settled: settled, Unknown: unknown, By: by}
	if reason == EndAccepted {
		ended.Accepted = d.s.openChecks()
	}
	ended.Unverified = result != nil && d.s.Started.RunKind == SubAgent && status != StatusFailed && !d.evidenced()
	d.emit(ended)
	limit := d.s.Budget.Limit
	for _, node := range d.s.Started.Accounts {
		d.Budget = append(d.Budget, BudgetMove{Node: node, Reserve: Amount{}.Minus(limit), Settle: settled, Unknown: unknown})
	}
}

// evidenced reports whether anything stands behind the run's answer besides its
// model: a call that came to something, or a check that read outside.
func (d *decider) evidenced() bool {
	for i := range d.s.Calls {
		call := &d.s.Calls[i]
		if child := d.s.Child(call.Child); child != nil && child.Ended != nil && child.Ended.Unverified {
			continue
		}
		if call.Outcome == OutcomeOK || call.Outcome == OutcomeAnswered {
			return true
		}
	}
	checks := d.s.LastChecks
	for _, event := range d.Events {
		if e, ok := event.(Verified); ok {
			checks = &e
		}
	}
	return checks != nil && slices.ContainsFunc(checks.Checks, func(c CheckResult) bool { return c.Read && c.Verdict == CheckPassed })
}

// final is what the run has settled and left unknown once the events of this
// decision are applied.
func (d *decider) final() (settled, unknown Amount) {
	settled, unknown = d.s.Budget.Settled, d.s.Budget.Unknown
	turn := d.s.LastTurn()
	for _, event := range d.Events {
		switch e := event.(type) {
		case TurnAnswered:
			settled, unknown = settled.Plus(e.Cost), unknown.Plus(turn.heldByAnswer(e))
		case TurnFailed:
			unknown = unknown.Plus(turn.heldByFailure(e))
		case CallEnded:
			if c := d.s.Call(e.Call); e.Unknown && c != nil {
				unknown = unknown.Plus(c.Reserve)
			} else {
				settled = settled.Plus(e.Cost)
			}
		case ChildEnded:
			settled, unknown = settled.Plus(e.Settled), unknown.Plus(e.Unknown)
		}
	}
	return settled, unknown
}

// reach pauses the run at a limit, or fails it where the revision says so.
func (d *decider) reach(limit Limit, detail string) {
	d.emit(LimitReached{Limit: limit, Detail: detail, Approvers: []policy.Approver{
		{Principal: d.s.Started.Contact, Why: "incident contact"},
		{Principal: d.s.Started.Agent.Owner, Why: "agent owner"},
	}})
	if d.s.Limits.OnLimit == FailOnLimit {
		d.closeCalls(VoidLimit)
		d.settle(&ending{status: StatusFailed, reason: EndLimit, code: string(limit)})
	}
}

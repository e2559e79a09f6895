package run

import (
	"hash/fnv"
	"strconv"

	"gantry.dev/orchestrator/policy"
)

func (d *decider) decideTurn(command Command) *Refusal {
	switch c := command.(type) {
	case BeginTurn:
		return d.beginTurn(c)
	case Compact:
		return d.compact(c)
	case AwaitModels:
		return d.awaitModels(c)
	case ReportTurn:
		return d.reportTurn(c)
	case ReportChecks:
		return d.reportChecks(c)
	}
	return nil
}

// turnDue is the turn that the run asks for, nil for none.
func (d *decider) turnDue() (take *TakeTurn) {
	for _, effect := range Pending(d.s, d.env.NowMs) {
		if t, ok := effect.(TakeTurn); ok {
			take = &t
		}
	}
	return take
}

func (d *decider) beginTurn(c BeginTurn) *Refusal {
	take := d.turnDue()
	if take == nil {
		return refuse("NOT_DUE", "The run does not ask for a turn.")
	}
	if d.s.Compacts() && d.s.Rejected() && d.s.LastTurn().Model == c.Model {
		return refuse("STALE", "The model could not take this prompt.")
	}
	if !d.openAll(c.Steers) {
		return refuse("STALE", "The prompt contains guidance that is not open.")
	}
	if c.Reserve.invalid() {
		return refuse("INVALID_AMOUNT", "A reservation is not negative and at most 2^53-1.")
	}
	if refusal := unready(c); refusal != nil {
		return refusal
	}
	ceiling := d.env.Rules.Ceiling(d.s.Acting(d.env.NowMs))
	if c.Memory != nil && ceiling.Turns > 0 && !d.s.mayRecall(c.Memory.Items, policy.Meet(d.s.Authority, ceiling).Labels) {
		return refuse("STALE", "The prompt contains what was recalled before, or is no longer for the run.")
	}
	switch {
	case d.barred(take, ceiling):
	case c.Hedge != nil && !d.s.Budget.Covers(c.Reserve):
		// That stops no turn: it begins with one request.
		return refuse("HEDGE_BUDGET", "What is left does not cover two requests; begin the turn with one.")
	case !d.s.Budget.Covers(c.Reserve):
		d.reach(LimitBudget, "The next turn may cost more than is left.")
	default:
		d.emit(TurnStarted{Turn: take.Turn, Attempt: take.Attempt, Epoch: c.Epoch, Model: c.Model, Why: c.Why,
			Prompt: c.Prompt, Reserve: c.Reserve, Steers: c.Steers, NotAfterMs: c.NotAfterMs, Offers: c.Offers,
			Memory: c.Memory.sealed(d.s.Started.SnapshotDigest), Context: c.Context, Hedge: c.Hedge})
		d.guardIntent()
	}
	return nil
}

// openAll reports whether the steers are open and none is named twice.
func (d *decider) openAll(steers []string) bool {
	open := map[string]bool{}
	for _, steer := range d.s.Steers {
		open[steer.Steer] = steer.Disposition == ""
	}
	for _, steer := range steers {
		if !open[steer] {
			return false
		}
		open[steer] = false
	}
	return true
}

// attemptsUsed reports whether the turn was attempted as often as allowed. An
// attempt that was lost counts too: it may have been billed.
func (d *decider) attemptsUsed(take *TakeTurn) bool {
	if take.Attempt == 1 {
		return false
	}
	return take.Attempt-d.s.LastTurn().Forgiven > d.s.Limits.TurnAttempts
}

func (d *decider) reportTurn(c ReportTurn) *Refusal {
	turn := d.s.LastTurn()
	if turn == nil || turn.Number != c.Turn || turn.Attempt != c.Attempt || turn.Phase != TurnInFlight {
		return refuse("STALE", "The turn is not in flight any more.")
	}
	if c.Cost.invalid() {
		return refuse("INVALID_AMOUNT", "A cost is not negative and at most 2^53-1.")
	}
	if refusal := misreported(turn, c); refusal != nil {
		return refusal
	}
	if c.Failure != nil {
		d.failTurn(turn, *c.Failure)
		return nil
	}
	if d.s.Closing() {
		d.emit(TurnAnswered{Turn: c.Turn, Class: ClassEmpty, Usage: c.Usage, Cost: c.Cost, LatencyMs: c.LatencyMs, Hedged: c.Hedged})
		d.settle(d.ending())
		return nil
	}
	if c.Class == ClassCalls && len(c.Calls) == 0 {
		c.Class = ClassMalformed
	}
	d.emit(TurnAnswered{Turn: c.Turn, Class: c.Class, Text: c.Text, Reasoning: c.Reasoning, Usage: c.Usage, Cost: c.Cost, LatencyMs: c.LatencyMs, Thread: c.Thread, ThreadOf: c.ThreadOf, Hedged: c.Hedged})
	for _, steer := range turn.Steers {
		d.emit(SteerSettled{Steer: steer, Disposition: Absorbed, Turn: c.Turn})
	}
	refused := 0
	if c.Class == ClassCalls && d.proposeAll(c) {
		refused = 1 + d.s.refusedTurns(len(d.s.Turns)-1)
	}
	used := d.s.Repairs
	if repairs(c.Class) {
		used++
	}
	// A parked run ends only after an operator has let it go on.
	if d.s.Parked == nil {
		d.conclude(c.Class, c.Text, used, refused)
	}
	return nil
}

// conclude ends a run after an answer with which nothing can be done: a
// refusal, or one that cannot be used when as many turns as may be spent on
// repairs are used, or so many in a row whose calls were all refused.
func (d *decider) conclude(class Class, text *Text, used, refused int) {
	switch {
	case class == ClassRefusal:
		d.end(StatusFailed, EndRefused, "REFUSED", text, nil)
	case repairs(class) && used > d.s.Limits.RepairTurns:
		d.end(StatusFailed, EndUnusable, string(class), nil, nil)
	case refused > d.s.Limits.RepairTurns:
		d.end(StatusFailed, EndUnusable, string(ClassMalformed), nil, nil)
	}
}

// concludeResumed does so when an operator lets a run go on that was answered
// while it was parked.
func (d *decider) concludeResumed() {
	if turn := d.s.LastTurn(); turn != nil && turn.Phase == TurnDone {
		d.conclude(turn.Answer.Class, turn.Answer.Text, d.s.Repairs, d.s.refusedTurns(len(d.s.Turns)))
	}
}

// longestWaitMs bounds what a provider may ask for.
const longestWaitMs = 24 * 60 * 60 * 1000

// failTurn ends one attempt. A model is asked again after as long as its
// provider asked, up to a day, or twice as long each time up to a minute; the
// spread comes from the run's id. Another one that is right is asked at once.
// Where none could be reached the run waits for them: nobody can do more.
func (d *decider) failTurn(turn *Turn, failure TurnFailure) {
	e := TurnFailed{Turn: turn.Number, Attempt: turn.Attempt, Cause: failure.Cause, Unknown: failure.Unknown, Retryable: failure.Retryable, Second: failure.Second}
	used := turn.Attempt - turn.Forgiven
	wait := min(failure.RetryAfterMs, longestWaitMs)
	if wait <= 0 {
		wait = backoffMs(d.s.ID, used)
	}
	back := d.env.NowMs + wait
	out := failure.Retryable && failure.Out && (used >= d.s.Limits.TurnAttempts || d.s.Outages > 0 && !failure.Elsewhere)
	switch {
	case out || !failure.Retryable || used >= d.s.Limits.TurnAttempts:
	case failure.Elsewhere:
		e.BackMs = back
	default:
		if e.RetryAtMs = turn.retryAt(back, failure.Second); e.RetryAtMs != back {
			e.BackMs = back
		}
	}
	d.emit(e)
	switch {
	case d.s.Closing():
		d.settle(d.ending())
	case d.s.Parked != nil: // an operator looks already
	case failure.Cause == TooLong && d.s.Compacts(): // it gets shorter, or a person is asked
	case out:
		d.wait(ModelsOut{Turn: turn.Number, Cause: failure.Cause}, back)
	case !failure.Retryable:
		d.reach(LimitModel, "The model does not accept our requests ("+failure.Cause+").")
	case used >= d.s.Limits.TurnAttempts:
		d.reach(LimitModel, "The model could not be reached after "+strconv.Itoa(used)+" attempts ("+failure.Cause+").")
	}
}

func backoffMs(id string, attempt int) int64 {
	base := int64(500) << min(attempt, 7)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(id + strconv.Itoa(attempt)))
	return base + int64(hash.Sum32())%(base/2)
}

// proposeAll records the calls of an answer with their verdicts. It reports
// whether all of them were refused before anybody judged them.
func (d *decider) proposeAll(c ReportTurn) (allRefused bool) {
	broken := 0
	for i, p := range c.Calls {
		call := len(d.s.Calls) + 1 + i
		d.emit(CallProposed{Call: call, Turn: c.Turn, Tool: p.Tool, Revision: p.Revision, Impact: p.Impact, Class: p.Class,
			Arguments: p.Text, Fingerprint: p.Fingerprint, CostBound: p.CostBound, Asks: p.Asks, Plain: !p.Control, Delegate: p.Delegate, Requests: p.Requests})
		switch {
		case p.Refusal != "":
			broken++
			d.emit(CallEnded{Call: call, Outcome: OutcomeRefused, Code: p.Refusal, Result: p.Detail})
		case i >= d.s.Limits.CallsPerTurn:
			broken++
			d.emit(CallEnded{Call: call, Outcome: OutcomeRefused, Code: "TOO_MANY_CALLS"})
		default:
			d.judge(judged{call: call, tool: p.Tool, revision: d.succeeds(p.Tool, p.Revision), control: p.Control, asks: p.Asks, to: p.To, want: p.Want, requests: p.Requests,
				inputs: p.Inputs, approval: p.Approval, nonce: p.Nonce, arguments: p.Text, costBound: p.CostBound, class: p.Class})
		}
	}
	return broken == len(c.Calls)
}

// refusedTurns counts the turns in a row, up to the nth, of which every call
// was refused.
func (s *State) refusedTurns(n int) int {
	turns := 0
	for n > turns && s.allRefused(&s.Turns[n-1-turns]) {
		turns++
	}
	return turns
}

func (s *State) allRefused(turn *Turn) bool {
	if turn.FirstCall == 0 {
		return false
	}
	for ordinal := turn.FirstCall; ordinal <= turn.LastCall; ordinal++ {
		// That a call could not be delegated does not mean that it was badly made.
		if call := s.Call(ordinal); call.Outcome != OutcomeRefused || call.Delegate != "" {
			return false
		}
	}
	return true
}

func (d *decider) reportChecks(c ReportChecks) *Refusal {
	turn := d.s.LastTurn()
	if turn == nil || turn.Number != c.Turn || !d.s.verifyDue() || d.s.hasLiveChildren() || d.s.Cancel != nil || d.s.Reached != nil || d.s.Parked != nil {
		return refuse("STALE", "The answer is not waiting for its checks.")
	}
	e := Verified{Turn: c.Turn, Checks: d.findings(c.Checks)}
	switch {
	case failed(&e):
		d.emit(e)
		if d.s.Repairs >= d.s.Limits.RepairTurns || e.final() {
			d.end(StatusFailed, EndVerificationFailed, "VERIFICATION_FAILED", turn.Answer.Text, nil)
		}
	case unchecked(&e):
		e.RetryAtMs = d.env.NowMs + backoffMs(d.s.ID, d.s.Checked+1)
		d.emit(e)
		if d.s.Checked+1 >= d.s.Limits.CheckAttempts {
			d.reach(LimitCheck, "The completion could not be checked.")
		}
	default:
		d.emit(e)
		d.end(d.s.completed(), EndVerified, "", turn.Answer.Text, nil)
	}
	return nil
}

// completed is how a run ends whose answer is verified: only in part where a
// branch of it failed.
func (s *State) completed() Status {
	for i := range s.Calls {
		call := &s.Calls[i]
		if s.Started.Branches && call.Delegate != "" && (call.Outcome != OutcomeOK || call.Code != "") {
			return StatusPartial
		}
	}
	return StatusCompleted
}

// findings makes the report complete: a check that is missing or says nothing
// we know was not made.
func (d *decider) findings(reported []CheckResult) []CheckResult {
	found := map[string]bool{}
	checks := make([]CheckResult, 0, len(reported))
	for _, check := range reported {
		if check.Verdict != CheckPassed && check.Verdict != CheckFailed {
			check.Verdict = CheckUnchecked
		}
		found[check.Name] = true
		checks = append(checks, check)
	}
	checks = d.reviewedAnswer(checks)
	for _, name := range d.s.Started.Checks {
		if !found[name] && (name != ReviewCheck || d.s.reviewer(ReviewsAnswer) == "") {
			checks = append(checks, CheckResult{Name: name, Verdict: CheckUnchecked, Code: "NOT_REPORTED"})
		}
	}
	return checks
}

// ReviewCheck is the name of the check that a checking sidecar makes.
const ReviewCheck = "review"

// reviewedAnswer adds what the reviewer of the answer found.
func (d *decider) reviewedAnswer(checks []CheckResult) []CheckResult {
	review, child := d.s.ReviewOf(ReviewOfAnswer(d.s.LastTurn().Number), d.s.reviewer(ReviewsAnswer))
	switch review {
	case ReviewNone:
		return checks
	case ReviewPassed:
		return append(checks, CheckResult{Name: ReviewCheck, Verdict: CheckPassed})
	case ReviewHolds:
		return append(checks, CheckResult{Name: ReviewCheck, Verdict: CheckFailed, Code: "HELD", Detail: child.Ended.Result})
	}
	return append(checks, CheckResult{Name: ReviewCheck, Verdict: CheckUnchecked, Code: string(review)})
}

// final reports whether a check failed that no other answer would meet.
func (e *Verified) final() bool {
	for _, check := range e.Checks {
		if check.Verdict == CheckFailed && check.Final {
			return true
		}
	}
	return false
}

// judged is one call on its way to a verdict.
type judged struct {
	call            int
	tool, revision  string
	control, asks   bool
	to              []policy.Approver
	want            *Want
	requests        bool
	inputs          CallInputs
	approval, nonce string
	arguments       Text
	costBound       int64
	class           policy.EffectClass
	begun           bool // an earlier attempt was made
}

// judge emits the verdict on a call and what follows from it at once.
func (d *decider) judge(j judged) {
	if d.wants(j) {
		d.want(j)
		return
	}
	verdict := d.verdict(j)
	d.emit(CallJudged{Call: j.call, Verdict: verdict})
	switch {
	case verdict.Answer == policy.Forbid:
		d.stop(j.call, OutcomeForbidden, "FORBIDDEN", nil)
	case verdict.Answer == policy.Simulate:
		d.stop(j.call, OutcomeSimulated, "SIMULATED", nil)
	case j.requests:
		d.stop(j.call, OutcomeRefused, NothingToAskFor, nil)
	case j.asks:
		d.emit(QuestionAsked{Question: j.approval, Call: j.call, To: d.askees(j.to), NotAfterMs: d.env.NowMs + d.s.Limits.QuestionMs})
	case verdict.Answer == policy.Hold:
		d.hold(j, verdict)
	}
}

func (d *decider) askees(to []policy.Approver) []policy.Approver {
	if len(to) > 0 {
		return to
	}
	return []policy.Approver{{Principal: d.s.Started.Subject.ID, Why: "the run acts for them"}}
}

// hold asks people about a call. One too many is not asked about: the call
// waits until an operator has looked at the run.
func (d *decider) hold(j judged, verdict policy.Verdict) {
	if d.s.asked+d.asked >= d.s.Limits.approvals() {
		d.flooded = true
		return
	}
	d.asked++
	ttl := d.s.Limits.ApprovalMs
	if verdict.ExpiresMs > 0 && verdict.ExpiresMs < ttl {
		ttl = verdict.ExpiresMs
	}
	e := ApprovalRequested{Approval: j.approval, Call: j.call, Nonce: j.nonce, Approvers: verdict.Approvers,
		Quorum: max(verdict.Quorum, 1), Policy: verdict.Revision, NotAfterMs: d.env.NowMs + ttl}
	e.Digest = ApprovalDigest(d.s, e, j.subjectMatter())
	d.emit(e)
}

// verdict joins policy's word with the run's own authority.
func (d *decider) verdict(j judged) policy.Verdict { return d.verdictUnder(d.authority(), j) }

// verdictUnder is the verdict where the run may do this.
func (d *decider) verdictUnder(authority policy.Authority, j judged) policy.Verdict {
	tool, known := d.env.Rules.Tool(j.tool)
	if !known || tool.Revision != j.revision {
		return d.forbid("gantry:tool-changed", "The tool is not the one that was proposed.")
	}
	if code := d.outside(authority, tool, j); code != "" {
		return d.forbid("gantry:authority", code)
	}
	verdict := d.env.Rules.Judge(policy.Request{
		Subject: d.s.Started.Subject, Agent: d.s.Started.Agent, Chain: d.s.Started.principals(), Tool: tool,
		Facts: j.inputs.Facts, Resource: j.inputs.Resource, Marking: d.s.Marking, CostBound: j.costBound,
		Stage: authority.Stage, AtMs: d.env.NowMs,
		Untrusted: j.control && d.s.Marking.Integrity == policy.Untrusted,
	})
	if tool.Quarantined && (verdict.Answer == policy.Permit || verdict.Answer == policy.Hold) {
		return d.keepBack(verdict, tool)
	}
	if verdict.Answer == policy.Permit && d.s.held(d.s.Call(j.call)) {
		return d.askOwner(verdict, tool)
	}
	return verdict
}

// outside returns why a call lies outside an authority, or "".
func (d *decider) outside(authority policy.Authority, tool policy.ToolFacts, j judged) string {
	grant, granted := authority.Tools[tool.Name]
	switch {
	case !granted || grant.Revision != tool.Revision:
		return "The run was not given this tool."
	case tool.Impact.OrWorst() > grant.Impact.OrWorst():
		return "The tool's impact is above what the run was given."
	case !j.begun && d.s.Begun[tool.Name] >= grant.Calls:
		return "All calls of this tool are used."
	case d.s.Limits.CallsAtOnce < 1:
		return "The run may have no call in flight."
	}
	if ok, path := grant.Allows(j.inputs.Arguments); !ok {
		return "The argument at " + path + " is outside what the run was given."
	}
	return ""
}

func (d *decider) forbid(id, text string) policy.Verdict {
	return policy.Verdict{Answer: policy.Forbid, Revision: d.env.Rules.PolicyRevision(),
		Reasons: []policy.Reason{{Policy: id, Text: text}}}
}

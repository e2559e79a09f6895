package run_test

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// player sends one run random commands, sensible and senseless ones, and keeps
// what was recorded. Its state is folded from the events as they were decided.
type player struct {
	t       *rapid.T
	s       *run.State
	rules   *fixedRules
	nowMs   int64
	epoch   uint64
	ids     int
	last    run.Record
	records []run.Record
	ledger  ledger
}

var answers = []run.Class{run.ClassCalls, run.ClassCalls, run.ClassCalls, run.ClassCalls, run.ClassCalls, run.ClassText, run.ClassText, run.ClassText,
	run.ClassRefusal, run.ClassEmpty}

var playedTools = []string{"free", "held", "opaque", "checkable", "unknown", "delegate", "delegate", "delegate-held", "wanted", "request"}

func play(t *rapid.T, steps int) *player {
	p := &player{t: t, s: &run.State{ID: "r1"}, rules: &fixedRules{policy: "p1", tool: "t1"}, nowMs: 1000, epoch: 1, ledger: newLedger()}
	p.rules.lent = true
	p.start()
	for range steps {
		p.step()
	}
	return p
}

func (p *player) start() {
	given := authority("t1")
	given.MicroUSD, given.Tokens = int64(p.upTo("money", 400)), 1+int64(p.upTo("tokens", 400))
	limits := run.Limits{Turns: p.upTo("turns", 5) + 1, CallsPerTurn: 3, CallsAtOnce: 2, TurnAttempts: 2, CallAttempts: 2, NoProgress: 2, RepairTurns: 1,
		CheckAttempts: 1 + p.upTo("checks", 1), Steers: 2, ApprovalMs: 500, QuestionMs: 500, TurnMs: 100, OnLimit: run.AskOnLimit, Approvals: p.upTo("approvals", 4)}
	if p.upTo("final limits", 5) == 0 {
		limits.OnLimit = run.FailOnLimit
	}
	started := run.Started{Organisation: "o", RunKind: run.Root, Root: "r1", Subject: policy.Principal{ID: "ada", Organisation: "o"},
		Chain: []string{"ada", "agent:a"}, Agent: policy.AgentFacts{Name: "a", Owner: "olga"}, Contact: "olga", Goal: p.text(),
		Authority: given, Limits: limits, Checks: []string{"output"}, Accounts: []string{"acme"}, Branches: p.chance("branches")}
	if p.upTo("reviewed", 2) == 0 {
		started.Reviewers = []run.Reviewer{{Of: "free", Agent: "b"}, {Of: "delegate", Agent: "b"}, {Of: run.ReviewsAnswer, Agent: "b"}}
		started.Sidecars = []run.Beside{{Agent: "b", Purpose: run.ForMonitor, Lands: run.LandsAsEvidence}}
	}
	if p.chance("compacts") {
		started.Snapshot.Compiler = run.CompactingCompiler
		started.History = []run.Message{{Author: "ada", Text: p.text()}, {Author: "bob", Text: p.text()}}
	}
	if p.upTo("below another", 4) == 0 {
		started = below(started)
		started.Authority.DeadlineMs = p.nowMs + 1 + int64(p.upTo("deadline", 999))*4
	}
	p.send(run.Start{Started: started})
}

// send decides a command and folds and records what it gives.
func (p *player) send(command run.Command) {
	version := p.s.Version
	decision, refusal := run.Decide(p.s, command, run.Env{NowMs: p.nowMs, Rules: p.rules})
	require.Equal(p.t, version, p.s.Version)
	if refusal != nil {
		require.Empty(p.t, decision, "a refusal writes nothing")
		return
	}
	for _, event := range decision.Events {
		record, err := run.Encode(p.s.ID, p.last, p.nowMs, event)
		require.NoError(p.t, err)
		p.ledger.note(p.t, p.s, event)
		require.NoError(p.t, run.Apply(p.s, event), "%#v after %#v", event, command)
		p.s.Head, p.last = record.Digest, record
		p.records = append(p.records, record)
		p.ledger.hold(p.t, p.s, event)
	}
	p.ledger.move(decision.Budget)
	p.ledger.close(p.t, p.s)
}

// step answers what the run asks for, or does anything at all.
func (p *player) step() {
	effects := run.Pending(p.s, p.nowMs)
	if len(effects) > 0 && p.upTo("sensible", 4) > 0 {
		p.serve(rapid.SampledFrom(effects).Draw(p.t, "effect"))
		return
	}
	if (p.s.Parked != nil || p.s.Reached != nil) && p.chance("resume") {
		p.resume()
		return
	}
	switch p.upTo("step", 16) {
	case 0, 1, 2, 3, 4, 5:
		p.report()
	case 6, 7, 8:
		p.people()
	case 9, 10:
		p.lead()
	case 11:
		p.nowMs += int64(p.upTo("later", 700))
		p.send(run.Fire{})
	case 12, 13:
		p.epoch++
		p.send(run.Recover{Epoch: p.epoch})
	case 14:
		p.change()
	case 15, 16:
		p.children()
	}
}

func (p *player) serve(effect run.Effect) {
	switch e := effect.(type) {
	case run.TakeTurn:
		var steers []string
		for _, steer := range p.s.Steers {
			if steer.Disposition == "" {
				steers = append(steers, steer.Steer)
			}
		}
		if p.s.Compacts() && (p.s.Rejected() || p.upTo("shorten", 9) == 0) {
			p.send(run.Compact{Turn: e.Turn, Attempt: e.Attempt, Cause: run.CompactedForRoom, Model: "m", Unfit: p.upTo("unfit", 9) == 0,
				Brief: run.Brief{Said: p.upTo("said", 3), Through: p.upTo("through", len(p.s.Turns)), Excerpt: int64(p.upTo("excerpt", 9)), Result: int64(p.upTo("result", 9))}})
			return
		}
		if p.upTo("models", 9) == 0 {
			p.send(run.AwaitModels{Turn: e.Turn, Attempt: e.Attempt, BackMs: p.nowMs + int64(p.upTo("back", 9))})
			return
		}
		begin := run.BeginTurn{Epoch: p.epoch, Model: "m", Reserve: p.amount("reserve"), Steers: steers}
		if p.upTo("hedged", 2) == 0 {
			begin.Hedge = &run.Hedge{Model: "n", AfterMs: 10, Reserve: p.amount("second reserve")}
			begin.Reserve = begin.Reserve.Plus(begin.Hedge.Reserve)
		}
		p.send(begin)
	case run.DispatchCall:
		begin := run.BeginCall{Epoch: p.epoch, Call: e.Call, Key: fmt.Sprint("k", e.Call), Inputs: noArguments}
		if p.s.Call(e.Call).Delegate != "" {
			if p.upTo("decline", 7) == 0 {
				detail := p.text()
				p.send(run.DeclineCall{Call: e.Call, Code: "NOT_FOUND", Detail: &detail})
				return
			}
			begin.Child = p.spawn(e.Call)
		}
		p.send(begin)
	case run.StartReview:
		if p.upTo("no review", 3) == 0 {
			p.send(run.DeclineReview{Of: e.Of, Code: "NOT_FOUND"})
			return
		}
		p.send(run.BeginReview{Of: e.Of, Child: *reviewing(p.s, e.Of, p.amount("carve"))})
	case run.DispatchSidecar:
		p.send(run.ReportSidecar{Number: e.Number, Sidecar: p.id(), Agent: "b", Purpose: run.ForMonitor})
	case run.CollectChildren:
		p.children()
	case run.StopChild:
		p.send(run.ReportStopped(e))
	case run.RejudgeCall:
		asked, of := wantOf(p.s.Call(e.Call).Tool, p.rules.tool)
		p.send(run.Judge{Call: e.Call, Inputs: noArguments, Approval: p.id(), Nonce: p.id(), Want: asked, To: of})
	case run.ProbeCall:
		p.send(run.ReportProbe{Call: e.Call, Found: p.chance("found"), Outcome: run.OutcomeOK})
	case run.Verify:
		verdict := rapid.SampledFrom([]run.CheckVerdict{run.CheckPassed, run.CheckFailed, run.CheckUnchecked}).Draw(p.t, "verdict")
		detail := p.text()
		p.send(run.ReportChecks{Turn: e.Turn, Checks: []run.CheckResult{{Name: "output", Verdict: verdict, Detail: &detail}}})
	}
}

// report brings the outcome of a turn or of an attempt, now or an old one.
func (p *player) report() {
	if turn := p.s.LastTurn(); turn != nil && turn.Phase == run.TurnInFlight {
		p.send(p.answer(turn))
		return
	}
	if len(p.s.Calls) == 0 {
		return
	}
	call := p.s.Call(1 + p.upTo("call", len(p.s.Calls)-1))
	result := p.text()
	if p.upTo("asks", 4) == 0 {
		p.send(p.ask(call))
		return
	}
	p.send(run.ReportCall{Call: call.CallProposed.Call, Intent: p.upTo("intent", call.Intent),
		Outcome: rapid.SampledFrom([]run.Outcome{run.OutcomeOK, run.OutcomeFailed, run.OutcomeUnknown}).Draw(p.t, "outcome"),
		Result:  &result, Fingerprint: fmt.Sprint(p.upTo("fingerprint", 3)), Cost: p.amount("cost")})
}

// ask lets the server of a call ask, what may be shown or not, now and then the
// same again.
func (p *player) ask(call *run.Call) run.ReportCall {
	state := p.text()
	asked := run.Asked{Question: p.id(), Ask: run.Ask{Origin: "server", Kind: run.AskForm, State: &state, Fingerprint: fmt.Sprint(p.upTo("asked", 20))}}
	if p.chance("shown") {
		form := p.text()
		asked.Form = &form
	} else {
		asked.Declined = "ASKS_FOR_SECRET"
	}
	return run.ReportCall{Call: call.CallProposed.Call, Intent: call.Intent, Outcome: run.OutcomeFailed, Ask: &asked}
}

func (p *player) answer(turn *run.Turn) run.ReportTurn {
	report := run.ReportTurn{Turn: turn.Number, Attempt: turn.Attempt, Cost: p.amount("cost")}
	second := run.SecondUnsaid
	if turn.Hedge != nil {
		second = rapid.SampledFrom([]run.Second{run.SecondUnsaid, run.SecondUnasked, run.SecondFailed, run.SecondUnknown}).Draw(p.t, "second")
	}
	if p.upTo("failure", 5) == 0 {
		report.Failure = &run.TurnFailure{Cause: "OUTAGE", Retryable: p.upTo("retryable", 4) > 0, Out: p.chance("out"), Elsewhere: p.chance("elsewhere"), Unknown: p.chance("billed")}
		if p.upTo("too long", 3) == 0 {
			report.Failure = &run.TurnFailure{Cause: run.TooLong}
		}
		report.Failure.Second = second
		return report
	}
	if turn.Hedge != nil && p.chance("both asked") {
		report.Hedged = &run.Hedged{By: rapid.SampledFrom([]string{turn.Model, turn.Hedge.Model}).Draw(p.t, "by"), Unknown: p.chance("other billed")}
		if p.chance("late") {
			report.Hedged.Unknown, report.Hedged.Usage, report.Hedged.Cost = false, &run.Usage{Output: 1}, p.amount("late cost")
			report.Cost = report.Cost.Plus(report.Hedged.Cost)
		}
	}
	report.Class = rapid.SampledFrom(answers).Draw(p.t, "class")
	text := p.text()
	report.Text = &text
	if report.Class != run.ClassCalls {
		return report
	}
	for range 1 + p.upTo("calls", 3) {
		name := rapid.SampledFrom(playedTools).Draw(p.t, "tool")
		facts, _ := p.rules.Tool(name)
		asked, of := wantOf(name, p.rules.tool)
		report.Calls = append(report.Calls, run.Proposal{Want: asked, To: of, Requests: name == "request", Tool: name, Text: p.text(), Fingerprint: name, Revision: facts.Revision,
			Impact: facts.Impact, Class: facts.Class, CostBound: p.amount("bound").MicroUSD, Asks: p.upTo("asks", 5) == 0,
			Delegate: delegateOf(name), Approval: p.id(), Nonce: p.id(), Inputs: noArguments})
	}
	return report
}

// people decide, answer and settle.
func (p *player) people() {
	by, olga := run.Identity{Principal: "olga"}, policy.Principal{ID: "olga"}
	for _, approval := range p.s.Approvals {
		if approval.Status == run.ApprovalOpen {
			reason := p.text()
			p.send(run.DecideApproval{Approval: approval.Approval, Digest: approval.Digest, Granted: p.upTo("granted", 3) > 0, By: by, Person: olga, Reason: &reason})
			return
		}
	}
	for _, access := range p.s.Accesses {
		if access.Status == run.AccessOpen {
			reason := p.text()
			p.send(run.DecideAccess{Access: access.AccessRequested.Access, Digest: access.Digest, Granted: p.upTo("granted", 3) > 0, Grant: "g", By: by, Person: olga, Reason: &reason})
			return
		}
	}
	for _, question := range p.s.Questions {
		if question.Status == run.QuestionOpen {
			answer := run.AnswerQuestion{Question: question.Question, By: by, Person: policy.Principal{ID: "ada", Clearance: policy.Labels{"l0", "l1", "l2"}}, Answer: p.text()}
			if question.Ask != nil {
				answer.Action = rapid.SampledFrom([]run.Action{run.Accept, run.Decline, run.Dismiss}).Draw(p.t, "action")
			}
			p.send(answer)
			return
		}
	}
	if len(p.s.Calls) > 0 {
		p.send(run.ResolveUncertain{Call: 1 + p.upTo("call", len(p.s.Calls)-1), By: by, Person: olga, Override: p.chance("override"), Evidence: p.text(),
			Resolution: rapid.SampledFrom([]run.Resolution{run.Happened, run.NotHappened, run.Repeat}).Draw(p.t, "resolution")})
	}
}

// lead steers, cancels or parks the run, or resumes it where nothing waits.
func (p *player) lead() {
	by := run.Identity{Principal: "olga"}
	switch n := p.upTo("lead", 15); n {
	case 0:
		p.send(run.Cancel{By: by})
	case 1:
		p.send(run.Park{Code: "CRASHES"})
	case 2:
		p.resume()
	default:
		p.send(run.Steer{Steer: p.id(), By: by, Text: p.text(), Interrupt: p.chance("interrupt"), Void: n < 5})
	}
}

func (p *player) resume() {
	how := p.upTo("how", 9)
	p.send(run.Resume{By: run.Identity{Principal: "olga"}, Person: policy.Principal{ID: "olga"}, Turns: p.upTo("more turns", 2), Amount: p.amount("more"),
		DeadlineMs: p.nowMs + 1000, Accept: how < 3, End: how == 3})
}

// change gives the run another world: rules, a tool, a person's role.
func (p *player) change() {
	switch p.upTo("change", 4) {
	case 4:
		p.rules.lent = p.chance("lent")
	case 0:
		p.rules.policy = p.id()
	case 1:
		p.rules.tool = rapid.SampledFrom([]string{"t1", "t1", "t2"}).Draw(p.t, "revision")
	case 2:
		p.rules.revoked = p.chance("revoked")
	case 3:
		p.rules.retired = rapid.SampledFrom([]string{"", "", "olga"}).Draw(p.t, "retired")
	}
}

// upTo draws every number from 0 alike; a range of rapid prefers small ones.
func (p *player) upTo(label string, most int) int {
	return rapid.SampledFrom(numbers[:max(most, 0)+1]).Draw(p.t, label)
}

var numbers = func() []int {
	list := make([]int, 1000)
	for i := range list {
		list[i] = i
	}
	return list
}()

func (p *player) chance(label string) bool { return rapid.Bool().Draw(p.t, label) }

func (p *player) amount(label string) run.Amount {
	return run.Amount{MicroUSD: int64(p.upTo(label, 40)), Tokens: int64(p.upTo(label, 40))}
}

func (p *player) id() string {
	p.ids++
	return fmt.Sprint("id-", p.ids)
}

func (p *player) text() run.Text {
	id := p.id()
	return run.Text{ID: id, Commitment: id, Marking: policy.Marking{Labels: policy.Labels{policy.Label("l" + fmt.Sprint(p.ids%3))}}}
}

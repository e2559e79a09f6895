package simulate

import (
	"context"
	"errors"
	"fmt"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

var errPrepare = errors.New("the effect cannot be readied")

// performer does what runs ask for in the world of the simulation.
type performer struct{ p *process }

// callMs is how long an attempt may take to begin, and then to answer.
const callMs = 12_000

// Prepare readies one effect.
func (w performer) Prepare(ctx context.Context, view engine.View, effect run.Effect) (engine.Prepared, error) {
	s := w.p.sim
	s.lag()
	if s.hit(s.rate(s.plan.prepare)) {
		s.faults++
		w.p.faulty = true
		return engine.Prepared{}, errPrepare
	}
	if _, err := view.Texts(ctx, view.State.Started.Goal.ID); err != nil {
		return engine.Prepared{}, err
	}
	id := view.State.ID
	switch e := effect.(type) {
	case run.TakeTurn:
		return w.turn(view, e), nil
	case run.DispatchCall:
		if view.State.Call(e.Call).Delegate != "" {
			return w.spawn(view, e), nil
		}
		return w.call(view, e), nil
	case run.CollectChildren:
		return w.collect(ctx, view)
	case run.StopChild:
		return w.stop(ctx, e)
	case run.ProbeCall:
		return engine.Prepared{Perform: func(ctx context.Context) engine.Performed { return w.probe(ctx, id, e) }}, nil
	case run.RejudgeCall:
		want, to := s.rules.want(view.State.Call(e.Call).Tool)
		return engine.Prepared{Command: run.Judge{Call: e.Call, Inputs: inputs(), Approval: s.ID(), Nonce: "n", Want: want, To: to}}, nil
	case run.Verify:
		return engine.Prepared{Perform: func(context.Context) engine.Performed { return w.verify(e) }}, nil
	}
	return engine.Prepared{}, fmt.Errorf("unknown effect %T", effect)
}

func inputs() run.CallInputs { return run.CallInputs{Arguments: []byte("{}")} }

func (w performer) turn(view engine.View, e run.TakeTurn) engine.Prepared {
	id, limit := view.State.ID, view.State.Limits.TurnMs
	begin := run.BeginTurn{Epoch: view.Epoch, Model: "m", Prompt: "p", Reserve: run.Amount{MicroUSD: turnCost, Tokens: turnCost},
		NotAfterMs: view.NowMs + limit}
	for _, steer := range view.State.Steers {
		if steer.Disposition == "" {
			begin.Steers = append(begin.Steers, steer.Steer)
		}
	}
	if w.p.sim.hit(w.p.sim.rate(w.p.sim.plan.model)) && w.p.sim.between(0, 2) == 0 {
		w.p.sim.faults++
		return engine.Prepared{Command: run.AwaitModels{Turn: e.Turn, Attempt: e.Attempt, BackMs: view.NowMs + w.p.sim.between(0, 10_000)}}
	}
	if command := w.strains(view, e); command != nil {
		return engine.Prepared{Command: command}
	}
	begin.Memory = recalls(view.State, e)
	asking := modelAsking{id: id, effect: e, limitMs: limit, tooLong: w.p.sim.overflows(view.State), given: view.State.Authority.Includes(w.p.sim.rules.given()),
		served: view.State.Authority.Tools[served].Revision}
	w.hedge(view, &begin)
	return engine.Prepared{Command: begin, Perform: func(ctx context.Context) engine.Performed { return w.hedged(begin, w.ask(ctx, asking)) }}
}

// modelAsking is one model request on its way.
type modelAsking struct {
	id      string // of the run
	effect  run.TakeTurn
	limitMs int64
	tooLong bool   // for the model
	given   bool   // the run may use what it can ask for
	served  string // the definition of the served tool that the run was admitted with
}

// recalls is what memory gives before a turn: something that somebody outside
// may have written, and at each third turn nothing, as if it were out.
func recalls(s *run.State, e run.TakeTurn) *run.Remembrance {
	if e.Turn%3 == 0 {
		return &run.Remembrance{Cause: run.RecallNews, Missing: []string{run.MemoryOut}}
	}
	item := run.Recalled{Item: "item", Etag: fmt.Sprint(e.Turn), Marking: policy.Marking{Integrity: policy.Untrusted}}
	for _, known := range s.Recalled() {
		if known.Etag == item.Etag {
			return nil
		}
	}
	return &run.Remembrance{Cause: run.RecallNews, Items: []run.Recalled{item}}
}

// ask sends one model request.
func (w performer) ask(ctx context.Context, a modelAsking) engine.Performed {
	s, id, e, limitMs := w.p.sim, a.id, a.effect, a.limitMs
	report := run.ReportTurn{Turn: e.Turn, Attempt: e.Attempt}
	fail := func(failure run.TurnFailure) engine.Performed {
		report.Failure = &failure
		return engine.Performed{Command: report}
	}
	fate := 0
	if s.hit(s.rate(s.plan.model)) {
		s.faults++
		fate = int(s.between(1, s.plan.fates()))
	}
	n := s.between(1, turnCost)
	report.Cost = run.Amount{MicroUSD: n, Tokens: n}
	takesMs := s.duration()
	switch {
	case s.out():
		return fail(run.TurnFailure{Cause: "OUT", Retryable: true, Out: true})
	case a.tooLong || fate == 8:
		s.met["a prompt that was too long"]++
		return fail(run.TurnFailure{Cause: run.TooLong})
	}
	switch fate {
	case 1:
		return fail(run.TurnFailure{Cause: "OUTAGE", Retryable: true, RetryAfterMs: s.between(0, 3_000)})
	case 2:
		return fail(run.TurnFailure{Cause: "REJECTED"})
	case 7:
		return fail(run.TurnFailure{Cause: "OUT", Retryable: true, Out: true, Elsewhere: s.between(0, 1) == 1})
	case 3:
		takesMs = 2 * limitMs // it says nothing for too long
	}
	s.disturbSoon(w.p)
	back := s.outside.think(id, takesMs, report.Cost)
	if !s.await(ctx, back, s.nowMs+limitMs) || fate == 4 {
		return fail(run.TurnFailure{Cause: "BROKEN", Retryable: true, Unknown: true})
	}
	if fate == 5 || fate == 6 {
		report.Class = pick(s.chance, run.ClassEmpty, run.ClassCut, run.ClassMalformed, run.ClassRefusal, run.ClassCalls)
		return engine.Performed{Command: report}
	}
	return w.answer(a, len(s.witnessOf(id).links), report)
}

// answer proposes what the run's script says.
func (w performer) answer(a modelAsking, level int, report run.ReportTurn) engine.Performed {
	s, id := w.p.sim, a.id
	var tools []string
	if script := s.runs[s.index[id]].script; report.Turn <= len(script) {
		tools = script[report.Turn-1]
	}
	if len(tools) == 0 {
		text, payload := s.seal(id, "the answer")
		report.Class, report.Text = run.ClassText, &text
		return engine.Performed{Command: report, Payloads: []engine.Payload{payload}}
	}
	var payloads []engine.Payload
	report.Class = run.ClassCalls
	for i, name := range tools {
		text, payload := s.seal(id, "{}")
		facts, known := s.rules.Tool(name)
		payloads = append(payloads, payload)
		proposal := run.Proposal{Tool: name, Text: text, Fingerprint: fmt.Sprint(name, i), Revision: facts.Revision, Impact: facts.Impact,
			Class: facts.Class, CostBound: callCost, Asks: name == "ask", Approval: s.ID(), Nonce: "n", Inputs: inputs()}
		if delegates(name) {
			proposal.Delegate, proposal.CostBound = agentAt(level+1), 0
		}
		proposal.Want, proposal.To = s.rules.want(name)
		if proposal.Requests = name == request || name == request+".budget"; name == request && a.given {
			proposal.Refusal = run.NothingToAskFor
		}
		if name == served {
			proposal.Revision = a.served
		}
		if !known {
			proposal.Refusal = "UNKNOWN_TOOL"
		}
		report.Calls = append(report.Calls, proposal)
	}
	return engine.Performed{Command: report, Payloads: payloads}
}

func (w performer) call(view engine.View, e run.DispatchCall) engine.Prepared {
	call := view.State.Call(e.Call)
	r := demand{run: view.State.ID, tool: call.Tool, key: keyOf(view.State.ID, e.Call), call: e.Call, intent: e.Intent, class: call.Class}
	if question, action := view.State.AnswerTo(call); question != nil {
		r.answered, r.action = question.Ask.Fingerprint, action
	}
	begunByMs := w.p.sim.nowMs + callMs
	begin := run.BeginCall{Epoch: view.Epoch, Call: e.Call, Inputs: inputs(), Key: r.key, NotAfterMs: view.NowMs + callMs}
	return engine.Prepared{Command: begin, Perform: func(ctx context.Context) engine.Performed { return w.invoke(ctx, r, begunByMs) }}
}

func keyOf(id string, call int) string { return fmt.Sprint(id, "/", call) }

// invoke makes one attempt of a call.
func (w performer) invoke(ctx context.Context, r demand, begunByMs int64) engine.Performed {
	s := w.p.sim
	report := run.ReportCall{Call: r.call, Intent: r.intent, Outcome: run.OutcomeFailed}
	if s.nowMs > begunByMs {
		report.Code = "TOO_LATE"
		return engine.Performed{Command: report}
	}
	fate := 0
	if s.hit(s.rate(s.plan.tool)) {
		s.faults++
		fate = int(s.between(1, 5))
	}
	if fate == 1 {
		report.Code = "UNREACHABLE" // surely nothing was sent
		return engine.Performed{Command: report}
	}
	s.outside.begin(r)
	s.disturbSoon(w.p)
	thereMs, backMs := s.duration(), s.duration()
	switch fate {
	case 2:
		backMs = 10 * callMs // the answer is lost
	case 3:
		thereMs = s.between(callMs, 4*callMs) // it acts when nobody waits for it any more
	}
	back := s.outside.send(r, thereMs, backMs, fate == 4)
	if !s.await(ctx, back, s.nowMs+callMs) || fate == 5 {
		s.echo(r.run, run.ReportCall{Call: r.call, Intent: r.intent, Outcome: run.OutcomeOK, Cost: run.Amount{MicroUSD: callCost}}, back)
		report.Outcome, report.Code = run.OutcomeUnknown, "TIMEOUT"
		return engine.Performed{Command: report}
	}
	if back.ask != "" {
		return w.asks(r, report, back.ask)
	}
	if back.denied {
		report.Code = "DENIED_BY_TOOL"
		return engine.Performed{Command: report}
	}
	text, payload := s.seal(r.run, "done")
	report.Outcome, report.Result, report.Fingerprint, report.Cost = run.OutcomeOK, &text, "done", run.Amount{MicroUSD: callCost}
	s.echo(r.run, report, back)
	return engine.Performed{Command: report, Payloads: []engine.Payload{payload}}
}

// echo tells that a call was done from outside, as soon as it is and some time
// later: again, or for the first time where its worker had given up.
func (s *simulation) echo(id string, report run.ReportCall, back *reply) {
	if !s.hit(s.rate(s.plan.echo)) {
		return
	}
	s.faults++
	report.Result = nil // a text comes only once
	s.spawn(nil, func() {
		s.sleep(s.between(0, 2*s.plan.leaseMs))
		if s.await(context.Background(), back, s.nowMs+20*callMs) && !back.denied && back.ask == "" {
			_, _ = s.engine.Submit(context.Background(), engine.Submission{Organisation: organisation, Run: id, Command: report}) // it may be refused
		}
	})
}

func (w performer) probe(ctx context.Context, id string, e run.ProbeCall) engine.Performed {
	s := w.p.sim
	s.sleep(s.duration())
	report := run.ReportProbe{Call: e.Call}
	if ctx.Err() == nil && !s.hit(s.rate(s.plan.tool)) && s.outside.acts[keyOf(id, e.Call)] > 0 {
		report.Found, report.Outcome = true, run.OutcomeOK
	}
	return engine.Performed{Command: report}
}

func (w performer) verify(e run.Verify) engine.Performed {
	s := w.p.sim
	s.sleep(s.duration())
	verdict := run.CheckPassed
	if s.hit(s.rate(s.plan.tool)) {
		s.faults++
		verdict = pick(s.chance, run.CheckFailed, run.CheckUnchecked)
	}
	return engine.Performed{Command: run.ReportChecks{Turn: e.Turn, Checks: []run.CheckResult{{Name: "output", Verdict: verdict}}}}
}

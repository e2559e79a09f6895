package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// fixedRules hold every call of a tool whose name begins with "held" for olga
// and all approvers, and permit the rest.
type fixedRules struct {
	moved atomic.Bool // tools have another definition now
}

var classes = map[string]policy.EffectClass{"read": policy.ClassRead, "held": policy.Keyed, "keyed": policy.Keyed,
	"checkable": policy.Checkable, "opaque": policy.Opaque, "held.opaque": policy.Opaque, "ask": policy.ClassRead}

func (*fixedRules) Revision() string       { return "c1" }
func (*fixedRules) PolicyRevision() string { return "p1" }

func (*fixedRules) Judge(q policy.Request) policy.Verdict {
	if strings.HasPrefix(q.Tool.Name, "held") {
		return policy.Verdict{Answer: policy.Hold, Revision: "p1", Quorum: 1, Approvers: []policy.Approver{{Principal: "olga", Why: "tool owner"}}}
	}
	return policy.Verdict{Answer: policy.Permit, Revision: "p1"}
}

func (f *fixedRules) Tool(name string) (policy.ToolFacts, bool) {
	class, known := classes[name]
	facts := policy.ToolFacts{Name: name, Revision: "t1", Owner: "olga", Impact: policy.Reversible, Class: class}
	if class == policy.ClassRead {
		facts.Impact = policy.ImpactRead
	}
	if f.moved.Load() {
		facts.Revision = "t2"
	}
	return facts, known
}

func (*fixedRules) Ceiling(run.Acting) policy.Authority { return authority() }

func (*fixedRules) Voices(approvers []policy.Approver, who policy.Principal, chain []string, _ int64) ([]string, error) {
	for _, a := range approvers {
		mayStandIn := strings.HasPrefix(who.ID, "approver") && a.Principal == "olga"
		if (a.Principal == who.ID || mayStandIn) && who.ID != chain[0] {
			return []string{who.ID}, nil
		}
	}
	return nil, fmt.Errorf("%s may not", who.ID)
}

func authority() policy.Authority {
	tools := map[string]policy.ToolGrant{}
	for name := range classes {
		tools[name] = policy.ToolGrant{Revision: "t1", Impact: policy.Reversible, Calls: 100}
	}
	return policy.Authority{Tools: tools, MicroUSD: 1000, Tokens: 1000, DeadlineMs: 1 << 50, Turns: 10, CallsAtOnce: 8, Stage: policy.Automate}
}

// performer does what runs ask for in the world of the bench.
type performer struct{ b *bench }

func (p performer) Prepare(ctx context.Context, view engine.View, effect run.Effect) (engine.Prepared, error) {
	if err := p.b.pass(ctx, "prepare "+effect.Key()); err != nil {
		return engine.Prepared{}, err
	}
	switch e := effect.(type) {
	case run.TakeTurn:
		return p.turn(view, e), nil
	case run.DispatchCall:
		return p.call(view, e), nil
	case run.ProbeCall:
		key := fmt.Sprint(view.State.ID, "/", e.Call)
		return engine.Prepared{Perform: func(ctx context.Context) engine.Performed {
			report := run.ReportProbe{Call: e.Call}
			if p.b.pass(ctx, "begin "+e.Key()) == nil && p.b.happened(key) {
				report.Found, report.Outcome = true, run.OutcomeOK
			}
			return engine.Performed{Command: report}
		}}, nil
	case run.RejudgeCall:
		return engine.Prepared{Command: run.Judge{Call: e.Call, Inputs: inputs(), Approval: p.b.source.ID(), Nonce: "n"}}, nil
	case run.Verify:
		return engine.Prepared{Perform: func(ctx context.Context) engine.Performed {
			verdict := run.CheckPassed
			if p.b.pass(ctx, "begin "+e.Key()) != nil {
				verdict = run.CheckUnchecked
			}
			return engine.Performed{Command: run.ReportChecks{Turn: e.Turn, Checks: []run.CheckResult{{Name: "output", Verdict: verdict}}}}
		}}, nil
	}
	return engine.Prepared{}, fmt.Errorf("unknown effect %T", effect)
}

func inputs() run.CallInputs { return run.CallInputs{Arguments: []byte("{}")} }

func (p performer) turn(view engine.View, e run.TakeTurn) engine.Prepared {
	id := view.State.ID
	begin := run.BeginTurn{Epoch: view.Epoch, Model: "m", Prompt: "p", Reserve: run.Amount{MicroUSD: 1, Tokens: 1}}
	for _, steer := range view.State.Steers {
		if steer.Disposition == "" {
			begin.Steers = append(begin.Steers, steer.Steer)
		}
	}
	return engine.Prepared{Command: begin, Perform: func(ctx context.Context) engine.Performed {
		report := run.ReportTurn{Turn: e.Turn, Attempt: e.Attempt, Class: run.ClassText, Cost: run.Amount{MicroUSD: 1, Tokens: 1}}
		if err := p.b.pass(ctx, "begin "+e.Key()); err != nil {
			report.Failure = &run.TurnFailure{Cause: "OUTAGE", Retryable: true, Unknown: errors.Is(err, context.Canceled)}
			return engine.Performed{Command: report}
		}
		var payloads []engine.Payload
		tools := p.b.proposed(id, e.Turn)
		if len(tools) == 0 {
			text, payload := p.b.seal(id, "the answer")
			report.Text, payloads = &text, []engine.Payload{payload}
		}
		for _, name := range tools {
			report.Class = run.ClassCalls
			text, payload := p.b.seal(id, "{}")
			facts, _ := p.b.rules.Tool(name)
			payloads = append(payloads, payload)
			report.Calls = append(report.Calls, run.Proposal{Tool: name, Text: text, Fingerprint: text.ID, Revision: facts.Revision,
				Impact: facts.Impact, Class: facts.Class, Asks: name == "ask", Approval: p.b.source.ID(), Nonce: "n", Inputs: inputs()})
		}
		return engine.Performed{Command: report, Payloads: payloads}
	}}
}

func (p performer) call(view engine.View, e run.DispatchCall) engine.Prepared {
	id := view.State.ID
	key := fmt.Sprint(id, "/", e.Call)
	begin := run.BeginCall{Epoch: view.Epoch, Call: e.Call, Inputs: inputs(), Key: key, NotAfterMs: view.NowMs + 1000}
	return engine.Prepared{Command: begin, Perform: func(ctx context.Context) engine.Performed {
		report := run.ReportCall{Call: e.Call, Intent: e.Intent, Outcome: run.OutcomeOK}
		if p.b.pass(ctx, "begin "+e.Key()) != nil {
			report.Outcome, report.Code = run.OutcomeFailed, "GIVEN_UP"
			return engine.Performed{Command: report}
		}
		p.b.act(key)
		if p.b.pass(ctx, "done "+e.Key()) != nil {
			report.Outcome, report.Code = run.OutcomeUnknown, "GIVEN_UP"
			return engine.Performed{Command: report}
		}
		text, payload := p.b.seal(id, "done")
		report.Result, report.Fingerprint = &text, text.ID
		return engine.Performed{Command: report, Payloads: []engine.Payload{payload}}
	}}
}

func (b *bench) act(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts[key]++
	b.effects[key] = true
}

func (b *bench) happened(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.effects[key]
}

func (b *bench) attempted(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.attempts[key]
}

// proposed are the tools that the model proposes in a turn; none for a text.
func (b *bench) proposed(id string, turn int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if script := b.scripts[id]; turn <= len(script) {
		return script[turn-1]
	}
	return nil
}

func (b *bench) seal(id, text string) (run.Text, engine.Payload) {
	return engine.Seal(b.source, id, "ada", policy.Marking{}, []byte(text))
}

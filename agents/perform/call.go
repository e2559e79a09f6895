package perform

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/elicit"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// checkedOf reads a call's recorded bytes through its contract again: what a
// tool gets is what was recorded.
func (j *job) checkedOf(ctx context.Context, call *run.Call) (tool.Checked, error) {
	texts, err := j.view.Texts(ctx, call.Arguments.ID)
	if err != nil {
		return tool.Checked{}, err
	}
	payload, present := texts[call.Arguments.ID]
	if !present {
		return tool.Checked{}, nil // erased: policy sees no facts and forbids
	}
	box, _ := j.box(call)
	checked, refusal := box.Check(call.Tool, payload.Bytes)
	if refusal != nil {
		return tool.Checked{}, nil //nolint:nilerr // no longer within its contract: policy sees no facts and forbids
	}
	return checked, nil
}

// box holds the call's tool, of the returned revision: as the run was admitted
// with it, or as people pinned it anew since.
func (j *job) box(call *run.Call) (*tool.Box, string) {
	if facts, known := j.current.Rules.Tool(call.Tool); known && slices.Contains(facts.Replaces, call.Revision) {
		return j.current.Box, facts.Revision
	}
	return j.kit.Box, call.Revision
}

// verifyTakes bounds a look at a definition before the intent: the attempt
// looks again, with more time.
const verifyTakes = 2 * time.Second

// verify looks whether somebody else changed the tool since it was pinned. What
// is found changes what is in force, so that the intent is not written.
func verify(ctx context.Context, box *tool.Box, name, revision string, invocation tool.Invocation) {
	t, _ := box.Find(name, revision)
	pinned, is := t.(tool.Pinned)
	if !is {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTakes)
	defer cancel()
	_ = pinned.Verify(ctx, invocation) // what could not be looked at, the attempt says
}

func (j *job) rejudge(ctx context.Context, effect run.RejudgeCall) (engine.Prepared, error) {
	checked, err := j.checkedOf(ctx, j.state.Call(effect.Call))
	if err != nil {
		return engine.Prepared{}, err
	}
	revision, err := j.revision()
	if err != nil {
		return engine.Prepared{}, err
	}
	w := j.wants(revision)
	want, to := w.of(j.state.Call(effect.Call).Tool, checked.Arguments, w.has())
	return engine.Prepared{Command: run.Judge{Call: effect.Call, Inputs: inputsOf(checked), Approval: j.source.ID(), Nonce: j.source.ID(), Want: want, To: to}}, nil
}

func (j *job) dispatch(ctx context.Context, effect run.DispatchCall) (engine.Prepared, error) {
	call := j.state.Call(effect.Call)
	checked, err := j.checkedOf(ctx, call)
	if err != nil {
		return engine.Prepared{}, err
	}
	if call.Delegate != "" {
		return j.spawn(ctx, effect, call, checked)
	}
	key, err := idempotencyKey(j.state, call)
	if err != nil {
		return engine.Prepared{}, err
	}
	invocation := j.invocation(key, j.state.Turns[call.Turn-1].Model, checked.Arguments)
	if call.Tool == tool.RememberName {
		if invocation.Reader.Heard, err = j.heard(ctx); err != nil {
			return engine.Prepared{}, err
		}
	}
	timeout := time.Duration(checked.Definition.Timeout)
	answers, marking, err := j.answers(ctx, call)
	if err != nil {
		return engine.Prepared{}, err
	}
	invocation.Answers = answers
	begin := run.BeginCall{Epoch: j.view.Epoch, Call: effect.Call, Inputs: inputsOf(checked), Key: key,
		NotAfterMs: j.view.NowMs + timeout.Milliseconds()}
	box, revision := j.box(call)
	verify(ctx, box, call.Tool, revision, invocation)
	a := &attempt{sealer: j.sealer(), box: box, name: call.Tool, revision: revision, effect: effect,
		invocation: invocation, marking: call.Arguments.Marking.Join(marking), arguments: call.Arguments.ID, key: j.key,
		bound: call.CostBound, begunBy: time.Now().Add(timeout)}
	return engine.Prepared{Command: begin, Perform: a.invoke}, nil
}

func (j *job) invocation(key, model string, arguments []byte) tool.Invocation {
	started := j.state.Started
	return tool.Invocation{Run: j.state.ID, Key: key, Arguments: arguments, Actor: started.Chain, Subject: j.subject(),
		Reader: j.reader(), Model: model}
}

// subject is the person as the directory knows them now, cleared for no more
// than the run may read; under a grant, for what the grant gives the run.
func (j *job) subject() policy.Principal {
	started := j.state.Started
	subject, known := j.current.Organisation.Principal(started.Subject.ID)
	if !known {
		subject = policy.Principal{ID: started.Subject.ID, Organisation: started.Organisation}
	}
	if granted, _ := j.current.Organisation.Granted(started); granted {
		subject.Clearance = j.authority().Labels
		return subject
	}
	subject.Clearance = subject.Clearance.Meet(j.state.Authority.Labels)
	return subject
}

// idempotencyKey is the same for every attempt of a call and for no other.
func idempotencyKey(s *run.State, call *run.Call) (string, error) {
	return canon.DigestOf([]string{s.Started.Organisation, s.ID, fmt.Sprint(call.CallProposed.Call), call.Arguments.Commitment})
}

// attempt is one call under way.
type attempt struct {
	*sealer
	box            *tool.Box
	name, revision string
	effect         run.DispatchCall
	invocation     tool.Invocation
	marking        policy.Marking
	arguments      string // text id
	links          []engine.Link
	key            []byte
	bound          int64
	begunBy        time.Time // monotonic: the effect may not begin later
}

func (a *attempt) invoke(ctx context.Context) engine.Performed {
	report := run.ReportCall{Call: a.effect.Call, Intent: a.effect.Intent}
	t, found := a.box.Find(a.name, a.revision)
	switch {
	case !found:
		a.fail(&report, &tool.Failure{Code: "TOOL_CHANGED", Detail: "the tool is not served here any more"})
	case time.Now().After(a.begunBy):
		a.fail(&report, &tool.Failure{Code: "TOO_LATE", Detail: "the attempt could not begin in time"})
	default:
		result, err := tool.Invoke(ctx, t, a.invocation)
		if err != nil {
			a.fail(&report, err)
			break
		}
		if result.Ask != nil {
			a.ask(&report, t.Definition(), result)
			break
		}
		report.Outcome, report.Result, report.Fingerprint = a.result(result)
		report.Media = a.media(result)
		report.Cost = run.Amount{MicroUSD: a.bound}
	}
	return engine.Performed{Command: report, Payloads: a.payloads, Links: a.links}
}

func (a *attempt) result(result tool.Result) (run.Outcome, *run.Text, string) {
	text := a.seal(result.Marking.Join(a.marking), result.Shown())
	a.payloads[len(a.payloads)-1].Items = result.Items
	if a.name == tool.RememberName { // what was to be remembered stands in the arguments, too
		for _, item := range result.Items {
			a.links = append(a.links, engine.Link{Item: item, Text: a.arguments})
		}
	}
	outcome := run.OutcomeOK
	if result.Failed {
		outcome = run.OutcomeFailed
	}
	parts := [][]byte{result.Content}
	for _, m := range result.Media {
		parts = append(parts, m.Bytes)
	}
	return outcome, &text, run.Fingerprint(a.key, parts...)
}

// media seals the images and files of a result, marked like its words.
func (a *attempt) media(result tool.Result) (kept []run.Media) {
	for _, m := range result.Media {
		text := a.seal(result.Marking.Join(a.marking), base64.StdEncoding.AppendEncode(nil, m.Bytes))
		a.payloads[len(a.payloads)-1].Items = result.Items
		kept = append(kept, run.Media{Text: text, MediaType: m.MediaType, Bytes: len(m.Bytes)})
	}
	return kept
}

func (a *attempt) fail(report *run.ReportCall, err error) {
	failure := &tool.Failure{Uncertain: true, Code: "TOOL_FAILED", Detail: "the tool broke"}
	errors.As(err, &failure)
	report.Outcome, report.Code = run.OutcomeFailed, failure.Code
	report.Fingerprint = failure.Code
	if failure.Uncertain {
		report.Outcome = run.OutcomeUnknown
		return
	}
	report.Result = a.optional(a.marking, failure.Detail)
}

func (j *job) probe(ctx context.Context, effect run.ProbeCall) (engine.Prepared, error) {
	call := j.state.Call(effect.Call)
	key, err := idempotencyKey(j.state, call)
	if err != nil {
		return engine.Prepared{}, err
	}
	a := &attempt{sealer: j.sealer(), box: j.kit.Box, name: call.Tool, revision: call.Revision, marking: call.Arguments.Marking, key: j.key}
	opened, err := j.view.Texts(ctx, call.Arguments.ID)
	if err != nil {
		return engine.Prepared{}, err
	}
	invocation := j.invocation(key, j.state.Turns[call.Turn-1].Model, opened[call.Arguments.ID].Bytes)
	return engine.Prepared{Perform: func(ctx context.Context) engine.Performed { return a.query(ctx, effect, invocation) }}, nil
}

func (a *attempt) query(ctx context.Context, effect run.ProbeCall, invocation tool.Invocation) engine.Performed {
	report := run.ReportProbe{Call: effect.Call}
	t, found := a.box.Find(a.name, a.revision)
	prober, asks := t.(tool.Prober)
	if found && asks {
		result, known, err := tool.Probe(ctx, prober, t.Definition(), invocation)
		if err == nil && known {
			report.Found = true
			report.Outcome, report.Result, report.Fingerprint = a.result(result)
			report.Media = a.media(result)
		}
	}
	return engine.Performed{Command: report, Payloads: a.payloads}
}

// askees resolves who a question is for: a principal, else a role that there is.
func (j *job) askees(arguments []byte) []policy.Approver {
	var question tool.Question
	if json.Unmarshal(arguments, &question) != nil || question.To == "" {
		return nil
	}
	if _, known := j.current.Organisation.Principal(question.To); known {
		return []policy.Approver{{Principal: question.To, Why: "asked by name"}}
	}
	if !slices.Contains(j.current.Organisation.Roles, question.To) {
		return nil // words of the model's own go nowhere but into the arguments
	}
	return []policy.Approver{{Role: question.To, Why: "asked by role"}}
}

// ask reports an attempt whose server wants an answer of a person first. What
// may be shown to nobody is not kept either.
func (a *attempt) ask(report *run.ReportCall, definition tool.Definition, result tool.Result) {
	marking := result.Marking.Join(a.marking)
	asked := run.Asked{Question: a.source.ID(), Ask: run.Ask{Origin: result.Ask.Origin, Kind: askKinds[result.Ask.Kind]}}
	if asked.Kind == "" {
		asked.Kind = run.AskForm
	}
	whole, err := canon.Marshal(result.Ask)
	if err != nil { // what has no canonical form is told apart as it stands
		whole = fmt.Appendf(nil, "%q", *result.Ask)
	}
	asked.Fingerprint = run.Fingerprint(a.key, whole)
	if len(result.Ask.State) > 0 {
		state := a.seal(marking, result.Ask.State)
		asked.State = &state
	}
	if asked.Declined = a.shown(&asked, definition.Asks, marking, *result.Ask); asked.Declined == "" && definition.Asks == tool.AskOwner {
		asked.To = []policy.Approver{{Principal: definition.Owner, Why: "tool owner"}}
	}
	report.Outcome, report.Ask = run.OutcomeFailed, &asked
}

var askKinds = map[tool.AskKind]run.AskKind{tool.AskForm: run.AskForm, tool.AskURL: run.AskURL}

// shown keeps what a person will be shown, or returns the code of why nobody is.
func (a *attempt) shown(asked *run.Asked, to tool.AskTo, marking policy.Marking, ask tool.Ask) string {
	if to == tool.AskNobody {
		return elicit.Nobody
	}
	form, err := elicit.Read(ask)
	if err == nil {
		var kept []byte
		if kept, err = form.Bytes(); err == nil {
			text := a.seal(marking, kept)
			asked.Form = &text
			return ""
		}
	}
	var refusal *elicit.Refusal
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return elicit.Unreadable
}

var actions = map[run.Action]tool.AskAction{run.Accept: tool.AskAccept, run.Decline: tool.AskDecline, run.Dismiss: tool.AskCancel}

// answers are what the next attempt of a call brings its server, nil before it
// asked, and their marking. An answer that was erased since is none.
func (j *job) answers(ctx context.Context, call *run.Call) (*tool.Answers, policy.Marking, error) {
	question, action := j.state.AnswerTo(call)
	if question == nil {
		return nil, policy.Marking{}, nil
	}
	answers := &tool.Answers{Action: actions[action]}
	var ids []string
	var marking policy.Marking
	if question.Ask.State != nil {
		ids = append(ids, question.Ask.State.ID)
		marking = marking.Join(question.Ask.State.Marking)
	}
	if question.Answer != nil {
		ids = append(ids, question.Answer.Answer.ID)
		marking = marking.Join(question.Answer.Answer.Marking)
	}
	opened, err := j.view.Texts(ctx, ids...)
	if err != nil {
		return nil, policy.Marking{}, err
	}
	if question.Ask.State != nil {
		answers.State = opened[question.Ask.State.ID].Bytes
	}
	if action == run.Accept && question.Ask.Kind == run.AskForm {
		values, present := opened[question.Answer.Answer.ID]
		if answers.Values = values.Bytes; !present {
			answers.Action = tool.AskCancel
		}
	}
	return answers, marking, nil
}

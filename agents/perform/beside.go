package perform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// reviewResult is what every review comes to.
const reviewResult = `{"type":"object","required":["verdict","reason"],"properties":{
"verdict":{"type":"string","enum":["PASS","HOLD"]},"reason":{"type":"string","maxLength":2000}}}`

// review is the result of a checking sidecar.
type review struct {
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
}

// besides performs what a run asks for beside its turns and calls.
func (j *job) besides(ctx context.Context, effect run.Effect) (engine.Prepared, error) {
	switch e := effect.(type) {
	case run.StartReview:
		return j.review(ctx, e)
	case run.DispatchSidecar:
		return j.besideRun(ctx, e)
	}
	return j.watchMain(ctx)
}

// review readies the child that reviews a call or an answer.
func (j *job) review(ctx context.Context, effect run.StartReview) (engine.Prepared, error) {
	revision, err := j.revision()
	if err != nil {
		return engine.Prepared{}, err
	}
	of, about, subject := j.reviewed(effect.Of)
	sidecar, known := revision.Reviewer(of)
	if !known || about == nil {
		return engine.Prepared{Command: run.DeclineReview{Of: effect.Of, Code: declinedAgent}}, nil
	}
	s := &spawning{job: j, kind: run.Sidecar, id: run.ChildOfReview(j.state.ID, effect.Of), terms: sidecar.Terms(),
		order:   tool.Delegation{Agent: sidecar.Agent, Brief: sidecar.Brief + "\n\n" + subject, Result: json.RawMessage(reviewResult)},
		marking: policy.Marking{Labels: about.Marking.Labels, Integrity: policy.Trusted}, shown: []run.Message{{Author: j.state.Started.Acting(), Text: *about}},
		task: run.Task{Review: effect.Of, Purpose: run.ForCheck, Lands: run.LandsAsResult}}
	no, err := s.ready(ctx)
	if err != nil {
		return engine.Prepared{}, err
	}
	if no != nil {
		return engine.Prepared{Command: run.DeclineReview{Of: effect.Of, Code: no.code}}, nil
	}
	return engine.Prepared{Command: run.BeginReview{Of: effect.Of, Child: *s.child()}, Birth: &s.birth}, nil
}

// reviewed finds what is reviewed: its name among what a revision has reviewed,
// its text, and what the reviewer is told of it in the platform's own words.
func (j *job) reviewed(place string) (of string, about *run.Text, subject string) {
	if digits, isCall := strings.CutPrefix(place, "call/"); isCall {
		ordinal, _ := strconv.Atoi(digits) // no number is no call
		if call := j.state.Call(ordinal); call != nil {
			return call.Tool, &call.Arguments, fmt.Sprintf("The run wants to call %s (impact %s). The message above holds the exact arguments.", call.Tool, call.Impact)
		}
		return "", nil, ""
	}
	if turn := j.state.LastTurn(); turn != nil && turn.Answer != nil {
		about = turn.Answer.Text
	}
	return run.ReviewsAnswer, about, "The run wants to end with the answer that stands in the message above."
}

// passed reports whether a review lets what it reviewed pass.
func passed(result []byte) bool {
	var verdict review
	return json.Unmarshal(result, &verdict) == nil && verdict.Verdict == "PASS"
}

// besideRun starts a sidecar that the run's revision names.
func (j *job) besideRun(ctx context.Context, effect run.DispatchSidecar) (engine.Prepared, error) {
	revision, err := j.revision()
	if err != nil {
		return engine.Prepared{}, err
	}
	sidecar, known := revision.Beside(effect.Number)
	if !known {
		return engine.Prepared{}, fmt.Errorf("%w: its revision names no sidecar %d", engine.ErrHopeless, effect.Number)
	}
	report := run.ReportSidecar{Number: effect.Number, Agent: sidecar.Agent, Purpose: sidecar.Purpose, Outlives: sidecar.Outlives,
		Sidecar: run.ChildID(j.state.ID, effect.Key())}
	s := &spawning{job: j, kind: run.Sidecar, id: report.Sidecar, terms: sidecar.Terms(),
		order:   tool.Delegation{Agent: sidecar.Agent, Brief: sidecar.Brief},
		marking: policy.Marking{Integrity: policy.Trusted},
		task:    run.Task{Purpose: sidecar.Purpose, Lands: sidecar.Landing(), Outlives: sidecar.Outlives}}
	report.Code, err = s.dispatch(ctx)
	return engine.Prepared{Command: report}, err
}

// dispatch starts a run beside the run that carries its own money, and returns
// why it cannot begin, if so.
func (s *spawning) dispatch(ctx context.Context) (code string, err error) {
	if _, err := s.tree.State(ctx, s.id); !errors.Is(err, engine.ErrNotFound) {
		return "", err // it began before, unless nobody can look
	}
	no, err := s.ready(ctx)
	if err != nil {
		return "", err
	}
	if no != nil {
		return no.code, nil
	}
	started := s.birth.Started
	_, err = s.tree.Submit(ctx, engine.Submission{Organisation: started.Organisation, Run: s.id, Command: run.Start{Started: started}, Payloads: s.birth.Payloads})
	var refusal *run.Refusal
	switch {
	case errors.Is(err, run.ErrBudget):
		return run.RefusedBudget, nil
	case errors.As(err, &refusal):
		return refusal.Code, nil
	}
	return "", err
}

// watchMain ends a sidecar whose main run has ended or is being cancelled.
func (j *job) watchMain(ctx context.Context) (engine.Prepared, error) {
	news, _, err := j.tree.EndedChildren(ctx, j.state.ID, func(string) bool { return true })
	if err != nil {
		return engine.Prepared{}, err
	}
	main, err := j.tree.State(ctx, j.state.Started.Parent)
	over := err == nil && (main.Cancel != nil || main.Ended != nil && !j.state.Started.Task.Outlives)
	if !over {
		return engine.Prepared{}, err
	}
	return engine.Prepared{Command: run.Cancel{By: run.Identity{Principal: main.Started.Acting()}}, Heard: news}, nil
}

// landingCheck is the name of the check that a sidecar's result has come where
// it belongs.
const landingCheck = "landed"

// land brings the result of a sidecar to its main run, or into the conversation,
// once: a repeat is known there. A run that has ended takes nothing any more.
func (v *verification) land(ctx context.Context) run.CheckResult {
	check := run.CheckResult{Name: landingCheck, Verdict: run.CheckPassed}
	if v.answerText == nil || v.answerText.Size > v.landing.task.ResultBytes {
		check.Verdict, check.Code = run.CheckFailed, run.ResultTooLarge
		return check
	}
	err := v.landing.bring(ctx, *v.answerText)
	var refusal *run.Refusal
	switch {
	case err == nil:
	case errors.As(err, &refusal) && refusal.Code == "STEER_KNOWN":
	case errors.As(err, &refusal):
		check.Verdict, check.Code, check.Final = run.CheckFailed, refusal.Code, true
	default:
		check.Verdict, check.Code = run.CheckUnchecked, "NOT_LANDED"
	}
	return check
}

// landing is the way of a sidecar's result.
type landing struct {
	tree    Tree
	task    run.Task
	sidecar string // run id
	started run.Started
}

func (l *landing) bring(ctx context.Context, text run.Text) error {
	if l.task.Lands == run.LandsAsMessage {
		return l.say(ctx, text)
	}
	_, err := l.tree.Submit(ctx, engine.Submission{Organisation: l.started.Organisation, Run: l.started.Parent,
		Command: run.Steer{Steer: run.ChildID(l.sidecar, landingCheck), By: run.Identity{Principal: l.started.Acting()}, Text: text,
			From: l.sidecar, Evidence: l.task.Lands == run.LandsAsEvidence}})
	return err
}

// say puts the result into the conversation of the main run, while that goes on.
func (l *landing) say(ctx context.Context, text run.Text) error {
	main, err := l.tree.State(ctx, l.started.Parent)
	if err != nil {
		return err
	}
	switch {
	case main.Ended != nil || main.Cancel != nil:
		return &run.Refusal{Code: "RUN_ENDED", Detail: "The main run has ended."}
	case l.started.Conversation == "":
		return &run.Refusal{Code: "NO_CONVERSATION", Detail: "The main run is in no conversation."}
	}
	err = l.tree.Note(ctx, engine.Entry{Organisation: l.started.Organisation, Conversation: l.started.Conversation, Kind: "message",
		Run: l.sidecar, Author: l.started.Acting(), Text: &text}, engine.Receipt{Organisation: l.started.Organisation, Caller: l.started.Acting(),
		Command: l.sidecar + "/" + landingCheck, Run: l.sidecar, Answer: []byte("{}")})
	if errors.Is(err, engine.ErrReplayed) {
		return nil
	}
	return err
}

// mostAbove is how many runs may stand above one beside which people start
// another: each intent of that depends on all of them.
const mostAbove = 16

// Dispatch asks for a run beside one that goes on.
type Dispatch struct {
	Main         string           // run id
	Person       policy.Principal // verified; may guide the main run
	By           run.Identity
	Kind         run.Kind // SIDECAR, which only reads, or SUB_AGENT
	Agent        string   // name
	Purpose      run.Purpose
	Brief        string
	Lands        run.Landing
	Participants []string // principal ids of who takes part in the main run's conversation now
	Outlives     bool
	CommandID    string
}

// Dispatch starts a run beside another one, for a person who may guide that. It
// carries its own money, may do no more than the main run and the person, and
// its result lands where the order says. Errors: *run.Refusal.
func (a *Admission) Dispatch(ctx context.Context, order Dispatch) (Admitted, error) {
	if len(order.Brief) == 0 || len(order.Brief) > maxGoal {
		return Admitted{}, &run.Refusal{Code: "GOAL", Detail: fmt.Sprintf("Give a brief of 1 to %d bytes.", maxGoal)}
	}
	main, err := a.engine.State(ctx, order.Main)
	if err != nil {
		return Admitted{}, err
	}
	id := run.ChildID(order.Main, "by/"+order.Person.ID+"/"+order.CommandID)
	remembered, err := order.receipt(id)
	if err != nil {
		return Admitted{}, err
	}
	if main.Ended != nil || main.Cancel != nil {
		return a.refused(ctx, remembered, &run.Refusal{Code: "RUN_ENDED", Detail: "The main run has ended; start a run of its own."})
	}
	if len(main.Started.Lineage) >= mostAbove {
		return a.refused(ctx, remembered, &run.Refusal{Code: run.RefusedDepth, Detail: "Too many runs stand above this one; start what goes on beside one of those."})
	}
	if len(main.Sidecars) >= run.MostBeside {
		return a.refused(ctx, remembered, &run.Refusal{Code: "TOO_MANY_SIDECARS", Detail: "As many sessions as allowed were started beside the run."})
	}
	s, err := a.beside(ctx, main, order, id)
	if err != nil {
		return Admitted{}, err
	}
	no, err := s.ready(ctx)
	if err != nil {
		return Admitted{}, err
	}
	if no != nil {
		return a.refused(ctx, remembered, &run.Refusal{Code: no.code, Detail: no.detail})
	}
	started := s.birth.Started
	_, err = a.engine.Submit(ctx, engine.Submission{Organisation: started.Organisation, Run: id, Command: run.Start{Started: started},
		Payloads: s.birth.Payloads, Receipt: remembered})
	switch {
	case errors.Is(err, engine.ErrReplayed):
		return a.replay(ctx, *remembered)
	case errors.Is(err, run.ErrBudget):
		return Admitted{}, &run.Refusal{Code: run.RefusedBudget, Detail: "The budget does not cover the run; ask its owner to raise it."}
	case err != nil:
		return Admitted{}, err
	}
	return Admitted{Run: id}, a.noted(ctx, order, id)
}

// noted lets the main run know of what goes on beside it. One that has ended
// meanwhile ends it, unless it outlives that.
func (a *Admission) noted(ctx context.Context, order Dispatch, id string) error {
	submission := engine.Submission{Organisation: order.Person.Organisation, Run: order.Main,
		Command: run.ReportSidecar{Sidecar: id, Agent: order.Agent, Purpose: order.Purpose, Outlives: order.Outlives}}
	_, err := a.engine.Submit(ctx, submission)
	var refusal *run.Refusal
	if !errors.As(err, &refusal) || order.Outlives && refusal.Code == "RUN_ENDED" {
		return err
	}
	submission.Run, submission.Command = id, run.Cancel{By: order.By}
	if _, err = a.engine.Submit(ctx, submission); errors.As(err, &refusal) {
		return nil
	}
	return err
}

// beside readies a run beside the main one.
func (a *Admission) beside(ctx context.Context, main *run.State, order Dispatch, id string) (*spawning, error) {
	current, err := a.kits.Current(ctx, order.Person.Organisation)
	if err != nil {
		return nil, err
	}
	admitted, err := a.kits.At(ctx, main.Started.Organisation, main.Started.Snapshot.Config)
	if err != nil {
		return nil, err
	}
	nowMs, err := a.journal.Now(ctx)
	if err != nil {
		return nil, err
	}
	texts := func(ctx context.Context, ids ...string) (map[string]engine.Payload, error) {
		return a.journal.Payloads(ctx, ids)
	}
	j := &job{Performer: &Performer{kits: a.kits, source: a.source}, state: main, kit: admitted, current: current,
		view: engine.View{State: main, NowMs: nowMs, Texts: texts, Rules: current.Rules}}
	purpose := order.Purpose
	if order.Kind != run.Sidecar {
		purpose = ""
	}
	return &spawning{job: j, kind: order.Kind, id: id, terms: agents.Delegate{Agent: order.Agent}, person: &order.Person, by: order.By, hear: order.Participants,
		order:   tool.Delegation{Agent: order.Agent, Brief: order.Brief},
		marking: policy.Marking{Labels: main.Marking.Labels.Meet(order.Person.Clearance), Integrity: policy.Trusted},
		task:    run.Task{Purpose: purpose, Lands: order.Lands, Outlives: order.Outlives}}, nil
}

func (o Dispatch) receipt(id string) (*engine.Receipt, error) {
	request, err := canon.DigestOf([]string{"dispatch", o.Main, string(o.Kind), o.Agent, string(o.Purpose), o.Brief, string(o.Lands), strconv.FormatBool(o.Outlives)})
	if err != nil {
		return nil, &run.Refusal{Code: "GOAL", Detail: "The brief is not valid UTF-8 text."}
	}
	answer, err := json.Marshal(Admitted{Run: id})
	return &engine.Receipt{Organisation: o.Person.Organisation, Caller: o.Person.ID, Command: o.CommandID, Request: request, Run: id, Answer: answer}, err
}

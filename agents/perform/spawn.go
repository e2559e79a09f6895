package perform

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// The codes with which a call is declined that names what cannot be delegated,
// besides those of the run's own rules.
const (
	declinedAgent   = "NOT_FOUND"     // no such agent to hand work to, or none for whom the run acts
	declinedStopped = "AGENT_STOPPED" // a kill switch stops the agent
	declinedLabels  = "LABELS"        // what goes along is above what the child may read
	declinedModels  = "MODELS"        // no model that both may use
	declinedContext = "CONTEXT"       // the context names no result
	declinedResult  = "RESULT_SCHEMA" // the schema of the result is none, or no declared one
)

// declined says why a call cannot be delegated, in words for the model.
type declined struct{ code, detail string }

// spawning is a child being made ready.
type spawning struct {
	*job
	order    tool.Delegation
	kind     run.Kind
	id       string
	terms    agents.Delegate
	marking  policy.Marking // of what its brief was made from
	shown    []run.Message  // goes along besides what the order names
	task     run.Task
	person   *policy.Principal // who asks; nil: the person for whom the parent acts
	by       run.Identity      // of the person
	hear     []string          // principal ids of who takes part in the conversation, where a person asks
	grant    agents.Grant
	revision agents.Revision
	birth    engine.Birth
}

// spawn readies a call that another agent does: its run begins in the write of
// the call's intent.
func (j *job) spawn(ctx context.Context, effect run.DispatchCall, call *run.Call, checked tool.Checked) (engine.Prepared, error) {
	s := &spawning{job: j, kind: run.SubAgent, id: run.ChildOfCall(j.state.ID, effect.Call), marking: call.Arguments.Marking,
		task: run.Task{Call: effect.Call, Lands: run.LandsAsResult}}
	no, err := s.ordered(ctx, checked)
	if err != nil {
		return engine.Prepared{}, err
	}
	if no != nil {
		sealer := j.sealer()
		detail := sealer.optional(policy.Marking{Labels: call.Arguments.Marking.Labels}, no.detail)
		return engine.Prepared{Command: run.DeclineCall{Call: effect.Call, Code: no.code, Detail: detail}, Payloads: sealer.payloads}, nil
	}
	key, err := idempotencyKey(j.state, call)
	if err != nil {
		return engine.Prepared{}, err
	}
	begin := run.BeginCall{Epoch: j.view.Epoch, Call: effect.Call, Inputs: inputsOf(checked), Key: key,
		NotAfterMs: s.birth.Started.Authority.DeadlineMs, Child: s.child()}
	return engine.Prepared{Command: begin, Birth: &s.birth}, nil
}

// child is what the parent's own rules are told of the child.
func (s *spawning) child() *run.Spawn {
	started := s.birth.Started
	return &run.Spawn{Child: s.id, RunKind: started.RunKind, Purpose: started.Task.Purpose, Agent: started.Agent.Name,
		Revision: started.Agent.Revision, Grant: started.Grant, Snapshot: started.SnapshotDigest, Authority: started.Authority,
		Carve: run.Amount{MicroUSD: started.Authority.MicroUSD, Tokens: started.Authority.Tokens}}
}

// ordered readies what a call of agents.delegate asks for.
func (s *spawning) ordered(ctx context.Context, checked tool.Checked) (*declined, error) {
	if json.Unmarshal(checked.Arguments, &s.order) != nil {
		return &declined{tool.RefusedInvalid, "The call's arguments cannot be read any more."}, nil //nolint:nilerr // the model is told
	}
	if s.order.As == string(run.Sidecar) {
		s.kind, s.task.Purpose = run.Sidecar, run.Purpose(s.order.Purpose)
	}
	own, err := s.job.revision()
	if err != nil {
		return nil, err
	}
	var allowed bool
	if s.terms, allowed = own.Delegate(s.order.Agent, s.kind); !allowed {
		return noAgent, nil
	}
	return s.ready(ctx)
}

// noAgent is one answer for an agent that there is not and one that is not to
// be had.
var noAgent = &declined{declinedAgent, "There is no agent of this name that you may hand work to."}

func (s *spawning) ready(ctx context.Context) (*declined, error) {
	if no := s.agent(); no != nil {
		return no, nil
	}
	authority, no := s.authority()
	if no != nil {
		return no, nil
	}
	history, no, err := s.history(ctx, authority)
	if no != nil || err != nil {
		return no, err
	}
	if no := s.result(); no != nil {
		return no, nil
	}
	return s.begin(ctx, authority, history)
}

// agent finds who is to do it, and under which grant. A borrowed agent asks its
// private side as a sidecar for memory; all else that it hands to itself is as
// its borrower sees it. A grant is the agent's: a person who sends somebody has
// none by it.
func (s *spawning) agent() *declined {
	o, subject := s.current.Organisation, s.subjectNow()
	grant, granted := o.Granting(s.state.Started.Agent.Name, s.order.Agent, subject, s.view.NowMs)
	var allowed bool
	if granted && s.person == nil && (grant.Kind == agents.Delegation || s.task.Purpose == run.ForMemory) {
		s.grant = grant
		s.revision, allowed = o.Pinned(grant)
	} else {
		s.revision, _, allowed = o.Serves(s.order.Agent, subject, s.view.NowMs)
	}
	if !allowed {
		return noAgent
	}
	if _, stopped := o.Stopped(s.revision); stopped {
		return &declined{declinedStopped, "The agent is stopped by a kill switch; ask its owner."}
	}
	return nil
}

// subjectNow is the person for whom the child acts, as the directory knows them.
func (s *spawning) subjectNow() policy.Principal {
	if s.person != nil {
		return *s.person
	}
	started := s.state.Started
	if subject, known := s.current.Organisation.Principal(started.Subject.ID); known {
		return subject
	}
	return policy.Principal{ID: started.Subject.ID, Organisation: started.Organisation}
}

// authority is what the child gets: no more than the run has now, what the
// other agent may do, and what was asked for.
func (s *spawning) authority() (policy.Authority, *declined) {
	under := s.state.Unused(s.job.authority())
	under.Depth--
	under.RunsAtOnce -= s.state.LiveRuns() + 1
	child := s.view.Rules.Ceiling(run.Acting{Subject: s.subjectNow().ID, Under: &under, Conversation: s.consented(), AtMs: s.view.NowMs,
		Links: []run.Link{{Agent: s.revision.Name, Grant: s.grant.ID}}})
	least := func(bounds ...int64) int64 {
		return slices.Min(slices.DeleteFunc(bounds, func(n int64) bool { return n <= 0 }))
	}
	now := s.view.NowMs
	after := func(ms int64) int64 {
		if ms <= 0 {
			return 0
		}
		return now + ms
	}
	child.DeadlineMs = least(under.DeadlineMs, child.DeadlineMs, now+time.Duration(s.revision.Limits.Duration).Milliseconds(), after(s.terms.Longest()), after(s.order.Seconds*1000))
	if s.terms.Turns > 0 {
		child.Turns = min(child.Turns, s.terms.Turns)
	}
	if len(child.Models) == 0 {
		return child, &declined{declinedModels, "The agent may use none of the models that the run may use."}
	}
	child.MicroUSD, child.Tokens = s.share(child)
	if s.kind == run.Sidecar {
		readsOnly(child.Tools)
	}
	if len(s.order.Tools) > 0 {
		return s.only(child)
	}
	return child, nil
}

// consented is the conversation whose consents the child begins with. What goes
// on beside a run asks for nothing, and has nothing of what others asked for.
func (s *spawning) consented() string {
	if s.person != nil || s.kind != run.SubAgent {
		return ""
	}
	return s.state.Started.Conversation
}

// only keeps the tools that the child is to have. To ask for one that the run
// does not have itself is refused: no way leads to more.
func (s *spawning) only(child policy.Authority) (policy.Authority, *declined) {
	tools := map[string]policy.ToolGrant{}
	for _, name := range s.order.Tools {
		grant, has := child.Tools[name]
		if !has {
			return child, &declined{run.RefusedWider, "A tool that you ask for is not yours to hand on, or not one of the agent's."}
		}
		tools[name] = grant
	}
	child.Tools = tools
	return child, nil
}

// readsOnly takes the tools away that do more than read.
func readsOnly(tools map[string]policy.ToolGrant) {
	for name, grant := range tools {
		grant.Impact = min(grant.Impact, policy.ImpactRead)
		tools[name] = grant
	}
}

// share is the budget of a child: what was asked for, at most what its revision
// and the terms say. Where the call names no amount it is at most an even share
// of what is left between the calls that wait to be delegated, and the run.
func (s *spawning) share(child policy.Authority) (microUSD, tokens int64) {
	left := s.state.Budget.Limit.Minus(s.state.Budget.Committed())
	waiting := int64(1)
	for i := range s.state.Calls {
		if c := &s.state.Calls[i]; c.Phase == run.CallReady && c.Delegate != "" {
			waiting++
		}
	}
	amount := func(most, terms, asked, left int64) int64 {
		if terms > 0 {
			most = min(most, terms)
		}
		if asked > 0 {
			return min(most, asked)
		}
		return min(most, max(left, 0)/waiting)
	}
	return amount(child.MicroUSD, s.terms.MicroUSD, s.order.MicroUSD, left.MicroUSD), amount(child.Tokens, s.terms.Tokens, s.order.Tokens, left.Tokens)
}

// history are the results that go along, in the order in which they are named.
func (s *spawning) history(ctx context.Context, authority policy.Authority) ([]run.Message, *declined, error) {
	history := slices.Clone(s.shown)
	for _, name := range s.order.Context {
		message, found, err := s.resultOf(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		if !found {
			return nil, &declined{declinedContext, "The context names a call or a run without a result; use marks like c3 of calls that have one."}, nil
		}
		if !message.Text.Marking.Labels.Within(authority.Labels) {
			return nil, &declined{declinedLabels, "A result that should go along is above what the agent may read."}, nil
		}
		history = append(history, message)
	}
	if !s.marking.Labels.Within(authority.Labels) {
		return nil, &declined{declinedLabels, "What the run has read is above what the agent may read."}, nil
	}
	return history, nil, nil
}

// resultOf finds a result by the mark of a call, or by the id of a run that was
// handed work by this agent for the same person.
func (s *spawning) resultOf(ctx context.Context, name string) (run.Message, bool, error) {
	if mark, isCall := strings.CutPrefix(name, "c"); isCall {
		if ordinal, err := strconv.Atoi(mark); err == nil {
			call := s.state.Call(ordinal)
			if call == nil || call.Result == nil {
				return run.Message{}, false, nil
			}
			author := call.Tool
			if call.Delegate != "" {
				author = agents.AgentID(call.Delegate)
			}
			return run.Message{Author: author, Text: *call.Result}, true, nil
		}
	}
	if child := s.state.Child(name); child != nil {
		if child.Ended == nil || child.Ended.Result == nil {
			return run.Message{}, false, nil
		}
		return run.Message{Author: agents.AgentID(child.Agent), Text: *child.Ended.Result}, true, nil
	}
	return s.earlier(ctx, name)
}

// result looks at the schema of the result. What is done under a share answers
// only in what the share declares.
func (s *spawning) result() *declined {
	if len(s.order.Result) > 0 {
		if _, err := tool.CompileSchema(s.order.Result); err != nil {
			return &declined{declinedResult, "The schema of the result is not valid: " + err.Error()}
		}
	}
	if s.grant.Kind == agents.Share {
		if _, declares := s.current.Organisation.YieldOf(s.grant.ID, s.order.Result); !declares {
			return &declined{declinedResult, "A private side answers only in the types that its share declares; give the schema of one of them."}
		}
	}
	return nil
}

// begin seals what the child begins with.
func (s *spawning) begin(ctx context.Context, authority policy.Authority, history []run.Message) (*declined, error) {
	facts, err := s.revision.Facts()
	if err != nil {
		return &declined{declinedAgent, "The agent's revision cannot be read."}, nil //nolint:nilerr // the model is told
	}
	parent := s.state.Started
	sealer := &sealer{source: s.source, run: s.id, subject: s.subjectNow().ID}
	goal := sealer.seal(s.marking, []byte(s.order.Brief))
	task := s.task
	task.ResultBytes = s.terms.Bytes()
	if len(s.order.Result) > 0 {
		task.Result = sealer.optional(s.marking, string(s.order.Result))
	}
	snapshot := snapshotOf(s.current, s.revision, facts, goal, history, authority)
	limits := s.revision.Limits.Run()
	limits.OnLimit = run.FailOnLimit
	subject, by := s.subjectNow(), parent.By
	chain := append([]string{subject.ID}, parent.Chain[1:]...)
	checks := append([]string{agents.OutputCheck}, s.revision.Completion.Names()...)
	if s.person != nil {
		by = s.by
	}
	var accounts []string // of a run that its parent waits for, none: the parent carries it
	if !task.Awaited() {
		checks = append(checks, landingCheck)
		accounts = s.current.Organisation.Accounts(parent.Payer(), parent.Conversation, s.view.NowMs)
	}
	started := run.Started{
		Organisation: parent.Organisation, RunKind: s.kind, Root: parent.Root, Parent: s.state.ID, Conversation: parent.Conversation,
		Subject: subject, Chain: append(chain, agents.AgentID(s.revision.Name)), Agent: facts,
		Contact: s.revision.Contact, Goal: goal, History: history, Snapshot: snapshot, SnapshotDigest: snapshot.Digest(),
		Authority: authority, Limits: limits, Checks: checks, By: by, Accounts: accounts,
		Grant: s.grant.ID, Task: &task, Borrower: parent.Payer(), Branches: s.revision.Branches,
		Reviewers: s.revision.Reviewers(), Sidecars: s.beside(),
		Lineage: append(slices.Clone(parent.Lineage), run.Link{Run: s.state.ID, Agent: parent.Agent.Name, Grant: parent.Grant}),
	}
	started.AudienceSpaces = s.audience(started)
	started.Consents = s.current.Organisation.Consented(run.Link{Agent: s.revision.Name, Grant: s.grant.ID}, s.consented(), subject, s.view.NowMs)
	recalls := recalling{kit: s.current, revision: s.revision, texts: s.view.Texts}
	if err := recalls.into(ctx, &started, s.id, sealer.payloads[0]); err != nil {
		return nil, err
	}
	s.birth = engine.Birth{Run: s.id, Started: started, Payloads: sealer.payloads}
	return nil, nil
}

// audience are the spaces in which everybody reads who hears of the child: who
// heard of the parent, and where a person asks who takes part by now.
func (s *spawning) audience(started run.Started) []string {
	parent, now := s.state.Started.AudienceSpaces, audience(s.current.Organisation, started, s.hear)
	switch {
	case len(now) == 0:
		return parent
	case len(parent) == 0:
		return now
	}
	return slices.DeleteFunc(now, func(space string) bool { return !slices.Contains(parent, space) })
}

// beside are the sidecars of the child: a sidecar has none.
func (s *spawning) beside() []run.Beside {
	if s.kind == run.Sidecar {
		return nil
	}
	return s.revision.BesideAll()
}

package graph

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/opaque"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

// Run returns one run.
func (r queries) Run(ctx context.Context, id string) (*generated.Run, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := opaque.ReadID(id, caller.Principal.Organisation, opaque.Run, 1)
	if err != nil {
		return nil, err
	}
	return r.run(ctx, caller, parts[0])
}

// Runs lists runs.
func (r queries) Runs(ctx context.Context, filter *generated.RunFilter, first int, after *string) (*generated.RunConnection, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := runFilter(caller, filter)
	if errors.Is(err, engine.ErrNotFound) { // no run is of what does not exist
		return &generated.RunConnection{Edges: []*generated.RunEdge{}, PageInfo: pageInfo(nil, false)}, opaque.CheckFirst(first)
	}
	if err != nil {
		return nil, err
	}
	return r.runPage(ctx, caller, wanted, first, after)
}

func runFilter(caller Caller, filter *generated.RunFilter) (RunFilter, error) {
	var out RunFilter
	if filter == nil {
		return out, nil
	}
	out.Statuses = each(filter.Statuses, func(s generated.RunStatus) run.Status { return run.Status(s) })
	if filter.Agent != nil {
		out.Agent = *filter.Agent
	}
	if filter.Subject != nil {
		out.Subject = *filter.Subject
	}
	out.Kinds = each(filter.Kinds, func(k generated.RunKind) run.Kind { return run.Kind(k) })
	if filter.Parent != nil {
		parts, err := opaque.ReadID(*filter.Parent, caller.Principal.Organisation, opaque.Run, 1)
		if err != nil {
			return out, err
		}
		out.Parent = parts[0]
	}
	if filter.Conversation != nil {
		parts, err := opaque.ReadID(*filter.Conversation, caller.Principal.Organisation, opaque.Conversation, 1)
		if err != nil {
			return out, err
		}
		out.Conversation = parts[0]
	}
	return out, nil
}

func (r root) runPage(ctx context.Context, caller Caller, filter RunFilter, first int, after *string) (*generated.RunConnection, error) {
	list, err := opaque.ReadList("runs", first, after, func(after string, first int) ([]run.Head, string, error) {
		return r.config.Runs.List(ctx, caller, filter, after, first)
	})
	if err != nil {
		return nil, err
	}
	out := &generated.RunConnection{Edges: []*generated.RunEdge{}, PageInfo: pageInfo(list.Cursors, list.More)}
	for i, head := range list.Items {
		one, err := r.run(ctx, caller, head.Run)
		if errors.Is(err, engine.ErrNotFound) {
			continue // no longer the caller's to see
		}
		if err != nil {
			return nil, err
		}
		out.Edges = append(out.Edges, &generated.RunEdge{Cursor: list.Cursors[i], Node: one})
	}
	return out, nil
}

func pageInfo(cursors []string, more bool) *generated.PageInfo {
	info := &generated.PageInfo{HasNextPage: more}
	if len(cursors) > 0 {
		info.EndCursor = &cursors[len(cursors)-1]
	}
	return info
}

// run reads one run for a caller. Errors: engine.ErrNotFound.
func (r root) run(ctx context.Context, caller Caller, id string) (*generated.Run, error) {
	v, state, err := r.open(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	return v.run(ctx, state)
}

// open reads a run and its texts for a caller.
func (r root) open(ctx context.Context, caller Caller, id string) (*viewer, *run.State, error) {
	state, err := r.config.Runs.State(ctx, caller, id)
	if err != nil {
		return nil, nil, err
	}
	if state.Started.Organisation != caller.Principal.Organisation {
		return nil, nil, engine.ErrNotFound
	}
	v, err := newViewer(ctx, r.config, caller, state.Words())
	return v, state, err
}

func (v *viewer) run(ctx context.Context, s *run.State) (*generated.Run, error) {
	started := s.Started
	approvals, err := v.approvals(ctx, s)
	if err != nil {
		return nil, err
	}
	out := &generated.Run{
		ID: v.id(opaque.Run, s.ID), Status: generated.RunStatus(s.Status), WaitingFor: waitingFor(s), Kind: generated.RunKind(started.RunKind),
		Goal: v.text(started.Goal), Subject: v.actor(started.Subject.ID), ActingChain: v.actors(started.Chain),
		Agent: started.Agent.Name, AgentRevision: started.Agent.Revision, Department: started.Agent.Department, Contact: v.actor(started.Contact),
		Snapshot: snapshot(started), Authority: v.authority(s.Authority),
		Labels: v.labels(s.Marking.Labels), Integrity: generated.Integrity(s.Marking.Integrity.String()), Consents: words(started.Consents),
		Turns: each(s.Turns, v.turn), Approvals: approvals, Calls: v.calls(s, approvals),
		Questions: each(s.Questions, func(q run.Question) *generated.Question { return v.question(s, q) }), Steers: each(s.Steers, v.steer),
		Budget: &generated.RunBudget{Limit: amount(s.Budget.Limit), Reserved: amount(s.Budget.Reserved),
			Settled: amount(s.Budget.Settled), Unknown: amount(s.Budget.Unknown)},
		Limit: v.limit(s), Outage: outage(s.Outage), Parked: parked(s), Checks: v.checks(s), End: v.end(s), Version: int64(s.Version),
	}
	if out.Accesses, err = v.accesses(ctx, s); err != nil {
		return nil, err
	}
	out.Root, out.Task, out.Payer = v.id(opaque.Run, started.Root), v.task(started.Task), started.Payer()
	if started.Parent != "" {
		id := v.id(opaque.Run, started.Parent)
		out.Parent = &id
	}
	if started.Conversation != "" {
		id := v.id(opaque.Conversation, started.Conversation)
		out.Conversation = &id
	}
	return out, v.times(ctx, s, out)
}

// times come from the records: a state knows none.
func (v *viewer) times(ctx context.Context, s *run.State, out *generated.Run) error {
	records, err := v.config.Runs.Events(ctx, v.caller, s.ID, 0)
	if err != nil || len(records) == 0 {
		return err
	}
	out.StartedAt = at(records[0].AtMs)
	for _, record := range records {
		if record.Kind == run.KindEnded {
			out.EndedAt = maybeAt(record.AtMs)
		}
	}
	return nil
}

func waitingFor(s *run.State) []generated.WaitReason {
	reasons := []generated.WaitReason{}
	add := func(reason generated.WaitReason, applies bool) {
		if applies && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	if s.Status != run.StatusWaiting && s.Status != run.StatusParked {
		return reasons
	}
	add(generated.WaitReasonOperator, s.Parked != nil)
	add(generated.WaitReasonLimit, s.Reached != nil)
	for _, call := range s.Calls {
		add(generated.WaitReasonApproval, call.Phase == run.CallHeld)
		add(generated.WaitReasonQuestion, call.Phase == run.CallAsking)
		add(generated.WaitReasonAccess, call.Phase == run.CallWanting)
		add(generated.WaitReasonUncertain, call.Phase == run.CallUncertainOpen)
	}
	for _, child := range s.Children {
		add(generated.WaitReasonChildren, child.Live())
	}
	add(generated.WaitReasonModels, s.Outage != nil)
	turn := s.LastTurn()
	add(generated.WaitReasonRetry, turn != nil && turn.Phase == run.TurnRetry && s.Outage == nil || s.LastChecks != nil && s.LastChecks.RetryAtMs > 0)
	return reasons
}

func snapshot(started run.Started) *generated.Snapshot {
	sealed := started.Snapshot
	return &generated.Snapshot{Digest: started.SnapshotDigest, Agent: sealed.Agent, Persona: maybe(sealed.Persona), Policy: sealed.Policy,
		Config: sealed.Config, Models: words(sealed.Models), Prices: sealed.Prices,
		Tools: each(slices.Sorted(maps.Keys(sealed.Tools)), func(name string) *generated.SealedTool {
			return &generated.SealedTool{Name: name, Revision: sealed.Tools[name]}
		})}
}

func (v *viewer) authority(a policy.Authority) *generated.Authority {
	return &generated.Authority{Stage: generated.Stage(a.Stage.String()), Labels: v.labels(a.Labels), Models: words(a.Models),
		Spend: amount(run.Amount{MicroUSD: a.MicroUSD, Tokens: a.Tokens}), Deadline: at(a.DeadlineMs), Turns: a.Turns,
		Depth: a.Depth, FanOut: a.FanOut, RunsAtOnce: a.RunsAtOnce,
		Tools: each(slices.Sorted(maps.Keys(a.Tools)), func(name string) *generated.ToolGrant { return toolGrant(name, a.Tools[name]) })}
}

func toolGrant(name string, grant policy.ToolGrant) *generated.ToolGrant {
	return &generated.ToolGrant{Name: name, Revision: grant.Revision, Impact: generated.Impact(grant.Impact.OrWorst().String()), Calls: grant.Calls,
		Bounded: each(grant.Constraints, func(c policy.Constraint) string { return c.Path })}
}

func (v *viewer) turn(t run.Turn) *generated.Turn {
	out := &generated.Turn{Number: t.Number, Phase: generated.TurnPhase(t.Phase), Attempt: t.Attempt, Model: t.Model, Why: t.Why,
		Reserved: amount(t.Reserve), Failure: maybe(t.Cause), RetryAt: maybeAt(t.RetryAtMs)}
	out.Offers, out.Hedge = each(t.Offers, offer), hedgeOf(t)
	if answer := t.Answer; answer != nil {
		out.Class = enum[generated.AnswerClass](answer.Class)
		out.Text, out.Reasoning = v.optional(answer.Text), v.optional(answer.Reasoning)
		usage := generated.TokenUsage(answer.Usage)
		out.Usage, out.Cost, out.LatencyMs = &usage, amount(answer.Cost), &answer.LatencyMs
	}
	out.Context = contextOf(t)
	return out
}

// contextOf is how much of its model's context a turn's prompt took up.
func contextOf(t run.Turn) *generated.ContextUse {
	if t.Context == nil {
		return nil
	}
	use := &generated.ContextUse{Bytes: t.Context.Bytes, Tokens: t.Context.Tokens}
	if t.Context.Limit > 0 {
		use.Limit = &t.Context.Limit
	}
	if answer := t.Answer; answer != nil && !answer.Usage.Estimated && answer.Usage.Prompt() > 0 {
		use.Tokens = answer.Usage.Prompt()
		cached := int(answer.Usage.CacheRead * 100 / use.Tokens)
		use.Cached = &cached
	}
	return use
}

func (v *viewer) steer(s run.SteerState) *generated.Steer {
	out := &generated.Steer{ID: s.Steer, By: v.actor(s.By.Principal), Text: v.text(s.Text), Interrupt: s.Interrupt, Void: s.Void,
		Disposition: enum[generated.Disposition](s.Disposition), Turn: maybe(s.Turn), Evidence: s.Evidence}
	if s.From != "" {
		id := v.id(opaque.Run, s.From)
		out.From = &id
	}
	return out
}

func (v *viewer) limit(s *run.State) *generated.LimitPause {
	if s.Reached == nil {
		return nil
	}
	return &generated.LimitPause{Limit: generated.LimitKind(s.Reached.Limit), Detail: s.Reached.Detail, Approvers: v.approvers(s.Reached.Approvers)}
}

func parked(s *run.State) *generated.Parked {
	if s.Parked == nil {
		return nil
	}
	return &generated.Parked{Code: s.Parked.Code, Detail: s.Parked.Detail}
}

func (v *viewer) checks(s *run.State) []*generated.Check {
	if s.LastChecks == nil {
		return []*generated.Check{}
	}
	return each(s.LastChecks.Checks, func(c run.CheckResult) *generated.Check {
		return &generated.Check{Name: c.Name, Verdict: generated.CheckVerdict(c.Verdict), Code: maybe(c.Code), Detail: v.optional(c.Detail)}
	})
}

func (v *viewer) end(s *run.State) *generated.End {
	ended := s.Ended
	if ended == nil {
		return nil
	}
	out := &generated.End{Status: generated.RunStatus(ended.Status), Reason: generated.EndReason(ended.Reason), Code: maybe(ended.Code),
		Result: v.optional(ended.Result), Settled: amount(ended.Settled), Unknown: amount(ended.Unknown)}
	out.InfluencedByUntrusted = ended.Result != nil && ended.Result.Marking.Integrity == policy.Untrusted
	out.Accepted, out.Unverified = append([]string{}, ended.Accepted...), ended.Unverified
	if ended.By != nil {
		out.By = v.actor(ended.By.Principal)
	}
	return out
}

// Explanation answers the six questions about a run.
func (r runs) Explanation(ctx context.Context, obj *generated.Run) (*generated.Explanation, error) {
	v, state, err := r.shown(ctx, obj)
	if err != nil {
		return nil, err
	}
	answers := each(account.Explain(state, v.read), explained)
	if len(answers) != 6 {
		return nil, errors.New("an explanation without its six answers")
	}
	return &generated.Explanation{Asked: answers[0], Turns: answers[1], Calls: answers[2],
		Interventions: answers[3], Results: answers[4], Stop: answers[5]}, nil
}

// TurnExplanation says what the model saw in one turn.
func (r runs) TurnExplanation(ctx context.Context, obj *generated.Run, turn int) (*generated.Explained, error) {
	v, state, err := r.shown(ctx, obj)
	if err != nil {
		return nil, err
	}
	answer, found := account.Turn(state, turn, v.read)
	if !found {
		return nil, nil
	}
	return explained(answer), nil
}

// shown opens the run of an edge for the caller.
func (r runs) shown(ctx context.Context, obj *generated.Run) (*viewer, *run.State, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, nil, err
	}
	parts, err := opaque.ReadID(obj.ID, caller.Principal.Organisation, opaque.Run, 1)
	if err != nil {
		return nil, nil, err
	}
	return r.open(ctx, caller, parts[0])
}

func explained(answer account.Answer) *generated.Explained {
	return &generated.Explained{Question: answer.Question, Lines: append([]string{}, answer.Lines...)}
}

// read is a text for a sentence about a run.
func (v *viewer) read(text run.Text) string { return v.text(text).Display }

// Lineage says by which runs the call came about.
func (r approvals) Lineage(ctx context.Context, obj *generated.Approval) ([]*generated.LineageLink, error) {
	return r.lineage(ctx, obj.Run)
}

// Lineage says by which runs the request came about.
func (r accesses) Lineage(ctx context.Context, obj *generated.AccessRequest) ([]*generated.LineageLink, error) {
	return r.lineage(ctx, obj.Run)
}

// Lineage says by which runs a run came about.
func (r runs) Lineage(ctx context.Context, obj *generated.Run) ([]*generated.LineageLink, error) {
	return r.lineage(ctx, obj.ID)
}

func (r root) lineage(ctx context.Context, id string) ([]*generated.LineageLink, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := opaque.ReadID(id, caller.Principal.Organisation, opaque.Run, 1)
	if err != nil {
		return nil, err
	}
	line, err := r.config.Trees.Lineage(ctx, caller, parts[0])
	if err != nil {
		return nil, err
	}
	return each(line, func(one *run.State) *generated.LineageLink {
		by := one.Started
		return &generated.LineageLink{Run: opaque.ID(by.Organisation, opaque.Run, one.ID), Kind: generated.RunKind(by.RunKind),
			Agent: by.Agent.Name, AgentRevision: by.Agent.Revision, Department: by.Agent.Department, Grant: maybe(by.Grant)}
	}), nil
}

// Children lists the runs right below a run.
func (r runs) Children(ctx context.Context, obj *generated.Run, first int, after *string) (*generated.ChildConnection, error) {
	v, state, err := r.shown(ctx, obj)
	if err != nil {
		return nil, err
	}
	all, err := r.config.Trees.Children(ctx, v.caller, state.ID)
	if err != nil {
		return nil, err
	}
	all = inOrder(state, all)
	list, err := opaque.ReadList("children of "+state.ID, first, after, func(after string, first int) ([]run.Head, string, error) {
		from := 0
		if after != "" {
			if from, err = strconv.Atoi(after); err != nil || from < 0 || from > len(all) {
				return nil, "", opaque.ErrCursor
			}
		}
		page := all[from:min(from+first, len(all))]
		if from+len(page) == len(all) {
			return page, "", nil
		}
		return page, strconv.Itoa(from + len(page)), nil
	})
	if err != nil {
		return nil, err
	}
	out := &generated.ChildConnection{Edges: []*generated.ChildEdge{}, PageInfo: pageInfo(list.Cursors, list.More)}
	for i, head := range list.Items {
		child, err := v.child(ctx, state, head)
		if errors.Is(err, engine.ErrNotFound) {
			continue // no longer the caller's to see
		}
		if err != nil {
			return nil, err
		}
		out.Edges = append(out.Edges, &generated.ChildEdge{Cursor: list.Cursors[i], Node: child})
	}
	return out, nil
}

// inOrder sorts the runs right below one: those that it started itself as it
// started them, then the others, the earliest first.
func inOrder(state *run.State, heads []run.Head) []run.Head {
	place := map[string]int{}
	for i, child := range state.Children {
		place[child.Child] = i - len(state.Children)
	}
	slices.SortStableFunc(heads, func(a, b run.Head) int { return cmp.Compare(place[a.Run], place[b.Run]) })
	return heads
}

// Run opens the run of a child.
func (r children) Run(ctx context.Context, obj *generated.Child) (*generated.Run, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := opaque.ReadID(obj.Run.ID, caller.Principal.Organisation, opaque.Run, 1)
	if err != nil {
		return nil, err
	}
	return r.run(ctx, caller, parts[0])
}

package graph

import (
	"context"
	"errors"
	"time"

	"gantry.dev/agents"
	"gantry.dev/graph/edge"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/opaque"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/notice"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Inbox lists what waits for the viewer.
func (r queries) Inbox(ctx context.Context) ([]*generated.InboxItem, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	return r.inbox(ctx, caller)
}

// inbox reads every run of the items once. An item whose run has moved on, or
// which the caller may not see, is left out.
func (r root) inbox(ctx context.Context, caller Caller) ([]*generated.InboxItem, error) {
	items, err := r.config.Inbox.Items(ctx, caller)
	if err != nil {
		return nil, err
	}
	type opened struct {
		state *run.State
		shown *generated.Run
	}
	v, err := newViewer(ctx, r.config, caller, nil)
	if err != nil {
		return nil, err
	}
	known, together := map[string]opened{}, map[alike]*generated.InboxItem{}
	out := make([]*generated.InboxItem, 0, len(items))
	for _, item := range items {
		one, read := known[item.Run]
		if !read {
			v, state, err := r.open(ctx, caller, item.Run)
			if err == nil {
				one.state = state
				one.shown, err = v.run(ctx, state)
			}
			if err != nil && !errors.Is(err, engine.ErrNotFound) {
				return nil, err
			}
			known[item.Run] = one
		}
		if one.shown == nil {
			continue
		}
		shown, waits := inboxItem(item, one.state, one.shown)
		if !waits {
			continue
		}
		shown.Onlooker, shown.OnBehalfOf, shown.Actions = item.Onlooker, v.somebody(item.OnBehalfOf), actions(item, one.state)
		if shown.Approval != nil {
			class := alike{item.Run, shown.Approval.Tool, item.OnBehalfOf, item.Onlooker}
			if first := together[class]; first != nil {
				first.Count, first.Others = first.Count+1, append(first.Others, shown.Approval)
				first.ExpiresAt = earlier(first.ExpiresAt, shown.ExpiresAt)
				continue
			}
			together[class] = shown
		}
		out = append(out, shown)
	}
	return out, nil
}

// actions are what the viewer may do about an item; about one that is only shown
// nothing.
func actions(item Item, state *run.State) []generated.InboxAction {
	switch {
	case item.Onlooker:
		return []generated.InboxAction{}
	case item.Kind == engine.InboxApproval:
		return []generated.InboxAction{generated.InboxActionApprove, generated.InboxActionDeny}
	case item.Kind == engine.InboxQuestion:
		return []generated.InboxAction{generated.InboxActionAnswer}
	case item.Kind == engine.InboxAccess:
		return []generated.InboxAction{generated.InboxActionConsent, generated.InboxActionRefuse}
	case item.Kind == engine.InboxParked:
		return []generated.InboxAction{generated.InboxActionResume}
	case item.Kind != engine.InboxLimit:
		return []generated.InboxAction{generated.InboxActionResolve}
	case state.Reached == nil:
		return []generated.InboxAction{}
	}
	switch state.Reached.Limit {
	case run.LimitTurns, run.LimitBudget, run.LimitDeadline:
		return []generated.InboxAction{generated.InboxActionRaise, generated.InboxActionEnd}
	case run.LimitCheck:
		return []generated.InboxAction{generated.InboxActionResume, generated.InboxActionAccept, generated.InboxActionEnd}
	}
	return []generated.InboxAction{generated.InboxActionResume, generated.InboxActionEnd}
}

// alike are held calls of one run to one tool that wait for the viewer in the
// same role: they stand together.
type alike struct {
	run, tool, onBehalfOf string
	onlooker              bool
}

func earlier(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

func inboxItem(item Item, state *run.State, shown *generated.Run) (*generated.InboxItem, bool) {
	out := &generated.InboxItem{ID: item.ID, Kind: generated.InboxKind(item.Kind), Since: at(item.SinceMs), ExpiresAt: maybeAt(item.NotAfterMs),
		Run: shown, Uncertain: []*generated.Call{}, Count: 1, Others: []*generated.Approval{},
		RemindedAt: maybeAt(item.RemindedMs), EscalatedAt: maybeAt(item.EscalatedMs), DueAt: maybeAt(item.DueMs)}
	switch item.Kind {
	case engine.InboxApproval:
		for i, approval := range state.Approvals {
			if approval.Approval == item.ID {
				out.Approval = shown.Approvals[i]
			}
		}
		return out, out.Approval != nil
	case engine.InboxQuestion:
		for i, question := range state.Questions {
			if question.Question == item.ID {
				out.Question = shown.Questions[i]
			}
		}
		return out, out.Question != nil
	case engine.InboxAccess:
		for i := range state.Accesses {
			if state.Accesses[i].AccessRequested.Access == item.ID {
				out.Access = shown.Accesses[i]
			}
		}
		return out, out.Access != nil
	case engine.InboxLimit:
		out.Limit = shown.Limit
		return out, out.Limit != nil
	case engine.InboxParked:
		out.Parked = shown.Parked
		return out, out.Parked != nil
	}
	for i := range state.Calls {
		if item.ID == engine.CallItem(state.ID, state.Calls[i].CallProposed.Call) {
			out.Uncertain = append(out.Uncertain, shown.Calls[i])
		}
	}
	return out, len(out.Uncertain) > 0
}

// Deputies lists the viewer's deputy and those whose deputy the viewer is.
func (r queries) Deputies(ctx context.Context) ([]*generated.Deputy, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	return r.deputies(ctx, caller)
}

func (r root) deputies(ctx context.Context, caller Caller) ([]*generated.Deputy, error) {
	list, err := r.config.Inbox.Deputies(ctx, caller)
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, caller, nil)
	return each(list, func(d agents.Deputy) *generated.Deputy {
		return &generated.Deputy{Person: v.actor(d.Person), Deputy: v.actor(d.Deputy), From: at(int64(d.From)), Until: at(int64(d.Until))}
	}), err
}

// SetDeputy names the viewer's deputy, or takes the deputy back.
func (r mutations) SetDeputy(ctx context.Context, in generated.SetDeputyInput) (*generated.DeputyPayload, error) {
	c, err := r.command(ctx, in.CommandID)
	var deputy DeputyInput
	if err == nil {
		deputy, err = r.deputyOf(in)
	}
	var change Change
	if err == nil {
		change, err = r.config.Inbox.SetDeputy(ctx, c.caller, c.id, deputy)
	}
	refusals, err := userErrors(err)
	if err != nil {
		return nil, err
	}
	payload := &generated.DeputyPayload{UserErrors: refusals, ClientMutationID: in.ClientMutationID, Deputies: []*generated.Deputy{}}
	if len(refusals) > 0 {
		return payload, nil
	}
	payload.Outcome = mutationOutcome(change.Replayed)
	payload.Deputies, err = r.deputies(ctx, c.caller)
	return payload, err
}

func (r root) deputyOf(in generated.SetDeputyInput) (DeputyInput, error) {
	switch {
	case in.Deputy == nil:
		return DeputyInput{}, nil
	case *in.Deputy == "":
		return DeputyInput{}, &inputError{"INVALID", "deputy", "Name the deputy, or leave it out to have none."}
	case in.Until == nil:
		return DeputyInput{}, &inputError{"INVALID", "until", "Say until when the deputy decides for you."}
	}
	deputy := DeputyInput{Deputy: *in.Deputy, UntilMs: in.Until.UnixMilli()}
	if in.From != nil {
		deputy.FromMs = in.From.UnixMilli()
	}
	return deputy, nil
}

// Notices lists how the viewer was told.
func (r queries) Notices(ctx context.Context) ([]*generated.Notice, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	list, err := r.config.Inbox.Told(ctx, caller)
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, caller, nil)
	return each(list, func(n notice.Notice) *generated.Notice {
		return &generated.Notice{ID: n.ID, Person: v.actor(n.Person), Step: string(n.Step), Item: n.Item, Kind: generated.InboxKind(n.Kind), Agent: n.Agent,
			Channel: maybe(n.Channel.Kind), State: string(n.State), Attempts: n.Attempts, Failure: maybe(n.Code), CreatedAt: at(n.CreatedMs), SettledAt: maybeAt(n.SettledMs)}
	}), err
}

// accesses shows what a run asked for that it might not use.
func (v *viewer) accesses(ctx context.Context, s *run.State) ([]*generated.AccessRequest, error) {
	out := make([]*generated.AccessRequest, 0, len(s.Accesses))
	for i := range s.Accesses {
		one, err := v.access(ctx, s, &s.Accesses[i])
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func (v *viewer) access(ctx context.Context, s *run.State, a *run.Access) (*generated.AccessRequest, error) {
	call := s.Call(a.Call)
	if call == nil {
		return nil, errors.New("a request without its call")
	}
	out := &generated.AccessRequest{ID: v.id(opaque.Access, s.ID, a.AccessRequested.Access), Status: generated.AccessStatus(a.Status), Digest: a.Digest,
		Run: v.id(opaque.Run, s.ID), Thing: generated.AccessThing(a.Want.Thing), Name: maybe(a.Want.Name),
		Call: a.Call, Tool: call.Tool, Arguments: v.exact(call.Arguments),
		Requester: &generated.Actor{Principal: agents.AgentID(s.Started.Agent.Name), Name: s.Started.Agent.Name, Kind: enum[generated.ActorKind](policy.Agent)},
		Subject:   v.actor(s.Started.Subject.ID), ActingChain: v.actors(s.Started.Chain),
		Labels: v.labels(call.Arguments.Marking.Labels), Integrity: generated.Integrity(call.Arguments.Marking.Integrity.String()),
		Approvers: v.approvers(a.Approvers), ExpiresAt: at(a.NotAfterMs), VoidCause: enum[generated.VoidCause](a.Cause),
		Scopes: each(s.Scopes(a.Want), scopeOf)}
	if p := a.Want.Prices; p != nil {
		out.Prices = &generated.TokenPrices{Input: p.Input, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite, Output: p.Output}
	}
	if d := a.Decision; d != nil {
		out.Decision = &generated.Decision{By: v.actor(d.By.Principal), Granted: d.Granted, Reason: v.optional(d.Reason), OnBehalfOf: v.somebody(d.By.OnBehalfOf)}
		out.Grant = maybe(d.Grant)
		if err := v.reach(ctx, s, d, out); err != nil {
			return nil, err
		}
	}
	if a.Want.Thing == run.ThingBudget {
		out.More = amount(run.Amount{MicroUSD: a.Want.Gives.MicroUSD, Tokens: a.Want.Gives.Tokens})
	}
	grant, isTool := a.Want.Gives.Tools[a.Want.Name]
	if !isTool {
		return out, nil
	}
	class, consequence := a.Want.Class.OrWorst(), consequences[grant.Impact.OrWorst()]
	guarantee, bound := guarantees[class], a.Want.CostBound
	out.Bounds = toolGrant(a.Want.Name, grant)
	out.Consequence, out.Guarantee, out.CostBound = &consequence, &guarantee, &bound
	operation, err := v.config.Tools.Operation(ctx, v.caller, a.Want.Name, grant.Revision, nil)
	if errors.Is(err, engine.ErrNotFound) {
		return out, nil
	}
	out.Definition = maybe(operation.Description)
	return out, err
}

// reach shows how far a yes reaches, and what was proposed with it.
func (v *viewer) reach(ctx context.Context, s *run.State, d *run.AccessDecided, out *generated.AccessRequest) error {
	if !d.Granted {
		return nil
	}
	scope := scopeOf(d.Scope)
	out.Scope = &scope
	if d.Proposed == "" {
		return nil
	}
	manifest, err := v.config.Consents.Proposed(ctx, v.caller, s.Started.Agent.Name, d.Proposed)
	out.Proposed = &generated.ProposedRevision{Agent: s.Started.Agent.Name, Digest: d.Proposed, Manifest: maybe(manifest)}
	return err
}

func scopeOf(scope run.Scope) generated.AccessScope {
	if scope == run.ForRun {
		return generated.AccessScopeRun
	}
	return generated.AccessScope(scope)
}

// DecideAccess lets a run use what it asked for, or says no.
func (r mutations) DecideAccess(ctx context.Context, in generated.DecideAccessInput) (*generated.RunPayload, error) {
	outcome, err := r.decideAccess(ctx, in)
	return r.runPayload(ctx, in.ClientMutationID, outcome, err)
}

func (r mutations) decideAccess(ctx context.Context, in generated.DecideAccessInput) (Outcome, error) {
	c, err := r.command(ctx, in.CommandID)
	if err != nil {
		return Outcome{}, err
	}
	parts, err := opaque.ReadID(in.ID, c.caller.Principal.Organisation, opaque.Access, 2)
	if err != nil {
		return Outcome{}, err
	}
	consent := Consent{Run: parts[0], Access: parts[1], Digest: in.Digest, Granted: in.Decision == generated.AccessDecisionConsent, CommandID: c.id}
	if in.Scope != generated.AccessScopeRun {
		consent.Scope = run.Scope(in.Scope)
	}
	if in.Until != nil {
		consent.UntilMs = in.Until.UnixMilli()
	}
	if in.Reason != nil {
		consent.Reason = *in.Reason
	}
	return r.config.Consents.Decide(ctx, c.caller, consent)
}

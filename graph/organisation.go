package graph

import (
	"context"
	"errors"
	"time"

	"gantry.dev/agents"
	"gantry.dev/agents/server"
	"gantry.dev/graph/edge"
	"gantry.dev/graph/evaluated"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/opaque"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Viewer returns who asks.
func (r queries) Viewer(ctx context.Context) (*generated.Viewer, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	p := caller.Principal
	return &generated.Viewer{Principal: p.ID, Name: p.Name, Organisation: p.Organisation, Department: p.Department,
		Roles: words(p.Roles), Clearance: words(p.Clearance)}, nil
}

// Node returns one thing by its id.
func (r queries) Node(ctx context.Context, id string) (generated.Node, error) {
	switch opaque.KindOf(id) {
	case opaque.Run:
		return present(r.Run(ctx, id))
	case opaque.Conversation:
		return present(r.Conversation(ctx, id))
	case opaque.Agent:
		return present(r.agentByID(ctx, id))
	case opaque.Memory:
		return present(r.MemoryItem(ctx, id))
	}
	return nil, engine.ErrNotFound
}

// present keeps a nil pointer from becoming a node that is not nil.
func present[T generated.Node](node T, err error) (generated.Node, error) {
	if err != nil {
		return nil, err
	}
	return node, nil
}

// Nodes returns several things; nil where there is none.
func (r queries) Nodes(ctx context.Context, ids []string) ([]generated.Node, error) {
	if len(ids) > edge.MaxFirst {
		return nil, edge.OverLimit("ids", len(ids), edge.MaxFirst)
	}
	nodes := make([]generated.Node, len(ids))
	for i, id := range ids {
		node, err := r.Node(ctx, id)
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return nil, err
		}
		nodes[i] = node
	}
	return nodes, nil
}

func (r queries) agentByID(ctx context.Context, id string) (*generated.Agent, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := opaque.ReadID(id, caller.Principal.Organisation, opaque.Agent, 1)
	if err != nil {
		return nil, err
	}
	return r.agent(ctx, caller, parts[0])
}

// Agents lists the agents.
func (r queries) Agents(ctx context.Context) ([]*generated.Agent, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	list, err := r.config.Agents.List(ctx, caller)
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, caller, nil)
	return each(list, v.agent), err
}

// Agent returns one agent.
func (r queries) Agent(ctx context.Context, name string) (*generated.Agent, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	return r.agent(ctx, caller, name)
}

func (r root) agent(ctx context.Context, caller Caller, name string) (*generated.Agent, error) {
	found, err := r.config.Agents.Get(ctx, caller, name)
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, caller, nil)
	return v.agent(found), err
}

func (v *viewer) agent(a Agent) *generated.Agent {
	revision := a.Revision
	return &generated.Agent{ID: v.id(opaque.Agent, revision.Name), Name: revision.Name, Description: revision.Description, Department: revision.Department,
		Owner: v.actor(revision.Owner), Contact: v.actor(revision.Contact), Persona: revision.Persona, Revision: a.Digest,
		Stage: generated.Stage(a.Stage.String()), Audience: words(revision.Audience), Models: words(revision.Models), Stopped: a.Stopped,
		Listed: revision.Listed, AvailableBy: each(a.Available, availability),
		Tools: each(revision.Tools, func(use agents.ToolUse) *generated.ToolUse {
			return &generated.ToolUse{Name: use.Name, Impact: generated.Impact(use.Impact.OrWorst().String()), Calls: use.Calls}
		})}
}

// Budgets lists the budgets.
func (r queries) Budgets(ctx context.Context) ([]*generated.Budget, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	list, err := r.config.Budgets.List(ctx, caller)
	return each(list, budget), err
}

func budget(b Budget) *generated.Budget {
	return &generated.Budget{Node: b.Node, Period: b.Period, Limit: amount(b.Limit), Reserved: amount(b.Reserved),
		Settled: amount(b.Settled), Unknown: amount(b.Unknown)}
}

// Usage returns what was spent.
func (r queries) Usage(ctx context.Context, groupBy generated.UsageGroup, from, to time.Time) ([]*generated.UsageRow, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := r.config.Budgets.Usage(ctx, caller, string(groupBy), from.UnixMilli(), to.UnixMilli())
	return each(rows, func(row UsageRow) *generated.UsageRow {
		tokens := generated.TokenUsage(row.Tokens)
		out := &generated.UsageRow{Key: row.Key, Runs: row.Runs, Spent: amount(row.Spent), Tokens: &tokens}
		if row.Counted > 0 {
			cached := int(row.Cached * 100 / row.Counted)
			out.Cached = &cached
		}
		return out
	}), err
}

// PublishAgent proposes a revision or approves a proposed one.
func (r mutations) PublishAgent(ctx context.Context, in generated.PublishAgentInput) (*generated.AgentPayload, error) {
	c, err := r.command(ctx, in.CommandID)
	if err == nil {
		err = checkText("manifest", in.Manifest, maxText)
	}
	var name string
	var change Change
	if err == nil {
		name, change, err = r.config.Agents.Publish(ctx, c.caller, c.id, []byte(in.Manifest))
	}
	return r.agentPayload(ctx, name, change, err, in.ClientMutationID)
}

// SetStage changes an agent's stage.
func (r mutations) SetStage(ctx context.Context, in generated.SetStageInput) (*generated.AgentPayload, error) {
	c, err := r.command(ctx, in.CommandID)
	var stage policy.Stage
	if err == nil {
		err = stage.UnmarshalText([]byte(in.Stage))
	}
	var change Change
	if err == nil {
		change, err = r.config.Agents.SetStage(ctx, c.caller, c.id, in.Agent, stage, in.Evidence)
	}
	return r.agentPayload(ctx, in.Agent, change, err, in.ClientMutationID)
}

func (r root) agentPayload(ctx context.Context, name string, change Change, err error, client *string) (*generated.AgentPayload, error) {
	caller, refusals, err := accepted(ctx, err)
	if err != nil {
		return nil, err
	}
	payload := &generated.AgentPayload{UserErrors: refusals, ClientMutationID: client, AwaitsSecondPerson: change.Pending}
	if len(refusals) > 0 {
		return payload, nil
	}
	payload.Outcome = mutationOutcome(change.Replayed)
	payload.Agent, err = r.agent(ctx, caller, name)
	if errors.Is(err, engine.ErrNotFound) {
		payload.Agent, err = nil, nil // a new agent that waits for a second person
	}
	return payload, err
}

// Personas lists the voices of the agents that the viewer may know of.
func (r queries) Personas(ctx context.Context) ([]*generated.Persona, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	return r.personas(ctx, caller)
}

func (r root) personas(ctx context.Context, caller Caller) ([]*generated.Persona, error) {
	list, err := r.config.Agents.Personas(ctx, caller)
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, caller, nil)
	return each(list, func(p Persona) *generated.Persona {
		shown := &generated.Persona{Name: p.Name, Voice: p.Voice, ApprovedBy: v.actor(p.ApprovedBy), Lent: p.Lent}
		if p.VoiceOf != "" {
			shown.VoiceOf = v.actor(p.VoiceOf)
		}
		return shown
	}), err
}

// LendVoice lets agents speak in the viewer's own voice, or no more.
func (r mutations) LendVoice(ctx context.Context, in generated.LendVoiceInput) (*generated.PersonaPayload, error) {
	c, err := r.command(ctx, in.CommandID)
	var change Change
	if err == nil {
		change, err = r.config.Agents.LendVoice(ctx, c.caller, c.id, in.Persona, in.Lend)
	}
	refusals, err := userErrors(err)
	if err != nil {
		return nil, err
	}
	payload := &generated.PersonaPayload{UserErrors: refusals, ClientMutationID: in.ClientMutationID}
	if len(refusals) > 0 {
		return payload, nil
	}
	payload.Outcome = mutationOutcome(change.Replayed)
	list, err := r.personas(ctx, c.caller)
	for _, p := range list {
		if p.Name == in.Persona {
			payload.Persona = p
		}
	}
	return payload, err
}

// SetBudget changes a budget.
func (r mutations) SetBudget(ctx context.Context, in generated.SetBudgetInput) (*generated.BudgetPayload, error) {
	c, err := r.command(ctx, in.CommandID)
	if err == nil && (in.Money < 0 || in.Tokens < 0) {
		err = &inputError{"INVALID", "money", "A budget is not negative."}
	}
	var change Change
	if err == nil {
		change, err = r.config.Budgets.Set(ctx, c.caller, c.id, in.Node, run.Amount{MicroUSD: in.Money, Tokens: in.Tokens})
	}
	refusals, err := userErrors(err)
	if err != nil {
		return nil, err
	}
	payload := &generated.BudgetPayload{UserErrors: refusals, ClientMutationID: in.ClientMutationID}
	if len(refusals) > 0 {
		return payload, nil
	}
	payload.Outcome = mutationOutcome(change.Replayed)
	list, err := r.config.Budgets.List(ctx, c.caller)
	for _, b := range list {
		if b.Node == in.Node {
			payload.Budget = budget(b)
		}
	}
	return payload, err
}

// Kills lists what is stopped.
func (r queries) Kills(ctx context.Context) ([]*generated.Kill, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	list, err := r.config.Kills.List(ctx, caller)
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, caller, nil)
	return each(list, func(k agents.Kill) *generated.Kill {
		return &generated.Kill{Scope: generated.KillScope(k.Scope), Name: k.Name, By: v.actor(k.By), Reason: k.Reason, At: at(k.AtMs)}
	}), err
}

// Quarantines lists the tools whose calls are kept back.
func (r queries) Quarantines(ctx context.Context) ([]*generated.Quarantine, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil || r.config.Pins == nil {
		return []*generated.Quarantine{}, err
	}
	list, err := r.config.Pins.Quarantines(ctx, caller)
	return each(list, func(q Quarantined) *generated.Quarantine {
		shown := &generated.Quarantine{Tool: q.Tool, Pin: q.Pin, Cause: q.Cause, At: at(q.AtMs), Differences: []*generated.OfferDifference{}}
		if q.Live != nil {
			pin, seen := q.Live.Pin(), server.Offer{}
			if shown.LivePin = &pin; q.Seen != nil {
				seen = *q.Seen
			}
			for _, d := range server.Differences(seen, *q.Live) {
				shown.Differences = append(shown.Differences, &generated.OfferDifference{Part: d.Part, Before: d.Before, Now: d.Now})
			}
		}
		return shown
	}), err
}

// PinTool proposes that a tool is what its server gives now, or has it so.
func (r mutations) PinTool(ctx context.Context, in generated.PinToolInput) (*generated.PinToolPayload, error) {
	c, err := r.command(ctx, in.CommandID)
	if err == nil && r.config.Pins == nil {
		err = engine.ErrNotFound
	}
	var change Change
	if err == nil {
		change, err = r.config.Pins.Pin(ctx, c.caller, c.id, in.Tool, in.Pin)
	}
	refusals, err := userErrors(err)
	if err != nil {
		return nil, err
	}
	payload := &generated.PinToolPayload{UserErrors: refusals, ClientMutationID: in.ClientMutationID, AwaitsSecondPerson: change.Pending}
	if len(refusals) == 0 {
		payload.Outcome = mutationOutcome(change.Replayed)
	}
	return payload, nil
}

// Kill stops something.
func (r mutations) Kill(ctx context.Context, in generated.KillInput) (*generated.KillPayload, error) {
	c, err := r.command(ctx, in.CommandID)
	if err == nil {
		err = checkText("reason", in.Reason, maxText)
	}
	var change Change
	if err == nil {
		change, err = r.config.Kills.Stop(ctx, c.caller, c.id, agents.KillScope(in.Scope), in.Name, in.Reason)
	}
	return killPayload(change, err, in.ClientMutationID)
}

// LiftKill proposes to end a kill or ends it.
func (r mutations) LiftKill(ctx context.Context, in generated.LiftKillInput) (*generated.KillPayload, error) {
	c, err := r.command(ctx, in.CommandID)
	var change Change
	if err == nil {
		change, err = r.config.Kills.Lift(ctx, c.caller, c.id, agents.KillScope(in.Scope), in.Name)
	}
	return killPayload(change, err, in.ClientMutationID)
}

func killPayload(change Change, err error, client *string) (*generated.KillPayload, error) {
	refusals, err := userErrors(err)
	if err != nil {
		return nil, err
	}
	payload := &generated.KillPayload{UserErrors: refusals, ClientMutationID: client, AwaitsSecondPerson: change.Pending}
	if len(refusals) == 0 {
		payload.Outcome = mutationOutcome(change.Replayed)
	}
	return payload, nil
}

// measurements is who answers for evaluations. Errors: engine.ErrNotFound where
// there are none.
func (r root) measurements() (evaluated.Evaluations, error) {
	if r.config.Evaluations == nil {
		return nil, engine.ErrNotFound
	}
	return r.config.Evaluations, nil
}

// Evaluations lists what an agent's revisions came to.
func (r queries) Evaluations(ctx context.Context, agent string) ([]*generated.Evaluation, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	known, err := r.measurements()
	if err != nil {
		return nil, err
	}
	list, err := known.List(ctx, caller, agent)
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, caller, nil)
	if err != nil {
		return nil, err
	}
	return each(list, func(kept evaluated.Kept) *generated.Evaluation { return evaluated.Show(kept, v.actor) }), nil
}

// RecordEvaluation keeps what an agent came to.
func (r mutations) RecordEvaluation(ctx context.Context, in generated.RecordEvaluationInput) (*generated.EvaluationPayload, error) {
	var one evaluated.Kept
	var replayed bool
	c, err := r.command(ctx, in.CommandID)
	if err == nil {
		one, replayed, err = r.record(ctx, c, in.Report)
	}
	refusals, err := userErrors(err)
	if err != nil {
		return nil, err
	}
	payload := &generated.EvaluationPayload{UserErrors: refusals, ClientMutationID: in.ClientMutationID}
	if len(refusals) > 0 {
		return payload, nil
	}
	v, err := newViewer(ctx, r.config, c.caller, nil)
	if err != nil {
		return nil, err
	}
	payload.Outcome, payload.Evaluation = mutationOutcome(replayed), evaluated.Show(one, v.actor)
	return payload, nil
}

func (r mutations) record(ctx context.Context, c command, report string) (evaluated.Kept, bool, error) {
	known, err := r.measurements()
	if err != nil {
		return evaluated.Kept{}, false, err
	}
	if err := checkText("report", report, maxReport); err != nil {
		return evaluated.Kept{}, false, err
	}
	result, err := evaluated.Read(report)
	if err != nil {
		return evaluated.Kept{}, false, &inputError{"INVALID", "report", "It must be what gantry eval --out writes."}
	}
	return known.Record(ctx, c.caller, c.id, result)
}

// maxReport is how many bytes the report of an evaluation may have.
const maxReport = 512 << 10

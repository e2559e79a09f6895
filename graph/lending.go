package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"gantry.dev/orchestrator/run"
	"maps"
	"slices"
	"time"

	"gantry.dev/agents"
	"gantry.dev/graph/edge"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/opaque"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
)

// GrantStatus says where a grant stands.
type GrantStatus string

// The statuses of a grant.
const (
	GrantAsked    GrantStatus = "ASKED"    // somebody must still agree
	GrantRefused  GrantStatus = "REFUSED"  // or withdrawn
	GrantInForce  GrantStatus = "IN_FORCE" // everybody agreed
	GrantExpired  GrantStatus = "EXPIRED"  // its time is over
	GrantRecalled GrantStatus = "RECALLED" // somebody ended it
)

// Grant is a grant as one caller may see it.
type Grant struct {
	agents.Grant
	By       string // principal id of who asked for it
	Status   GrantStatus
	Missing  []agents.Party   // who must still agree; only while it is asked for
	MayAgree bool             // the caller's word is missing
	Ended    *agents.Recalled // how it was refused or recalled, nil where it was not
}

// GrantOrder asks for a grant. Owner says that the caller means to lend, not to
// borrow: then they answer for the agent.
type GrantOrder struct {
	Kind     agents.GrantKind
	Owner    bool
	Agent    string
	Revision string // digest, empty for the current one, whichever that is
	From     string
	To       agents.Borrower
	Ceiling  CeilingOrder
	Yields   []agents.Yield
	Reason   string
	UntilMs  int64 // UTC ms, 0 for no end
}

// CeilingOrder bounds a grant. What is nil is as the agent's revision has it,
// with nothing that is secret and nothing that does more than read.
type CeilingOrder struct {
	Tools       []agents.ToolUse
	Labels      policy.Labels
	ReadSpaces  []string
	WriteSpaces []string
	Models      []string
	Stage       *policy.Stage
	MicroUSD    *int64
	Tokens      *int64
	FanOut      *int
}

// Availability is one way in which the caller has an agent.
type Availability struct {
	Share   string // id of the share, empty for who is of the audience
	UntilMs int64  // UTC ms, 0 for no end
}

// Lending is what agents are lent under. What the caller may not know of is
// engine.ErrNotFound; refusals are those of package agents, and *run.Refusal.
type Lending interface {
	// List returns the grants that the caller asked for, agreed to, profits from or
	// answers for something of.
	List(ctx context.Context, caller Caller) ([]Grant, error)
	// Shares returns the shares of an agent, none to whom does not answer for it.
	Shares(ctx context.Context, caller Caller, agent string) ([]Grant, error)
	// Ask asks for a grant, which is in force once everybody agreed; it returns its id.
	Ask(ctx context.Context, caller Caller, commandID string, order GrantOrder) (id string, change Change, err error)
	// Decide agrees to a grant that was asked for, or refuses it.
	Decide(ctx context.Context, caller Caller, commandID, id string, agree bool, reason string) (Change, error)
	// Recall ends a grant.
	Recall(ctx context.Context, caller Caller, commandID, id, reason string) (Change, error)
}

// nothingLent is for who lends nothing.
type nothingLent struct{}

func (nothingLent) List(context.Context, Caller) ([]Grant, error)           { return nil, nil }
func (nothingLent) Shares(context.Context, Caller, string) ([]Grant, error) { return nil, nil }
func (nothingLent) Ask(context.Context, Caller, string, GrantOrder) (string, Change, error) {
	return "", Change{}, engine.ErrNotFound
}
func (nothingLent) Decide(context.Context, Caller, string, string, bool, string) (Change, error) {
	return Change{}, engine.ErrNotFound
}
func (nothingLent) Recall(context.Context, Caller, string, string, string) (Change, error) {
	return Change{}, engine.ErrNotFound
}

func availability(a Availability) *generated.Availability {
	return &generated.Availability{Share: text(a.Share), Until: maybeAt(a.UntilMs)}
}

// Agent answers the edges of an agent.
func (r root) Agent() generated.AgentResolver { return agentEdges{r} }

type agentEdges struct{ root }

// Shares lists an agent's shares.
func (r agentEdges) Shares(ctx context.Context, agent *generated.Agent) ([]*generated.Grant, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	list, err := r.config.Lending.Shares(ctx, caller, agent.Name)
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, caller, nil)
	return each(list, v.grant), err
}

// Grants lists grants.
func (r queries) Grants(ctx context.Context, status []generated.GrantStatus) ([]*generated.Grant, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	list, err := r.config.Lending.List(ctx, caller)
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, caller, nil)
	var shown []*generated.Grant
	for _, g := range list {
		if len(status) == 0 || has(status, generated.GrantStatus(g.Status)) {
			shown = append(shown, v.grant(g))
		}
	}
	return each(shown, func(g *generated.Grant) *generated.Grant { return g }), err
}

func has[T comparable](list []T, one T) bool {
	for _, other := range list {
		if other == one {
			return true
		}
	}
	return false
}

func (v *viewer) grant(g Grant) *generated.Grant {
	out := &generated.Grant{ID: g.ID, Kind: generated.GrantKind(g.Kind), Status: generated.GrantStatus(g.Status), Agent: g.Agent,
		Ceiling: v.ceiling(g.Ceiling), Reason: g.Reason, AskedBy: v.actor(g.By), MayAgree: g.MayAgree,
		Missing: each(g.Missing, func(p agents.Party) *generated.MissingWord {
			return &generated.MissingWord{For: v.concern(p.For), People: each(p.People, v.actor)}
		}),
		AgreedBy: each(g.Words, func(w agents.Word) *generated.Agreement {
			return &generated.Agreement{By: v.actor(w.Person), At: at(w.AtMs)}
		}),
		Yields: each(g.Yields, func(y agents.Yield) *generated.Yield {
			return &generated.Yield{Name: y.Name, Description: y.Description, Schema: string(y.Schema), Template: text(y.Template)}
		}),
		From: text(g.From), Department: text(g.To.Department), Since: maybeAt(g.AtMs), Until: maybeAt(g.UntilMs)}
	if g.Grant.Run != "" {
		id := v.id(opaque.Run, g.Grant.Run)
		out.Run = &id
	}
	if g.Conversation != "" {
		id := v.id(opaque.Conversation, g.Conversation)
		out.Conversation = &id
	}
	if g.Revision != nil {
		if digest, err := g.Revision.Digest(); err == nil {
			out.Revision = &digest
		}
	}
	if g.To.Person != "" {
		out.Person = v.actor(g.To.Person)
	}
	if end := g.Ended; end != nil {
		out.Ended = &generated.GrantEnd{By: v.actor(end.By), Reason: end.Reason, At: at(end.AtMs)}
	}
	return out
}

// concern is what a word is missing for; a label that the caller may not know of
// is not named.
func (v *viewer) concern(what string) string {
	const prefix = "label:"
	if len(what) > len(prefix) && what[:len(prefix)] == prefix && len(v.labels(policy.Labels{policy.Label(what[len(prefix):])})) == 0 {
		return "label"
	}
	return what
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (v *viewer) ceiling(c agents.Ceiling) *generated.Ceiling {
	return &generated.Ceiling{Labels: v.labels(c.Labels), ReadSpaces: words(c.ReadSpaces), WriteSpaces: words(c.WriteSpaces), Models: words(c.Models),
		Stage: generated.Stage(c.Stage.String()), Money: c.MicroUSD, Tokens: c.Tokens, FanOut: c.FanOut,
		Tools: each(c.Tools, func(use agents.ToolUse) *generated.ToolUse {
			return &generated.ToolUse{Name: use.Name, Impact: generated.Impact(use.Impact.OrWorst().String()), Calls: use.Calls}
		})}
}

// ShareAgent lends an agent.
func (r mutations) ShareAgent(ctx context.Context, in generated.ShareAgentInput) (*generated.GrantPayload, error) {
	order := GrantOrder{Kind: agents.Share, Owner: true, Agent: in.Agent, Revision: or(in.Revision), To: agents.Borrower{Department: or(in.Department), Person: or(in.Person)},
		Reason: in.Reason, UntilMs: until(in.Until), Yields: yields(in.Yields)}
	if order.To == (agents.Borrower{}) {
		return r.askGrant(ctx, in.CommandID, in.ClientMutationID, order, nil, &inputError{"INVALID", "department", "Name the department or the person that borrows."})
	}
	return r.askGrant(ctx, in.CommandID, in.ClientMutationID, order, in.Ceiling, nil)
}

// RequestShare asks for an agent.
func (r mutations) RequestShare(ctx context.Context, in generated.RequestShareInput) (*generated.GrantPayload, error) {
	return r.askGrant(ctx, in.CommandID, in.ClientMutationID, GrantOrder{Kind: agents.Share, Agent: in.Agent, To: agents.Borrower{Department: or(in.Department)},
		Reason: in.Reason, UntilMs: until(in.Until), Yields: yields(in.Yields)}, in.Ceiling, nil)
}

// GrantDelegation lets an agent hand work to a stronger one.
func (r mutations) GrantDelegation(ctx context.Context, in generated.GrantDelegationInput) (*generated.GrantPayload, error) {
	return r.askGrant(ctx, in.CommandID, in.ClientMutationID, GrantOrder{Kind: agents.Delegation, Owner: true, Agent: in.Agent, Revision: or(in.Revision), From: in.From,
		Reason: in.Reason, UntilMs: until(in.Until), Yields: yields(in.Yields)}, in.Ceiling, nil)
}

func (r mutations) askGrant(ctx context.Context, commandID, client *string, order GrantOrder, ceiling *generated.CeilingInput, fault error) (*generated.GrantPayload, error) {
	c, err := r.command(ctx, commandID)
	if err == nil {
		err = fault
	}
	if err == nil {
		err = checkText("reason", order.Reason, maxTitle)
	}
	if err == nil {
		order.Ceiling, err = ceilingOrder(ceiling)
	}
	var id string
	var change Change
	if err == nil {
		id, change, err = r.config.Lending.Ask(ctx, c.caller, c.id, order)
	}
	return r.grantPayload(ctx, c, client, id, change, err)
}

// DecideShare agrees to a grant or refuses it.
func (r mutations) DecideShare(ctx context.Context, in generated.DecideShareInput) (*generated.GrantPayload, error) {
	c, err := r.command(ctx, in.CommandID)
	agree := in.Decision == generated.GrantDecisionAgree
	if err == nil && (!agree || or(in.Reason) != "") {
		err = checkText("reason", or(in.Reason), maxTitle)
	}
	var change Change
	if err == nil {
		change, err = r.config.Lending.Decide(ctx, c.caller, c.id, in.Grant, agree, or(in.Reason))
	}
	return r.grantPayload(ctx, c, in.ClientMutationID, in.Grant, change, err)
}

// RecallAgent ends a grant.
func (r mutations) RecallAgent(ctx context.Context, in generated.RecallAgentInput) (*generated.GrantPayload, error) {
	c, err := r.command(ctx, in.CommandID)
	if err == nil {
		err = checkText("reason", in.Reason, maxTitle)
	}
	var change Change
	if err == nil {
		change, err = r.config.Lending.Recall(ctx, c.caller, c.id, in.Grant, in.Reason)
	}
	return r.grantPayload(ctx, c, in.ClientMutationID, in.Grant, change, err)
}

func (r mutations) grantPayload(ctx context.Context, c command, client *string, id string, change Change, err error) (*generated.GrantPayload, error) {
	refusals, err := userErrors(err)
	if err != nil {
		return nil, err
	}
	payload := &generated.GrantPayload{UserErrors: refusals, ClientMutationID: client}
	if len(refusals) > 0 {
		return payload, nil
	}
	payload.Outcome = mutationOutcome(change.Replayed)
	list, err := r.config.Lending.List(ctx, c.caller)
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, c.caller, nil)
	for _, g := range list {
		if g.ID == id {
			payload.Grant = v.grant(g)
		}
	}
	return payload, err
}

func ceilingOrder(in *generated.CeilingInput) (CeilingOrder, error) {
	if in == nil {
		return CeilingOrder{}, nil
	}
	out := CeilingOrder{ReadSpaces: in.ReadSpaces, WriteSpaces: in.WriteSpaces, Models: in.Models, MicroUSD: in.Money, Tokens: in.Tokens, FanOut: in.FanOut}
	for _, label := range in.Labels {
		out.Labels = append(out.Labels, policy.Label(label))
	}
	if in.Tools != nil {
		out.Tools = []agents.ToolUse{}
	}
	for _, use := range in.Tools {
		var impact policy.Impact
		if err := impact.UnmarshalText([]byte(use.Impact)); err != nil {
			return CeilingOrder{}, err
		}
		out.Tools = append(out.Tools, agents.ToolUse{Name: use.Name, Impact: impact, Calls: use.Calls})
	}
	if in.Stage != nil {
		var stage policy.Stage
		if err := stage.UnmarshalText([]byte(*in.Stage)); err != nil {
			return CeilingOrder{}, err
		}
		out.Stage = &stage
	}
	return out, nil
}

func yields(in []*generated.YieldInput) (list []agents.Yield) {
	for _, y := range in {
		list = append(list, agents.Yield{Name: y.Name, Description: y.Description, Schema: json.RawMessage(y.Schema), Template: or(y.Template)})
	}
	return list
}

func or(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func until(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMilli()
}

// Models lists the catalogue.
func (r queries) Models(ctx context.Context) ([]*generated.CatalogueModel, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil || r.config.Models == nil {
		return []*generated.CatalogueModel{}, err
	}
	list, err := r.config.Models.List(ctx, caller)
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, caller, nil)
	return each(list, v.catalogued), err
}

func (v *viewer) catalogued(m ModelEntry) *generated.CatalogueModel {
	out := &generated.CatalogueModel{Name: m.Name, Provider: m.Provider, Model: maybe(m.Model.Model), Residency: maybe(m.Residency), Tier: m.Tier,
		Context: m.Context, MaxOutput: m.MaxOutput, Tools: m.Tools, Schema: m.Schema, Images: m.Images, Files: m.Files, Reasoning: m.Reasoning,
		Plain: m.Plain, Labels: v.labels(m.Labels), Free: m.Free, AsOf: maybe(m.AsOf), Agents: words(m.Agents),
		Prices: &generated.ModelPrices{Input: m.Prices.Input, CacheRead: m.Prices.CacheRead, CacheWrite: m.Prices.CacheWrite, Output: m.Prices.Output}}
	if s := m.Standing; s != nil {
		out.Standing = &generated.ModelStanding{Mode: generated.ModelMode(s.Mode), Failures: s.Failures, Cause: maybe(string(s.Cause))}
		if !s.Until.IsZero() {
			out.Standing.Until = maybeAt(s.Until.UnixMilli())
		}
	}
	return out
}

// ModelReport compares what turns cost with what they would have cost.
func (r queries) ModelReport(ctx context.Context, agent *string, from, to time.Time) ([]*generated.ModelReportRow, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil || r.config.Models == nil {
		return []*generated.ModelReportRow{}, err
	}
	var only string
	if agent != nil {
		only = *agent
	}
	rows, err := r.config.Models.Report(ctx, caller, only, from.UnixMilli(), to.UnixMilli())
	return each(rows, func(row ModelReport) *generated.ModelReportRow {
		return &generated.ModelReportRow{Agent: row.Agent, Model: row.Model, Turns: row.Turns, Spent: amount(row.Spent), Others: each(row.Others, compared)}
	}), err
}

func compared(c ModelComparison) *generated.ModelComparison {
	return &generated.ModelComparison{Model: c.Model, Turns: c.Turns, Cost: c.Cost, Instead: c.Instead,
		Refusals: each(slices.Sorted(maps.Keys(c.Refusals)), func(code string) string { return fmt.Sprintf("%d %s", c.Refusals[code], code) })}
}

// hedgeOf is the second model of a turn, nil for none.
func hedgeOf(t run.Turn) *generated.TurnHedge {
	if t.Hedge == nil {
		return nil
	}
	out := &generated.TurnHedge{First: t.First, Second: t.Hedge.Model, AfterMs: t.Hedge.AfterMs, Reserved: amount(t.Hedge.Reserve), Other: maybe(t.Other())}
	if answer := t.Answer; answer != nil && answer.Hedged != nil {
		if answer.Hedged.Usage != nil {
			out.OtherCost = amount(answer.Hedged.Cost)
		}
		if answer.Hedged.Unknown {
			out.OtherHeld = amount(t.OtherHeld())
		}
	}
	return out
}

func offer(o run.Offer) *generated.ModelOffer {
	return &generated.ModelOffer{Model: o.Model, Cost: o.MicroUSD, Worst: o.Worst, Refusal: maybe(o.Refusal)}
}

func outage(e *run.ModelsOut) *generated.ModelOutage {
	if e == nil {
		return nil
	}
	return &generated.ModelOutage{Turn: e.Turn, Wait: e.Wait, Cause: maybe(e.Cause), RetryAt: at(e.RetryAtMs), Offers: each(e.Offers, offer)}
}

package client

import (
	"context"
	"time"
)

// Grant is a share of an agent, or a delegation between two.
type Grant struct {
	ID         string        `json:"id"`
	Kind       string        `json:"kind"`   // SHARE, DELEGATION or ACCESS
	Status     string        `json:"status"` // ASKED, REFUSED, IN_FORCE, EXPIRED or RECALLED
	Agent      string        `json:"agent"`
	Revision   string        `json:"revision,omitempty"` // digest, empty for the current one
	From       string        `json:"from,omitempty"`
	Department string        `json:"department,omitempty"`   // that borrows
	Person     *Actor        `json:"person,omitempty"`       // who borrows, or for whom an access is
	Run        string        `json:"run,omitempty"`          // global id of the one run that an access is for
	Talk       string        `json:"conversation,omitempty"` // global id of the one that an access is for
	Ceiling    Ceiling       `json:"ceiling"`
	Yields     []Yield       `json:"yields"`
	Reason     string        `json:"reason"`
	AskedBy    Actor         `json:"askedBy"`
	AgreedBy   []Agreement   `json:"agreedBy"`
	Missing    []MissingWord `json:"missing"`
	MayAgree   bool          `json:"mayAgree"` // the caller's word is missing
	Until      *time.Time    `json:"until,omitempty"`
	Ended      *GrantEnd     `json:"ended,omitempty"`
}

// Ceiling is what is done under a grant at most.
type Ceiling struct {
	Labels     []string  `json:"labels"`
	ReadSpaces []string  `json:"readSpaces"`
	Models     []string  `json:"models"`
	Stage      string    `json:"stage"`
	MicroUSD   int64     `json:"money,string"` // of one run
	FanOut     int       `json:"fanOut"`
	Tools      []ToolUse `json:"tools"`
}

// ToolUse bounds one tool.
type ToolUse struct {
	Name   string `json:"name"`
	Impact string `json:"impact"`
	Calls  int    `json:"calls"`
}

// Yield is one kind of answer of a private side.
type Yield struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Schema      string `json:"schema"` // JSON Schema
	Template    string `json:"template,omitempty"`
}

// Agreement is somebody's word.
type Agreement struct {
	By Actor     `json:"by"`
	At time.Time `json:"at"`
}

// MissingWord says for what a word is missing, and whose would do.
type MissingWord struct {
	For    string  `json:"for"` // "agent:NAME", "label:NAME", "tool:NAME" or "second"
	People []Actor `json:"people"`
}

// GrantEnd is how a grant was refused or recalled.
type GrantEnd struct {
	By     Actor     `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// GrantInput asks for a grant. What is nil is as the server has it.
type GrantInput struct {
	Agent      string        `json:"agent"`
	Revision   string        `json:"revision,omitempty"` // digest; not for requests
	From       string        `json:"from,omitempty"`     // only for delegations
	Department string        `json:"department,omitempty"`
	Person     string        `json:"person,omitempty"` // principal id; only to lend
	Ceiling    *CeilingInput `json:"ceiling,omitempty"`
	Yields     []Yield       `json:"yields,omitempty"`
	Reason     string        `json:"reason"`
	Until      *time.Time    `json:"until,omitempty"`
}

// CeilingInput bounds a grant. What is nil is as the agent's revision has it,
// with nothing secret and nothing that does more than read.
type CeilingInput struct {
	Tools      []ToolUse `json:"tools,omitempty"`
	Labels     []string  `json:"labels,omitempty"`
	ReadSpaces []string  `json:"readSpaces,omitempty"`
	Models     []string  `json:"models,omitempty"`
	Stage      string    `json:"stage,omitempty"`
	MicroUSD   int64     `json:"money,string,omitempty"`
	FanOut     *int      `json:"fanOut,omitempty"`
}

// Offer is an agent in the catalogue.
type Offer struct {
	Agent
	Revision    string `json:"revision"` // digest
	Listed      bool   `json:"listed"`
	AvailableBy []struct {
		Share string     `json:"share"` // empty for the audience
		Until *time.Time `json:"until"`
	} `json:"availableBy"`
}

const (
	grantFields = `{id kind status agent revision from department person{principal name} run conversation ceiling{labels readSpaces models stage money fanOut tools{name impact calls}}` +
		` yields{name description schema template} reason askedBy{principal name} agreedBy{by{principal name} at} missing{for people{principal name}} mayAgree until` +
		` ended{by{principal name} reason at}}`
	grantPayload = `{grant` + grantFields + ` userErrors{code message field}}}`

	grantsDocument       = `query($status:[GrantStatus!]){grants(status:$status)` + grantFields + `}`
	catalogueDocument    = `{agents{name description department stage stopped revision listed availableBy{share until}}}`
	shareDocument        = `mutation($input:ShareAgentInput!){done:shareAgent(input:$input)` + grantPayload
	requestShareDocument = `mutation($input:RequestShareInput!){done:requestShare(input:$input)` + grantPayload
	delegationDocument   = `mutation($input:GrantDelegationInput!){done:grantDelegation(input:$input)` + grantPayload
	decideShareDocument  = `mutation($input:DecideShareInput!){done:decideShare(input:$input)` + grantPayload
	recallAgentDocument  = `mutation($input:RecallAgentInput!){done:recallAgent(input:$input)` + grantPayload
)

// Catalogue reads the agents that the caller has or can ask for. Errors: *Error.
func (c *Client) Catalogue(ctx context.Context) ([]Offer, error) {
	var got struct{ Agents []Offer }
	err := c.Ask(ctx, catalogueDocument, nil, &got)
	return got.Agents, err
}

// Grants reads the grants that the caller may know of, those of some statuses
// or all. Errors: *Error.
func (c *Client) Grants(ctx context.Context, status ...string) ([]Grant, error) {
	var got struct{ Grants []Grant }
	err := c.Ask(ctx, grantsDocument, map[string]any{"status": status}, &got)
	return got.Grants, err
}

// Share lends an agent that the caller answers for. Errors: *Error.
func (c *Client) Share(ctx context.Context, in GrantInput) (Grant, error) {
	return c.grant(ctx, shareDocument, in.fields("agent", "revision", "department", "person"))
}

// RequestShare asks for an agent, for the caller or a department. Errors: *Error.
func (c *Client) RequestShare(ctx context.Context, in GrantInput) (Grant, error) {
	return c.grant(ctx, requestShareDocument, in.fields("agent", "department"))
}

// GrantDelegation lets an agent hand work to a stronger one. Errors: *Error.
func (c *Client) GrantDelegation(ctx context.Context, in GrantInput) (Grant, error) {
	return c.grant(ctx, delegationDocument, in.fields("agent", "revision", "from"))
}

// DecideShare agrees to a grant or refuses it; a refusal needs a reason. Errors: *Error.
func (c *Client) DecideShare(ctx context.Context, id string, agree bool, reason string) (Grant, error) {
	decision := map[bool]string{true: "AGREE", false: "REFUSE"}[agree]
	return c.grant(ctx, decideShareDocument, map[string]any{"grant": id, "decision": decision, "reason": reason})
}

// RecallAgent ends a grant. Errors: *Error.
func (c *Client) RecallAgent(ctx context.Context, id, reason string) (Grant, error) {
	return c.grant(ctx, recallAgentDocument, map[string]any{"grant": id, "reason": reason})
}

func (c *Client) grant(ctx context.Context, document string, input map[string]any) (Grant, error) {
	got, err := change[struct{ Grant Grant }](ctx, c, document, input)
	return got.Grant, err
}

// fields are those of the input that a mutation has, besides those that all have.
func (in GrantInput) fields(own ...string) map[string]any {
	all := map[string]any{"agent": in.Agent, "revision": in.Revision, "from": in.From, "department": in.Department, "person": in.Person}
	out := map[string]any{"reason": in.Reason, "yields": in.Yields}
	for _, name := range own {
		if all[name] != "" {
			out[name] = all[name]
		}
	}
	if in.Ceiling != nil {
		out["ceiling"] = in.Ceiling
	}
	if in.Until != nil {
		out["until"] = in.Until.UTC().Format(time.RFC3339)
	}
	return out
}

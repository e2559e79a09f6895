package client

import (
	"context"
	"time"
)

// Agent is an agent as it is now.
type Agent struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Department  string `json:"department"`
	Stage       string `json:"stage"`   // OBSERVE, CONSTRAIN, APPROVE or AUTOMATE
	Stopped     bool   `json:"stopped"` // by a kill
}

const (
	agentFields = `{name description department stage stopped}`

	agentDocument  = `query($name:String!){agent(name:$name)` + agentFields + `}`
	agentsDocument = `{agents` + agentFields + `}`
	stageDocument  = `mutation($input:SetStageInput!){done:setStage(input:$input){agent` + agentFields +
		` awaitsSecondPerson userErrors{code message field}}}`
)

// Agent reads an agent by its name. Errors: *Error.
func (c *Client) Agent(ctx context.Context, name string) (Agent, error) {
	var got struct{ Agent Agent }
	err := c.Ask(ctx, agentDocument, map[string]any{"name": name}, &got)
	return got.Agent, err
}

// Agents reads the agents that the viewer may know of. Errors: *Error.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	var got struct{ Agents []Agent }
	err := c.Ask(ctx, agentsDocument, nil, &got)
	return got.Agents, err
}

// SetStage changes how much an agent may do by itself. It reports whether a
// second person must do the same first. Errors: *Error.
func (c *Client) SetStage(ctx context.Context, name, stage, evidence string) (agent Agent, waits bool, err error) {
	type payload struct {
		Agent              Agent
		AwaitsSecondPerson bool
	}
	got, err := change[payload](ctx, c, stageDocument, map[string]any{"agent": name, "stage": stage, "evidence": evidence})
	return got.Agent, got.AwaitsSecondPerson, err
}

const publishDocument = `mutation($input:PublishAgentInput!){done:publishAgent(input:$input){awaitsSecondPerson userErrors{code message field}}}`

// PublishAgent proposes a revision, or puts the one in force that another person
// proposed alike. It reports whether a second person must do the same first.
// Errors: *Error.
func (c *Client) PublishAgent(ctx context.Context, manifest string) (waits bool, err error) {
	type payload struct{ AwaitsSecondPerson bool }
	got, err := change[payload](ctx, c, publishDocument, map[string]any{"manifest": manifest})
	return got.AwaitsSecondPerson, err
}

// Kill is a stop that holds.
type Kill struct {
	Scope  string    `json:"scope"` // ALL, DEPARTMENT, AGENT or TOOL
	Name   string    `json:"name"`  // empty for ALL
	By     Actor     `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

const (
	killsDocument = `{kills{scope name by{...P} reason at}}` + actorFields
	killDocument  = `mutation($input:KillInput!){done:kill(input:$input){awaitsSecondPerson userErrors{code message field}}}`
	liftDocument  = `mutation($input:LiftKillInput!){done:liftKill(input:$input){awaitsSecondPerson userErrors{code message field}}}`
)

type killPayload struct{ AwaitsSecondPerson bool }

// Kills reads what is stopped, as far as the viewer may know. Errors: *Error.
func (c *Client) Kills(ctx context.Context) ([]Kill, error) {
	var got struct{ Kills []Kill }
	err := c.Ask(ctx, killsDocument, nil, &got)
	return got.Kills, err
}

// Kill stops new effects at once. Errors: *Error.
func (c *Client) Kill(ctx context.Context, scope, name, reason string) error {
	_, err := change[killPayload](ctx, c, killDocument, map[string]any{"scope": scope, "name": name, "reason": reason})
	return err
}

// LiftKill ends a kill. It reports whether a second person must do the same
// first. Errors: *Error.
func (c *Client) LiftKill(ctx context.Context, scope, name string) (waits bool, err error) {
	got, err := change[killPayload](ctx, c, liftDocument, map[string]any{"scope": scope, "name": name})
	return got.AwaitsSecondPerson, err
}

// Quarantine is a tool whose calls are kept back, and what its server gives now.
type Quarantine struct {
	Tool        string            `json:"tool"`
	Pin         string            `json:"pin"`
	LivePin     string            `json:"livePin"`
	Cause       string            `json:"cause"`
	At          string            `json:"at"`
	Differences []OfferDifference `json:"differences"`
}

// OfferDifference is a part of a tool that is another at its server than before.
// Both texts are the server's own words.
type OfferDifference struct {
	Part   string `json:"part"`
	Before string `json:"before"`
	Now    string `json:"now"`
}

const (
	quarantinesDocument = `{quarantines{tool pin livePin cause at differences{part before now}}}`
	pinDocument         = `mutation($input:PinToolInput!){done:pinTool(input:$input){awaitsSecondPerson userErrors{code message field}}}`
)

// Quarantines reads which tools are kept back, as far as the viewer may know.
// Errors: *Error.
func (c *Client) Quarantines(ctx context.Context) ([]Quarantine, error) {
	var got struct{ Quarantines []Quarantine }
	err := c.Ask(ctx, quarantinesDocument, nil, &got)
	return got.Quarantines, err
}

// PinTool takes a tool as its server gives it now. It reports whether a second
// person must do the same first. Errors: *Error.
func (c *Client) PinTool(ctx context.Context, tool, pin string) (waits bool, err error) {
	got, err := change[killPayload](ctx, c, pinDocument, map[string]any{"tool": tool, "pin": pin})
	return got.AwaitsSecondPerson, err
}

// ModelPrices are micro-dollars for a million tokens.
type ModelPrices struct {
	Input      int64 `json:"input,string"`
	CacheRead  int64 `json:"cacheRead,string"`
	CacheWrite int64 `json:"cacheWrite,string"`
	Output     int64 `json:"output,string"`
}

// ModelStanding is how a model stands in the server that answers.
type ModelStanding struct {
	Mode     string     `json:"mode"`
	Failures int        `json:"failures"`
	Cause    string     `json:"cause"` // empty where it answered last
	Until    *time.Time `json:"until"`
}

// Model is one model of the catalogue.
type Model struct {
	Name      string         `json:"name"`
	Provider  string         `json:"provider"`
	Model     string         `json:"model"`
	Residency string         `json:"residency"`
	Tier      int            `json:"tier"`
	Context   int64          `json:"context,string"`
	MaxOutput int64          `json:"maxOutput,string"`
	Tools     bool           `json:"tools"`
	Schema    bool           `json:"schema"`
	Images    bool           `json:"images"`
	Files     bool           `json:"files"`
	Reasoning bool           `json:"reasoning"`
	Plain     bool           `json:"plain"`
	Labels    []string       `json:"labels"`
	Prices    ModelPrices    `json:"prices"`
	Free      bool           `json:"free"`
	AsOf      string         `json:"asOf"`
	Agents    []string       `json:"agents"`
	Standing  *ModelStanding `json:"standing"`
}

// ModelReportRow is what turns of an agent with a model cost.
type ModelReportRow struct {
	Agent  string            `json:"agent"`
	Model  string            `json:"model"`
	Turns  int64             `json:"turns,string"`
	Spent  Amount            `json:"spent"`
	Others []ModelComparison `json:"others"`
}

// ModelComparison is what turns would have been with another model.
type ModelComparison struct {
	Model    string   `json:"model"`
	Turns    int64    `json:"turns,string"`   // for which it was right too
	Cost     int64    `json:"cost,string"`    // micro-dollars of these turns with it
	Instead  int64    `json:"instead,string"` // micro-dollars of these turns as they were
	Refusals []string `json:"refusals"`       // for example "3 LABELS"
}

const (
	modelsDocument = `{models{name provider model residency tier context maxOutput tools schema images files reasoning plain labels
		prices{input cacheRead cacheWrite output} free asOf agents standing{mode failures cause until}}}`
	modelReportDocument = `query($agent:String,$from:Time!,$to:Time!){modelReport(agent:$agent,from:$from,to:$to){agent model turns
		spent{money tokens} others{model turns cost instead refusals}}}`
)

// Models lists the catalogue. Errors: *Error.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	var got struct{ Models []Model }
	err := c.Ask(ctx, modelsDocument, nil, &got)
	return got.Models, err
}

// ModelReport compares turns of an agent, or of all (""), with other models.
// Errors: *Error.
func (c *Client) ModelReport(ctx context.Context, agent string, from, to time.Time) ([]ModelReportRow, error) {
	variables := map[string]any{"from": from, "to": to}
	if agent != "" {
		variables["agent"] = agent
	}
	var got struct{ ModelReport []ModelReportRow }
	err := c.Ask(ctx, modelReportDocument, variables, &got)
	return got.ModelReport, err
}

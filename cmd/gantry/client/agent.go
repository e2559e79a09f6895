package client

import "context"

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

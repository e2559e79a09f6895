package agents

import (
	"gantry.dev/orchestrator/policy"
)

// StageDecision is a recorded change of an agent's rollout stage.
type StageDecision struct {
	Agent      string       `json:"agent"`
	Revision   string       `json:"revision"` // digest of the revision that was current
	From       policy.Stage `json:"from"`
	Stage      policy.Stage `json:"stage"`
	Evidence   string       `json:"evidence"` // why it may be freer; where the observations are
	By         string       `json:"by"`       // principal id
	ApprovedBy string       `json:"approvedBy,omitempty"`
	AtMs       int64        `json:"atMs"` // UTC, milliseconds since 1970
}

// KillScope says what a kill stops.
type KillScope string

// The scopes of a kill.
const (
	KillAll        KillScope = "ALL"
	KillDepartment KillScope = "DEPARTMENT"
	KillAgent      KillScope = "AGENT"
	KillTool       KillScope = "TOOL"
)

// Kill stops new intents until it is lifted.
type Kill struct {
	Scope  KillScope `json:"scope"`
	Name   string    `json:"name,omitempty"` // empty for ALL
	By     string    `json:"by"`             // principal id
	Reason string    `json:"reason"`
	AtMs   int64     `json:"atMs"` // UTC, milliseconds since 1970
}

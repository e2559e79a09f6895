package agents

import (
	"encoding/json"
)

// Check is one completion check: a READ call made by the platform, and what
// must hold of its result.
type Check struct {
	Name       string          `json:"name"`
	Tool       string          `json:"tool,omitempty"`      // a READ tool of the agent; empty: the run alone is looked at
	Arguments  json.RawMessage `json:"arguments,omitempty"` // template of the call's arguments, see Check.Call
	Expression string          `json:"expression"`          // CEL over run, calls, output and result
	Identity   string          `json:"identity"`            // who reads: "agent", "subject" or a principal id
	Confirms   []string        `json:"confirms,omitempty"`  // tools whose effects it reads back; sorted
	Explain    string          `json:"explain,omitempty"`   // told to the model when the check fails
}

package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Answer is what policy says to one call.
type Answer string

// The answers, from free to forbidden.
const (
	Permit   Answer = "PERMIT"
	Simulate Answer = "SIMULATE"
	Hold     Answer = "HOLD"
	Forbid   Answer = "FORBID"
)

// Facts are what a tool's adapter computed about the arguments of a call, for
// example the cleaned path or the amount in cents. Values are string, int64,
// bool or []string.
type Facts map[string]any

// UnmarshalJSON reads facts so that every value has one of their Go types: a
// number must be a whole one of 64 bits, a list must hold strings.
func (f *Facts) UnmarshalJSON(text []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	facts := Facts{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		value, err := readFact(raw[name])
		if err != nil {
			return fmt.Errorf("fact %q: %w", name, err)
		}
		facts[name] = value
	}
	*f = facts
	return nil
}

var errFactType = errors.New("not a string, whole number, truth value or list of strings")

func readFact(raw json.RawMessage) (any, error) {
	switch raw[0] {
	case '"':
		return typed[string](raw)
	case 't', 'f':
		return typed[bool](raw)
	case '[':
		return typed[[]string](raw)
	}
	return typed[int64](raw)
}

// typed hides the decoder's error, which quotes the value. Null is no value,
// though the decoder takes it for any.
func typed[T any](raw json.RawMessage) (any, error) {
	var value T
	if string(raw) == "null" || json.Unmarshal(raw, &value) != nil {
		return nil, errFactType
	}
	return value, nil
}

// Request asks whether one call may happen.
type Request struct {
	Subject   Principal   `json:"subject"` // for whom the run acts
	Agent     AgentFacts  `json:"agent"`   // the agent revision that proposes
	Chain     []Principal `json:"chain"`   // the acting chain, subject first
	Tool      ToolFacts   `json:"tool"`
	Facts     Facts       `json:"facts,omitempty"`
	Resource  string      `json:"resource"`  // the resolved resource, for example "ledger:invoice/INV-017"
	Marking   Marking     `json:"marking"`   // of everything that influenced the arguments
	CostBound int64       `json:"costBound"` // micro-dollars
	Stage     Stage       `json:"stage"`
	AtMs      int64       `json:"atMs"`      // UTC, milliseconds since 1970
	Untrusted bool        `json:"untrusted"` // untrusted text influenced a control argument
}

// AgentFacts is what policy knows of an agent revision.
type AgentFacts struct {
	Name       string `json:"name"`
	Revision   string `json:"revision"` // digest
	Department string `json:"department"`
	Owner      string `json:"owner"` // principal id
}

// ToolFacts is what policy knows of a tool.
type ToolFacts struct {
	Name     string      `json:"name"` // qualified: server.tool
	Revision string      `json:"revision"`
	Owner    string      `json:"owner"` // principal id
	Impact   Impact      `json:"impact"`
	Class    EffectClass `json:"class"`

	Quarantined bool     `json:"quarantined,omitempty"` // kept back until people have looked at what its server gives now
	Replaces    []string `json:"replaces,omitempty"`    // revisions in whose place people put this one, knowing both
}

// Approver names who decides a held call: one principal or a role. Approvers
// with the same Group stand for each other; every group must be satisfied.
type Approver struct {
	Principal string `json:"principal,omitempty"`
	Role      string `json:"role,omitempty"`
	Why       string `json:"why"` // for example "budget owner"
	Group     int    `json:"group,omitempty"`
	Quorum    int    `json:"quorum,omitempty"` // distinct people the group needs; 0 counts as 1
}

// Reason is one policy that decided.
type Reason struct {
	Policy string `json:"policy"` // policy id
	Text   string `json:"text"`   // the policy's own @reason, or what it is
}

// Verdict is policy's answer for one call, with what it rests on.
type Verdict struct {
	Answer    Answer     `json:"answer"`
	Would     Answer     `json:"would,omitempty"`     // what a SIMULATE would have been: PERMIT or HOLD
	Reasons   []Reason   `json:"reasons,omitempty"`   // sorted by policy id
	Approvers []Approver `json:"approvers,omitempty"` // who decides; only for HOLD and what would have been one
	Quorum    int        `json:"quorum,omitempty"`    // distinct people needed at least; see Settled
	ExpiresMs int64      `json:"expiresMs,omitempty"` // how long a hold may stay open, milliseconds; 0 is not said
	Revision  string     `json:"revision"`            // digest of the policy set
}

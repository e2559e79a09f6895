package policy

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

// Request asks whether one call may happen.
type Request struct {
	Subject   Principal   // for whom the run acts
	Agent     AgentFacts  // the agent revision that proposes
	Chain     []Principal // the acting chain, subject first
	Tool      ToolFacts
	Facts     Facts
	Resource  string  // the resolved resource, for example "ledger:invoice/INV-017"
	Marking   Marking // of everything that influenced the arguments
	CostBound int64   // micro-dollars
	Stage     Stage
	AtMs      int64 // UTC, milliseconds since 1970
	Untrusted bool  // untrusted text influenced a control argument
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
}

// Approver names who decides a held call: either one principal or a role.
type Approver struct {
	Principal string `json:"principal,omitempty"`
	Role      string `json:"role,omitempty"`
	Why       string `json:"why"` // for example "budget owner"
}

// Reason is one policy that decided.
type Reason struct {
	Policy string `json:"policy"` // policy id
	Text   string `json:"text"`   // the policy's own @reason, or what it is
}

// Verdict is policy's answer for one call, with what it rests on.
type Verdict struct {
	Answer    Answer     `json:"answer"`
	Reasons   []Reason   `json:"reasons,omitempty"`   // sorted by policy id
	Approvers []Approver `json:"approvers,omitempty"` // any of them may decide; only for HOLD
	Quorum    int        `json:"quorum,omitempty"`    // distinct people needed; only for HOLD
	ExpiresMs int64      `json:"expiresMs,omitempty"` // how long a hold may stay open, milliseconds
	Revision  string     `json:"revision"`            // digest of the policy set
}

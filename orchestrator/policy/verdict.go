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

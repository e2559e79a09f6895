package policy

// Authority is what a run may do at most. Values are ordered: a is below b
// when everything a allows, b allows too. Zero means deny on every dimension.
type Authority struct {
	Tools       map[string]ToolGrant `json:"tools,omitempty"`       // by qualified tool name
	Labels      Labels               `json:"labels,omitempty"`      // labels that may be read
	ReadSpaces  []string             `json:"readSpaces,omitempty"`  // sorted
	WriteSpaces []string             `json:"writeSpaces,omitempty"` // sorted
	Models      []string             `json:"models,omitempty"`      // sorted
	MicroUSD    int64                `json:"microUsd"`              // money, in micro-dollars
	Tokens      int64                `json:"tokens"`                // model tokens, in and out
	DeadlineMs  int64                `json:"deadlineMs"`            // UTC, milliseconds since 1970
	Turns       int                  `json:"turns"`                 // model turns
	Depth       int                  `json:"depth"`                 // levels of sub-agents below
	FanOut      int                  `json:"fanOut"`                // children of one run
	RunsAtOnce  int                  `json:"runsAtOnce"`            // live descendants
	CallsAtOnce int                  `json:"callsAtOnce"`           // calls in flight
	Stage       Stage                `json:"stage"`
}

// ToolGrant bounds the use of one tool.
type ToolGrant struct {
	Revision    string       `json:"revision"`              // digest of the tool's definition
	Impact      Impact       `json:"impact"`                // highest impact
	Calls       int          `json:"calls"`                 // calls over the whole run
	Constraints []Constraint `json:"constraints,omitempty"` // all must hold; sorted by path
}

// Constraint bounds one argument, found by its JSON pointer. Every part that
// is set must hold; an argument that is absent meets no constraint.
type Constraint struct {
	Path   string    `json:"path"`             // JSON pointer, RFC 6901
	Enum   *[]string `json:"enum,omitempty"`   // allowed values as canonical JSON; sorted
	Min    *string   `json:"min,omitempty"`    // least number, decimal
	Max    *string   `json:"max,omitempty"`    // greatest number, decimal
	Prefix *string   `json:"prefix,omitempty"` // how a string must begin
}

package tool

import (
	"context"
	"encoding/json"
	"time"

	"gantry.dev/orchestrator/policy"
)

// AskName is the name of the tool by which a model puts a question to a
// person. A run turns calls of it into a question; nothing is invoked.
const AskName = "ask.person"

// Question is the arguments of ask.person.
type Question struct {
	Question string   `json:"question"`
	To       string   `json:"to,omitempty"`      // role or principal id; empty asks the subject of the run
	Options  []string `json:"options,omitempty"` // answers to choose from
}

type ask struct{ owner, contact string }

var _ Tool = ask{}

// NewAsk returns ask.person, whose arguments are a Question.
func NewAsk(owner, contact string) Tool { return ask{owner: owner, contact: contact} }

// Definition returns the contract of ask.person.
func (a ask) Definition() Definition {
	return Definition{
		Name: AskName,
		Description: "Puts a question to a person and waits for the answer. Use it when a decision or a fact is missing that only a person can give. " +
			"Without \"to\" the person for whom you act is asked; \"to\" names a role or a principal.",
		Input: json.RawMessage(`{"type":"object","required":["question"],"properties":{
			"question":{"type":"string","minLength":1,"maxLength":2000},
			"to":{"type":"string","minLength":1,"maxLength":200},
			"options":{"type":"array","minItems":2,"maxItems":10,"uniqueItems":true,"items":{"type":"string","minLength":1,"maxLength":200}}}}`),
		Impact: policy.ImpactRead, Class: policy.ClassRead,
		Resource: "person:{/to}",
		Timeout:  Duration(time.Second), ResultBytes: 64 << 10,
		Owner: a.owner, Contact: a.contact, Kind: KindBuiltin,
	}
}

// Invoke always fails: a question waits for a person, not for an adapter.
func (a ask) Invoke(context.Context, Invocation) (Result, error) {
	return Result{}, &Failure{Code: FailedNotInvocable, Detail: "the run itself asks the person"}
}

// DelegateName is the name of the tool by which a model hands a piece of its
// work to another agent. A run turns calls of it into children of its own;
// nothing is invoked.
const DelegateName = "agents.delegate"

// Delegation is the arguments of agents.delegate.
type Delegation struct {
	Agent    string          `json:"agent"`              // name
	Brief    string          `json:"brief"`              // what it is to do
	Context  []string        `json:"context,omitempty"`  // calls whose results go along ("c3"), or ids of runs whose results do
	Result   json.RawMessage `json:"result,omitempty"`   // JSON Schema of the result; empty: free text
	As       string          `json:"as,omitempty"`       // "SUB_AGENT" or "SIDECAR"; empty: SUB_AGENT
	Purpose  string          `json:"purpose,omitempty"`  // of a sidecar
	Tools    []string        `json:"tools,omitempty"`    // the only tools that it gets; empty: all that it may have
	MicroUSD int64           `json:"microUsd,omitempty"` // micro-dollars that it may spend; 0: as much as the agent's revision says
	Tokens   int64           `json:"tokens,omitempty"`
	Seconds  int64           `json:"seconds,omitempty"` // how long it may take
}

type delegate struct{ owner, contact string }

var _ Tool = delegate{}

// NewDelegate returns agents.delegate, whose arguments are a Delegation.
func NewDelegate(owner, contact string) Tool { return delegate{owner: owner, contact: contact} }

// Definition returns the contract of agents.delegate. What a child does is
// judged where it does it, so handing work on only reads.
func (d delegate) Definition() Definition {
	return Definition{
		Name: DelegateName,
		Description: "Hands one piece of work to another agent, which works on its own with no more than you may do, and gives its result back as this call's result. " +
			"Several calls in one answer work side by side. Say in \"brief\" everything that it needs to know: it sees nothing of this conversation " +
			"but what \"context\" names, which are calls of yours (\"c3\") whose results go along. \"result\" is a JSON Schema that its answer must meet.",
		Input: json.RawMessage(`{"type":"object","required":["agent","brief"],"properties":{
			"agent":{"type":"string","minLength":1,"maxLength":100},
			"brief":{"type":"string","minLength":1,"maxLength":32000},
			"context":{"type":"array","maxItems":1000,"uniqueItems":true,"items":{"type":"string","minLength":1,"maxLength":64}},
			"result":{"type":"object","additionalProperties":true},
			"as":{"type":"string","enum":["SUB_AGENT","SIDECAR"]},
			"purpose":{"type":"string","enum":["RESEARCH","CHECK","MEMORY"]},
			"tools":{"type":"array","maxItems":100,"uniqueItems":true,"items":{"type":"string","minLength":1,"maxLength":128}},
			"microUsd":{"type":"integer","minimum":0},
			"tokens":{"type":"integer","minimum":0},
			"seconds":{"type":"integer","minimum":0,"maximum":31536000}}}`),
		Impact: policy.ImpactRead, Class: policy.ClassRead,
		Resource: "agent:{/agent}", Facts: map[string]string{"agent": "/agent", "as": "/as", "purpose": "/purpose"},
		Timeout: Duration(time.Minute), ResultBytes: 256 << 10,
		Result: policy.Marking{Integrity: policy.FromTool},
		Owner:  d.owner, Contact: d.contact, Kind: KindBuiltin,
	}
}

// Invoke always fails: another run does the work.
func (d delegate) Invoke(context.Context, Invocation) (Result, error) {
	return Result{}, &Failure{Code: FailedNotInvocable, Detail: "another run does the work"}
}

// AccessName is the name of the tool by which a model asks for something that
// the run may not use yet. A run turns calls of it into requests to whoever owns
// the thing; nothing is invoked.
const AccessName = "access.request"

// AccessAsked is the arguments of access.request.
type AccessAsked struct {
	Kind     string `json:"kind"`           // TOOL, SPACE, LABEL, MODEL or BUDGET
	Name     string `json:"name,omitempty"` // of the thing; a BUDGET has none
	Why      string `json:"why"`
	MicroUSD int64  `json:"microUsd,omitempty"` // of a BUDGET: micro-dollars more
	Tokens   int64  `json:"tokens,omitempty"`   // of a BUDGET: tokens more
}

type access struct{ owner, contact string }

var _ Tool = access{}

// NewAccess returns access.request, whose arguments are an AccessAsked.
func NewAccess(owner, contact string) Tool { return access{owner: owner, contact: contact} }

// Definition returns the contract of access.request. To ask gives nothing, so it
// only reads.
func (a access) Definition() Definition {
	return Definition{
		Name: AccessName,
		Description: "Asks the owner of a thing to let you use it in this run, and waits for the answer. Use it when you cannot go on without " +
			"a tool, a memory space, a label, a model or more budget that you were not given. \"why\" is read by that person.",
		Input: json.RawMessage(`{"type":"object","required":["kind","why"],"properties":{
			"kind":{"type":"string","enum":["TOOL","SPACE","LABEL","MODEL","BUDGET"]},
			"name":{"type":"string","minLength":1,"maxLength":200},
			"why":{"type":"string","minLength":1,"maxLength":2000},
			"microUsd":{"type":"integer","minimum":0,"maximum":1000000000000},
			"tokens":{"type":"integer","minimum":0,"maximum":1000000000000}}}`),
		Impact: policy.ImpactRead, Class: policy.ClassRead,
		Resource: "access:{/name}", Facts: map[string]string{"kind": "/kind", "name": "/name"},
		Timeout: Duration(time.Second), ResultBytes: 64 << 10,
		Owner: a.owner, Contact: a.contact, Kind: KindBuiltin,
	}
}

// Invoke always fails: a request waits for a person, not for an adapter.
func (a access) Invoke(context.Context, Invocation) (Result, error) {
	return Result{}, &Failure{Code: FailedNotInvocable, Detail: "the run itself asks the owner"}
}

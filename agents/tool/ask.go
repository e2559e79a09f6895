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

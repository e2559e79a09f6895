// Package operation has the operations of the schema that other protocols
// speak: it asks the same schema as everybody, as the caller of the context, so
// that nobody sees or may do more by another protocol. No rule lives here.
package operation

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"gantry.dev/graph/edge"
)

// Schema executes operations for the caller of a context. Errors: *edge.Fault.
type Schema interface {
	// Ask executes a query or a mutation, and returns its data.
	Ask(ctx context.Context, document string, variables map[string]any) (json.RawMessage, error)
	// Follow executes a subscription, and returns the data of each of its events
	// until it ends, or an error, after which nothing follows.
	Follow(ctx context.Context, document string, variables map[string]any) iter.Seq2[json.RawMessage, error]
}

// Refusal is a command that was not accepted, with its stable code.
type Refusal struct {
	Code    string
	Message string
}

// Error returns the code and the message.
func (r *Refusal) Error() string { return r.Code + ": " + r.Message }

// Operations are the operations.
type Operations struct{ Schema Schema }

// Text is a text as the caller may see it.
type Text struct {
	Value     string `json:"value" jsonschema:"the text; [redacted] where it is withheld"`
	Withheld  bool   `json:"withheld" jsonschema:"whether the caller is not shown it"`
	Integrity string `json:"integrity" jsonschema:"TRUSTED, TOOL or UNTRUSTED: how far it may be trusted"`
}

// shownText is a text as the schema answers with it.
type shownText struct {
	Value     string
	Withheld  []struct{ Reason string }
	Integrity string
}

func (t *shownText) text() *Text {
	if t == nil {
		return nil
	}
	return &Text{Value: t.Value, Withheld: len(t.Withheld) > 0, Integrity: t.Integrity}
}

// Question is what an agent asks people.
type Question struct {
	ID        string `json:"id" jsonschema:"hand it to answer_question"`
	Text      Text   `json:"question" jsonschema:"what is asked, as JSON"`
	ExpiresAt string `json:"expiresAt" jsonschema:"when it can no longer be answered"`
}

// Approval is a call that people must decide. It is decided in Gantry alone.
type Approval struct {
	Tool      string `json:"tool" jsonschema:"the tool that is to be called"`
	ExpiresAt string `json:"expiresAt" jsonschema:"when it can no longer be decided"`
}

// Run is a run in plain words.
type Run struct {
	ID           string     `json:"id" jsonschema:"id of the run"`
	Agent        string     `json:"agent" jsonschema:"name of the agent"`
	Status       string     `json:"status" jsonschema:"QUEUED, RUNNING, WAITING, CANCELLING, PARKED, COMPLETED, PARTIAL, FAILED or CANCELLED"`
	WaitingFor   []string   `json:"waitingFor" jsonschema:"what it waits for"`
	Goal         Text       `json:"goal" jsonschema:"what it is to do"`
	Answer       *Text      `json:"answer,omitempty" jsonschema:"the result, once it has ended with one"`
	Untrusted    bool       `json:"influencedByUntrusted,omitempty" jsonschema:"whether somebody outside may have influenced the answer"`
	Reason       string     `json:"reason,omitempty" jsonschema:"why it ended"`
	Code         string     `json:"code,omitempty" jsonschema:"a stable code that says more about the end"`
	Questions    []Question `json:"questions" jsonschema:"questions to people that are open"`
	Approvals    []Approval `json:"approvals" jsonschema:"calls that people must decide in Gantry"`
	Conversation string     `json:"conversation,omitempty" jsonschema:"id of the conversation that it belongs to"`
	Version      string     `json:"version" jsonschema:"grows with every step of the run"`
	At           string     `json:"startedAt" jsonschema:"when it was admitted"`
}

// Ended reports whether nothing more will come.
func (r Run) Ended() bool {
	switch r.Status {
	case "COMPLETED", "PARTIAL", "FAILED", "CANCELLED":
		return true
	}
	return false
}

// Idle reports whether the run has ended, or goes on only when somebody did
// something.
func (r Run) Idle() bool {
	if r.Ended() || r.Status == "PARKED" {
		return true
	}
	for _, reason := range r.WaitingFor {
		switch reason {
		case "RETRY", "CHILDREN":
		default:
			return true
		}
	}
	return false
}

// selection is what is asked of a run.
const selection = `{id agent status waitingFor conversation version startedAt goal{value withheld{reason} integrity}
	end{reason code influencedByUntrusted result{value withheld{reason} integrity}}
	questions{id status expiresAt question{value withheld{reason} integrity}} approvals{status tool expiresAt}}`

// shown is a run as the schema answers with it.
type shown struct {
	ID, Agent, Status, Version, StartedAt string
	WaitingFor                            []string
	Conversation                          *string
	Goal                                  *shownText
	End                                   *struct {
		Reason                string
		Code                  *string
		InfluencedByUntrusted bool
		Result                *shownText
	}
	Questions []struct {
		ID, Status, ExpiresAt string
		Question              *shownText
	}
	Approvals []struct{ Status, Tool, ExpiresAt string }
}

func (s shown) run() Run {
	out := Run{ID: s.ID, Agent: s.Agent, Status: s.Status, WaitingFor: s.WaitingFor, Goal: *s.Goal.text(), Version: s.Version, At: s.StartedAt,
		Questions: []Question{}, Approvals: []Approval{}}
	if s.Conversation != nil {
		out.Conversation = *s.Conversation
	}
	if s.End != nil {
		out.Reason, out.Answer, out.Untrusted = s.End.Reason, s.End.Result.text(), s.End.InfluencedByUntrusted
		if s.End.Code != nil {
			out.Code = *s.End.Code
		}
	}
	for _, question := range s.Questions {
		if question.Status == "OPEN" {
			out.Questions = append(out.Questions, Question{ID: question.ID, Text: *question.Question.text(), ExpiresAt: question.ExpiresAt})
		}
	}
	for _, approval := range s.Approvals {
		if approval.Status == "OPEN" {
			out.Approvals = append(out.Approvals, Approval{Tool: approval.Tool, ExpiresAt: approval.ExpiresAt})
		}
	}
	return out
}

// payload is what a command to a run is answered with.
type payload struct {
	Told struct {
		Run          *shown
		Conversation *struct{ ID string }
		Outcome      *string
		UserErrors   []struct{ Code, Message string }
	}
}

// replayed is the outcome of a command that was accepted before.
const replayed = "REPLAYED"

// command sends a command and returns the run that it reached. Errors:
// *Refusal.
func (o Operations) command(ctx context.Context, document string, input map[string]any) (Run, bool, error) {
	var got payload
	if err := o.ask(ctx, document, map[string]any{"input": input}, &got); err != nil {
		return Run{}, false, err
	}
	if len(got.Told.UserErrors) > 0 {
		return Run{}, false, &Refusal{got.Told.UserErrors[0].Code, got.Told.UserErrors[0].Message}
	}
	if got.Told.Run == nil {
		return Run{}, false, errNothing
	}
	return got.Told.Run.run(), got.Told.Outcome != nil && *got.Told.Outcome == replayed, nil
}

var errNothing = errors.New("operation: the schema answered with nothing")

func (o Operations) ask(ctx context.Context, document string, variables map[string]any, into any) error {
	data, err := o.Schema.Ask(ctx, document, variables)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return errNothing
	}
	return json.Unmarshal(data, into)
}

// given is an input without what is empty.
func given(fields map[string]string) map[string]any {
	out := map[string]any{}
	for name, value := range fields {
		if value != "" {
			out[name] = value
		}
	}
	return out
}

// Start asks for a run. The key is its command id: a repeat gets the first run.
type Start struct {
	Agent, Goal, Conversation, Key string
	Money                          string // micro-dollars; empty: the agent's limit
}

// Start starts a run, or returns the one that was started by the same key
// before.
func (o Operations) Start(ctx context.Context, in Start) (started Run, again bool, err error) {
	return o.command(ctx, `mutation($input:StartRunInput!){told:startRun(input:$input){outcome userErrors{code message} run`+selection+`}}`,
		given(map[string]string{"agent": in.Agent, "goal": in.Goal, "conversation": in.Conversation, "commandId": in.Key, "money": in.Money}))
}

// Say says something to an agent in a conversation, which starts a run of it.
func (o Operations) Say(ctx context.Context, conversation, agent, text, key string) (started Run, again bool, err error) {
	return o.command(ctx, `mutation($input:SendMessageInput!){told:sendMessage(input:$input){outcome userErrors{code message} run`+selection+`}}`,
		given(map[string]string{"agent": agent, "text": text, "conversation": conversation, "commandId": key}))
}

// Talk begins a conversation, or returns the one that was begun by the same key
// before.
func (o Operations) Talk(ctx context.Context, title, key string) (conversation string, err error) {
	var got payload
	document := `mutation($input:StartConversationInput!){told:startConversation(input:$input){userErrors{code message} conversation{id}}}`
	if err := o.ask(ctx, document, map[string]any{"input": map[string]any{"title": title, "commandId": key}}, &got); err != nil {
		return "", err
	}
	if len(got.Told.UserErrors) > 0 {
		return "", &Refusal{got.Told.UserErrors[0].Code, got.Told.UserErrors[0].Message}
	}
	if got.Told.Conversation == nil {
		return "", errNothing
	}
	return got.Told.Conversation.ID, nil
}

// Cancel asks for the end of a run.
func (o Operations) Cancel(ctx context.Context, id, reason, key string) (Run, bool, error) {
	return o.command(ctx, `mutation($input:CancelRunInput!){told:cancelRun(input:$input){outcome userErrors{code message} run`+selection+`}}`,
		given(map[string]string{"run": id, "reason": reason, "commandId": key}))
}

// Steer gives guidance to a run that goes on.
func (o Operations) Steer(ctx context.Context, id, text, key string) (Run, bool, error) {
	return o.command(ctx, `mutation($input:SteerRunInput!){told:steerRun(input:$input){outcome userErrors{code message} run`+selection+`}}`,
		given(map[string]string{"run": id, "text": text, "commandId": key}))
}

// Answer answers a question; who may is the run's own rule.
func (o Operations) Answer(ctx context.Context, question, answer, key string) (Run, bool, error) {
	return o.command(ctx, `mutation($input:AnswerQuestionInput!){told:answerQuestion(input:$input){outcome userErrors{code message} run`+selection+`}}`,
		given(map[string]string{"id": question, "answer": answer, "commandId": key}))
}

// Absent is what is said of what does not exist, or what the caller may not know
// of.
var Absent = &edge.Fault{Code: edge.CodeNotFound, Message: "There is no such thing, or none that you may know of."}

// Package model talks to language models. A provider gets one compiled prompt
// and gives one whole answer; it never acts, and a broken stream never yields
// a call.
package model

import (
	"context"
	"time"
)

// Role says who speaks a message of a prompt.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolReply Role = "tool"
)

// Message is one entry of a prompt.
type Message struct {
	Role   Role   `json:"role"`
	Text   string `json:"text,omitempty"`
	Calls  []Call `json:"calls,omitempty"`  // of an assistant's message
	CallID string `json:"callId,omitempty"` // of a tool's reply: which call it answers
	// Earlier is set on what was said in the conversation before the run began.
	Earlier bool `json:"earlier,omitempty"`
	// Thread is what a model gave beside an assistant's message and wants back
	// with it, for example reasoning that it signed. Only its provider reads it.
	Thread   []byte `json:"thread,omitempty"`
	ThreadOf string `json:"threadOf,omitempty"` // the model that gave it, in the words of perform; no other gets it
	// Media are images and files that the message shows. A provider whose
	// protocol cannot carry one refuses the request.
	Media []Media `json:"media,omitempty"`
}

// Media is an image or a file that a message shows.
type Media struct {
	MediaType string `json:"mediaType"` // for example "image/png"
	Name      string `json:"name,omitempty"`
	Bytes     []byte `json:"bytes"`
}

// Call is an earlier call inside a prompt, under the run's own id.
type Call struct {
	ID        string `json:"id"` // ours, for example "c3"; unique within the run
	Name      string `json:"name"`
	Arguments []byte `json:"arguments"` // canonical JSON
}

// Spec describes one tool to the model.
type Spec struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Schema      []byte `json:"schema"` // JSON Schema of the arguments
}

// Request is everything one turn gives to a model.
type Request struct {
	Model     string    `json:"model"` // the provider's own name of the model
	Messages  []Message `json:"messages"`
	Tools     []Spec    `json:"tools,omitempty"`
	MaxTokens int64     `json:"maxTokens"` // upper bound of the answer, in tokens
	// Stable is how many of the first messages will stand unchanged in the run's
	// next request: up to there a provider may be asked to keep the prompt.
	Stable int `json:"stable,omitempty"`
	// Output is the JSON Schema that the answer's text must meet, for a provider
	// that can hold itself to it; nil for none.
	Output []byte `json:"output,omitempty"`
	// Turns is how many turns of the run were answered before, also those that
	// have no message here because the prompt shows them in brief.
	Turns int `json:"turns,omitempty"`
}

// Proposed is a call as the provider sent it: nothing of it has been checked.
type Proposed struct {
	ProviderID string // may be empty or repeated
	Name       string
	Arguments  []byte // raw bytes
}

// Usage counts the tokens of one request.
type Usage struct {
	Input      int64 `json:"input"` // not from a cache
	CacheRead  int64 `json:"cacheRead,omitempty"`
	CacheWrite int64 `json:"cacheWrite,omitempty"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning,omitempty"` // part of the output price, not of Output
	Estimated  bool  `json:"estimated,omitempty"` // the provider reported none
}

// Total returns all tokens of the request.
func (u Usage) Total() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.Output + u.Reasoning }

// Finish is why a provider stopped, in one vocabulary for all providers.
type Finish string

// The reasons to stop.
const (
	FinishStop    Finish = "STOP"
	FinishCalls   Finish = "CALLS"
	FinishLength  Finish = "LENGTH"
	FinishRefusal Finish = "REFUSAL"
)

// Answer is the whole answer of one turn.
type Answer struct {
	Finish    Finish
	Text      string
	Reasoning string
	Calls     []Proposed
	Usage     Usage
	Model     string // what the provider says it used
	Thread    []byte // what the provider wants back with this answer; Message.Thread
}

// Provider is one source of answers. Take blocks until the whole answer is
// there; deltas, when not nil, gets pieces of text as they come and may be
// followed by an error. Errors are *Error.
type Provider interface {
	Take(ctx context.Context, request Request, deltas func(text string)) (Answer, error)
}

// ErrorKind classifies what went wrong with a request.
type ErrorKind string

// The kinds of error. Error.Retryable says which may be tried again.
const (
	RateLimited   ErrorKind = "RATE_LIMITED" // 429
	Overloaded    ErrorKind = "OVERLOADED"   // 5xx, 529
	Unreachable   ErrorKind = "UNREACHABLE"  // no connection
	TimedOut      ErrorKind = "TIMED_OUT"    // no byte for too long
	Cut           ErrorKind = "CUT"          // the stream ended before the answer did
	BadRequest    ErrorKind = "BAD_REQUEST"  // 400: ours to mend
	TooLong       ErrorKind = "TOO_LONG"     // the prompt does not fit
	Unauthorised  ErrorKind = "UNAUTHORISED" // 401, 403
	BadAnswer     ErrorKind = "BAD_ANSWER"   // bytes that are no answer of the protocol
	ModelNotFound ErrorKind = "MODEL_NOT_FOUND"
)

// Error is a failed request. Its text is safe to log: it holds no prompt, no
// answer and no credential.
type Error struct {
	Kind       ErrorKind
	Status     int           // HTTP status, 0 for none
	RetryAfter time.Duration // as the provider asked, 0 for none
	Billed     bool          // the provider may have charged for it
	Detail     string

	cause error // for whoever may see the prompt; never part of the text
}

// Error returns the kind and detail.
func (e *Error) Error() string { return "model: " + string(e.Kind) + ": " + e.Detail }

// Unwrap returns what an embedded provider itself said, or nil. Its text may
// quote the prompt: it is for tests and for the author of a script, not for
// logs.
func (e *Error) Unwrap() error { return e.cause }

// Out reports whether the model is out rather than the request wrong: it could
// not be reached, took nothing, or said nothing in time.
func (e *Error) Out() bool {
	switch e.Kind {
	case RateLimited, Overloaded, Unreachable, TimedOut:
		return true
	}
	return false
}

// Retryable reports whether the same request may be sent again.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case RateLimited, Overloaded, Unreachable, TimedOut, Cut, BadAnswer:
		return true
	}
	return false
}

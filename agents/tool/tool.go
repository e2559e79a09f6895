// Package tool holds the tools that runs may call: their contracts, the checks
// on arguments and results, and the adapters that reach outside.
package tool

import (
	"context"
	"encoding/json"
	"time"

	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Definition is the contract of one tool as its owner registered it. Its
// digest pins it: another digest is another tool.
type Definition struct {
	Name        string             `json:"name"` // qualified by its server, for example "files.read"
	Description string             `json:"description"`
	Input       json.RawMessage    `json:"input"`            // JSON Schema 2020-12 of the arguments
	Output      json.RawMessage    `json:"output,omitempty"` // JSON Schema of a structured result
	Impact      policy.Impact      `json:"impact"`
	Class       policy.EffectClass `json:"class"`
	Resource    string             `json:"resource"`             // for example "ledger:{/invoice}"; a pointer in braces is replaced by the argument
	Facts       map[string]string  `json:"facts,omitempty"`      // fact name to JSON pointer into the arguments
	Control     []string           `json:"control,omitempty"`    // pointers of arguments that steer the effect (recipient, amount, address)
	CostBound   int64              `json:"costBound"`            // micro-dollars one call may cost at most
	Timeout     Duration           `json:"timeout"`              // hard limit of one call
	ResultBytes int                `json:"resultBytes"`          // bytes of a result that are kept
	MediaBytes  int                `json:"mediaBytes,omitempty"` // bytes of the images and files of a result that are kept; 0: none
	Credential  string             `json:"credential,omitempty"` // reference, never the secret
	Owner       string             `json:"owner"`                // principal id: answers for the tool, decides held calls
	Contact     string             `json:"contact"`              // who is told of incidents
	Result      policy.Marking     `json:"result"`               // marking of what comes back
	Asks        AskTo              `json:"asks,omitempty"`       // whom its server may ask; empty: the person for whom the run acts
	Kind        string             `json:"kind"`                 // "builtin", "http" or "mcp"
	Server      json.RawMessage    `json:"server,omitempty"`     // the adapter's own configuration, part of the digest
}

// Duration is a time.Duration written as text ("30s").
type Duration time.Duration

// MarshalText writes the duration as text.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a duration such as "30s".
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Invocation is one attempt of one call, after its intent was recorded.
type Invocation struct {
	Run       string
	Key       string   // idempotency key of this call: the same for every attempt of it
	Arguments []byte   // canonical JSON, exactly the recorded bytes
	Actor     []string // acting chain, subject first, agent last
	Subject   policy.Principal
	Reader    view.Reader // as whom memory is asked: the run, with what it has read so far
	Model     string      // that proposed the call
	// Answers are what a person said to the last Ask of this call, nil before
	// one was answered.
	Answers *Answers
}

// Ask is what the server of a tool wants to know from a person before it does
// the call. Everything in it but Origin is the server's own word. An adapter
// whose server asks several things at once asks them one after the other, and
// keeps in State what it has.
type Ask struct {
	Origin  string  // name of the server as the organisation registered it
	Kind    AskKind // how it asks
	Message string
	Schema  json.RawMessage // of a form: JSON Schema of one flat object
	URL     string          // where the person is sent, for AskURL; never opened here
	State   []byte          // what the adapter wants back with the answer, unchanged; may be empty
}

// AskTo says whom the server of a tool may ask.
type AskTo string

// Who is asked.
const (
	AskSubject AskTo = "subject" // the person for whom the run acts
	AskOwner   AskTo = "owner"   // who answers for the tool
	AskNobody  AskTo = "nobody"  // it is declined at once
)

// AskKind is how a server asks.
type AskKind string

// The ways to ask.
const (
	AskForm AskKind = "form"
	AskURL  AskKind = "url"
)

// Answers is a person's answer to an Ask. The adapter calls again with it.
type Answers struct {
	Action AskAction
	Values json.RawMessage // one flat object that meets the schema; only where a form was accepted
	State  []byte          // Ask.State, byte for byte
}

// AskAction is what a person did with an Ask.
type AskAction string

// The actions.
const (
	AskAccept  AskAction = "accept"
	AskDecline AskAction = "decline" // said no, or the form may not be shown
	AskCancel  AskAction = "cancel"  // put it away without a word
)

// Result is what came back from a call that has surely ended, or that waits for
// an answer.
type Result struct {
	Content   []byte         // valid UTF-8 text or JSON; other bytes are described instead
	MediaType string         // "application/json" or "text/plain"
	Failed    bool           // the tool says that it did not do it
	Absent    bool           // it failed because what was asked for is not there, as far as whoever asked may know
	Size      int64          // bytes that the tool sent
	Cut       bool           // Content holds less than Size
	Marking   policy.Marking // confidentiality and integrity of Content and Media
	Media     []Media        // images and files that Content names, for models that read them
	Items     []string       // ids of remembered items that Content quotes, or that the call made
	// Ask is set where the call has not ended: the server wants an answer of a
	// person first. Then nothing else counts but Marking.
	Ask *Ask

	saysSo bool // Content itself tells what is missing in it
}

// Failure is an attempt without a Result.
type Failure struct {
	// Uncertain means that the effect may have happened. Otherwise it surely
	// did not.
	Uncertain bool
	Code      string // stable, for example "TOOL_TIMEOUT", "TOOL_UNREACHABLE", "EGRESS_DENIED"
	Detail    string // safe to show: no argument, no credential
	// Reply is what came back, where something did that says neither yes nor
	// no. Nil otherwise.
	Reply *Result
}

// Error returns the code and the detail.
func (f *Failure) Error() string { return f.Code + ": " + f.Detail }

// Tool performs calls of one definition. Errors of Invoke are *Failure.
type Tool interface {
	Definition() Definition
	Invoke(ctx context.Context, invocation Invocation) (Result, error)
}

// Prober is a Tool whose outcomes can be queried by key. Found is false when
// the other side knows no such key, which is no proof that the effect will not
// still happen.
type Prober interface {
	Probe(ctx context.Context, invocation Invocation) (result Result, found bool, err error)
}

// Pinned is a Tool whose definition somebody else can change. Verify looks for
// a call, without making it, whether it is still the one that was pinned, and has the tool quarantined
// where it is not; what could not be looked at is an error too.
type Pinned interface {
	Verify(ctx context.Context, invocation Invocation) error
}

// Checked is a proposed call that passed the contract.
type Checked struct {
	Definition Definition
	Arguments  []byte       // canonical JSON (RFC 8785)
	Resource   string       // resolved
	Facts      policy.Facts // by the names of Definition.Facts
}

// Refusal says why a proposed call does not meet a contract, in words for the
// model.
type Refusal struct {
	Code   string // "UNKNOWN_TOOL", "ARGUMENTS_NOT_JSON", "ARGUMENTS_INVALID", …
	Detail string // names the place and what to do; quotes no more than the offending key
}

// Error returns the code and the detail.
func (r *Refusal) Error() string { return r.Code + ": " + r.Detail }

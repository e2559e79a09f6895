package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"gantry.dev/agents/expression"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/run"
)

// ErrUnchecked means that a completion check could not be made: not passed,
// and not failed either.
var ErrUnchecked = errors.New("could not be checked")

// OutputCheck is the name of the check of the answer's own form.
const OutputCheck = "output"

// Check is one completion check: a READ call made by the platform, and what
// must hold of its result. Its expressions are CEL over
//
//	run       {id, organisation, subject, agent, chain}
//	calls     [{call, tool, arguments, outcome, result, key, unverified}], in the model's order
//	output    the answer as JSON, or as text
//	result    what the check's own call returned; only in Expression, and in those of Artifact
//	artifact  what Artifact read; only in Expression
type Check struct {
	Name       string          `json:"name"`
	Tool       string          `json:"tool,omitempty"`      // a READ tool of the agent; empty: nothing is called
	Arguments  json.RawMessage `json:"arguments,omitempty"` // of the call; a text "${EXPRESSION}" stands for its value
	When       string          `json:"when,omitempty"`      // where it is false the check has nothing to say and passes
	Expression string          `json:"expression"`          // must be true; a check of an artifact needs none
	Identity   string          `json:"identity"`            // who reads: "agent", "subject" or a principal id
	Confirms   []string        `json:"confirms,omitempty"`  // tools above READ whose effects it reads back
	Explain    string          `json:"explain,omitempty"`   // told to the model when the check fails
	Artifact   *Artifact       `json:"artifact,omitempty"`  // what the call must have found; nil: the expression alone says
}

// Artifact is a file or another resource that must be there, and what must hold
// of it. Its expressions are CEL over what a check's expression sees.
type Artifact struct {
	Content  string          `json:"content,omitempty"`  // where its text stands in the result; empty: the whole result
	Complete string          `json:"complete,omitempty"` // where it is false only a part was read, and nothing is known; empty: all was
	Encoding string          `json:"encoding,omitempty"` // "base64" where the text stands for bytes; empty: it is the text
	Format   string          `json:"format"`             // one of ArtifactFormats
	Schema   json.RawMessage `json:"schema,omitempty"`   // JSON Schema of what was read: a JSON value, or the list of a table's rows
	Bytes    int64           `json:"bytes,omitempty"`    // it must have so many at least; 0: one
	Digest   string          `json:"digest,omitempty"`   // the SHA-256 that is claimed for it, in hexadecimal digits; empty: none is
}

// ArtifactFormats are the forms that an artifact may have.
var ArtifactFormats = []string{"csv", "json", "pdf", "text", "yaml"}

// base64Encoding is the one way in which text stands for bytes.
const base64Encoding = "base64"

// The identities under which a check may read, besides principal ids.
const (
	AsAgent   = "agent"
	AsSubject = "subject"
)

// CheckVars is what a check may look at besides its own call.
type CheckVars struct {
	Run    CheckRun
	Calls  []CheckCall
	Output []byte // the answer: JSON where the contract has an output schema, else text
}

// CheckRun names the run and who acts in it.
type CheckRun struct {
	ID           string   `json:"id"`
	Organisation string   `json:"organisation"`
	Subject      string   `json:"subject"` // principal id
	Agent        string   `json:"agent"`   // principal id
	Chain        []string `json:"chain"`   // acting chain, subject first
}

// CheckCall is one ended call of the run.
type CheckCall struct {
	Call      int             `json:"call"` // ordinal
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Outcome   run.Outcome     `json:"outcome"`
	Result    json.RawMessage `json:"result,omitempty"` // JSON, or text as a JSON string
	Key       string          `json:"key"`              // idempotency key

	// Unverified says that a sub-agent did it, and that its result is the word of
	// its model alone.
	Unverified bool `json:"unverified"`
}

// Names that an expression may use. What a check's own call gave is known to
// its expression alone.
var (
	beforeCall = expression.Over(expression.Object("run"), expression.Objects("calls"), expression.Anything("output"))
	afterCall  = beforeCall.With(expression.Anything("result"))
	afterRead  = afterCall.With(expression.Anything("artifact"))
)

// Applies reports whether the check has anything to say about this run.
func (c Check) Applies(vars CheckVars) (bool, error) {
	if c.When == "" {
		return true, nil
	}
	values, err := vars.values()
	if err != nil {
		return false, err
	}
	return c.truth("when", beforeCall, c.When, values)
}

// Call returns the canonical arguments of the check's call. Its errors are
// ErrUnchecked.
func (c Check) Call(vars CheckVars) ([]byte, error) {
	values, err := vars.values()
	if err != nil {
		return nil, err
	}
	var template any = map[string]any{}
	if len(c.Arguments) > 0 {
		if template, err = expression.Decoded(c.Arguments); err != nil {
			return nil, c.unchecked("arguments", err)
		}
	}
	filled, err := expression.Fill(template, func(text string) (any, error) { return beforeCall.Plain(text, values) })
	if err != nil {
		return nil, c.unchecked("arguments", err)
	}
	canonical, err := canon.Marshal(filled)
	if err != nil {
		return nil, c.unchecked("arguments", err)
	}
	return canonical, nil
}

// Found is what a check's own call came to.
type Found struct {
	Result   []byte // JSON; nil for a check without a call
	Artifact any    // as it was read; nil for a check without one
}

// Evaluate reports whether the expression holds for what the check's call
// found. Where it has no truth value the error is ErrUnchecked.
func (c Check) Evaluate(found Found, vars CheckVars) (bool, error) {
	if c.Expression == "" {
		return c.Artifact != nil, nil
	}
	values, err := c.seen(found.Result, vars)
	if err != nil {
		return false, err
	}
	values["artifact"] = found.Artifact
	return c.truth("expression", afterRead, c.Expression, values)
}

// Claim is what a check says of its artifact in one run.
type Claim struct {
	Content  string // the text where it stands in the result
	Complete bool   // it is whole
	Digest   string // that it must have; empty for any
}

// Claimed returns where the artifact stands in a result, and what is claimed
// for it. Its errors are ErrUnchecked.
func (c Check) Claimed(result []byte, vars CheckVars) (claim Claim, err error) {
	values, err := c.seen(result, vars)
	if err != nil {
		return Claim{}, err
	}
	claim = Claim{Content: string(result), Complete: true}
	if text, is := values["result"].(string); is {
		claim.Content = text
	}
	if c.Artifact.Content != "" {
		if claim.Content, err = afterCall.Text(c.Artifact.Content, values); err != nil {
			return Claim{}, c.unchecked("artifact.content", err)
		}
	}
	if c.Artifact.Complete != "" {
		if claim.Complete, err = c.truth("artifact.complete", afterCall, c.Artifact.Complete, values); err != nil {
			return Claim{}, err
		}
	}
	if c.Artifact.Digest != "" {
		if claim.Digest, err = afterCall.Text(c.Artifact.Digest, values); err != nil {
			return Claim{}, c.unchecked("artifact.digest", err)
		}
	}
	return claim, nil
}

func (c Check) seen(result []byte, vars CheckVars) (map[string]any, error) {
	values, err := vars.values()
	if err != nil {
		return nil, err
	}
	values["result"] = nil
	if result != nil {
		if values["result"], err = expression.Decoded(result); err != nil {
			return nil, c.unchecked("result", err)
		}
	}
	return values, nil
}

// faults returns what is wrong with the check's expressions, by the part of
// the check.
func (c Check) faults() map[string]error {
	faults := map[string]error{}
	note := func(part string, err error) {
		if err != nil {
			faults[part] = err
		}
	}
	if c.Expression != "" || c.Artifact == nil {
		note("expression", afterRead.Truth(c.Expression))
	}
	if c.When != "" {
		note("when", beforeCall.Truth(c.When))
	}
	if len(c.Arguments) > 0 {
		template, err := expression.Decoded(c.Arguments)
		if _, isObject := template.(map[string]any); err == nil && !isObject {
			err = errors.New("keys with values are needed here")
		}
		if err == nil {
			_, err = expression.Fill(template, func(text string) (any, error) { return nil, beforeCall.Compiles(text) })
		}
		note("arguments", err)
	}
	if c.Artifact != nil {
		c.Artifact.faults(note)
	}
	return faults
}

func (a *Artifact) faults(note func(part string, err error)) {
	for part, text := range map[string]string{"artifact.content": a.Content, "artifact.digest": a.Digest} {
		if text != "" {
			note(part, afterCall.Compiles(text))
		}
	}
	if a.Complete != "" {
		note("artifact.complete", afterCall.Truth(a.Complete))
	}
	if !slices.Contains(ArtifactFormats, a.Format) {
		note("artifact.format", fmt.Errorf("must be one of %v", ArtifactFormats))
	}
	if a.Encoding != "" && a.Encoding != base64Encoding {
		note("artifact.encoding", fmt.Errorf("must be %s, or nothing", base64Encoding))
	}
	if a.Bytes < 0 {
		note("artifact.bytes", errors.New("must not be negative"))
	}
	if len(a.Schema) == 0 {
		return
	}
	if a.Format == "text" || a.Format == "pdf" {
		note("artifact.schema", errors.New("a text has no fields; use an expression over artifact"))
	}
	_, err := tool.CompileSchema(a.Schema)
	note("artifact.schema", err)
}

// looks reports whether the check holds something against what its own call
// found.
func (c Check) looks() bool {
	return c.Tool != "" && (c.Artifact != nil || afterRead.Uses(c.Expression, "result"))
}

func (c Check) truth(part string, names expression.Names, text string, values map[string]any) (bool, error) {
	truth, err := names.Holds(text, values)
	if err != nil {
		return false, c.unchecked(part, err)
	}
	return truth, nil
}

// unchecked leaves the cause out of the text: CEL quotes values in it.
func (c Check) unchecked(part string, cause error) error {
	return &uncheckedError{check: c.Name, part: part, cause: cause}
}

type uncheckedError struct {
	check, part string
	cause       error
}

func (e *uncheckedError) Error() string {
	return fmt.Sprintf("check %q: its %s %s", e.check, e.part, ErrUnchecked)
}

func (e *uncheckedError) Unwrap() []error { return []error{ErrUnchecked, e.cause} }

func (v CheckVars) values() (map[string]any, error) {
	raw, err := json.Marshal(map[string]any{"run": v.Run, "calls": v.Calls})
	if err != nil {
		return nil, fmt.Errorf("%w: the calls of the run are not JSON", ErrUnchecked)
	}
	facts, err := expression.Decoded(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: the calls of the run are not JSON", ErrUnchecked)
	}
	values := facts.(map[string]any)
	if values["calls"] == nil {
		values["calls"] = []any{}
	}
	output, err := expression.Decoded(v.Output)
	if err != nil {
		output = string(v.Output)
	}
	values["output"] = output
	return values, nil
}

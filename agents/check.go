package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"

	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/run"
)

// ErrUnchecked means that a completion check could not be made: not passed,
// and not failed either.
var ErrUnchecked = errors.New("could not be checked")

// celCost bounds the work of one expression, in the units of CEL.
const celCost = 1_000_000

// Check is one completion check: a READ call made by the platform, and what
// must hold of its result. Its expressions are CEL over
//
//	run     {id, organisation, subject, agent, chain}
//	calls   [{call, tool, arguments, outcome, result, key}], in the model's order
//	output  the answer as JSON, or as text
//	result  what the check's own call returned; only in Expression
type Check struct {
	Name       string          `json:"name"`
	Tool       string          `json:"tool,omitempty"`      // a READ tool of the agent; empty: nothing is called
	Arguments  json.RawMessage `json:"arguments,omitempty"` // of the call; a text "${EXPRESSION}" stands for its value
	When       string          `json:"when,omitempty"`      // where it is false the check has nothing to say and passes
	Expression string          `json:"expression"`          // must be true
	Identity   string          `json:"identity"`            // who reads: "agent", "subject" or a principal id
	Confirms   []string        `json:"confirms,omitempty"`  // tools above READ whose effects it reads back
	Explain    string          `json:"explain,omitempty"`   // told to the model when the check fails
}

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
}

// Applies reports whether the check has anything to say about this run.
func (c Check) Applies(vars CheckVars) (bool, error) {
	if c.When == "" {
		return true, nil
	}
	activation, err := vars.activation()
	if err != nil {
		return false, err
	}
	return c.truth("when", c.When, activation, false)
}

// Call returns the canonical arguments of the check's call. Its errors are
// ErrUnchecked.
func (c Check) Call(vars CheckVars) ([]byte, error) {
	activation, err := vars.activation()
	if err != nil {
		return nil, err
	}
	var template any = map[string]any{}
	if len(c.Arguments) > 0 {
		if template, err = decoded(c.Arguments); err != nil {
			return nil, c.unchecked("arguments", err)
		}
	}
	filled, err := fill(template, func(expression string) (any, error) {
		value, err := evaluate(expression, activation, false)
		if err != nil {
			return nil, err
		}
		return plain(value)
	})
	if err != nil {
		return nil, c.unchecked("arguments", err)
	}
	canonical, err := canon.Marshal(filled)
	if err != nil {
		return nil, c.unchecked("arguments", err)
	}
	return canonical, nil
}

// Evaluate reports whether the expression holds for what the check's call
// returned (JSON; nil for a check without a call). Where it has no truth value
// the error is ErrUnchecked.
func (c Check) Evaluate(result []byte, vars CheckVars) (bool, error) {
	activation, err := vars.activation()
	if err != nil {
		return false, err
	}
	activation["result"] = nil
	if result != nil {
		if activation["result"], err = decoded(result); err != nil {
			return false, c.unchecked("result", err)
		}
	}
	return c.truth("expression", c.Expression, activation, true)
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
	note("expression", compilesToTruth(c.Expression, true))
	if c.When != "" {
		note("when", compilesToTruth(c.When, false))
	}
	if len(c.Arguments) > 0 {
		template, err := decoded(c.Arguments)
		if _, isObject := template.(map[string]any); err == nil && !isObject {
			err = errors.New("keys with values are needed here")
		}
		if err == nil {
			_, err = fill(template, func(expression string) (any, error) {
				_, err := compile(expression, false)
				return nil, err
			})
		}
		note("arguments", err)
	}
	return faults
}

func (c Check) truth(part, expression string, activation map[string]any, withResult bool) (bool, error) {
	value, err := evaluate(expression, activation, withResult)
	if err != nil {
		return false, c.unchecked(part, err)
	}
	truth, ok := value.Value().(bool)
	if !ok {
		return false, c.unchecked(part, errors.New("neither true nor false"))
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

func (v CheckVars) activation() (map[string]any, error) {
	raw, err := json.Marshal(map[string]any{"run": v.Run, "calls": v.Calls})
	if err != nil {
		return nil, fmt.Errorf("%w: the calls of the run are not JSON", ErrUnchecked)
	}
	facts, err := decoded(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: the calls of the run are not JSON", ErrUnchecked)
	}
	activation := facts.(map[string]any)
	if activation["calls"] == nil {
		activation["calls"] = []any{}
	}
	output, err := decoded(v.Output)
	if err != nil {
		output = string(v.Output)
	}
	activation["output"] = output
	return activation, nil
}

func environment(withResult bool) (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.Variable("run", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("calls", cel.ListType(cel.MapType(cel.StringType, cel.DynType))),
		cel.Variable("output", cel.DynType),
		ext.Strings(),
	}
	if withResult {
		options = append(options, cel.Variable("result", cel.DynType))
	}
	return cel.NewEnv(options...)
}

func compile(expression string, withResult bool) (cel.Program, error) {
	env, err := environment(withResult)
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	return env.Program(ast, cel.CostLimit(celCost))
}

func compilesToTruth(expression string, withResult bool) error {
	env, err := environment(withResult)
	if err != nil {
		return err
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return issues.Err()
	}
	if kind := ast.OutputType(); !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.DynType) {
		return fmt.Errorf("must be true or false, but is of type %s", kind)
	}
	return nil
}

func evaluate(expression string, activation map[string]any, withResult bool) (ref.Val, error) {
	program, err := compile(expression, withResult)
	if err != nil {
		return nil, err
	}
	value, _, err := program.Eval(activation)
	if err != nil {
		return nil, err
	}
	if types.IsUnknownOrError(value) {
		return nil, errors.New("has no value")
	}
	return value, nil
}

// fill replaces every text "${EXPRESSION}" in a template by what value returns.
func fill(template any, value func(expression string) (any, error)) (any, error) {
	switch at := template.(type) {
	case string:
		inner, opened := strings.CutPrefix(at, "${")
		expression, closed := strings.CutSuffix(inner, "}")
		if opened && closed {
			return value(expression)
		}
	case []any:
		filled := make([]any, len(at))
		for i, item := range at {
			var err error
			if filled[i], err = fill(item, value); err != nil {
				return nil, err
			}
		}
		return filled, nil
	case map[string]any:
		filled := make(map[string]any, len(at))
		for key, item := range at {
			var err error
			if filled[key], err = fill(item, value); err != nil {
				return nil, err
			}
		}
		return filled, nil
	}
	return template, nil
}

// plain returns a value of CEL as JSON has it.
func plain(value ref.Val) (any, error) {
	switch native := value.Value().(type) {
	case string, bool, int64, float64:
		return native, nil
	}
	return nil, errors.New("an argument must be a text, a number or a truth value")
}

// decoded reads JSON with whole numbers as int64, so that CEL compares cents
// as integers.
func decoded(raw []byte) (any, error) {
	canonical, err := canon.JSON(raw)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(canonical))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return numbers(value), nil
}

func numbers(value any) any {
	switch at := value.(type) {
	case json.Number:
		if whole, err := at.Int64(); err == nil {
			return whole
		}
		fraction, _ := at.Float64()
		return fraction
	case []any:
		for i, item := range at {
			at[i] = numbers(item)
		}
	case map[string]any:
		for key, item := range at {
			at[key] = numbers(item)
		}
	}
	return value
}

// Package expression evaluates what an organisation's files say of a run: CEL
// over named values, with a bound on its work. It reads no clock and nothing
// outside of the values.
package expression

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"

	"gantry.dev/orchestrator/canon"
)

// mostCost bounds the work of one expression, in the units of CEL.
const mostCost = 1_000_000

// Name is a value that an expression may use.
type Name struct {
	name string
	kind *cel.Type
}

// Anything is a name of a value of whatever type.
func Anything(name string) Name { return Name{name, cel.DynType} }

// Object is a name of a value with fields.
func Object(name string) Name { return Name{name, cel.MapType(cel.StringType, cel.DynType)} }

// Objects is a name of a list of values with fields.
func Objects(name string) Name {
	return Name{name, cel.ListType(cel.MapType(cel.StringType, cel.DynType))}
}

// Names are the values that an expression may use, and nothing else.
type Names []Name

// Over returns these names.
func Over(names ...Name) Names { return names }

// With returns these names and more of them.
func (n Names) With(more ...Name) Names { return append(slices.Clip(n), more...) }

func (n Names) environment() (*cel.Env, error) {
	options := []cel.EnvOption{ext.Strings()}
	for _, name := range n {
		options = append(options, cel.Variable(name.name, name.kind))
	}
	return cel.NewEnv(options...)
}

func (n Names) compile(text string) (*cel.Env, *cel.Ast, error) {
	env, err := n.environment()
	if err != nil {
		return nil, nil, err
	}
	compiled, issues := env.Compile(text)
	return env, compiled, issues.Err()
}

// Compiles says what is wrong with an expression, for its author.
func (n Names) Compiles(text string) error {
	_, _, err := n.compile(text)
	return err
}

// Truth says what is wrong with an expression that must be true or false.
func (n Names) Truth(text string) error {
	_, compiled, err := n.compile(text)
	if err != nil {
		return err
	}
	if kind := compiled.OutputType(); !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.DynType) {
		return fmt.Errorf("must be true or false, but is of type %s", kind)
	}
	return nil
}

// Uses reports whether an expression looks at a value. One that is broken looks
// at nothing.
func (n Names) Uses(text, name string) bool {
	_, compiled, err := n.compile(text)
	if err != nil {
		return false
	}
	uses := false
	ast.PreOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		uses = uses || e.Kind() == ast.IdentKind && e.AsIdent() == name
	}))
	return uses
}

func (n Names) evaluate(text string, values map[string]any) (ref.Val, error) {
	env, compiled, err := n.compile(text)
	if err != nil {
		return nil, err
	}
	program, err := env.Program(compiled, cel.CostLimit(mostCost))
	if err != nil {
		return nil, err
	}
	value, _, err := program.Eval(values)
	if err != nil {
		return nil, err
	}
	if types.IsUnknownOrError(value) {
		return nil, errors.New("has no value")
	}
	return value, nil
}

// Holds evaluates an expression that must be true or false. Its errors may quote
// values.
func (n Names) Holds(text string, values map[string]any) (bool, error) {
	value, err := n.evaluate(text, values)
	if err != nil {
		return false, err
	}
	truth, ok := value.Value().(bool)
	if !ok {
		return false, errors.New("neither true nor false")
	}
	return truth, nil
}

// Text evaluates an expression that must be a text. Its errors may quote values.
func (n Names) Text(text string, values map[string]any) (string, error) {
	value, err := n.evaluate(text, values)
	if err != nil {
		return "", err
	}
	found, ok := value.Value().(string)
	if !ok {
		return "", errors.New("no text")
	}
	return found, nil
}

// Plain evaluates an expression to a value that JSON has: a text, a number or a
// truth value. Its errors may quote values.
func (n Names) Plain(text string, values map[string]any) (any, error) {
	value, err := n.evaluate(text, values)
	if err != nil {
		return nil, err
	}
	switch native := value.Value().(type) {
	case string, bool, int64, float64:
		return native, nil
	}
	return nil, errors.New("an argument must be a text, a number or a truth value")
}

// Fill replaces every text "${EXPRESSION}" in a template by what value returns.
func Fill(template any, value func(text string) (any, error)) (any, error) {
	switch at := template.(type) {
	case string:
		inner, opened := strings.CutPrefix(at, "${")
		text, closed := strings.CutSuffix(inner, "}")
		if opened && closed {
			return value(text)
		}
	case []any:
		filled := make([]any, len(at))
		for i, item := range at {
			var err error
			if filled[i], err = Fill(item, value); err != nil {
				return nil, err
			}
		}
		return filled, nil
	case map[string]any:
		filled := make(map[string]any, len(at))
		for key, item := range at {
			var err error
			if filled[key], err = Fill(item, value); err != nil {
				return nil, err
			}
		}
		return filled, nil
	}
	return template, nil
}

// Decoded reads JSON with whole numbers as int64, so that CEL compares cents
// as integers.
func Decoded(raw []byte) (any, error) {
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

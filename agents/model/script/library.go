package script

import (
	"encoding/csv"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	starjson "go.starlark.net/lib/json"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// library returns what scripts have beside Starlark's own.
func library() starlark.StringDict {
	return starlark.StringDict{
		"json": module("json", map[string]builtin{"decode": decodeJSON, "encode": encodeJSON, "indent": indentJSON}),
		"csv":  module("csv", map[string]builtin{"parse": parseCSV}),
		"decimal": module("decimal", map[string]builtin{
			"cents": decimalCents, "format": decimalFormat, "times": decimalTimes,
		}),
		"struct": starlark.NewBuiltin("struct", starlarkstruct.Make),
		"print":  starlark.NewBuiltin("print", noPrint),
	}
}

func module(name string, members map[string]builtin) *starlarkstruct.Module {
	m := &starlarkstruct.Module{Name: name, Members: starlark.StringDict{}}
	for member, function := range members {
		m.Members[member] = starlark.NewBuiltin(name+"."+member, function)
	}
	return m
}

func noPrint(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return nil, errors.New("scripts cannot print")
}

func decodeJSON(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var text string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "text", &text); err != nil {
		return nil, err
	}
	return decode(thread, text)
}

// decode asks the standard decoder first, because Starlark's own recurses as
// deep as the text does.
func decode(thread *starlark.Thread, text string) (starlark.Value, error) {
	if !stdjson.Valid([]byte(text)) {
		return nil, errors.New("not JSON")
	}
	return starlark.Call(thread, starjson.Module.Members["decode"], starlark.Tuple{starlark.String(text)}, nil)
}

// parsed returns the value of a JSON text, and of any other text itself.
func parsed(thread *starlark.Thread, text string) starlark.Value {
	if value, err := decode(thread, text); err == nil {
		return value
	}
	return starlark.String(text)
}

func encodeJSON(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var value starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "value", &value); err != nil {
		return nil, err
	}
	text, err := encode(value)
	return starlark.String(text), err
}

func encode(value starlark.Value) (string, error) {
	text, err := starlark.Call(&starlark.Thread{}, starjson.Module.Members["encode"], starlark.Tuple{value}, nil)
	if err != nil {
		return "", err
	}
	return string(text.(starlark.String)), nil
}

func indentJSON(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return starlark.Call(thread, starjson.Module.Members["indent"], args, kwargs)
}

// parseCSV returns the rows under the first one as dicts by its names. A row
// with more or fewer fields is an error.
func parseCSV(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	text, comma := "", ","
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "text", &text, "comma?", &comma); err != nil {
		return nil, err
	}
	reader := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
	if runes := []rune(comma); len(runes) == 1 {
		reader.Comma = runes[0]
	} else {
		return nil, errors.New("comma must be one character")
	}
	rows, err := reader.ReadAll()
	if err != nil {
		return nil, err
	}
	list := starlark.NewList(nil)
	for i, row := range rows {
		if i == 0 {
			continue
		}
		entry := starlark.NewDict(len(row))
		for column, field := range row {
			if err := entry.SetKey(starlark.String(strings.TrimSpace(rows[0][column])), starlark.String(field)); err != nil {
				return nil, err
			}
		}
		if err := list.Append(entry); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// number is a plain decimal number, with commas only between thousands.
var number = regexp.MustCompile(`^[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?$`)

// rational returns the exact value of a decimal number that a script has as a
// string or as a number of JSON.
func rational(value starlark.Value) (*big.Rat, error) {
	var text string
	switch value := value.(type) {
	case starlark.String:
		text = strings.TrimSpace(string(value))
	case starlark.Int:
		text = value.String()
	case starlark.Float:
		text = strconv.FormatFloat(float64(value), 'f', -1, 64)
	}
	exact, ok := new(big.Rat), number.MatchString(text) && len(text) < 100
	if ok {
		exact, ok = exact.SetString(strings.ReplaceAll(text, ",", ""))
	}
	if !ok {
		return nil, errors.New("not a decimal number")
	}
	return exact, nil
}

func decimalCents(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var value starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "amount", &value); err != nil {
		return nil, err
	}
	amount, err := rational(value)
	if err != nil {
		return nil, err
	}
	cents := amount.Mul(amount, big.NewRat(100, 1))
	if !cents.IsInt() {
		return nil, errors.New("the amount has parts of a cent")
	}
	return starlark.MakeBigInt(cents.Num()), nil
}

func decimalFormat(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var cents starlark.Int
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "cents", &cents); err != nil {
		return nil, err
	}
	return starlark.String(new(big.Rat).SetFrac(cents.BigInt(), big.NewInt(100)).FloatString(2)), nil
}

func decimalTimes(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var cents starlark.Int
	var factor starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "cents", &cents, "factor", &factor); err != nil {
		return nil, err
	}
	by, err := rational(factor)
	if err != nil {
		return nil, fmt.Errorf("factor: %w", err)
	}
	product := by.Mul(by, new(big.Rat).SetInt(cents.BigInt()))
	rounded, _ := new(big.Int).SetString(product.FloatString(0), 10) // rounds half away from zero
	return starlark.MakeBigInt(rounded), nil
}

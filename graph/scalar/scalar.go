// Package scalar holds how the schema's own scalars are written and read.
package scalar

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/99designs/gqlgen/graphql"
)

// ErrInt64 means that a value is not a whole number of 64 bits as a string.
var ErrInt64 = errors.New("must be a whole number as a string, for example \"1500000\"")

// MarshalInt64 writes a whole number as a string: JSON readers lose digits of
// larger numbers.
func MarshalInt64(n int64) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) { _, _ = io.WriteString(w, strconv.Quote(strconv.FormatInt(n, 10))) })
}

// UnmarshalInt64 reads a whole number that is written as a string. A plain
// whole number is taken as well. Errors: ErrInt64.
func UnmarshalInt64(v any) (int64, error) {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	case int64:
		return v, nil
	case int:
		return int64(v), nil
	default:
		return 0, ErrInt64
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		return 0, ErrInt64
	}
	return n, nil
}

// ErrOutputOnly means that a scalar is never read.
var ErrOutputOnly = errors.New("this scalar is output only")

// MarshalJSON writes a JSON value as it is.
func MarshalJSON(raw json.RawMessage) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		if len(raw) == 0 {
			raw = json.RawMessage("null")
		}
		_, _ = w.Write(raw)
	})
}

// UnmarshalJSON refuses: no argument of the schema is free JSON. Errors:
// ErrOutputOnly.
func UnmarshalJSON(any) (json.RawMessage, error) { return nil, ErrOutputOnly }

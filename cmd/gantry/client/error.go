package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// The codes of errors that this side finds. All others are the server's.
const (
	CodeUnreachable = "UNREACHABLE" // no answer
	CodeUnexpected  = "UNEXPECTED"  // an answer that no Gantry server gives
)

// codeResync ends a stream whose reader was too slow.
const codeResync = "RESYNC"

// Error is why a request was not answered as asked.
type Error struct {
	Code      string // stable, for example "NOT_FOUND"
	Message   string // one sentence, and what to do
	Field     string // the input field it is about; empty for the whole
	Retryable bool   // the same request may succeed later

	cursor string // where a stream goes on
}

// Error returns the message and the code.
func (e *Error) Error() string {
	if e.Field != "" {
		return fmt.Sprintf("%s: %s (%s)", e.Field, e.Message, e.Code)
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Code)
}

// IsCode reports whether an error is an *Error with the code.
func IsCode(err error, code string) bool {
	var found *Error
	return errors.As(err, &found) && found.Code == code
}

// serverError is an error as the server writes it: at the top of an answer
// with the code in its extensions, in a payload beside the message.
type serverError struct {
	Message    string
	Code       string
	Field      string
	Extensions struct {
		Code      string
		Retryable bool
		Cursor    string
	}
}

func (e serverError) public() *Error {
	out := &Error{Code: e.Code, Message: e.Message, Field: e.Field, Retryable: e.Extensions.Retryable, cursor: e.Extensions.Cursor}
	if out.Code == "" {
		out.Code = e.Extensions.Code
	}
	if out.Code == "" {
		out.Code = CodeUnexpected
	}
	return out
}

// unreachable says that no answer came, or that the caller gave up.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if cause := ctx.Err(); errors.Is(cause, context.Canceled) {
		return cause
	}
	var transport *url.Error
	if errors.As(err, &transport) {
		err = transport.Err
	}
	return &Error{Code: CodeUnreachable, Message: fmt.Sprintf("No answer from %s (%v); start the server or give its address.", c.endpoint, err), Retryable: true}
}

func unexpected(response *http.Response) *Error {
	return &Error{Code: CodeUnexpected, Message: "The answer (" + response.Status + ") is not one of a Gantry server; check the address.",
		Retryable: response.StatusCode >= http.StatusInternalServerError}
}

package edge

import (
	"fmt"

	"github.com/vektah/gqlparser/v2/gqlerror"
)

// The codes of top-level errors, in extensions.code.
const (
	CodeUnauthenticated = "UNAUTHENTICATED"
	CodeRevoked         = "REVOKED"
	CodeNotFound        = "NOT_FOUND"
	CodeNotCleared      = "NOT_CLEARED"
	CodeBadRequest      = "BAD_REQUEST"
	CodeOverLimit       = "OVER_LIMIT"
	CodeCursorInvalid   = "CURSOR_INVALID"
	CodeResync          = "RESYNC"
	CodeTooBusy         = "TOO_BUSY"
	CodeStore           = "STORE_UNAVAILABLE"
	CodeMemory          = "MEMORY_UNAVAILABLE"
	CodeTimeout         = "REQUEST_TIMEOUT"
	CodeInternal        = "INTERNAL"
)

// Fault is an error with a code, safe to show.
type Fault struct {
	Code    string
	Message string
	Extra   map[string]any // more extensions, by name
}

// Error returns the message.
func (f *Fault) Error() string { return f.Message }

// GraphQL returns the fault as GraphQL shows it.
func (f *Fault) GraphQL() *gqlerror.Error {
	extensions := map[string]any{"code": f.Code}
	for name, value := range f.Extra {
		extensions[name] = value
	}
	return &gqlerror.Error{Err: f, Message: f.Message, Extensions: extensions}
}

// Faults that are the same wherever they happen.
var (
	ErrUnauthenticated = &Fault{Code: CodeUnauthenticated, Message: "Send a valid bearer token."}
	ErrExpired         = &Fault{Code: CodeUnauthenticated, Message: "The token has expired: subscribe again with a fresh one, from the last cursor."}
	ErrDirectory       = &Fault{Code: CodeStore, Message: "Nobody can be looked up now; send the request again.", Extra: map[string]any{"retryable": true}}
	errSlowBody        = &Fault{Code: CodeTimeout, Message: "The body took too long to arrive; send the request again.", Extra: map[string]any{"retryable": true}}
	errNUL             = &Fault{Code: CodeBadRequest, Message: "No text may have the character U+0000."}
	ErrInternal        = &Fault{Code: CodeInternal, Message: "Something went wrong inside Gantry; the log says more."}
)

// BadRequest says what is wrong with what was sent.
func BadRequest(message string) *Fault { return &Fault{Code: CodeBadRequest, Message: message} }

// OverLimit names the limit, the value and what is allowed.
func OverLimit(limit string, value, allowed int) *Fault {
	return &Fault{Code: CodeOverLimit, Message: fmt.Sprintf("%s is %d, the limit is %d.", limit, value, allowed),
		Extra: map[string]any{"limit": limit, "value": value, "allowed": allowed}}
}

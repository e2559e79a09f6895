package graph

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"gantry.dev/agents"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/remembered"
	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/store"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// The codes of top-level errors, in extensions.code.
const (
	codeUnauthenticated = "UNAUTHENTICATED"
	codeRevoked         = "REVOKED"
	codeNotFound        = "NOT_FOUND"
	codeNotCleared      = "NOT_CLEARED"
	codeBadRequest      = "BAD_REQUEST"
	codeOverLimit       = "OVER_LIMIT"
	codeCursorInvalid   = "CURSOR_INVALID"
	codeResync          = "RESYNC"
	codeTooBusy         = "TOO_BUSY"
	codeStore           = "STORE_UNAVAILABLE"
	codeMemory          = "MEMORY_UNAVAILABLE"
	codeTimeout         = "REQUEST_TIMEOUT"
	codeInternal        = "INTERNAL"
)

// fault is an error with a code, safe to show.
type fault struct {
	code    string
	message string
	extra   map[string]any
}

// unlisted says why somebody whose token is good was not found: they are not
// known any more, or nobody can be looked up.
func unlisted(err error) *fault {
	if errors.Is(err, engine.ErrNotFound) {
		return errUnauthenticated
	}
	return errDirectory
}

// Error returns the message.
func (f *fault) Error() string { return f.message }

var (
	errUnauthenticated = &fault{code: codeUnauthenticated, message: "Send a valid bearer token."}
	errExpired         = &fault{code: codeUnauthenticated, message: "The token has expired: subscribe again with a fresh one, from the last cursor."}
	errRevoked         = &fault{code: codeRevoked, message: "You may no longer follow this."}
	errNotFound        = &fault{code: codeNotFound, message: "There is no such thing, or none that you may know of."}
	errNotCleared      = &fault{code: codeNotCleared, message: "The journal names labels that you are not cleared for; ask for the export as somebody who is."}
	errCursor          = &fault{code: codeCursorInvalid, message: "The cursor is not one of this list; begin without one."}
	errTooBusy         = &fault{code: codeTooBusy, message: "The run is too busy; send the command again with the same commandId.", extra: map[string]any{"retryable": true}}
	errStore           = &fault{code: codeStore, message: "The journal takes no writes now; send the command again with the same commandId.", extra: map[string]any{"retryable": true}}
	errDirectory       = &fault{code: codeStore, message: "Nobody can be looked up now; send the request again.", extra: map[string]any{"retryable": true}}
	errReused          = &fault{code: "COMMAND_ID_REUSED", message: "This command id was used for another request; make a fresh one."}
	errMemoryStore     = &fault{code: codeStore, message: "What is remembered cannot be reached now; send the same again, a command with the same commandId.", extra: map[string]any{"retryable": true}}
	errMemory          = &fault{code: codeMemory, message: "Memory cannot be asked now; send the same again.", extra: map[string]any{"retryable": true}}
	errSlowBody        = &fault{code: codeTimeout, message: "The body took too long to arrive; send the request again.", extra: map[string]any{"retryable": true}}
	errNUL             = &fault{code: codeBadRequest, message: "No text may have the character U+0000."}
	errInternal        = &fault{code: codeInternal, message: "Something went wrong inside Gantry; the log says more."}
)

func badRequest(message string) *fault { return &fault{code: codeBadRequest, message: message} }

// overLimit names the limit, the value and what is allowed.
func overLimit(limit string, value, allowed int) *fault {
	return &fault{code: codeOverLimit, message: fmt.Sprintf("%s is %d, the limit is %d.", limit, value, allowed),
		extra: map[string]any{"limit": limit, "value": value, "allowed": allowed}}
}

// resync tells a reader that was too slow where to go on.
func resync(cursor string) *fault {
	return &fault{code: codeResync, message: "The stream was cut: its reader was too slow, or the server stops. Subscribe again from the cursor.",
		extra: map[string]any{"cursor": cursor, "retryable": true}}
}

func (f *fault) graphql() *gqlerror.Error {
	extensions := map[string]any{"code": f.code}
	for name, value := range f.extra {
		extensions[name] = value
	}
	return &gqlerror.Error{Err: f, Message: f.message, Extensions: extensions}
}

// public turns any error into one that is safe to show.
func public(err error) (*fault, bool) {
	var shown *fault
	switch {
	case errors.As(err, &shown):
		return shown, true
	case errors.Is(err, engine.ErrNotFound):
		return errNotFound, true
	case isMemory(err):
		return ofMemory(err), true
	case errors.Is(err, engine.ErrTooBusy):
		return errTooBusy, true
	case errors.Is(err, engine.ErrStore):
		return errStore, false // the operators have to know
	case errors.Is(err, store.ErrFailed):
		return errMemoryStore, false
	}
	return errInternal, false
}

// isMemory reports whether memory refused, or cannot be asked.
func isMemory(err error) bool {
	var refusal *memory.Refusal
	var invalid *remembered.Invalid
	return errors.As(err, &refusal) || errors.As(err, &invalid) || errors.Is(err, index.ErrUnavailable) || errors.Is(err, embed.ErrUnavailable)
}

// ofMemory is what somebody is told whom memory does not answer. What is the
// same everywhere has the words that it has everywhere.
func ofMemory(err error) *fault {
	var refusal *memory.Refusal
	var invalid *remembered.Invalid
	if errors.As(err, &refusal) {
		switch refusal.Code {
		case codeNotFound:
			return errNotFound
		case "CURSOR":
			return errCursor
		case "COMMAND_REUSED":
			return errReused
		}
		return &fault{code: refusal.Code, message: refusal.Detail}
	}
	if errors.As(err, &invalid) {
		return badRequest(invalid.Error())
	}
	return errMemory
}

var suggestion = regexp.MustCompile(`(?s)\s*Did you mean .*$`)

// presenter writes errors: with a code, without what only operators may learn,
// and without anything from inside.
func presenter(log *slog.Logger, open func(context.Context) bool) graphql.ErrorPresenterFunc {
	return func(ctx context.Context, err error) *gqlerror.Error {
		var shown *gqlerror.Error
		if errors.As(err, &shown) && ofTheRequest(shown) {
			shown.Message = worded(shown)
			if !open(ctx) {
				shown.Message = suggestion.ReplaceAllString(shown.Message, "")
			}
			shown.Message = cut(shown.Message)
			return shown
		}
		clean, known := public(err)
		if place, bad := badArgument(ctx, err); bad && !known {
			return place
		}
		if !known && ctx.Err() == nil {
			log.ErrorContext(ctx, "graph: internal error", "error", err)
		}
		out := clean.graphql()
		if path := graphql.GetPath(ctx); len(path) > 0 {
			out.Path = path
		}
		return out
	}
}

// maxMessage is how many bytes of a message that repeats what was sent are sent
// back.
const maxMessage = 500

func cut(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}

// badArgument says what of a field's arguments cannot be read, and where: the
// GraphQL library knows the arguments of a field only once all are read, and
// until then nothing of ours has run.
func badArgument(ctx context.Context, err error) (*gqlerror.Error, bool) {
	field := graphql.GetFieldContext(ctx)
	if field == nil || field.Args != nil || field.Field.Field == nil || field.Field.Definition == nil || len(field.Field.Definition.Arguments) == 0 {
		return nil, false
	}
	message, path := err.Error(), graphql.GetPath(ctx)
	var at *gqlerror.Error
	if errors.As(err, &at) {
		message, path = at.Message, at.Path
	}
	out := badRequest("An argument cannot be read: " + cut(message) + ".").graphql()
	out.Path = path
	return out, true
}

// ofTheRequest reports whether an error of the GraphQL library only speaks
// about the document that the client sent.
func ofTheRequest(err *gqlerror.Error) bool {
	code, _ := err.Extensions["code"].(string)
	if code == errcode.ParseFailed || code == errcode.ValidationFailed {
		return true
	}
	if err.Rule != "" || err.Message == introspectionOff {
		if err.Extensions == nil {
			err.Extensions = map[string]any{}
		}
		err.Extensions["code"] = errcode.ValidationFailed
		return true
	}
	return false
}

// introspectionOff is what the GraphQL library says to whoever may not read the
// schema.
const introspectionOff = "introspection disabled"

// worded says what the GraphQL library leaves out or only has in the path.
func worded(err *gqlerror.Error) string {
	if err.Message == introspectionOff {
		return "Only operators may ask for the schema; the file schema.graphql of Gantry's sources has all of it."
	}
	if len(err.Path) > 1 && err.Path[0] == ast.PathName("variable") {
		return "variable $" + err.Path[1:].String() + ": " + err.Message
	}
	return err.Message
}

// findOperation says in words of its own that a document does not have the
// operation that was asked for. What a document without any lacks, the GraphQL
// library says.
func findOperation(document *ast.QueryDocument, name string) *gqlerror.Error {
	if len(document.Operations) == 0 || document.Operations.ForName(name) != nil {
		return nil
	}
	message := fmt.Sprintf("The document has no operation %q; operationName must be the name of one that it has.", name)
	if name == "" {
		message = "The document has several operations; say in operationName which one to execute."
	}
	err := &gqlerror.Error{Message: message}
	errcode.Set(err, errcode.ValidationFailed)
	return err
}

// changeRefusals are what package agents refuses, with their stable codes.
var changeRefusals = []struct {
	err     error
	code    string
	message string
}{
	{agents.ErrSecondPerson, "SECOND_PERSON_NEEDED", "A second person must approve it."},
	{agents.ErrNotEntitled, "NOT_ENTITLED", "Only people who answer for it may do this, and you are none of them."},
	{agents.ErrNotAPerson, "NOT_A_PERSON", "Only people of the organisation change it."},
	{agents.ErrNoEvidence, "EVIDENCE_NEEDED", "Say where what was observed can be read."},
	{agents.ErrFreerStage, "STAGE_NOT_BY_PUBLISHING", "Publishing does not make a stage freer; use setStage with evidence."},
	{agents.ErrUnknown, codeNotFound, errNotFound.message},
	{run.ErrBudget, "BUDGET", "The budget does not cover it; ask its owner to raise it."},
}

// userErrors turns a refusal into what a mutation shows. What is no refusal
// stays an error.
func userErrors(err error) ([]*generated.UserError, error) {
	if err == nil {
		return []*generated.UserError{}, nil
	}
	var refusal *run.Refusal
	var input *inputError
	var kept *memory.Refusal
	var invalid *remembered.Invalid
	switch {
	case errors.As(err, &kept):
		shown := ofMemory(kept)
		return oneUserError(shown.code, shown.message, nil), nil
	case errors.As(err, &invalid):
		return oneUserError("INVALID", invalid.Message, &invalid.Field), nil
	case errors.As(err, &refusal) && refusal.Code != codeNotFound:
		return oneUserError(refusal.Code, refusal.Detail, nil), nil
	case refusal != nil || errors.Is(err, engine.ErrNotFound):
		return oneUserError(codeNotFound, errNotFound.message, nil), nil //nolint:nilerr // a refusal is the answer
	case errors.As(err, &input):
		return oneUserError(input.code, input.message, &input.field), nil
	}
	for _, known := range changeRefusals {
		if errors.Is(err, known.err) {
			return oneUserError(known.code, known.message, nil), nil
		}
	}
	var faults agents.Faults
	if errors.As(err, &faults) {
		return oneUserError("INVALID", faults.Error(), nil), nil
	}
	return nil, err
}

func oneUserError(code, message string, field *string) []*generated.UserError {
	return []*generated.UserError{{Code: code, Message: message, Field: field}}
}

// inputError is a fault of one input field.
type inputError struct{ code, field, message string }

// Error returns the field and the message.
func (e *inputError) Error() string { return e.field + ": " + e.message }

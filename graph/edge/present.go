package edge

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
)

var suggestion = regexp.MustCompile(`(?s)\s*Did you mean .*$`)

// presenter writes errors: with a code, without what only operators may learn,
// and without anything from inside.
func presenter(log *slog.Logger, public Public, open func(context.Context) bool) graphql.ErrorPresenterFunc {
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
		out := clean.GraphQL()
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
	out := BadRequest("An argument cannot be read: " + cut(message) + ".").GraphQL()
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

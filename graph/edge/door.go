package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// Door is how another protocol than GraphQL comes in: by the same tokens, under
// the same limits, and to the same schema.
type Door struct {
	Serve   http.Handler
	Streams func(r *http.Request, body []byte) bool // whether the answer to a request is a stream
	Demand  func(r *http.Request) string            // what WWW-Authenticate says to whoever sends no good token
	Refuse  func(http.ResponseWriter, int, *Fault)  // writes a refusal as the protocol has it
	Empty   bool                                    // requests without a body are served, too
	Headers []string                                // of requests that pages of other origins may send, in lower case
}

var (
	errOrigin = &Fault{Code: CodeBadRequest, Message: "Pages of this origin may not ask here."}
	errHost   = &Fault{Code: CodeBadRequest, Message: "This server has no such name."}
)

// Admit serves a protocol to whom the schema is served, and to nobody else.
// Whoever has led a name of theirs to this machine gets nothing by it: a page
// gets in only if its origin is listed, or if it was loaded from this very
// machine, and there by one of the names that nobody else can have.
func (h *Handler) Admit(door Door) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(h.config.Clock().Add(h.config.Limits.BodyWait))
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if here, is := r.Context().Value(http.LocalAddrContextKey).(net.Addr); is && local(here.String()) && !local(r.Host) {
			door.Refuse(w, http.StatusForbidden, errHost)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && !slices.Contains(h.config.Origins, origin) && !ownPage(r, origin) {
			door.Refuse(w, http.StatusForbidden, errOrigin)
			return
		}
		if h.allowOrigin(w, r, "GET, POST, DELETE", append([]string{"authorization", "content-type"}, door.Headers...)) {
			return
		}
		h.enter(w, r, door)
	})
}

// ownPage reports whether a page was loaded from this server, by a name of the
// machine itself.
func ownPage(r *http.Request, origin string) bool {
	_, host, found := strings.Cut(origin, "://")
	return found && strings.EqualFold(host, r.Host) && local(host)
}

// local reports whether a host, with its port or without, is a name of the
// machine itself.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.Unmap().IsLoopback()
}

func (h *Handler) enter(w http.ResponseWriter, r *http.Request, door Door) {
	s, status, fault := h.identify(r)
	if fault != nil {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", door.Demand(r))
		}
		door.Refuse(w, status, fault)
		return
	}
	most := h.config.Connections.Requests
	if !h.connections.enter(h.connections.requests, s.key(), most) {
		door.Refuse(w, http.StatusTooManyRequests, OverLimit("requests at once", most+1, most))
		return
	}
	leave := sync.OnceFunc(func() { h.connections.leave(h.connections.requests, s.key()) })
	defer leave()
	body, fault := readObject(r, h.config.Limits, door.Empty)
	if fault != nil {
		door.Refuse(w, statusOf(fault), fault)
		return
	}
	ctx, cancel := context.WithTimeoutCause(withSession(r.Context(), s), s.expires.Sub(h.config.Clock()), ErrExpired)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if door.Streams(r, body) {
		leave() // streams are counted apart
		streams := h.config.Connections.streams()
		if !h.connections.enter(h.connections.streams, s.key(), streams) {
			door.Refuse(w, http.StatusTooManyRequests, OverLimit("streams", streams+1, streams))
			return
		}
		defer h.connections.leave(h.connections.streams, s.key())
	}
	door.Serve.ServeHTTP(deadlined{w, http.NewResponseController(w), h.config.Connections.WriteWait}, r)
}

// identify says who sends a request, or with which status it is refused.
func (h *Handler) identify(r *http.Request) (s session, status int, fault *Fault) {
	var err error
	if said := r.Header.Values("Authorization"); len(said) == 1 { // of several, who knows which one another reader took
		s, err = h.authenticate(r.Context(), said[0])
	} else {
		err = ErrToken
	}
	switch {
	case err == nil:
		return s, http.StatusOK, nil
	case errors.Is(err, ErrToken):
		return s, http.StatusUnauthorized, ErrUnauthenticated
	}
	return s, http.StatusServiceUnavailable, ErrDirectory
}

// readObject reads the body of a request: one JSON object, or nothing where that
// is served. Errors: *Fault.
func readObject(r *http.Request, limits Limits, empty bool) ([]byte, *Fault) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, int64(limits.BodyBytes)+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlowBody
	case err != nil:
		return nil, BadRequest("The body cannot be read.")
	case len(raw) > limits.BodyBytes:
		return nil, OverLimit("body bytes", len(raw), limits.BodyBytes)
	}
	raw = bytes.TrimSpace(raw)
	if (len(raw) == 0 || string(raw) == "null") && (empty || r.Method != http.MethodPost) {
		return nil, nil
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return nil, BadRequest("The content type must be application/json.")
	}
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return nil, BadRequest("Send one JSON object; batches are not taken.")
	}
	return raw, nil
}

// newExecutor executes operations that come by no transport of the schema's own,
// under the same extensions.
func newExecutor(config Config, present graphql.ErrorPresenterFunc, extensions []graphql.HandlerExtension) *executor.Executor {
	exec := executor.New(config.Schema)
	exec.SetErrorPresenter(present)
	exec.SetRecoverFunc(recovered(config.Log))
	for _, extension := range extensions {
		exec.Use(extension)
	}
	return exec
}

// Ask executes one query or mutation for the caller of the context, and returns
// its data. Errors: *Fault, the first one that the answer has.
func (h *Handler) Ask(ctx context.Context, document string, variables map[string]any) (json.RawMessage, error) {
	for data, err := range h.Follow(ctx, document, variables) {
		return data, err
	}
	return nil, context.Cause(ctx)
}

// Follow executes one operation for the caller of the context, and returns the
// data of all its answers; those of a subscription go on until it ends. Errors:
// *Fault, after which nothing follows.
func (h *Handler) Follow(ctx context.Context, document string, variables map[string]any) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		ctx, cancel := context.WithCancel(graphql.StartOperationTrace(ctx))
		defer cancel()
		operation, faults := h.exec.CreateOperationContext(ctx, &graphql.RawParams{Query: document, Variables: variables})
		if len(faults) > 0 {
			yield(nil, firstFault(h.exec.DispatchError(graphql.WithOperationContext(ctx, operation), faults).Errors))
			return
		}
		responses, ctx := h.exec.DispatchOperation(graphql.WithOperationContext(ctx, operation), operation)
		for {
			response := responses(ctx)
			if response == nil {
				return
			}
			if len(response.Errors) > 0 {
				yield(nil, firstFault(response.Errors))
				return
			}
			if !yield(response.Data, nil) {
				return
			}
		}
	}
}

// firstFault is what the first error of an answer says.
func firstFault(list gqlerror.List) *Fault {
	fault := &Fault{Code: CodeInternal, Message: list[0].Message, Extra: map[string]any{}}
	for name, value := range list[0].Extensions {
		if code, is := value.(string); is && name == "code" {
			fault.Code = code
			continue
		}
		fault.Extra[name] = value
	}
	return fault
}

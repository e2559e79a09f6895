// Package edge is where requests come in: it verifies who asks, bounds what is
// asked and how much at once, and serves a schema over POST, SSE and websocket.
// Of what the schema is about it knows nothing.
package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"gantry.dev/orchestrator/policy"
)

// People finds principals.
type People interface {
	// Principal returns the principal of the organisation with the id, as known
	// now; engine.ErrNotFound where there is none.
	Principal(ctx context.Context, organisation, id string) (policy.Principal, error)
}

// Public turns an error into one that is safe to show, and says whether it was
// one that may be expected; of others the operators are told.
type Public func(err error) (shown *Fault, known bool)

// Config is what a handler serves from. Everything is needed but Origins and
// Extensions.
type Config struct {
	Schema      graphql.ExecutableSchema
	Extensions  func(present graphql.ErrorPresenterFunc) []graphql.HandlerExtension
	Public      Public
	People      People
	Verifier    *Verifier
	Limits      Limits
	Connections ConnectionLimits
	Origins     []string                           // other origins whose pages may ask, for example "https://app.example.org"
	Reads       func(caller policy.Principal) bool // whether somebody may read the schema
	Clock       func() time.Time
	Log         *slog.Logger
}

// Handler serves the schema over POST, SSE and websocket.
type Handler struct {
	config      Config
	server      *handler.Server
	exec        *executor.Executor // for what comes by a Door
	connections *connections
}

// NewHandler returns the handler.
func NewHandler(config Config) *Handler {
	h := &Handler{config: config, connections: newConnections(config), server: handler.New(config.Schema)}
	open := func(ctx context.Context) bool {
		caller, err := CallerOf(ctx)
		return err == nil && config.Reads(caller.Principal)
	}
	present := presenter(config.Log, config.Public, open)
	h.server.SetErrorPresenter(present)
	h.server.SetRecoverFunc(recovered(config.Log))
	extensions := []graphql.HandlerExtension{h.connections, limiter{limits: config.Limits, open: open}}
	if config.Extensions != nil {
		extensions = append(extensions, config.Extensions(present)...)
	}
	for _, extension := range extensions {
		h.server.Use(extension)
	}
	h.exec = newExecutor(config, present, extensions)
	h.server.AddTransport(h.websocket())
	h.server.AddTransport(transport.SSE{KeepAlivePingInterval: 15 * time.Second})
	h.server.AddTransport(transport.POST{})
	return h
}

// recovered says of a resolver that broke no more than that it did.
func recovered(log *slog.Logger) graphql.RecoverFunc {
	return func(ctx context.Context, _ any) error {
		log.ErrorContext(ctx, "graph: a resolver panicked")
		return ErrInternal
	}
}

// ServeHTTP serves the interface.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Refusals wait for the body too. The server takes the deadline away once
	// the body has ended or the connection is upgraded, so streams live on; a
	// writer that knows no deadlines has no connection to guard.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.config.Limits.BodyWait))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if h.allowOrigin(w, r, http.MethodPost, []string{"authorization", "content-type"}) {
		return
	}
	if r.Header.Get("Upgrade") != "" {
		h.upgrade(w, r)
		return
	}
	h.post(w, r)
}

// preflightSeconds is how long a browser may remember what another origin may
// do.
const preflightSeconds = "600"

// allowOrigin answers for pages of other origins: one of the list may read
// answers and send these headers, all others get no permission from us. It
// reports whether the request was a preflight, which is answered whole.
func (h *Handler) allowOrigin(w http.ResponseWriter, r *http.Request, methods string, headers []string) (preflight bool) {
	origin := r.Header.Get("Origin")
	w.Header().Add("Vary", "Origin")
	if origin != "" && slices.Contains(h.config.Origins, origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			w.Header().Set("Access-Control-Allow-Methods", methods)
			w.Header().Set("Access-Control-Allow-Headers", strings.Join(headers, ", "))
			w.Header().Set("Access-Control-Max-Age", preflightSeconds)
			w.WriteHeader(http.StatusNoContent)
			return true
		}
	}
	return false
}

func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, BadRequest("Operations are sent by POST only."))
		return
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, BadRequest("The content type must be application/json."))
		return
	}
	s, status, refusal := h.identify(r)
	if refusal != nil {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		refuse(w, status, refusal)
		return
	}
	most := h.config.Connections.Requests
	if !h.connections.enter(h.connections.requests, s.key(), most) {
		refuse(w, http.StatusTooManyRequests, OverLimit("requests at once", most+1, most))
		return
	}
	leave := sync.OnceFunc(func() { h.connections.leave(h.connections.requests, s.key()) })
	defer leave()
	body, fault := readRequest(r.Body, h.config.Limits)
	if fault != nil {
		refuse(w, statusOf(fault), fault)
		return
	}
	// A stream over SSE ends with its token.
	ctx, cancel := context.WithTimeoutCause(withSession(r.Context(), s), s.expires.Sub(h.config.Clock()), ErrExpired)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		leave() // streams are counted apart
		h.stream(w, r, s.key())
		return
	}
	h.server.ServeHTTP(w, r)
}

// statusOf is the status of a body that is refused.
func statusOf(fault *Fault) int {
	switch fault.Code {
	case CodeOverLimit:
		return http.StatusRequestEntityTooLarge
	case CodeTimeout:
		return http.StatusRequestTimeout
	}
	return http.StatusBadRequest
}

// readRequest reads the JSON body of a request: one object, no more. Errors:
// *Fault.
func readRequest(body io.Reader, limits Limits) ([]byte, *Fault) {
	raw, err := io.ReadAll(io.LimitReader(body, int64(limits.BodyBytes)+1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errSlowBody
	}
	if err != nil {
		return nil, BadRequest("The body cannot be read.")
	}
	if len(raw) > limits.BodyBytes {
		return nil, OverLimit("body bytes", len(raw), limits.BodyBytes)
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil, BadRequest("Send one JSON object with the query; batches are not taken.")
	}
	var asked struct {
		Query         string         `json:"query"`
		OperationName string         `json:"operationName"`
		Variables     map[string]any `json:"variables"`
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&asked); err != nil {
		return nil, BadRequest("The body is not the JSON of a GraphQL request.")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, BadRequest("Send one JSON object, and nothing after it.")
	}
	// Written anew, so that what is executed is what was checked.
	clean, err := json.Marshal(asked)
	if err != nil {
		return nil, BadRequest("The body is not the JSON of a GraphQL request.")
	}
	return clean, nil
}

func refuse(w http.ResponseWriter, status int, fault *Fault) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(graphql.Response{Errors: gqlerror.List{fault.GraphQL()}})
}

// stream serves one request over SSE, within the principal's bound and with a
// deadline for every write.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, principal string) {
	most := h.config.Connections.streams()
	if !h.connections.enter(h.connections.streams, principal, most) {
		refuse(w, http.StatusTooManyRequests, OverLimit("streams", most+1, most))
		return
	}
	defer h.connections.leave(h.connections.streams, principal)
	h.server.ServeHTTP(deadlined{w, http.NewResponseController(w), h.config.Connections.WriteWait}, r)
}

// deadlined breaks the connection when a write is not taken in time.
type deadlined struct {
	http.ResponseWriter
	control *http.ResponseController
	wait    time.Duration
}

// Write writes within the deadline.
func (d deadlined) Write(body []byte) (written int, err error) {
	err = d.within(func() error {
		written, err = d.ResponseWriter.Write(body)
		return err
	})
	return written, err
}

// Flush sends what was written within the deadline. What breaks here ends the
// request's context.
func (d deadlined) Flush() { _ = d.within(d.control.Flush) }

// within leaves no deadline behind: the stream may be quiet for longer, and the
// connection serves other requests after it.
func (d deadlined) within(write func() error) error {
	if err := d.control.SetWriteDeadline(time.Now().Add(d.wait)); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	return d.control.SetWriteDeadline(time.Time{})
}

package graph

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
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/sourcegraph/conc"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"gantry.dev/agents"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/graphiql"
	"gantry.dev/memory"
)

// Config is what the handler serves from. Everything is needed but Log and,
// where nothing is remembered, Brain with Readers and Documents.
type Config struct {
	Runs          Runs
	Conversations Conversations
	Inbox         Inbox
	Tools         Tools
	Agents        Agents
	Kills         Kills
	Budgets       Budgets
	Brain         memory.Brain
	Readers       Readers
	Documents     Documents
	Live          Live
	Directory     Directory
	Verifier      *Verifier
	Limits        Limits
	Connections   ConnectionLimits
	Origins       []string      // other origins whose pages may ask, for example "https://app.example.org"
	Introspection bool          // everybody may read the schema, for development
	NewID         func() string // fresh ids for commands and steers
	// Pulse says when to look whether the reader of a quiet stream may still
	// follow it; nil for every half second.
	Pulse func() (ticks <-chan time.Time, stop func())
	Clock func() time.Time
	Log   *slog.Logger // nil for none
}

// Handler serves /graphql over POST, SSE and websocket, and the explorer at /.
type Handler struct {
	config      Config
	server      *handler.Server
	streams     *conc.WaitGroup
	connections *connections
	explorer    http.Handler
}

// NewHandler returns the handler. Errors: something of the configuration is
// missing.
func NewHandler(config Config) (*Handler, error) {
	if config.Runs == nil || config.Conversations == nil || config.Inbox == nil || config.Tools == nil || config.Agents == nil ||
		config.Kills == nil || config.Budgets == nil || config.Live == nil || config.Directory == nil || config.Verifier == nil || config.NewID == nil || config.Clock == nil {
		return nil, errors.New("graph: the configuration is not complete")
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	config.Runs = once{config.Runs}
	if config.Pulse == nil {
		config.Pulse = pulse
	}
	h := &Handler{config: config, streams: &conc.WaitGroup{}, connections: newConnections(config), explorer: graphiql.Handler()}
	h.server = handler.New(generated.NewExecutableSchema(generated.Config{Resolvers: root{config: config, streams: h.streams}}))
	open := func(ctx context.Context) bool {
		caller, err := callerOf(ctx)
		return err == nil && (config.Introspection || caller.Principal.HasRole(agents.RoleOperator))
	}
	present := presenter(config.Log, open)
	h.server.SetErrorPresenter(present)
	h.server.SetRecoverFunc(func(ctx context.Context, _ any) error {
		config.Log.ErrorContext(ctx, "graph: a resolver panicked")
		return errInternal
	})
	h.server.Use(h.connections)
	h.server.Use(limiter{limits: config.Limits, open: open})
	h.server.Use(endings{present: present})
	h.server.AddTransport(h.websocket())
	h.server.AddTransport(transport.SSE{KeepAlivePingInterval: 15 * time.Second})
	h.server.AddTransport(transport.POST{})
	return h, nil
}

// Wait returns when every stream has ended; the server must have been shut
// down before.
func (h *Handler) Wait() { h.streams.Wait() }

// ServeHTTP serves the interface and the explorer.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/graphql" {
		h.explorer.ServeHTTP(w, r)
		return
	}
	// Refusals wait for the body too. The server takes the deadline away once
	// the body has ended or the connection is upgraded, so streams live on; a
	// writer that knows no deadlines has no connection to guard.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.config.Limits.BodyWait))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if h.admitOrigin(w, r) {
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

// admitOrigin answers for pages of other origins: one of the list may read
// answers and send a token, all others get no permission from us. It reports
// whether the request was a preflight, which is answered whole.
func (h *Handler) admitOrigin(w http.ResponseWriter, r *http.Request) (preflight bool) {
	origin := r.Header.Get("Origin")
	w.Header().Add("Vary", "Origin")
	if origin != "" && slices.Contains(h.config.Origins, origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			w.Header().Set("Access-Control-Allow-Methods", http.MethodPost)
			w.Header().Set("Access-Control-Allow-Headers", "authorization, content-type")
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
		refuse(w, http.StatusMethodNotAllowed, badRequest("Operations are sent by POST only."))
		return
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, badRequest("The content type must be application/json."))
		return
	}
	var s session
	if said := r.Header.Values("Authorization"); len(said) == 1 { // of several, who knows which one another reader took
		s, err = h.authenticate(r.Context(), said[0])
	} else {
		err = ErrToken
	}
	if err != nil && !errors.Is(err, ErrToken) {
		refuse(w, http.StatusServiceUnavailable, errDirectory)
		return
	}
	if err != nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, errUnauthenticated)
		return
	}
	most := h.config.Connections.Requests
	if !h.connections.enter(h.connections.requests, s.key(), most) {
		refuse(w, http.StatusTooManyRequests, overLimit("requests at once", most+1, most))
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
	ctx, cancel := context.WithTimeoutCause(withSession(r.Context(), s), s.expires.Sub(h.config.Clock()), errExpired)
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
func statusOf(fault *fault) int {
	switch fault.code {
	case codeOverLimit:
		return http.StatusRequestEntityTooLarge
	case codeTimeout:
		return http.StatusRequestTimeout
	}
	return http.StatusBadRequest
}

// readRequest reads the JSON body of a request: one object, no more. Errors:
// *fault.
func readRequest(body io.Reader, limits Limits) ([]byte, *fault) {
	raw, err := io.ReadAll(io.LimitReader(body, int64(limits.BodyBytes)+1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errSlowBody
	}
	if err != nil {
		return nil, badRequest("The body cannot be read.")
	}
	if len(raw) > limits.BodyBytes {
		return nil, overLimit("body bytes", len(raw), limits.BodyBytes)
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil, badRequest("Send one JSON object with the query; batches are not taken.")
	}
	var asked struct {
		Query         string         `json:"query"`
		OperationName string         `json:"operationName"`
		Variables     map[string]any `json:"variables"`
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&asked); err != nil {
		return nil, badRequest("The body is not the JSON of a GraphQL request.")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, badRequest("Send one JSON object, and nothing after it.")
	}
	// Written anew, so that what is executed is what was checked.
	clean, err := json.Marshal(asked)
	if err != nil {
		return nil, badRequest("The body is not the JSON of a GraphQL request.")
	}
	return clean, nil
}

func refuse(w http.ResponseWriter, status int, fault *fault) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(graphql.Response{Errors: gqlerror.List{fault.graphql()}})
}

// stream serves one request over SSE, within the principal's bound and with a
// deadline for every write.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, principal string) {
	most := h.config.Connections.streams()
	if !h.connections.enter(h.connections.streams, principal, most) {
		refuse(w, http.StatusTooManyRequests, overLimit("streams", most+1, most))
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

// root answers from the configuration.
type root struct {
	config  Config
	streams *conc.WaitGroup
}

type (
	queries       struct{ root }
	mutations     struct{ root }
	subscriptions struct{ root }
	conversations struct{ root }
	runs          struct{ root }
)

var _ generated.ResolverRoot = root{}

// Query answers queries.
func (r root) Query() generated.QueryResolver { return queries{r} }

// Mutation takes mutations.
func (r root) Mutation() generated.MutationResolver { return mutations{r} }

// Subscription serves streams.
func (r root) Subscription() generated.SubscriptionResolver { return subscriptions{r} }

// Conversation answers the edges of a conversation.
func (r root) Conversation() generated.ConversationResolver { return conversations{r} }

// Run answers the edges of a run.
func (r root) Run() generated.RunResolver { return runs{r} }

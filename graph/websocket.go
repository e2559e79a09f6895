package graph

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/coder/websocket"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"golang.org/x/time/rate"
)

// subprotocol is the one websocket protocol that is spoken.
const subprotocol = "graphql-transport-ws"

// closeForbidden closes a websocket whose token is not, or no longer, good.
const closeForbidden = 4403

// ConnectionLimits bound websockets, streams over SSE, of which a principal may
// have as many as its websockets could carry, and all other requests.
type ConnectionLimits struct {
	InitWait     time.Duration // until connection_init
	WriteWait    time.Duration // for one message to be taken
	PerPrincipal int           // websockets
	Operations   int           // at once on one websocket; an SSE request has one
	PerSecond    int           // operations begun on one websocket
	Requests     int           // at once that are neither of the two
}

// streams is how many SSE requests a principal may have at once.
func (l ConnectionLimits) streams() int { return l.PerPrincipal * l.Operations }

// DefaultConnectionLimits returns the limits of a served organisation.
func DefaultConnectionLimits() ConnectionLimits {
	return ConnectionLimits{InitWait: 3 * time.Second, WriteWait: 5 * time.Second, PerPrincipal: 8, Operations: 16, PerSecond: 20, Requests: 64}
}

// connection is one websocket.
type connection struct {
	accepted  transport.WebsocketConn
	mu        sync.Mutex
	principal string // counted for it; empty before it is known
	active    int
	pace      *rate.Limiter
	expired   func() bool // whether its token has expired; nil before it has one
}

type connectionKey struct{}

func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// connections counts the websockets, SSE streams and requests of every principal
// and bounds what one websocket does.
type connections struct {
	limits  ConnectionLimits
	mu      sync.Mutex
	open    map[string]int // websockets by key of the principal
	streams map[string]int // SSE requests by key of the principal
	// other requests by key of the principal, and SSE requests that are still read
	requests map[string]int
}

// key names a principal over all organisations.
func (s session) key() string {
	return s.caller.Principal.Organisation + "\x00" + s.caller.Principal.ID
}

var _ graphql.OperationInterceptor = (*connections)(nil)

func newConnections(limits ConnectionLimits) *connections {
	return &connections{limits: limits, open: map[string]int{}, streams: map[string]int{}, requests: map[string]int{}}
}

// ExtensionName returns the name of the extension.
func (*connections) ExtensionName() string { return "Connections" }

// Validate accepts every schema.
func (*connections) Validate(graphql.ExecutableSchema) error { return nil }

func (c *connections) enter(count map[string]int, principal string, most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if count[principal] >= most {
		return false
	}
	count[principal]++
	return true
}

func (c *connections) leave(count map[string]int, principal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if count[principal]--; count[principal] <= 0 {
		delete(count, principal)
	}
}

// InterceptOperation bounds the operations of one websocket.
func (c *connections) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	one := connectionOf(ctx)
	if one == nil {
		return next(ctx)
	}
	if fault := c.begin(one); fault != nil {
		return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{fault.graphql()}})
	}
	// The transport cancels the context of an operation when it is over.
	context.AfterFunc(ctx, one.end)
	return next(ctx)
}

func (c *connections) begin(one *connection) *fault {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.pace != nil && !one.pace.Allow() {
		return overLimit("operations per second", c.limits.PerSecond+1, c.limits.PerSecond)
	}
	if one.active >= c.limits.Operations {
		return overLimit("operations at once", one.active+1, c.limits.Operations)
	}
	one.active++
	return nil
}

func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active--
}

func (h *Handler) websocket() transport.Websocket {
	limit := int64(h.config.Limits.BodyBytes)
	return transport.Websocket{
		Implementation:   upgraded{},
		InitTimeout:      h.config.Connections.InitWait,
		InitFunc:         h.initialise,
		CloseFunc:        h.closed,
		PayloadReadLimit: &limit,
		PingPongInterval: 20 * time.Second,
	}
}

// initialise admits a websocket by the token in its first message; nothing
// else counts. The connection lives no longer than the token.
func (h *Handler) initialise(ctx context.Context, payload transport.InitPayload) (context.Context, *transport.InitPayload, error) {
	forbidden := transport.AppendCloseReason(transport.WithWebsocketCloseCode(ctx, closeForbidden), "Forbidden")
	s, err := h.authenticate(ctx, payload.GetString("authorization"))
	if err != nil {
		return forbidden, nil, errUnauthenticated
	}
	most := h.config.Connections.PerPrincipal
	if !h.connections.enter(h.connections.open, s.key(), most) {
		return forbidden, nil, overLimit("connections", most+1, most)
	}
	one := connectionOf(ctx)
	one.mu.Lock()
	one.principal = s.key()
	one.pace = rate.NewLimiter(rate.Limit(h.config.Connections.PerSecond), h.config.Connections.PerSecond)
	one.mu.Unlock()
	ctx, cancel := context.WithTimeout(withSession(ctx, s), s.expires.Sub(h.config.Clock()))
	one.mu.Lock()
	one.expired = func() bool { return ctx.Err() == context.DeadlineExceeded }
	one.mu.Unlock()
	context.AfterFunc(ctx, cancel)
	return ctx, nil, nil
}

func (h *Handler) closed(ctx context.Context, _ int) {
	one := connectionOf(ctx)
	if one == nil {
		return
	}
	one.mu.Lock()
	principal := one.principal
	one.principal = ""
	one.mu.Unlock()
	if principal != "" {
		h.connections.leave(h.connections.open, principal)
	}
}

// accept upgrades a request, or answers why not.
func (h *Handler) accept(w http.ResponseWriter, r *http.Request, one *connection) (transport.WebsocketConn, error) {
	coder := transport.CoderWebsocketImplementation{AcceptOptions: websocket.AcceptOptions{OriginPatterns: h.config.Origins}}
	conn, err := coder.Accept(w, r, transport.WebsocketAcceptOptions{Subprotocols: []string{subprotocol}})
	if err != nil {
		return nil, err
	}
	return &socket{WebsocketConn: conn, wait: h.config.Connections.WriteWait, of: one}, nil
}

// upgraded gives the transport the websocket that was accepted before: the
// transport itself would write to the process's log about those that were not.
type upgraded struct{}

// Accept returns the websocket of the request.
func (upgraded) Accept(_ http.ResponseWriter, r *http.Request, _ transport.WebsocketAcceptOptions) (transport.WebsocketConn, error) {
	return connectionOf(r.Context()).accepted, nil
}

// socket is a websocket whose writes do not wait for ever and which says why it
// is closed.
type socket struct {
	transport.WebsocketConn
	wait time.Duration
	of   *connection
}

// WriteJSON closes the connection when the message is not taken in time.
func (s *socket) WriteJSON(v any) error {
	timer := time.AfterFunc(s.wait, func() { _ = s.WebsocketConn.Close() })
	defer timer.Stop()
	return s.WebsocketConn.WriteJSON(v)
}

// WriteClose closes with closeForbidden where the token has expired: a client
// takes an ordinary close for the end of its streams.
func (s *socket) WriteClose(code int, message string) error {
	s.of.mu.Lock()
	expired := s.of.expired
	s.of.mu.Unlock()
	if expired != nil && expired() {
		code, message = closeForbidden, "Token expired"
	}
	return s.WebsocketConn.WriteClose(code, message)
}

// SetReadLimit bounds a message.
func (s *socket) SetReadLimit(limit int64) {
	if limited, ok := s.WebsocketConn.(transport.WebsocketReadLimiter); ok {
		limited.SetReadLimit(limit)
	}
}

// SetReadDeadline bounds the wait for the next message.
func (s *socket) SetReadDeadline(deadline time.Time) error {
	if limited, ok := s.WebsocketConn.(transport.WebsocketReadDeadliner); ok {
		return limited.SetReadDeadline(deadline)
	}
	return nil
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

package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/coder/websocket"
)

// subprotocol is the one websocket protocol that is spoken.
const subprotocol = "graphql-transport-ws"

// What a websocket is closed with, as the protocol has it.
const (
	closeMalformed    = 4400
	closeUnauthorized = 4401
	closeLater        = 1013 // nobody can be looked up now
	closeForbidden    = 4403 // its token is not, or no longer, good
	closeInitLate     = 4408
	closeRepeatedID   = 4409
	closeTooMany      = 4429
)

// nobody is for whom a websocket counts before it has said whose it is.
const nobody = ""

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
	if err != nil && !errors.Is(err, ErrToken) {
		later := transport.AppendCloseReason(transport.WithWebsocketCloseCode(ctx, closeLater), "Try again later")
		return later, nil, ErrDirectory
	}
	if err != nil {
		return forbidden, nil, ErrUnauthenticated
	}
	most := h.config.Connections.PerPrincipal
	if !h.connections.enter(h.connections.open, s.key(), most) {
		many := transport.AppendCloseReason(transport.WithWebsocketCloseCode(ctx, closeTooMany), "Too many connections")
		return many, nil, OverLimit("connections", most+1, most)
	}
	one := connectionOf(ctx)
	one.count(func() { h.connections.leave(h.connections.open, s.key()) })
	one.mu.Lock()
	one.pace = h.config.Connections.pace()
	one.mu.Unlock()
	ctx, cancel := context.WithTimeout(withSession(ctx, s), s.expires.Sub(h.config.Clock()))
	one.mu.Lock()
	one.expired = func() bool { return ctx.Err() == context.DeadlineExceeded }
	one.mu.Unlock()
	context.AfterFunc(ctx, cancel)
	return ctx, nil, nil
}

func (h *Handler) closed(ctx context.Context, _ int) {
	if one := connectionOf(ctx); one != nil {
		one.count(nil)
	}
}

// upgrade serves one websocket. Until it says whose it is, it counts for nobody:
// of those there may be only so many.
func (h *Handler) upgrade(w http.ResponseWriter, r *http.Request) {
	offered := strings.Split(r.Header.Get("Sec-WebSocket-Protocol"), ",")
	if !slices.ContainsFunc(offered, func(p string) bool { return strings.TrimSpace(p) == subprotocol }) {
		refuse(w, http.StatusBadRequest, BadRequest("The websocket protocol is "+subprotocol+"."))
		return
	}
	// Only one protocol is spoken, whatever else was offered.
	r.Header.Set("Sec-WebSocket-Protocol", subprotocol)
	one := &connection{pings: h.config.Connections.pace()}
	most := h.config.Connections.Waiting
	if !h.connections.enter(h.connections.open, nobody, most) {
		refuse(w, http.StatusServiceUnavailable, OverLimit("connections that wait to begin", most+1, most))
		return
	}
	one.count(func() { h.connections.leave(h.connections.open, nobody) })
	defer one.count(nil)
	accepted, err := h.accept(w, r, one)
	if err != nil {
		h.config.Log.DebugContext(r.Context(), "graph: a websocket was refused", "error", err)
		return
	}
	one.accepted = accepted
	h.server.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), connectionKey{}, one)))
}

// accept upgrades a request, or answers why not.
func (h *Handler) accept(w http.ResponseWriter, r *http.Request, one *connection) (transport.WebsocketConn, error) {
	coder := transport.CoderWebsocketImplementation{AcceptOptions: websocket.AcceptOptions{OriginPatterns: h.config.Origins}}
	conn, err := coder.Accept(w, r, transport.WebsocketAcceptOptions{Subprotocols: []string{subprotocol}})
	if err != nil {
		return nil, err
	}
	return &socket{WebsocketConn: conn, wait: h.config.Connections.WriteWait, clock: h.config.Clock, of: one}, nil
}

// upgraded gives the transport the websocket that was accepted before: the
// transport itself would write to the process's log about those that were not.
type upgraded struct{}

// Accept returns the websocket of the request.
func (upgraded) Accept(_ http.ResponseWriter, r *http.Request, _ transport.WebsocketAcceptOptions) (transport.WebsocketConn, error) {
	return connectionOf(r.Context()).accepted, nil
}

// socket is a websocket whose writes do not wait for ever, which keeps to the
// protocol where the transport does not, and which says why it is closed.
type socket struct {
	transport.WebsocketConn
	wait  time.Duration
	clock func() time.Time
	of    *connection
	begun bool // connection_init came; for the one who reads
	names names
}

// envelope is one message of the protocol.
type envelope struct {
	Payload json.RawMessage `json:"payload,omitempty"`
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
}

// names keeps the operations of a websocket apart. The transport would run a
// second one under the id of one that runs, and mix what both say; so towards it
// each has a name that is never used again.
type names struct {
	mu     sync.Mutex
	serial int
	inner  map[string]string // by the client's id: what runs
	outer  map[string]string // the other way
}

func (n *names) enter(id string) (name string, free bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, runs := n.inner[id]; runs {
		return "", false
	}
	if n.inner == nil {
		n.inner, n.outer = map[string]string{}, map[string]string{}
	}
	n.serial++
	name = strconv.Itoa(n.serial)
	n.inner[id], n.outer[name] = name, id
	return name, true
}

// leave ends an operation by the client's id.
func (n *names) leave(id string) (name string, ran bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, ran = n.inner[id]
	delete(n.inner, id)
	delete(n.outer, name)
	return name, ran
}

// of returns the client's id of a name, unless its operation has ended.
func (n *names) of(name string) (id string, runs bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, runs = n.outer[name]
	return id, runs
}

// breach is why a websocket is closed.
type breach struct {
	code   int
	reason string
}

var malformed = &breach{closeMalformed, "Invalid message received"}

// NextReader returns the next message that the transport is to hear. One that
// breaks the protocol closes the connection.
func (s *socket) NextReader() (int, io.Reader, error) {
	for {
		kind, body, err := s.WebsocketConn.NextReader()
		if err != nil {
			return kind, body, err
		}
		var message envelope
		wrong := malformed
		if json.NewDecoder(body).Decode(&message) == nil {
			wrong = s.admit(&message)
		}
		if wrong != nil {
			_ = s.WriteClose(wrong.code, wrong.reason)
			return kind, nil, transport.ErrWebsocketClosed
		}
		if message.Type == "" {
			continue
		}
		raw, err := json.Marshal(message)
		return kind, bytes.NewReader(raw), err
	}
}

// admit checks a message and gives its operation a name; a message without a
// type is not passed on.
func (s *socket) admit(m *envelope) *breach {
	switch m.Type {
	case "connection_init":
		var said map[string]any
		if s.begun {
			return &breach{closeTooMany, "Too many initialisation requests"}
		}
		if len(m.Payload) > 0 && json.Unmarshal(m.Payload, &said) != nil {
			return malformed
		}
		s.begun = true
	case "subscribe":
		if !s.begun {
			return &breach{closeUnauthorized, "Unauthorized"}
		}
		name, free := s.names.enter(m.ID)
		if m.ID == "" || !free {
			return &breach{closeRepeatedID, "Subscriber for this id already exists"}
		}
		m.ID = name
	case "complete":
		name, ran := s.names.leave(m.ID)
		if m.ID = name; !ran {
			m.Type = ""
		}
	case "ping", "pong":
		if !s.of.pings.AllowN(s.clock(), 1) {
			return &breach{closeTooMany, "Too many pings"}
		}
	default:
		return malformed
	}
	return nil
}

// WriteJSON closes the connection when the message is not taken in time. What
// an operation says that has ended for the client is not sent.
func (s *socket) WriteJSON(v any) error {
	var message envelope
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &message); err != nil {
		return err
	}
	if message.ID != "" {
		id, runs := s.names.of(message.ID)
		if !runs {
			return nil
		}
		if message.ID = id; message.Type == "complete" || message.Type == "error" {
			s.names.leave(id)
		}
	}
	timer := time.AfterFunc(s.wait, func() { _ = s.WebsocketConn.Close() })
	defer timer.Stop()
	return s.WebsocketConn.WriteJSON(message)
}

// WriteClose closes with closeForbidden where the token has expired: a client
// takes an ordinary close for the end of its streams.
func (s *socket) WriteClose(code int, message string) error {
	s.of.mu.Lock()
	expired := s.of.expired
	s.of.mu.Unlock()
	switch {
	case expired != nil && expired():
		code, message = closeForbidden, "Token expired"
	case message == "connection initialisation timeout":
		code = closeInitLate
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

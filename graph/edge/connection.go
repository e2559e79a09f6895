package edge

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"golang.org/x/time/rate"

	"gantry.dev/orchestrator/engine"
)

// ConnectionLimits bound websockets, streams over SSE, of which a principal may
// have as many as its websockets could carry, and all other requests.
type ConnectionLimits struct {
	InitWait     time.Duration // until connection_init
	Waiting      int           // websockets that have not sent it, over all
	WriteWait    time.Duration // for one message to be taken
	PerPrincipal int           // websockets
	Operations   int           // at once on one websocket; an SSE request has one
	PerSecond    int           // operations begun on one websocket, and pings
	Requests     int           // at once that are neither of the two
}

// streams is how many SSE requests a principal may have at once.
func (l ConnectionLimits) streams() int { return l.PerPrincipal * l.Operations }

func (l ConnectionLimits) pace() *rate.Limiter {
	return rate.NewLimiter(rate.Limit(l.PerSecond), l.PerSecond)
}

// DefaultConnectionLimits returns the limits of a served organisation.
func DefaultConnectionLimits() ConnectionLimits {
	return ConnectionLimits{InitWait: 3 * time.Second, Waiting: 1024, WriteWait: 5 * time.Second, PerPrincipal: 8, Operations: 16, PerSecond: 20, Requests: 64}
}

// connection is one websocket.
type connection struct {
	accepted transport.WebsocketConn
	pings    *rate.Limiter
	mu       sync.Mutex
	leave    func() // ends what it counts for; nil for nothing
	active   int
	pace     *rate.Limiter // of operations; nil before its principal is known
	expired  func() bool   // whether its token has expired; nil before it has one
}

// count ends what a websocket counted for, and remembers how to end what it
// counts for now.
func (c *connection) count(leave func()) {
	c.mu.Lock()
	before := c.leave
	c.leave = leave
	c.mu.Unlock()
	if before != nil {
		before()
	}
}

type connectionKey struct{}

func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active--
}

// connections counts the websockets, SSE streams and requests of every principal
// and bounds what one websocket does.
type connections struct {
	limits  ConnectionLimits
	clock   func() time.Time
	people  People
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

var (
	_ graphql.OperationParameterMutator = (*connections)(nil)
	_ graphql.OperationInterceptor      = (*connections)(nil)
)

func newConnections(config Config) *connections {
	return &connections{limits: config.Connections, clock: config.Clock, people: config.People, open: map[string]int{}, streams: map[string]int{}, requests: map[string]int{}}
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

// MutateOperationParameters bounds how fast operations come, before anything is
// done for one.
func (c *connections) MutateOperationParameters(ctx context.Context, _ *graphql.RawParams) *gqlerror.Error {
	one := connectionOf(ctx)
	if one == nil {
		return nil
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.pace != nil && !one.pace.AllowN(c.clock(), 1) {
		return OverLimit("operations per second", c.limits.PerSecond+1, c.limits.PerSecond).GraphQL()
	}
	return nil
}

// InterceptOperation bounds the operations of one websocket, and looks its
// principal up anew for each: it may be open for long.
func (c *connections) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	one := connectionOf(ctx)
	if one == nil {
		return next(ctx)
	}
	s, _ := ctx.Value(sessionKey{}).(session)
	before := s.caller.Principal
	var err error
	if s.caller.Principal, err = c.people.Principal(ctx, before.Organisation, before.ID); err != nil {
		return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{unlisted(err).GraphQL()}})
	}
	ctx = withSession(ctx, s)
	if fault := c.begin(one); fault != nil {
		return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{fault.GraphQL()}})
	}
	// The transport cancels the context of an operation when it is over.
	context.AfterFunc(ctx, one.end)
	return next(ctx)
}

func (c *connections) begin(one *connection) *Fault {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.active >= c.limits.Operations {
		return OverLimit("operations at once", one.active+1, c.limits.Operations)
	}
	one.active++
	return nil
}

// unlisted says why somebody whose token is good was not found: they are not
// known any more, or nobody can be looked up.
func unlisted(err error) *Fault {
	if errors.Is(err, engine.ErrNotFound) {
		return ErrUnauthenticated
	}
	return ErrDirectory
}

package mcp

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sourcegraph/conc/panics"

	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
)

// link is the way to one server: at most one session at a time, which all
// calls share.
type link struct {
	pool         *Pool
	organisation string
	server       server.Server
	digest       string
	turn         chan struct{} // holds one token: whoever opens the session
	progress     atomic.Int64  // notes of progress that came; they lengthen nothing

	mu      sync.Mutex
	egress  *tool.Egress
	session *sdk.ClientSession
	over    *atomic.Bool // the session's connection was closed; nil: nobody knows
	users   int
	idle    *time.Timer
	served  map[string]*remote // by definition digest: what to look at when the list changes
	asking  []*asking          // calls under way, which the server may have questions about
	changed bool               // the list is another since it was looked at
	looking bool               // somebody looks at the list as often as it changes
}

// serve remembers a tool, so that a change of the server's list finds it.
func (l *link) serve(t *remote) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.served[t.definition.Digest()] = t
}

// use returns the session, opened if there is none, and how to say that it is
// no longer needed. Errors are *tool.Failure: nothing was asked of the server.
func (l *link) use(ctx context.Context) (*sdk.ClientSession, func(), error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, nil, unreachable("another call has been connecting to it")
	}
	l.mu.Lock()
	session, over := l.session, l.over
	l.mu.Unlock()
	if session != nil && over != nil && over.Load() {
		l.drop(session)
		session = nil
	}
	if session == nil {
		var err error
		if session, err = l.open(ctx); err != nil {
			return nil, nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
	if l.idle != nil {
		l.idle.Stop()
	}
	return session, func() { l.rest(session) }, nil
}

// rest closes the session after a while in which nobody used it.
func (l *link) rest(session *sdk.ClientSession) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	l.idle = time.AfterFunc(l.pool.config.Idle, func() {
		l.mu.Lock()
		unused := l.users == 0
		l.mu.Unlock()
		if unused {
			l.drop(session)
		}
	})
}

// drop closes a session; nil is whichever there is.
func (l *link) drop(session *sdk.ClientSession) {
	l.mu.Lock()
	if session == nil {
		session = l.session
	}
	if l.session == session {
		l.session = nil
	}
	if l.idle != nil {
		l.idle.Stop()
	}
	l.mu.Unlock()
	if session != nil {
		_ = session.Close() // the other side may be gone already
	}
}

// open begins a session. What is not offered to a server it cannot ask for: no
// sampling, no roots.
func (l *link) open(ctx context.Context) (*sdk.ClientSession, error) {
	transport, err := l.transport(ctx)
	if err != nil {
		return nil, l.refused(ctx, err)
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "gantry", Version: "1"}, &sdk.ClientOptions{
		Logger: slog.New(slog.DiscardHandler),
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
			Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}}},
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler:     l.elicited,
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { l.listChanged() },
		ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) {
			l.progress.Add(1)
		},
	})
	client.AddSendingMiddleware(uncached, unbroken)
	client.AddReceivingMiddleware(unbroken)
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return nil, l.refused(ctx, err)
	}
	l.mu.Lock()
	l.session, l.over = session, nil
	if w, is := transport.(*watched); is {
		l.over = &w.over
	}
	l.mu.Unlock()
	if !l.pool.beside(func(context.Context) {
		_ = session.Wait() // how it ended does not matter
		l.drop(session)
	}) {
		_ = session.Close()
		return nil, unreachable("the process is ending")
	}
	return session, nil
}

// refused turns what kept a session from beginning into a failure. Its own text
// may hold anything the server said.
func (l *link) refused(ctx context.Context, err error) error {
	var failure *tool.Failure
	switch {
	case errors.As(err, &failure):
		return failure
	case errors.Is(err, server.ErrAnother):
		return err
	case ctx.Err() != nil:
		return unreachable("no session began in time")
	}
	l.pool.config.Log.Warn("no session with an MCP server", "server", l.server.Name)
	return unreachable("no session could be begun with the server")
}

func unreachable(why string) *tool.Failure {
	return &tool.Failure{Code: tool.FailedUnreachable, Detail: why + "; nothing was sent"}
}

// uncached has the library keep no list: what a server lets be kept could be
// another by now.
func uncached(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, request sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, request)
		switch r := result.(type) {
		case *sdk.ListToolsResult:
			if r != nil {
				r.TTLMs = 0
			}
		case *sdk.ReadResourceResult:
			if r != nil {
				r.TTLMs = 0
			}
		}
		return result, err
	}
}

var errBroke = errors.New("the message cannot be taken")

// unbroken keeps what a server sends from breaking the process: the library
// does not look whether everything in a message is there, and takes messages
// where nobody else could catch that.
func unbroken(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, request sdk.Request) (result sdk.Result, err error) {
		defer func() {
			if recover() != nil {
				result, err = nil, errBroke
			}
		}()
		return next(ctx, method, request)
	}
}

// The bounds of looking at a list that changes.
const (
	lookingTakes = 30 * time.Second
	lookingRests = time.Second // between two looks, however often it changes
)

// listChanged has somebody look at every tool of the server that is registered
// here. There is one look at a time; what changes during one is looked at by the
// next.
func (l *link) listChanged() {
	l.mu.Lock()
	l.changed = true
	begun := l.looking
	l.looking = true
	l.mu.Unlock()
	if begun {
		return
	}
	l.pool.beside(func(ctx context.Context) {
		for l.look(ctx) {
			rest := time.NewTimer(lookingRests)
			select {
			case <-rest.C:
			case <-ctx.Done():
				rest.Stop()
				return
			}
		}
	})
}

// look looks at the tools once if the list has changed, and reports whether it
// had.
func (l *link) look(ctx context.Context) bool {
	l.mu.Lock()
	if !l.changed {
		l.looking = false
		l.mu.Unlock()
		return false
	}
	l.changed = false
	tools := slices.Collect(maps.Values(l.served))
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookingTakes)
	defer cancel()
	for _, t := range tools {
		_ = panics.Try(func() { _ = t.Verify(ctx, tool.Invocation{}) }) // what changed is quarantined by it
	}
	return true
}

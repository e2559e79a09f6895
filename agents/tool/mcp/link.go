package mcp

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

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
	looking      atomic.Bool   // the list is about to be looked at

	mu      sync.Mutex
	egress  *tool.Egress
	session *sdk.ClientSession
	users   int
	idle    *time.Timer
	served  map[string]*remote // by definition digest: what to look at when the list changes
	asking  []*asking          // calls under way, which the server may have questions about
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
	session := l.session
	l.mu.Unlock()
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
	client.AddSendingMiddleware(uncached)
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return nil, l.refused(ctx, err)
	}
	l.mu.Lock()
	l.session = session
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

// lookingTakes bounds one look at a list that changed.
const lookingTakes = 30 * time.Second

// listChanged looks at every tool of the server that is registered here. Of
// many changes at once the last one is looked at for all.
func (l *link) listChanged() {
	if l.looking.Swap(true) {
		return
	}
	l.pool.beside(func(ctx context.Context) {
		l.looking.Store(false)
		ctx, cancel := context.WithTimeout(ctx, lookingTakes)
		defer cancel()
		l.mu.Lock()
		var tools []*remote
		for _, t := range l.served {
			tools = append(tools, t)
		}
		l.mu.Unlock()
		for _, t := range tools {
			_ = t.Verify(ctx, tool.Invocation{}) // what changed is quarantined by it
		}
	})
}

package graph

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/opaque"
	"gantry.dev/graph/remembered"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/group"
	"gantry.dev/orchestrator/run"
)

// ending carries why a stream ended from its goroutine to the last response.
type ending struct {
	mu      sync.Mutex // a reader that left does not wait for the stream's end
	err     error      // until it was told
	expired bool       // the end of the token was told
}

// expire reports whether the end of the token was not told before.
func (e *ending) expire() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.expired
	e.expired = true
	return !before
}

func (e *ending) set(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

func (e *ending) take() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.err
	e.err = nil
	return err
}

type endingKey struct{}

// endings sends the error of a stream that ended with one as its last
// response, the same over websocket and SSE.
type endings struct{ present graphql.ErrorPresenterFunc }

var (
	_ graphql.OperationInterceptor = endings{}
	_ graphql.ResponseInterceptor  = endings{}
)

// ExtensionName returns the name of the extension.
func (endings) ExtensionName() string { return "Endings" }

// Validate accepts every schema.
func (endings) Validate(graphql.ExecutableSchema) error { return nil }

// InterceptOperation gives every subscription a place for its ending, and every
// query one for what it has read.
func (endings) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	switch graphql.GetOperationContext(ctx).Operation.Operation {
	case ast.Subscription:
		ctx = context.WithValue(ctx, endingKey{}, &ending{})
	case ast.Query:
		ctx = withReadings(ctx)
	case ast.Mutation: // it reads what it has changed
	}
	return next(ctx)
}

// InterceptResponse adds the last response.
func (e endings) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	response := next(ctx)
	end, ok := ctx.Value(endingKey{}).(*ending)
	if response != nil || !ok {
		return response
	}
	err := end.take()
	if cause := context.Cause(ctx); err == nil && end.expire() && errors.Is(cause, edge.ErrExpired) {
		err = cause
	}
	if err == nil {
		return nil
	}
	return &graphql.Response{Errors: gqlerror.List{e.present(ctx, err)}}
}

// pulse ticks every half second.
func pulse() (ticks <-chan time.Time, stop func()) {
	ticker := time.NewTicker(500 * time.Millisecond)
	return ticker.C, ticker.Stop
}

// watch is one reader of a stream: who it is, and what it may still see.
type watch struct {
	root
	caller Caller
	admit  func(ctx context.Context, caller Caller) error // whether the reader may still listen
	epoch  string                                         // in which it was admitted
}

func (r root) watch(ctx context.Context, admit func(context.Context, Caller) error) (*watch, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	w := &watch{root: r, caller: caller, admit: admit}
	if w.epoch, err = r.config.Directory.Epoch(ctx, caller.Principal.Organisation); err != nil {
		return nil, err
	}
	return w, w.enter(ctx)
}

// enter looks the reader up and asks whether it may listen.
func (w *watch) enter(ctx context.Context) error {
	now, err := w.config.Directory.Principal(ctx, w.caller.Principal.Organisation, w.caller.Principal.ID)
	if errors.Is(err, engine.ErrNotFound) {
		return edge.ErrUnauthenticated
	}
	if err != nil {
		return err
	}
	w.caller.Principal = now
	return w.admit(ctx, w.caller)
}

// refresh lets the reader in anew when something else is in force than before,
// so that a right that was taken away stops the stream.
func (w *watch) refresh(ctx context.Context) error {
	epoch, err := w.config.Directory.Epoch(ctx, w.caller.Principal.Organisation)
	if err != nil || epoch == w.epoch {
		return err
	}
	if err := w.enter(ctx); errors.Is(err, engine.ErrNotFound) {
		return errRevoked
	} else if err != nil {
		return err
	}
	w.epoch = epoch
	return nil
}

// gone reports why the reader of a quiet stream may no longer follow it. A
// journal that does not answer is no reason while there is nothing to show.
func (w *watch) gone(ctx context.Context) error {
	var known *edge.Fault
	if err := w.refresh(ctx); errors.As(err, &known) {
		return known
	}
	return nil
}

// stream maps what comes from source until it ends. Why it ended goes to the
// last response; a source that ends by itself had a reader that was too slow.
func stream[A, B any](ctx context.Context, w *watch, source <-chan A, show func(A) (B, error), last func() error) <-chan B {
	out := make(chan B)
	end, _ := ctx.Value(endingKey{}).(*ending)
	w.streams.Go(func() {
		defer close(out)
		err := pump(ctx, w, source, out, show)
		if err == nil && ctx.Err() == nil {
			err = last()
		}
		if end != nil {
			end.set(err)
		}
	})
	return out
}

// errUnchanged says that there is nothing new to show.
var errUnchanged = errors.New("nothing changed")

func pump[A, B any](ctx context.Context, w *watch, source <-chan A, out chan<- B, show func(A) (B, error)) error {
	ticks, stop := w.config.Pulse()
	defer stop()
	var next B
	var sink chan<- B // nil while there is nothing to send
	from := source    // nil while there is
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
			if err := w.gone(ctx); err != nil {
				return err
			}
		case sink <- next:
			from, sink = source, nil
		case item, open := <-from:
			if !open {
				return nil
			}
			if err := w.refresh(ctx); err != nil {
				return err
			}
			shown, err := show(item)
			if errors.Is(err, errUnchanged) {
				continue
			}
			if err != nil {
				return err
			}
			next, from, sink = shown, nil, out
		}
	}
}

// RunEvents follows a run, or a run with all below it.
func (r subscriptions) RunEvents(ctx context.Context, id string, after *string, descendants bool) (<-chan *generated.RunEvent, error) {
	runID, w, err := r.watchRun(ctx, id)
	if err != nil {
		return nil, err
	}
	if descendants {
		return r.treeEvents(ctx, w, runID, after)
	}
	from, err := opaque.ReadPosition(after, runID)
	if err != nil {
		return nil, err
	}
	state, err := r.config.Runs.State(ctx, w.caller, runID)
	if err != nil {
		return nil, err
	}
	if from > state.Version {
		return nil, opaque.ErrCursor
	}
	source, err := r.config.Live.Run(ctx, w.caller.Principal.Organisation, runID, from)
	if err != nil {
		return nil, err
	}
	show := func(record run.Record) (*generated.RunEvent, error) {
		events, err := r.events(ctx, w.caller, []run.Record{record})
		if err != nil {
			return nil, err
		}
		from = record.Seq
		return events[0], nil
	}
	return stream(ctx, w, source, show, func() error { return resync(opaque.Position(runID, from)) }), nil
}

func (r root) watchRun(ctx context.Context, id string) (string, *watch, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return "", nil, err
	}
	parts, err := opaque.ReadID(id, caller.Principal.Organisation, opaque.Run, 1)
	if err != nil {
		return "", nil, err
	}
	w, err := r.watch(ctx, func(ctx context.Context, caller Caller) error {
		state, err := r.config.Runs.State(ctx, caller, parts[0])
		if err == nil && state.Started.Organisation != caller.Principal.Organisation {
			return engine.ErrNotFound
		}
		return err
	})
	return parts[0], w, err
}

// ConversationEvents follows a conversation.
func (r subscriptions) ConversationEvents(ctx context.Context, id string, after *string) (<-chan *generated.EntryEdge, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := opaque.ReadID(id, caller.Principal.Organisation, opaque.Conversation, 1)
	if err != nil {
		return nil, err
	}
	w, err := r.watch(ctx, func(ctx context.Context, caller Caller) error {
		_, err := r.config.Conversations.Get(ctx, caller, parts[0])
		return err
	})
	if err != nil {
		return nil, err
	}
	from, err := opaque.ReadPosition(after, parts[0])
	if err != nil {
		return nil, err
	}
	source, err := r.config.Live.Conversation(ctx, w.caller.Principal.Organisation, parts[0], from)
	if err != nil {
		return nil, err
	}
	show := func(entry engine.Entry) (*generated.EntryEdge, error) {
		if entry.Kind == group.Left && entry.Whom == w.caller.Principal.ID {
			if err := w.admit(ctx, w.caller); errors.Is(err, engine.ErrNotFound) {
				return nil, errRevoked
			} else if err != nil {
				return nil, err
			}
		}
		edges, err := r.entries(ctx, w.caller, []engine.Entry{entry})
		if err != nil {
			return nil, err
		}
		from = entry.Number
		return edges[0], nil
	}
	return stream(ctx, w, source, show, func() error { return resync(opaque.Position(parts[0], from)) }), nil
}

// InboxChanged follows the viewer's inbox: whole at once, and on each change.
func (r subscriptions) InboxChanged(ctx context.Context) (<-chan []*generated.InboxItem, error) {
	w, err := r.watch(ctx, func(context.Context, Caller) error { return nil })
	if err != nil {
		return nil, err
	}
	changes, err := r.config.Live.Inbox(ctx, w.caller.Principal.Organisation)
	if err != nil {
		return nil, err
	}
	source := begun(ctx, w, struct{}{}, changes)
	var told []*generated.InboxItem
	return stream(ctx, w, source, func(struct{}) ([]*generated.InboxItem, error) {
		items, err := r.inbox(ctx, w.caller)
		if err == nil && told != nil && reflect.DeepEqual(items, told) {
			return nil, errUnchanged
		}
		told = items
		return items, err
	}, func() error { return resync("") }), nil
}

// begun is a source that tells one thing at once, and then those of rest.
func begun[A any](ctx context.Context, w *watch, first A, rest <-chan A) <-chan A {
	source := make(chan A)
	w.streams.Go(func() {
		defer close(source)
		for next, open := first, true; open; {
			select {
			case <-ctx.Done():
				return
			case source <- next:
			}
			select {
			case <-ctx.Done():
				return
			case next, open = <-rest:
			}
		}
	})
	return source
}

// MemoryChanged follows what the viewer sees in memory.
func (r subscriptions) MemoryChanged(ctx context.Context, spaces []string) (<-chan []*generated.MemoryChange, error) {
	narrowed, err := remembered.Filter(&generated.MemoryFilter{Spaces: spaces, Archived: true})
	if err != nil {
		return nil, err
	}
	w, err := r.watch(ctx, func(context.Context, Caller) error { return nil })
	if err != nil {
		return nil, err
	}
	changes, err := r.config.Live.Memory(ctx) // before what is there is read, so that nothing falls between
	if err != nil {
		return nil, err
	}
	f := &follower{watch: w, filter: narrowed}
	show := func(ids []string) ([]*generated.MemoryChange, error) {
		told, err := f.look(ctx, ids)
		if err == nil && ids != nil && len(told) == 0 {
			return nil, errUnchanged
		}
		return told, err
	}
	return stream(ctx, w, begun(ctx, w, nil, changes), show, func() error { return resync("") }), nil
}

// TurnText follows the text of the turn in flight.
func (r subscriptions) TurnText(ctx context.Context, id string) (<-chan *generated.TurnDelta, error) {
	runID, w, err := r.watchRun(ctx, id)
	if err != nil {
		return nil, err
	}
	source, err := r.config.Live.TurnText(ctx, runID)
	if err != nil {
		return nil, err
	}
	show := func(delta Delta) (*generated.TurnDelta, error) {
		out := &generated.TurnDelta{Turn: delta.Turn, Attempt: delta.Attempt, Text: delta.Text, LiveOnly: true}
		if !w.caller.Principal.Sees(delta.Marking.Labels) {
			out.Text = redacted
		}
		return out, nil
	}
	return stream(ctx, w, source, show, func() error { return nil }), nil
}

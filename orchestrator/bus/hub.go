package bus

import (
	"context"
	"sync"
	"time"

	"github.com/sourcegraph/conc"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// depth is how many items a feed keeps, and so how far a live reader may fall
// behind.
const depth = 256

// Source is where runs are read; every journal is one.
type Source interface {
	// Load returns the head and the records after a number, in order.
	// engine.ErrNotFound for an unknown run.
	Load(ctx context.Context, run string, after uint64) (run.Head, []run.Record, error)
}

// EntrySource is where conversations are read.
type EntrySource interface {
	// Entries returns the entries after a number, in order, at least one where
	// there is one, and the number of the newest there is, 0 for none.
	Entries(ctx context.Context, organisation, conversation string, after uint64) ([]engine.Entry, uint64, error)
}

type conversation struct{ organisation, id string }

// Hub gives this process's readers live tails: one per process, whatever the
// number of readers. The readers of one run share its readings of the journal.
type Hub struct {
	source  Source
	entries EntrySource
	tasks   conc.WaitGroup

	mu     sync.Mutex
	closed bool
	stops  map[int]context.CancelCauseFunc // of the tails
	serial int
	runs   map[string]*feed[run.Record]
	talks  map[conversation]*feed[engine.Entry]
	boxes  signals // by organisation
	moves  signals // by run
	texts  texts
}

// NewHub returns a hub over the journal.
func NewHub(source Source, entries EntrySource) *Hub {
	return &Hub{
		source: source, entries: entries, stops: map[int]context.CancelCauseFunc{}, runs: map[string]*feed[run.Record]{},
		talks: map[conversation]*feed[engine.Entry]{}, boxes: signals{}, moves: signals{}, texts: texts{},
	}
}

// Tail follows a run from behind the given sequence number. It is over, with a
// nil error, when the run has ended and everything recorded is told; outcomes
// that come after the end are told by a later tail. Errors: engine.ErrNotFound,
// ErrCursor, ErrClosed, that of the journal.
func (h *Hub) Tail(ctx context.Context, id string, after uint64) (*Tail[run.Record], error) {
	return join(ctx, h, h.runs, id, after, line[run.Record]{
		read: func(ctx context.Context, after uint64) (reading[run.Record], error) {
			head, records, err := h.source.Load(ctx, id, after)
			if err != nil {
				return reading[run.Record]{}, err
			}
			got := reading[run.Record]{items: records, tip: head.Version, ended: head.Status.Ended()}
			if len(records) > 0 {
				got.tip = max(got.tip, records[len(records)-1].Seq)
			}
			return got, nil
		},
		number: func(r run.Record) uint64 { return r.Seq },
		final:  func(r run.Record) bool { return r.Kind == run.KindEnded },
	})
}

// Conversation follows a conversation from behind the given entry number,
// until the reader leaves. Errors: ErrCursor, ErrClosed, that of the journal.
func (h *Hub) Conversation(ctx context.Context, organisation, id string, after uint64) (*Tail[engine.Entry], error) {
	return join(ctx, h, h.talks, conversation{organisation, id}, after, line[engine.Entry]{
		read: func(ctx context.Context, after uint64) (reading[engine.Entry], error) {
			entries, newest, err := h.entries.Entries(ctx, organisation, id, after)
			return reading[engine.Entry]{items: entries, tip: newest}, err
		},
		number: func(e engine.Entry) uint64 { return e.Number },
		final:  func(engine.Entry) bool { return false },
	})
}

// join makes a reader follow the feed of a key and starts the feed for the
// first one. The feed hears everything from here on, before it first reads.
func join[K comparable, T any](ctx context.Context, h *Hub, feeds map[K]*feed[T], key K, after uint64, l line[T]) (*Tail[T], error) {
	ctx, stop := context.WithCancelCause(ctx)
	f, leave, err := enter(h, feeds, key, l, stop)
	if err != nil {
		stop(err)
		return nil, err
	}
	first, err := f.ask(ctx, after)
	if err == nil && after > first.tip {
		err = ErrCursor
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		leave()
		return nil, err
	}
	tail := &Tail[T]{items: make(chan T)}
	started := h.start(func() {
		defer leave()
		tail.end(tail.follow(ctx, f, after, first.items))
	})
	if !started {
		leave()
		return nil, ErrClosed
	}
	return tail, nil
}

func enter[K comparable, T any](h *Hub, feeds map[K]*feed[T], key K, l line[T], stop context.CancelCauseFunc) (*feed[T], func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, nil, ErrClosed
	}
	f, running := feeds[key]
	if !running {
		f = newFeed(l, depth)
		var life context.Context
		life, f.cancel = context.WithCancel(context.Background())
		feeds[key] = f
		h.tasks.Go(func() { f.run(life) })
	}
	f.members++
	h.serial++
	serial := h.serial
	h.stops[serial] = stop
	return f, func() {
		stop(context.Canceled)
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.stops, serial)
		if f.members--; f.members == 0 {
			f.cancel()
			delete(feeds, key)
		}
	}, nil
}

// start runs a task that Close waits for, unless the hub is closed.
func (h *Hub) start(task func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.tasks.Go(task)
	return true
}

// Close ends all tails with ErrClosed and waits for them.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for _, stop := range h.stops {
		stop(ErrClosed)
	}
	h.mu.Unlock()
	h.tasks.Wait()
}

// Offer takes a batch that this process has committed. It does not block.
func (h *Hub) Offer(batch Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	offer(h.runs, batch.Rows, func(row Committed) (string, run.Record) { return row.Record.Run, row.Record })
	offer(h.talks, batch.Entries, func(e engine.Entry) (conversation, engine.Entry) {
		return conversation{e.Organisation, e.Conversation}, e
	})
	for _, row := range batch.Rows {
		h.moves.signal(row.Record.Run)
	}
	h.boxes.signal(batch.Inboxes...)
}

// offer gives each feed its part of a batch, in order.
func offer[K comparable, R, T any](feeds map[K]*feed[T], rows []R, split func(R) (K, T)) {
	if len(feeds) == 0 {
		return
	}
	parts := map[K][]T{}
	for _, row := range rows {
		key, item := split(row)
		if _, followed := feeds[key]; followed {
			parts[key] = append(parts[key], item)
		}
	}
	for key, part := range parts {
		feeds[key].offer(part)
	}
}

// Hear takes the notice of a batch that any process has committed.
func (h *Hub) Hear(notice Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, span := range notice.Runs {
		if f, followed := h.runs[span.Run]; followed {
			f.hear(span.To)
		}
		h.moves.signal(span.Run)
	}
	for _, place := range notice.Conversations {
		if f, followed := h.talks[conversation{place.Organisation, place.Conversation}]; followed {
			f.hear(place.Number)
		}
	}
	h.boxes.signal(notice.Inboxes...)
}

// Look reads the journal for every reader, whatever was heard: what makes a
// lost notice cost time only.
func (h *Hub) Look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.runs {
		f.look()
	}
	for _, f := range h.talks {
		f.look()
	}
	h.boxes.signalAll()
	h.moves.signalAll()
}

// Run hears the bus and looks at every tick until the context ends. While the
// bus cannot be heard, the ticks carry on alone. Moved is called for every run
// that a notice names, with the writer who committed it; nil for nobody.
func (h *Hub) Run(ctx context.Context, b *Bus, ticks <-chan time.Time, moved func(writer, runID string)) error {
	var tasks conc.WaitGroup
	defer tasks.Wait()
	ears := ears{bus: b, tasks: &tasks}
	hearNotice := func(_ context.Context, m Message) error {
		if notice, err := readNotice(m); err == nil {
			h.Hear(notice)
			for _, span := range notice.Runs {
				if moved != nil {
					moved(m.Metadata[MetaWriter], span.Run)
				}
			}
		}
		return nil
	}
	hearText := func(_ context.Context, m Message) error {
		if delta, err := readText(m); err == nil {
			h.offerText(delta)
		}
		return nil
	}
	events, words := ears.listen(ctx, TopicEvents, hearNotice), ears.listen(ctx, TopicText, hearText)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks:
			h.Look()
			events()
			words()
		}
	}
}

// ears keeps subscriptions up.
type ears struct {
	bus   *Bus
	tasks *conc.WaitGroup
}

// listen keeps a subscription up until the context ends. One that failed or was
// lost is begun again when it is asked for: to begin one may take as long as a
// broker that answers nothing is waited for, and nobody else waits for that.
func (e ears) listen(ctx context.Context, topic Topic, handle func(context.Context, Message) error) (again func()) {
	asked := make(chan struct{}, 1)
	e.tasks.Go(func() {
		for {
			if subscription, err := e.bus.Subscribe(ctx, topic); err == nil {
				subscription.Each(handle)
			}
			select {
			case <-ctx.Done():
				return
			case <-asked:
			}
		}
	})
	return func() {
		select {
		case asked <- struct{}{}:
		default: // it is asked for already
		}
	}
}

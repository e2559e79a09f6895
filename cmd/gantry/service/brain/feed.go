package brain

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/sourcegraph/conc"

	"gantry.dev/memory/store"
)

// Changes are what was committed to memory.
type Changes interface {
	// Changed returns what was committed since a cursor, some of it again, and the
	// next cursor.
	Changed(ctx context.Context, since int64) (changes []store.Change, next int64, err error)
}

// Feed tells readers in this process what changed in memory, by whichever
// process: one question at each tick serves all of them, and none is asked while
// nobody listens.
type Feed struct {
	changes Changes
	ticks   func() (ticks <-chan time.Time, stop func())
	tasks   *conc.WaitGroup // ends with the readers' contexts

	mu      sync.Mutex
	readers map[chan []string]bool
	stop    context.CancelFunc // of the asking; nil while nobody listens
}

// NewFeed returns a feed that asks at each tick.
func NewFeed(changes Changes, ticks func() (<-chan time.Time, func()), tasks *conc.WaitGroup) *Feed {
	return &Feed{changes: changes, ticks: ticks, tasks: tasks, readers: map[chan []string]bool{}}
}

// pending is how many answers a reader may be behind before it counts as too
// slow.
const pending = 64

// Listen tells the ids of items that change from now on. The channel is closed
// when the context ends, or when the reader is too slow.
func (f *Feed) Listen(ctx context.Context) (<-chan []string, error) {
	reader := make(chan []string, pending)
	if err := f.enter(ctx, reader); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.leave(reader)
	})
	return reader, nil
}

// enter lets a reader in, and begins to ask for the first.
func (f *Feed) enter(ctx context.Context, reader chan []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop == nil {
		_, cursor, err := f.changes.Changed(ctx, math.MaxInt64)
		if err != nil {
			return err
		}
		var asking context.Context
		asking, f.stop = context.WithCancel(context.WithoutCancel(ctx))
		f.tasks.Go(func() { f.ask(asking, cursor) })
	}
	f.readers[reader] = true
	return nil
}

// leave takes a reader out, and ends the asking with the last. The lock is held.
func (f *Feed) leave(reader chan []string) {
	if !f.readers[reader] {
		return
	}
	delete(f.readers, reader)
	close(reader)
	if len(f.readers) == 0 {
		f.stop()
		f.stop = nil
	}
}

// ask tells what changed until nobody listens. A store that does not answer is
// asked again.
func (f *Feed) ask(ctx context.Context, cursor int64) {
	ticks, stop := f.ticks()
	defer stop()
	known := map[string]uint64{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		changes, next, err := f.changes.Changed(ctx, cursor)
		if err != nil {
			continue
		}
		var ids []string
		latest := map[string]uint64{}
		for _, change := range changes {
			latest[change.Item] = max(latest[change.Item], change.Version)
			if version, met := known[change.Item]; !met || version < change.Version {
				ids = append(ids, change.Item)
			}
		}
		cursor, known = next, latest
		if len(ids) > 0 {
			f.tell(ctx, ids)
		}
	}
}

func (f *Feed) tell(ctx context.Context, ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return // those who listen now are served by another
	}
	for reader := range f.readers {
		select {
		case reader <- ids:
		default:
			f.leave(reader)
		}
	}
}

package bus

import (
	"context"
	"errors"
	"sync"
)

// Errors of a tail.
var (
	ErrSlow   = errors.New("the reader fell too far behind, resume from its last cursor")
	ErrCursor = errors.New("the cursor is beyond the end")
)

// Tail is a gap-free, ordered flow of what follows a cursor, first what is
// recorded, then live.
type Tail[T any] struct {
	items chan T
	mu    sync.Mutex
	err   error
}

// Items returns the flow. It is closed when the tail is over.
func (t *Tail[T]) Items() <-chan T { return t.items }

// Err says why the flow was closed: nil when all is told and no more is to
// come, ErrSlow, ErrClosed, the error of the reader's context, or that of the
// journal. Whatever the error, the tail can be resumed from the last number
// received.
func (t *Tail[T]) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *Tail[T]) end(err error) {
	t.mu.Lock()
	t.err = err
	t.mu.Unlock()
	close(t.items)
}

// follow hands the first reading over and then what the feed holds, one item
// after the other. The reader sets the pace while it catches up; once it was
// live, it may not fall behind by more than the feed keeps.
func (t *Tail[T]) follow(ctx context.Context, f *feed[T], after uint64, first []T) error {
	cursor, backlog, live := after, first, false
	for {
		for _, item := range backlog {
			select {
			case t.items <- item:
				cursor = f.line.number(item)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		backlog = nil
		item, at, changed := f.next(cursor)
		var out chan T
		switch at {
		case stateEnded:
			return nil
		case stateBehind:
			if live {
				return ErrSlow
			}
			got, err := f.ask(ctx, cursor)
			if err != nil {
				return err
			}
			backlog = got.items
			continue
		case stateNext:
			live, out = true, t.items
		case stateCaught:
			live = true
		}
		select {
		case out <- item:
			cursor++
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

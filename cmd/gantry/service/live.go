package service

import (
	"context"
	"errors"

	"github.com/sourcegraph/conc"

	"gantry.dev/graph"
	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// Live tells what happens, from the process's hub.
type Live struct {
	*Service
	Tasks *conc.WaitGroup // ends with the readers' contexts
}

// Run tells the records of a run after a number. It stays open after the end:
// a late outcome changes the inbox, and the inbox says when to look again.
func (l Live) Run(ctx context.Context, organisation, runID string, after uint64) (<-chan run.Record, error) {
	changed, err := l.Hub.Inbox(ctx, organisation)
	if err != nil {
		return nil, err
	}
	tail, err := l.Hub.Tail(ctx, runID, after)
	if err != nil {
		return nil, cursorOf(err)
	}
	out := make(chan run.Record)
	l.Tasks.Go(func() {
		defer close(out)
		for {
			last, more := pass(ctx, tail, out, func(r run.Record) uint64 { return r.Seq })
			after = max(after, last)
			if !more {
				return
			}
			select {
			case <-ctx.Done():
				return
			case _, open := <-changed:
				if !open {
					return
				}
			}
			if tail, err = l.Hub.Tail(ctx, runID, after); err != nil {
				return
			}
		}
	})
	return out, nil
}

// pass hands a tail on and returns the last number, and whether the tail ended
// because all is told.
func pass[T any](ctx context.Context, tail *bus.Tail[T], out chan<- T, number func(T) uint64) (last uint64, more bool) {
	for item := range tail.Items() {
		select {
		case out <- item:
			last = number(item)
		case <-ctx.Done():
		}
	}
	return last, tail.Err() == nil && ctx.Err() == nil
}

func cursorOf(err error) error {
	if errors.Is(err, bus.ErrCursor) {
		return graph.ErrCursor
	}
	return err
}

// Conversation tells the entries of a conversation after a number.
func (l Live) Conversation(ctx context.Context, organisation, conversationID string, after uint64) (<-chan engine.Entry, error) {
	tail, err := l.Hub.Conversation(ctx, organisation, conversationID, after)
	if err != nil {
		return nil, cursorOf(err)
	}
	return tail.Items(), nil
}

// Inbox tells that something of the organisation's inbox changed.
func (l Live) Inbox(ctx context.Context, organisation string) (<-chan struct{}, error) {
	return l.Hub.Inbox(ctx, organisation)
}

// Memory tells the ids of items that changed in memory.
func (l Live) Memory(ctx context.Context) (<-chan []string, error) {
	return l.Feed.Listen(ctx)
}

// TurnText tells the pieces of the turn in flight.
func (l Live) TurnText(ctx context.Context, runID string) (<-chan graph.Delta, error) {
	source, err := l.Hub.TurnText(ctx, runID)
	if err != nil {
		return nil, err
	}
	out := make(chan graph.Delta)
	l.Tasks.Go(func() {
		defer close(out)
		for delta := range source {
			select {
			case out <- graph.Delta{Turn: delta.Turn, Attempt: delta.Attempt, Text: delta.Text, Marking: delta.Marking}:
			case <-ctx.Done():
			}
		}
	})
	return out, nil
}

package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gantry.dev/orchestrator/run"
)

const (
	queued   = 1024 // batches that wait for the relay; beyond it reads the journal
	pageRows = 512  // records of one reading of the journal
)

// Log is the journal as its writers wrote it.
type Log interface {
	// Writers returns the ids of all writers that committed anything.
	Writers(ctx context.Context) ([]string, error)
	// After returns up to limit records of one writer behind a number, in
	// order and without gaps.
	After(ctx context.Context, writer string, n uint64, limit int) ([]run.Record, error)
}

// cursorName is under which name a relay keeps its cursors.
const cursorName = "relay"

// Cursors keeps how far each writer's batches were told.
type Cursors interface {
	// Cursor returns a saved number, 0 for none.
	Cursor(ctx context.Context, name, writer string) (uint64, error)
	// SaveCursor keeps a number.
	SaveCursor(ctx context.Context, name, writer string, n uint64) error
}

// Relay tells every committed batch, at least once, and each writer's in
// order. A batch comes straight from the writer that committed it; whatever is
// missed, over a restart or while the bus is away, is read from the journal
// behind the cursor. The cursor is saved at every tick and at the end, always
// after what it stands for was told: a crash tells a little twice.
type Relay struct {
	bus     *Bus
	log     Log
	cursors Cursors
	queue   chan Batch

	mu     sync.Mutex
	behind bool // a batch did not fit into the queue

	told  map[string]uint64 // by writer; only Run uses it
	saved map[string]uint64
}

// NewRelay returns a relay that tells on the bus.
func NewRelay(b *Bus, log Log, cursors Cursors) *Relay {
	return &Relay{bus: b, log: log, cursors: cursors, queue: make(chan Batch, queued), told: map[string]uint64{}, saved: map[string]uint64{}}
}

// Offer takes a batch right after its commit. It does not block.
func (r *Relay) Offer(batch Batch) {
	if len(batch.Rows) == 0 {
		return
	}
	select {
	case r.queue <- batch:
	default:
		r.mu.Lock()
		r.behind = true
		r.mu.Unlock()
	}
}

func (r *Relay) wasBehind() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	behind := r.behind
	r.behind = false
	return behind
}

// Run tells batches until the context ends; then it saves its cursors. report
// gets what went wrong; the relay carries on at the next tick, which also
// reads what other writers left untold.
func (r *Relay) Run(ctx context.Context, ticks <-chan time.Time, report func(error)) {
	if err := r.catchUp(ctx); err != nil && ctx.Err() == nil {
		report(err)
	}
	for {
		select {
		case <-ctx.Done():
			if err := r.save(context.WithoutCancel(ctx)); err != nil {
				report(err)
			}
			return
		case batch := <-r.queue:
			err := r.tell(ctx, batch)
			if r.wasBehind() {
				err = errors.Join(err, r.catchUpWriter(ctx, batch.Writer))
			}
			if err != nil && ctx.Err() == nil {
				report(err)
			}
		case <-ticks:
			if err := errors.Join(r.catchUp(ctx), r.save(ctx)); err != nil && ctx.Err() == nil {
				report(err)
			}
		}
	}
}

// tell publishes a batch if it continues what was told of its writer.
func (r *Relay) tell(ctx context.Context, batch Batch) error {
	told, err := r.cursor(ctx, batch.Writer)
	if err != nil {
		return err
	}
	first, last := batch.Rows[0].N, batch.Rows[len(batch.Rows)-1].N
	if first > told+1 {
		if err := r.catchUpWriter(ctx, batch.Writer); err != nil {
			return err
		}
		told = r.told[batch.Writer]
	}
	if last <= told {
		return r.wake(ctx, batch)
	}
	m, err := noticeMessage(batch)
	if err != nil {
		return err
	}
	if err := r.bus.Publish(ctx, TopicEvents, m); err != nil {
		return err
	}
	r.told[batch.Writer] = last
	return r.wake(ctx, batch)
}

// wake lets every worker look for work at once.
func (r *Relay) wake(ctx context.Context, batch Batch) error {
	if !batch.Due {
		return nil
	}
	return r.bus.Publish(ctx, TopicDue, Message{ID: fmt.Sprintf("%s:%d", batch.Writer, batch.Rows[len(batch.Rows)-1].N)})
}

// cursor returns how far a writer was told.
func (r *Relay) cursor(ctx context.Context, writer string) (uint64, error) {
	if told, known := r.told[writer]; known {
		return told, nil
	}
	told, err := r.cursors.Cursor(ctx, cursorName, writer)
	if err != nil {
		return 0, fmt.Errorf("load cursor: %w", err)
	}
	r.told[writer], r.saved[writer] = told, told
	return told, nil
}

func (r *Relay) catchUp(ctx context.Context) error {
	writers, err := r.log.Writers(ctx)
	if err != nil {
		return fmt.Errorf("read writers: %w", err)
	}
	for _, writer := range writers {
		if err := r.catchUpWriter(ctx, writer); err != nil {
			return err
		}
	}
	return nil
}

// catchUpWriter tells what the journal has behind a writer's cursor.
func (r *Relay) catchUpWriter(ctx context.Context, writer string) error {
	told, err := r.cursor(ctx, writer)
	if err != nil {
		return err
	}
	for {
		records, err := r.log.After(ctx, writer, told, pageRows)
		if err != nil {
			return fmt.Errorf("read journal: %w", err)
		}
		if len(records) == 0 {
			return nil
		}
		batch := Batch{Writer: writer}
		for i, record := range records {
			batch.Rows = append(batch.Rows, Committed{N: told + uint64(i) + 1, Record: record})
		}
		m, err := noticeMessage(batch)
		if err != nil {
			return err
		}
		if err := r.bus.Publish(ctx, TopicEvents, m); err != nil {
			return err
		}
		told += uint64(len(records))
		r.told[writer] = told
		if len(records) < pageRows {
			return nil
		}
	}
}

func (r *Relay) save(ctx context.Context) error {
	for writer, told := range r.told {
		if told == r.saved[writer] {
			continue
		}
		if err := r.cursors.SaveCursor(ctx, cursorName, writer, told); err != nil {
			return fmt.Errorf("save cursor: %w", err)
		}
		r.saved[writer] = told
	}
	return nil
}

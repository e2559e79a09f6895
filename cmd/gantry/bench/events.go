package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/sourcegraph/conc/pool"

	"gantry.dev/cmd/gantry/bench/machine"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/run"
)

// Listening is how events are followed.
type Listening struct {
	Config
	Subscribers int     // each follows a run of its own
	Rate        float64 // events a second, of all runs together
}

// Each round of the benchmark's work leaves so many records, and each principal
// may have so many websockets.
const (
	recordsPerRound = 11
	socketsEach     = 8
)

// Events measures how long it takes from the decision of an event, which is
// before its commit, to a subscriber: P8 over websockets, and inside the
// process; and what subscribers cost: P16 and P17. Times are those of the
// records, which have milliseconds.
func Events(ctx context.Context, l Listening) (*Report, error) {
	report := newReport()
	if l.Subscribers < 1 || l.Rate <= 0 {
		return report, errors.New("subscribers, rate: must be above 0")
	}
	if err := l.Validate(); err != nil {
		return report, err
	}
	for _, dsn := range l.stores() {
		h, err := build(ctx, l.Folder, dsn, func(c *wire.Config) {
			c.Listen, c.Runs = "127.0.0.1:0", max(64, l.Subscribers)
		})
		if err != nil {
			return report, err
		}
		h.readers = (l.Subscribers + socketsEach - 1) / socketsEach
		err = h.reopen(ctx)
		if err == nil {
			err = l.on(ctx, h, report)
		}
		if err := errors.Join(err, h.raze()); err != nil {
			return report, err
		}
	}
	return report, nil
}

func (l Listening) on(ctx context.Context, h *house, report *Report) error {
	store := h.database.Name()
	limits, err := machine.Measure(ctx, h.database, h.folder, machine.Like{RowsPerCommit: 64, RowBytes: 400, For: l.Limit})
	if err != nil {
		return err
	}
	tell := func(id, name, unit string, goal *Goal, values ...float64) {
		report.add(Figure{ID: id, Store: store, Name: name, Unit: unit, Goal: goal}, values...)
	}
	tell("bare", "median commit of one row", "ms", nil, limits.CommitMs.P50)
	l.say(store + ", subscribers inside the process")
	inside, err := l.inside(ctx, h)
	if err != nil {
		return err
	}
	tell("events", "told inside the process", "1/s", nil, inside.rate)
	tell("events", "decision to follower inside the process, p50", "ms", nil, inside.P50)
	tell("events", "decision to follower inside the process, p99", "ms", nil, inside.P99)
	l.say(fmt.Sprintf("%s, %d websockets", store, l.Subscribers))
	outside, err := l.outside(ctx, h)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("decision to one of %d websockets", l.Subscribers)
	tell("P8", name+", p50", "ms", atMost(5, 5), outside.P50)
	tell("P8", name+", p99", "ms", atMost(30, 15), outside.P99)
	tell("P8", name+", p99 in bare commits", "", nil, machine.Over(outside.P99, limits.CommitMs.P50))
	tell("events", "told over websockets", "1/s", nil, outside.rate)
	tell("P17", "memory of a websocket's subscriber, with the client in the same process", "KB", nil, outside.bytes/1000)
	tell("P17", "goroutines of it, with those of the client", "", nil, outside.goroutines)
	ratios, err := l.crowded(ctx, h)
	tell("P16", fmt.Sprintf("rounds a second with %d followers to with one for each run", l.Subscribers), "", atLeast(0.9, 0.95), ratios...)
	return err
}

// heard is what subscribers were told.
type heard struct {
	machine.Quantiles
	rate              float64 // events a second
	bytes, goroutines float64 // of one subscriber
}

// ears gathers the delays of all subscribers.
type ears struct {
	mu     sync.Mutex
	delays []time.Duration
	since  time.Time // what was decided before was replayed
}

func (e *ears) hear(at time.Time) {
	now := time.Now()
	if at.Before(e.since) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.delays = append(e.delays, max(0, now.Sub(at)))
}

func (e *ears) told() heard {
	return heard{Quantiles: machine.QuantilesOf(e.delays), rate: machine.Over(float64(len(e.delays)), time.Since(e.since).Seconds())}
}

// order makes each run think so long that all of them together have the rate.
func (l Listening) order() order {
	think := time.Duration(float64(l.Subscribers*recordsPerRound) / l.Rate * float64(time.Second))
	return order{rounds: max(2, int(l.For/max(think, time.Millisecond))), think: think}
}

// begin starts the runs, spread over the time that a round takes.
func (l Listening) begin(ctx context.Context, h *house) ([]string, error) {
	ids := make([]string, l.Subscribers)
	starters := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError().WithMaxGoroutines(16)
	for i := range ids {
		starters.Go(func(ctx context.Context) (err error) {
			ids[i], err = h.startAs(ctx, h.reader(i/socketsEach), l.order())
			return err
		})
	}
	return ids, starters.Wait()
}

func (l Listening) inside(ctx context.Context, h *house) (heard, error) {
	ids, err := l.begin(ctx, h)
	if err != nil {
		return heard{}, err
	}
	all := ears{since: time.Now()}
	followers := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError()
	for _, id := range ids {
		followers.Go(func(ctx context.Context) error {
			return h.follow(ctx, id, func(record run.Record) (bool, error) {
				all.hear(time.UnixMilli(record.AtMs))
				return record.Kind != run.KindEnded, nil
			})
		})
	}
	err = followers.Wait()
	return all.told(), err
}

func (l Listening) outside(ctx context.Context, h *house) (told heard, err error) {
	conns := make([]*websocket.Conn, l.Subscribers)
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.CloseNow() // nothing more is wanted of it
			}
		}
	}()
	heap, resident, goroutines := weigh()
	dialers := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError().WithMaxGoroutines(16)
	for i := range conns {
		dialers.Go(func(ctx context.Context) error {
			token, err := h.token(h.reader(i / socketsEach).ID)
			if err != nil {
				return err
			}
			conns[i], err = h.dial(ctx, token)
			return err
		})
	}
	if err := dialers.Wait(); err != nil {
		return told, err
	}
	ids, err := l.begin(ctx, h)
	if err != nil {
		return told, err
	}
	for i, conn := range conns {
		if err := subscribe(ctx, conn, ids[i]); err != nil {
			return told, err
		}
	}
	heapAfter, residentAfter, goroutinesAfter := weigh()
	all := ears{since: time.Now()}
	readers := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError()
	for _, conn := range conns {
		readers.Go(func(ctx context.Context) error {
			return read(ctx, conn, func(e toldEvent) bool {
				all.hear(e.At)
				return e.Kind != string(run.KindEnded)
			})
		})
	}
	err = readers.Wait()
	told = all.told()
	grown := max(float64(residentAfter)-float64(resident), float64(heapAfter)-float64(heap))
	told.bytes, told.goroutines = grown/float64(l.Subscribers), float64(goroutinesAfter-goroutines)/float64(l.Subscribers)
	return told, err
}

// crowded compares rounds a second with many followers to those with the one
// that each run of the load has anyway.
func (l Listening) crowded(ctx context.Context, h *house) (ratios []float64, err error) {
	const concurrency = 64
	w := work{concurrency: concurrency, order: order{rounds: l.Rounds}, duration: l.For}
	for range l.Repeat {
		alone, err := h.drive(ctx, w)
		if err != nil {
			return ratios, err
		}
		crowd := w
		crowd.followers = (l.Subscribers + concurrency - 1) / concurrency
		many, err := h.drive(ctx, crowd)
		if err != nil {
			return ratios, err
		}
		ratios = append(ratios, machine.Over(many.RoundsPerSecond(), alone.RoundsPerSecond()))
	}
	return ratios, nil
}

package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"gantry.dev/memory/index"
	"gantry.dev/memory/store"
)

// Relaying says how what was committed is told to an index that does not follow
// the store by itself.
type Relaying struct {
	// Rest is how long an item waits after an index could not be reached; 1 s
	// when 0. An item whose fault it is waits twice as long after each attempt.
	Rest time.Duration
	// Report is told what goes wrong, once until it goes well again; nil: nobody is.
	Report func(error)
}

const (
	// mostRelayed is how many items a relay leases at once.
	mostRelayed = 100
	// longestRest is how long an item waits between two attempts at most.
	longestRest = 5 * time.Minute
)

// ErrParked means that an item could not be brought to an index, however often
// that was tried.
var ErrParked = errors.New("an item cannot be brought to the index; it waits for an operator")

func (r Relaying) withDefaults() Relaying {
	if r.Rest == 0 {
		r.Rest = time.Second
	}
	if r.Report == nil {
		r.Report = func(error) {}
	}
	return r
}

// Relay tells the indexes what is queued until the context ends: when it is
// rung, and at every tick. A ring that is lost makes it late, and nothing else.
// Any number of relays may be at work.
func (s *Service) Relay(ctx context.Context, r Relaying, rung <-chan struct{}, ticks <-chan time.Time) {
	well := true
	for s.store.Relayed() {
		_, err := s.Drain(ctx, r)
		if err != nil && well && ctx.Err() == nil {
			r.withDefaults().Report(err)
		}
		well = err == nil
		select {
		case <-ctx.Done():
			return
		case <-rung:
		case <-ticks:
		}
	}
}

// Drain tells the indexes what is queued and due, and returns how many items
// that were. It ends with the first index that cannot be reached.
func (s *Service) Drain(ctx context.Context, r Relaying) (told int, err error) {
	r = r.withDefaults()
	for {
		b, err := s.claim(ctx, r)
		if err != nil || len(b.tasks) == 0 {
			return told, err
		}
		n, err := b.work(ctx)
		told += n
		if err != nil {
			return told, err
		}
	}
}

// relayed is a batch of tasks that a relay holds a lease on.
type relayed struct {
	Relaying
	service *Service
	tasks   []store.Task
	owner   string    // of this lease alone: an older one of the same relay is somebody else's
	ends    time.Time // before the lease does
}

func (s *Service) claim(ctx context.Context, r Relaying) (relayed, error) {
	// Counted from before the database's clock is read, so that whoever keeps to it
	// is done before anybody else may begin.
	b := relayed{Relaying: r, service: s, owner: strings.ToLower(rand.Text()), ends: time.Now().Add(s.config.Lease * 2 / 3)}
	nowMs, err := s.store.Now(ctx)
	if err == nil {
		b.tasks, err = s.store.Claim(ctx, b.owner, nowMs, nowMs+s.config.Lease.Milliseconds(), mostRelayed)
	}
	return b, err
}

// work tells the present of all items, and settles what became of each. Where
// one of them cannot be told, it keeps up none of the others.
func (b relayed) work(ctx context.Context) (told int, err error) {
	bounded, cancel := context.WithDeadline(ctx, b.ends)
	defer cancel()
	err = b.tell(bounded, b.tasks)
	switch {
	case err == nil:
		return len(b.tasks), b.done(ctx, b.tasks)
	case unreachable(bounded, err):
		return 0, errors.Join(err, b.later(ctx, b.Rest, false, b.tasks))
	}
	for n, task := range b.tasks {
		one := b.tasks[n : n+1]
		err := b.tell(bounded, one)
		switch {
		case err == nil:
			told++
			err = b.done(ctx, one)
		case unreachable(bounded, err):
			return told, errors.Join(err, b.later(ctx, b.Rest, false, b.tasks[n:]))
		default:
			err = b.failed(ctx, task, err)
		}
		if err != nil {
			return told, err
		}
	}
	return told, nil
}

func (b relayed) tell(ctx context.Context, tasks []store.Task) error {
	items := make([]string, len(tasks))
	for n, task := range tasks {
		items[n] = task.Item
	}
	spaces, err := b.service.follow.current(ctx)
	if err != nil {
		return err
	}
	return applyPresent(ctx, b.service.store, spaces.all(), items)
}

// unreachable reports whether a failure is nobody's fault among the items.
func unreachable(ctx context.Context, err error) bool {
	return errors.Is(err, index.ErrUnavailable) || ctx.Err() != nil
}

func (b relayed) done(ctx context.Context, tasks []store.Task) error {
	nowMs, err := b.service.store.Now(ctx)
	if err != nil {
		return err
	}
	return b.service.store.Done(ctx, b.owner, nowMs, tasks)
}

// later gives tasks back, also while the process ends.
func (b relayed) later(ctx context.Context, rest time.Duration, counts bool, tasks []store.Task) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.service.config.Lease)
	defer cancel()
	nowMs, err := b.service.store.Now(ctx)
	if err != nil {
		return err
	}
	return b.service.store.Later(ctx, b.owner, nowMs+rest.Milliseconds(), counts, tasks)
}

// failed gives a task back that cannot be done, or parks it.
func (b relayed) failed(ctx context.Context, task store.Task, cause error) error {
	if task.Attempts >= store.MostAttempts {
		b.Report(fmt.Errorf("%w: %s: %w", ErrParked, task.Item, cause))
		return b.later(ctx, 0, true, []store.Task{task})
	}
	return b.later(ctx, min(b.Rest<<task.Attempts, longestRest), true, []store.Task{task})
}

// Queue is what waits to be told to an index that does not follow the store.
type Queue struct {
	Relayed bool         // whether there is such an index
	Waiting int          // items, parked ones among them
	Parked  []store.Task // items that are not tried any more, at most 1,000
}

// Queue returns what waits.
func (s *Service) Queue(ctx context.Context) (q Queue, err error) {
	nowMs, err := s.store.Now(ctx)
	if err != nil {
		return q, err
	}
	q.Relayed = s.store.Relayed()
	if q.Waiting, err = s.store.Waiting(ctx); err == nil {
		q.Parked, err = s.store.Parked(ctx, nowMs, 1000)
	}
	return q, err
}

// Retry lets parked items be tried again, and counts them.
func (s *Service) Retry(ctx context.Context) (int, error) {
	nowMs, err := s.store.Now(ctx)
	if err != nil {
		return 0, err
	}
	return s.store.Retry(ctx, nowMs)
}

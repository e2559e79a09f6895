package simulate

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"slices"

	"gantry.dev/orchestrator/engine"
)

// chance is the one source of everything that a seed decides.
type chance struct{ *rand.Rand }

func newChance(seed uint64) chance {
	return chance{rand.New(rand.NewPCG(seed, 0x67616e747279))} //nolint:gosec // a simulation has to be repeatable
}

// hit is true with a probability.
func (c chance) hit(p float64) bool { return p > 0 && c.Float64() < p }

// between draws from low to high, both included.
func (c chance) between(low, high int64) int64 { return low + c.Int64N(high-low+1) }

// task is one coroutine and what it waits for: a time, or whichever of a
// mailbox that holds something and a context that is done comes first.
type task struct {
	id      uint64
	process *process // nil for people and the outside
	resume  func() (struct{}, bool)
	drop    func()
	yield   func(struct{}) bool
	untilMs int64
	box     *engine.Mailbox
	ctx     context.Context //nolint:containedctx // what the task waits for
}

// event is something that happens at a time without a task of its own.
type event struct {
	atMs   int64
	number uint64
	does   func()
}

// dropped unwinds a task whose process is gone.
type dropped struct{}

// scheduler runs tasks one at a time, in an order that the chance decides,
// under a clock that moves on only when it says so.
type scheduler struct {
	chance
	nowMs   int64
	tasks   []*task
	running *task
	events  []event
	ready   []*task
	count   uint64
	steps   int
	busy    int // steps since the clock last moved
	trace   hash.Hash64
	report  func(format string, args ...any) // tells of a broken promise
}

func newScheduler(seed uint64, startMs int64) *scheduler {
	return &scheduler{chance: newChance(seed), nowMs: startMs, trace: fnv.New64a()}
}

// spawn makes a task that the scheduler begins when its turn comes.
func (s *scheduler) spawn(owner *process, body func()) {
	if owner != nil && owner.dead {
		return
	}
	s.count++
	t := &task{id: s.count, process: owner}
	t.resume, t.drop = iter.Pull(func(yield func(struct{}) bool) {
		defer s.catch()
		t.yield = yield
		body()
	})
	s.tasks = append(s.tasks, t)
}

func (s *scheduler) catch() {
	reason := recover()
	if _, wasDropped := reason.(dropped); reason != nil && !wasDropped {
		s.report("a task panicked: %v\n%s", reason, debug.Stack())
	}
}

// at lets something happen once at a time, outside of every task.
func (s *scheduler) at(ms int64, does func()) {
	s.count++
	s.events = append(s.events, event{atMs: ms, number: s.count, does: does})
}

// wait suspends the running task.
func (s *scheduler) wait(ctx context.Context, box *engine.Mailbox, untilMs int64) {
	t := s.running
	t.ctx, t.box, t.untilMs = ctx, box, untilMs
	if !t.yield(struct{}{}) {
		panic(dropped{})
	}
}

// sleep suspends the running task for a time; for none it lets others go first.
func (s *scheduler) sleep(ms int64) { s.wait(nil, nil, s.nowMs+ms) } //nolint:staticcheck // no context ends it

// note adds to the trace by which two runs of a seed are compared.
func (s *scheduler) note(words ...uint64) {
	var bytes [8]byte
	for _, word := range words {
		binary.LittleEndian.PutUint64(bytes[:], word)
		_, _ = s.trace.Write(bytes[:]) // a hash never fails
	}
}

func (t *task) due(nowMs int64) bool {
	if t.process != nil && t.process.pausedMs > nowMs {
		return false
	}
	return t.untilMs <= nowMs || t.called()
}

func (t *task) called() bool {
	return t.box != nil && len(t.box.Signal()) > 0 || t.ctx != nil && t.ctx.Err() != nil
}

// dueMs is when the task goes on if nobody calls it.
func (t *task) dueMs(nowMs int64) int64 {
	due := t.untilMs
	if t.called() {
		due = nowMs
	}
	if t.process != nil {
		due = max(due, t.process.pausedMs)
	}
	return due
}

// busySteps bounds what may happen at one instant: beyond it something turns
// in a circle.
const busySteps = 20_000

// run lets tasks go on until a time, or until it is enough, which is asked
// whenever the clock has moved.
func (s *scheduler) run(untilMs int64, enough func() bool) {
	askedMs := int64(-1)
	for s.nowMs < untilMs {
		if askedMs != s.nowMs {
			if askedMs = s.nowMs; enough() {
				return
			}
		}
		s.fire()
		s.ready = s.ready[:0]
		for _, t := range s.tasks {
			if t.due(s.nowMs) {
				s.ready = append(s.ready, t)
			}
		}
		if len(s.ready) == 0 {
			s.advance(untilMs)
			continue
		}
		s.step(s.ready[s.IntN(len(s.ready))])
		if s.busy++; s.busy > busySteps {
			s.report("more than %d steps at one instant", busySteps)
			return
		}
		if s.hit(0.1) {
			s.move(s.nowMs + 1)
		}
	}
}

func (s *scheduler) move(ms int64) { s.nowMs, s.busy = ms, 0 }

func (s *scheduler) step(t *task) {
	s.steps++
	s.note(t.id, uint64(s.nowMs))
	s.running = t
	_, goesOn := t.resume()
	s.running = nil
	if !goesOn {
		s.tasks = slices.DeleteFunc(s.tasks, func(other *task) bool { return other == t })
	}
}

// fire lets the events happen whose time has come, in their order.
func (s *scheduler) fire() {
	for {
		next := -1
		for i, e := range s.events {
			if e.atMs <= s.nowMs && (next < 0 || before(e, s.events[next])) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		does := s.events[next].does
		s.events = slices.Delete(s.events, next, next+1)
		does()
	}
}

func before(a, b event) bool {
	return cmp.Or(cmp.Compare(a.atMs, b.atMs), cmp.Compare(a.number, b.number)) < 0
}

// advance moves the clock to the next thing that happens.
func (s *scheduler) advance(untilMs int64) {
	next := untilMs
	for _, t := range s.tasks {
		next = min(next, t.dueMs(s.nowMs))
	}
	for _, e := range s.events {
		next = min(next, e.atMs)
	}
	s.move(max(next, s.nowMs+1))
}

// end drops the tasks of one process, or all tasks for nil.
func (s *scheduler) end(owner *process) {
	var kept, gone []*task
	for _, t := range s.tasks {
		if owner == nil || t.process == owner {
			gone = append(gone, t)
		} else {
			kept = append(kept, t)
		}
	}
	s.tasks = kept
	for _, t := range gone {
		s.running = t // its deferred calls may wait once more
		t.drop()
	}
	s.running = nil
}

func (s *scheduler) hash() string { return fmt.Sprintf("%016x", s.trace.Sum64()) }

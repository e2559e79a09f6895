package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	leaseMs = 15_000
	pollMs  = 500
)

var (
	errStore = errors.New("the store failed")
	errDead  = errors.New("the process is dead")
)

// bench is a journal, the outside and their people in one bubble of time: the
// clock moves on only when everything waits.
type bench struct {
	t *testing.T
	*journaltest.Memory
	rules  *fixedRules
	engine *engine.Engine
	source *counting
	limits run.Limits
	runs   int // that a worker advances side by side; 0: as many as it does by itself

	mu       sync.Mutex
	scripts  map[string][][]string // tools that a run's model proposes, by turn
	attempts map[string]int        // begun outside, by idempotency key
	effects  map[string]bool       // what happened outside, by idempotency key
	sites    map[string]func(context.Context) error
	always   map[string]func(context.Context) error // whenever a site is passed
	passed   map[string]int
	opening  []func()
	renewal  error
	epochs   map[run.EventKind]uint64 // of the last write of such an event
	stations []*station
}

// within runs a test in a bubble and checks afterwards what holds of all runs.
func within(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, rules: &fixedRules{}, source: &counting{}, scripts: map[string][][]string{}, attempts: map[string]int{},
			effects: map[string]bool{}, sites: map[string]func(context.Context) error{}, always: map[string]func(context.Context) error{}, passed: map[string]int{}, epochs: map[run.EventKind]uint64{},
			limits: run.Limits{Turns: 10, CallsPerTurn: 8, CallsAtOnce: 8, TurnAttempts: 3, CallAttempts: 3, NoProgress: 9, RepairTurns: 2,
				CheckAttempts: 2, Steers: 4, ApprovalMs: 60_000, QuestionMs: 60_000, TurnMs: 60_000, OnLimit: run.AskOnLimit}}
		b.Memory = journaltest.NewMemory(now)
		b.engine = engine.New(b, b.sourceOfRules)
		require.NoError(t, b.SetGate(t.Context(), run.GateChange{Gate: run.ConfigGate("o"), Value: b.rules.Revision()}))
		require.NoError(t, b.SetBudget(t.Context(), "department:o/d", run.Amount{MicroUSD: 1 << 40, Tokens: 1 << 40}))
		defer func() {
			b.close()
			if !t.Failed() {
				for id := range b.scripts {
					b.sound(id)
				}
			}
		}()
		test(t, b)
	})
}

func now() int64 { return time.Now().UnixMilli() }

func (b *bench) sourceOfRules(context.Context, string) (run.Rules, error) { return b.rules, nil }

func (b *bench) close() {
	for _, open := range b.opening {
		open()
	}
	for _, s := range b.stations {
		s.stop()
	}
}

// counting gives ids in their order.
type counting struct {
	mu sync.Mutex
	n  int
}

func (c *counting) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return fmt.Sprint("id", c.n)
}

func (c *counting) Salt() []byte { return []byte("salt of 16 bytes") }

// at lets something happen when a site is passed for the next time: "prepare
// EFFECT" before a worker decides its intent, "before KIND" and "after KIND"
// around the commit of an event, "begin EFFECT" and "done EFFECT" around what
// happens outside. An error before a commit loses it, one after a commit loses
// its acknowledgement.
func (b *bench) at(site string, does func(context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sites[site] = does
}

// each lets something happen whenever a site is passed, by however many at once.
func (b *bench) each(site string, does func(context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.always[site] = does
}

// hold stops what passes the site next until it is let go or given up.
func (b *bench) hold(site string) (let func()) {
	gate := make(chan struct{})
	b.at(site, func(ctx context.Context) error {
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			b.note("given up " + site)
			return ctx.Err()
		}
	})
	let = sync.OnceFunc(func() { close(gate) })
	b.opening = append(b.opening, let)
	return let
}

func (b *bench) fail(site string, err error) {
	b.at(site, func(context.Context) error { return err })
}

func (b *bench) note(site string) func(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.passed[site]++
	does := b.sites[site]
	delete(b.sites, site)
	if does == nil {
		does = b.always[site]
	}
	return does
}

func (b *bench) pass(ctx context.Context, site string) error {
	if does := b.note(site); does != nil {
		return does(ctx)
	}
	return nil
}

func (b *bench) count(site string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.passed[site]
}

// until lets time pass until something has happened.
func (b *bench) until(what string, happened func() bool) {
	b.t.Helper()
	for range 1000 {
		synctest.Wait()
		if happened() {
			return
		}
		b.later(pollMs)
	}
	b.t.Fatalf("it never happened: %s", what)
}

// later lets time pass.
func (b *bench) later(ms int64) {
	<-time.After(time.Duration(ms) * time.Millisecond)
	synctest.Wait()
}

func (b *bench) reach(site string) {
	b.t.Helper()
	b.until(site, func() bool { return b.count(site) > 0 })
}

// Append is the journal's, with what a test lets happen around it.
func (b *bench) Append(ctx context.Context, write engine.Write) error {
	for _, record := range write.Records {
		if err := b.pass(ctx, "before "+string(record.Kind)); err != nil {
			return err
		}
	}
	if err := b.Memory.Append(ctx, write); err != nil {
		return err
	}
	var lost error
	for _, record := range write.Records {
		b.mu.Lock()
		b.epochs[record.Kind] = write.Epoch
		b.mu.Unlock()
		lost = errors.Join(lost, b.pass(ctx, "after "+string(record.Kind)))
	}
	return lost
}

// Renew is the journal's, while nothing blocks it.
func (b *bench) Renew(ctx context.Context, worker string, leases []engine.Lease, ttlMs int64) ([]engine.Lease, error) {
	b.mu.Lock()
	b.passed["renew"]++
	err := b.renewal
	if b.passed["renew"] > 1000 {
		err = nil // a worker that asks without pause would stop the clock
	}
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return b.Memory.Renew(ctx, worker, leases, ttlMs)
}

// blockRenewal lets renewals fail from now on; nil lets them through.
func (b *bench) blockRenewal(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renewal = err
}

// station is a process with one worker.
type station struct {
	worker *engine.Worker
	world  *mortal
	stop   func()
	done   chan struct{}
}

// work starts a process.
func (b *bench) work(name string) *station {
	world := &mortal{}
	ctx, cancel := context.WithCancel(b.t.Context())
	s := &station{world: world, done: make(chan struct{})}
	s.worker = engine.NewWorker(engine.WorkerConfig{Name: name, Journal: b, Claims: b, Rules: b.sourceOfRules, Performer: performer{b},
		World: world, Log: slog.New(slog.DiscardHandler), LeaseMs: leaseMs, PollMs: pollMs, Runs: b.runs})
	world.Go(func() {
		defer close(s.done)
		_ = s.worker.Work(ctx) // always nil
	})
	s.stop = func() { world.thaw(); cancel(); world.Close() }
	b.stations = append(b.stations, s)
	return s
}

// ring tells every worker at once what the bus would tell them.
func (b *bench) ring(id string) {
	for _, s := range b.stations {
		s.worker.Ring(id)
	}
}

// mortal is a world that can die, or stop for a while, between any two steps.
type mortal struct {
	engine.RealWorld
	mu     sync.Mutex
	dead   bool
	frozen chan struct{}
}

func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

func (m *mortal) freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = make(chan struct{})
}

func (m *mortal) thaw() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozen != nil {
		close(m.frozen)
		m.frozen = nil
	}
}

// Await runs the operation unless the process is dead or stopped.
func (m *mortal) Await(ctx context.Context, _ string, operation func(context.Context) error) error {
	m.mu.Lock()
	dead, frozen := m.dead, m.frozen
	m.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	if dead {
		return errDead
	}
	return operation(ctx)
}

// person is somebody of the organisation.
func person(id string) policy.Principal {
	return policy.Principal{ID: id, Kind: policy.Person, Organisation: "o"}
}

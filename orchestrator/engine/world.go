package engine

import (
	"context"
	"sync"
)

// World is everything through which a worker blocks or does things side by
// side. The ordinary one is RealWorld; a simulation passes its own, so that the
// same worker code runs under a scheduler with virtual time.
type World interface {
	// NowMs is the local clock, UTC ms. It never goes back, and never decides who
	// owns a run; the database clock does.
	NowMs() int64
	// Await runs one operation that may block, at a named site.
	Await(ctx context.Context, site string, operation func(context.Context) error) error
	// Go runs a task beside the caller and is waited for at the end.
	Go(task func())
	// Wait returns once the mailbox holds something, the local clock reaches
	// untilMs, or the context is done.
	Wait(ctx context.Context, box *Mailbox, untilMs int64)
}

// Mailbox is where a run's owner finds reports and wake-ups.
type Mailbox struct {
	mu      sync.Mutex
	reports []report
	awaited int // reports on their way
	woken   bool
	signal  chan struct{}
}

// NewMailbox returns an empty mailbox.
func NewMailbox() *Mailbox { return &Mailbox{signal: make(chan struct{}, 1)} }

// Signal is ready when the mailbox holds something.
func (m *Mailbox) Signal() <-chan struct{} { return m.signal }

// Wake tells the owner that its run may have moved on.
func (m *Mailbox) Wake() {
	m.mu.Lock()
	m.woken = true
	m.mu.Unlock()
	m.ring()
}

// expect says that somebody will put a report.
func (m *Mailbox) expect() {
	m.mu.Lock()
	m.awaited++
	m.mu.Unlock()
}

// expects reports whether reports are on their way.
func (m *Mailbox) expects() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.awaited > 0
}

func (m *Mailbox) put(r report) {
	m.mu.Lock()
	m.reports = append(m.reports, r)
	m.awaited--
	m.mu.Unlock()
	m.ring()
}

func (m *Mailbox) ring() {
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

func (m *Mailbox) drain() (reports []report, woken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	reports, woken = m.reports, m.woken
	m.reports, m.woken = nil, false
	select {
	case <-m.signal:
	default:
	}
	return reports, woken
}

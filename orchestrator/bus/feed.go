package bus

import (
	"context"
	"sync"
)

// reading is what one look at the journal gave.
type reading[T any] struct {
	items []T    // after the asked number, in order
	tip   uint64 // number of the newest item there is
	ended bool   // no more is to come
}

// line says how the items of a feed are read and numbered.
type line[T any] struct {
	read   func(ctx context.Context, after uint64) (reading[T], error)
	number func(T) uint64
	final  func(T) bool // the item ends the line
}

// ask is one follower's wish for a reading.
type ask[T any] struct {
	after  uint64
	answer chan<- answer[T] // room for one
}

type answer[T any] struct {
	reading reading[T]
	err     error
}

// feed holds the newest items of one line for all who follow it. What is
// offered live is taken when it continues the line; anything else only makes
// the feed read the journal, once for everybody who waits.
type feed[T any] struct {
	line  line[T]
	depth int           // items kept, and how far a live follower may fall behind
	wake  chan struct{} // room for one

	mu      sync.Mutex
	known   bool // tip was read from the journal
	tip     uint64
	recent  []T // the last items up to tip, at most depth
	ended   bool
	told    uint64 // newest number heard of
	poll    bool
	asks    []ask[T]
	changed chan struct{} // closed at the next change
	members int           // guarded by the hub
	cancel  context.CancelFunc
}

func newFeed[T any](l line[T], depth int) *feed[T] {
	return &feed[T]{line: l, depth: depth, wake: make(chan struct{}, 1), changed: make(chan struct{})}
}

func (f *feed[T]) ring() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// offer takes committed items from this process.
func (f *feed[T]) offer(items []T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(items) == 0 {
		return
	}
	if last := f.line.number(items[len(items)-1]); !f.known || f.line.number(items[0]) > f.tip+1 {
		f.told = max(f.told, last)
		f.ring()
		return
	}
	f.extend(items)
}

// hear takes word that the line has reached a number.
func (f *feed[T]) hear(number uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number > f.tip {
		f.told = max(f.told, number)
		f.ring()
	}
}

// look asks for a reading whatever was heard.
func (f *feed[T]) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.poll = true
	f.ring()
}

// extend appends what continues the line. It is called with the lock held.
func (f *feed[T]) extend(items []T) {
	before := f.tip
	for _, item := range items {
		if f.line.number(item) != f.tip+1 {
			continue
		}
		f.tip++
		f.recent = append(f.recent, item)
		f.ended = f.ended || f.line.final(item)
	}
	if over := len(f.recent) - f.depth; over > 0 {
		f.recent = append([]T(nil), f.recent[over:]...)
	}
	if f.tip != before {
		f.tell()
	}
}

func (f *feed[T]) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// run reads the journal whenever somebody needs it, until the context ends.
func (f *feed[T]) run(ctx context.Context) {
	for {
		select {
		case <-f.wake:
			f.pull(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (f *feed[T]) pull(ctx context.Context) {
	f.mu.Lock()
	asks := f.asks
	needed := len(asks) > 0 || f.poll || f.told > f.tip
	f.asks, f.poll = nil, false
	after := f.tip
	for i, a := range asks {
		if i == 0 && !f.known {
			after = a.after
		}
		after = min(after, a.after)
	}
	f.mu.Unlock()
	if !needed {
		return
	}
	got, err := f.line.read(ctx, after)
	if err == nil {
		f.take(after, got)
	}
	for _, a := range asks {
		part := got
		skip := min(a.after-after, uint64(len(got.items)))
		part.items = got.items[skip:]
		a.answer <- answer[T]{reading: part, err: err}
	}
}

func (f *feed[T]) take(after uint64, got reading[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known {
		f.known = true
		f.tip = min(after, got.tip)
	}
	before := f.tip
	f.extend(got.items)
	f.told = f.tip // who told more was wrong, or will tell again
	if f.tip > before && got.tip > f.tip {
		f.told = got.tip // the journal gave a part only
		f.ring()
	}
	if got.ended && !f.ended && f.tip >= got.tip {
		f.ended = true
		f.tell()
	}
}

// ask reads everything after a number from the journal, together with whoever
// asks at the same time.
func (f *feed[T]) ask(ctx context.Context, after uint64) (reading[T], error) {
	back := make(chan answer[T], 1)
	f.mu.Lock()
	f.asks = append(f.asks, ask[T]{after: after, answer: back})
	f.ring()
	f.mu.Unlock()
	select {
	case a := <-back:
		return a.reading, a.err
	case <-ctx.Done():
		return reading[T]{}, ctx.Err()
	}
}

// state says where a follower of a feed stands.
type state int

const (
	stateNext   state = iota // the next item is at hand
	stateCaught              // nothing more for now
	stateEnded               // nothing more ever
	stateBehind              // the next item is no longer kept
)

// next returns the item after a number, and what is closed at the next change.
func (f *feed[T]) next(after uint64) (T, state, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var none T
	if after >= f.tip {
		if f.ended {
			return none, stateEnded, f.changed
		}
		return none, stateCaught, f.changed
	}
	oldest := f.tip - uint64(len(f.recent)) + 1
	if after+1 < oldest {
		return none, stateBehind, f.changed
	}
	return f.recent[after+1-oldest], stateNext, f.changed
}

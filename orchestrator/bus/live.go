package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"gantry.dev/orchestrator/policy"
)

// wordsKept is how many pieces of text wait for one reader before further ones
// are dropped for it.
const wordsKept = 64

// signals are the readers who want to know that something changed, by its name.
type signals map[string]map[chan struct{}]bool

func (s signals) signal(names ...string) {
	for _, name := range names {
		for reader := range s[name] {
			select {
			case reader <- struct{}{}:
			default: // one signal waits already and says the same
			}
		}
	}
}

func (s signals) signalAll() {
	for name := range s {
		s.signal(name)
	}
}

// Inbox signals that an organisation's inbox may have changed. Signals that
// nobody took yet are one. The channel is closed when the context ends.
func (h *Hub) Inbox(ctx context.Context, organisation string) (<-chan struct{}, error) {
	return watch(ctx, h, h.boxes, organisation, 1)
}

// Moves signals that something was recorded of any of its runs.
type Moves struct {
	hub     *Hub
	signals chan struct{}
	runs    []string // guarded by the hub's lock, as is ended
	ended   bool
}

// Moves returns signals of no run as yet. They end with the context: then the
// channel is closed.
func (h *Hub) Moves(ctx context.Context) (*Moves, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	m := &Moves{hub: h, signals: make(chan struct{}, 1)}
	h.serial++
	serial := h.serial
	ctx, cancel := context.WithCancelCause(ctx)
	h.stops[serial] = cancel
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.stops, serial)
		for _, run := range m.runs {
			if delete(h.moves[run], m.signals); len(h.moves[run]) == 0 {
				delete(h.moves, run)
			}
		}
		m.runs, m.ended = nil, true
		close(m.signals)
	})
	return m, nil
}

// Signals returns the channel. Signals that nobody took yet are one.
func (m *Moves) Signals() <-chan struct{} { return m.signals }

// Also adds a run: what is recorded of it from now on is signalled. It reports
// whether the run is new here.
func (m *Moves) Also(run string) bool {
	h := m.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.ended || h.moves[run][m.signals] {
		return false
	}
	if h.moves[run] == nil {
		h.moves[run] = map[chan struct{}]bool{}
	}
	h.moves[run][m.signals] = true
	m.runs = append(m.runs, run)
	return true
}

// TextDelta is a piece of the text of a turn in progress. It is shown while it
// is fresh and never kept; what counts is the finished text in the journal.
type TextDelta struct {
	Run     string         `json:"run"`
	Turn    int            `json:"turn"`
	Attempt int            `json:"attempt"`
	Part    int            `json:"part"` // from 1 in its attempt: a jump shows that pieces were lost
	Text    string         `json:"text"`
	Marking policy.Marking `json:"marking"` // of what the turn has read
}

type texts map[string]map[chan TextDelta]bool

// TurnText gives the pieces of text of a run's turns from now on. A reader
// that does not keep up misses pieces. The channel is closed when the context
// ends.
func (h *Hub) TurnText(ctx context.Context, run string) (<-chan TextDelta, error) {
	return watch(ctx, h, h.texts, run, wordsKept)
}

func (h *Hub) offerText(delta TextDelta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for reader := range h.texts[delta.Run] {
		select {
		case reader <- delta:
		default:
		}
	}
}

// watch adds a reader to a set until its context ends or the hub is closed.
func watch[T any](ctx context.Context, h *Hub, all map[string]map[chan T]bool, key string, room int) (<-chan T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	reader := make(chan T, room)
	if all[key] == nil {
		all[key] = map[chan T]bool{}
	}
	all[key][reader] = true
	h.serial++
	serial := h.serial
	ctx, cancel := context.WithCancelCause(ctx)
	h.stops[serial] = cancel
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.stops, serial)
		delete(all[key], reader)
		if len(all[key]) == 0 {
			delete(all, key)
		}
		close(reader)
	})
	return reader, nil
}

// TellText tells a piece of text to every process.
func (b *Bus) TellText(ctx context.Context, delta TextDelta) error {
	body, err := json.Marshal(delta)
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%s:%d:%d:%d", delta.Run, delta.Turn, delta.Attempt, delta.Part)
	return b.Publish(ctx, TopicText, Message{ID: id, Body: body})
}

func readText(m Message) (TextDelta, error) {
	var delta TextDelta
	err := json.Unmarshal(m.Body, &delta)
	return delta, err
}

// Package health keeps what a process knows of the models that it asks: which
// of them answer. A model that failed several times in a row is left alone for
// a while, and then one request finds out whether it answers again.
package health

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"gantry.dev/agents/catalogue"
	"gantry.dev/agents/model"
)

// Key is what fails together: one model at one place.
type Key struct{ Endpoint, Model string }

// KeyOf returns the key of an entry of a catalogue.
func KeyOf(m catalogue.Model) Key {
	return Key{Endpoint: m.Place(), Model: cmp.Or(m.Script, m.Model, m.Name)}
}

// Config says when a model is left alone, and how long.
type Config struct {
	Failures int              // in a row after which it is left alone; 0: 5
	First    time.Duration    // how long at first; 0: 5 s
	Longest  time.Duration    // how long at most, twice as long each time; 0: 2 min
	Probe    time.Duration    // how long one request may take to find out; 0: 2 min
	Clock    func() time.Time // nil: the real one
	Changed  func(Standing)   // gets each change of a mode; must not block; nil for nobody
}

// Mode says how a model stands.
type Mode string

// The modes.
const (
	Closed   Mode = "CLOSED"    // it is asked
	Open     Mode = "OPEN"      // it is left alone
	HalfOpen Mode = "HALF_OPEN" // one request finds out whether it answers
)

// Standing is how a model stands.
type Standing struct {
	Key      Key
	Mode     Mode
	Failures int             // in a row
	Cause    model.ErrorKind // of the last failure; empty where it answered
	Until    time.Time       // until when it is left alone; zero where it is asked
	Since    time.Time       // when its mode changed; zero: never
}

// Register holds how every model stands that was asked. It is safe for
// concurrent use.
type Register struct {
	config Config

	mu     sync.Mutex
	models map[Key]*breaker
}

// breaker is how one model stands, and who finds out.
type breaker struct {
	Standing
	opened int       // times in a row
	prober string    // who finds out
	probed time.Time // until when it may
}

// New returns a register in which every model is asked.
func New(config Config) *Register {
	config.Failures = cmp.Or(config.Failures, 5)
	config.First = cmp.Or(config.First, 5*time.Second)
	config.Longest = cmp.Or(config.Longest, 2*time.Minute)
	config.Probe = cmp.Or(config.Probe, 2*time.Minute)
	if config.Clock == nil {
		config.Clock = time.Now
	}
	return &Register{config: config, models: map[Key]*breaker{}}
}

// probeWait is how long all others wait for the one that finds out.
const probeWait = 2 * time.Second

// Rest returns how long somebody has to leave a model alone, 0 for not at all.
func (r *Register) Rest(key Key, who string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.models[key]
	if !known {
		return 0
	}
	return b.rest(who, r.config.Clock())
}

func (b *breaker) rest(who string, now time.Time) time.Duration {
	switch {
	case b.Mode == Open && now.Before(b.Until):
		return b.Until.Sub(now)
	case b.Mode == HalfOpen && b.prober != who && now.Before(b.probed):
		return min(probeWait, b.probed.Sub(now))
	}
	return 0
}

// Claim says that somebody is about to ask a model, and reports whether it may.
// Of a model that was left alone long enough it is the one that finds out, and
// all others have to wait for it.
func (r *Register) Claim(key Key, who string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.models[key]
	now := r.config.Clock()
	switch {
	case !known || b.Mode == Closed:
		return true
	case b.rest(who, now) > 0:
		return false
	}
	b.prober, b.probed = who, now.Add(r.config.Probe)
	r.turn(b, HalfOpen, now)
	return true
}

// Outcome is how a request ended.
type Outcome struct {
	Cause      model.ErrorKind // empty: with an answer
	RetryAfter time.Duration   // as the provider asked
	Dropped    bool            // nobody waited for it, or it is ours: it says nothing of the model
}

// Note counts how a request of a model ended.
func (r *Register) Note(key Key, outcome Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.models[key]
	if b == nil {
		b = &breaker{Standing: Standing{Key: key, Mode: Closed}}
		r.models[key] = b
	}
	now := r.config.Clock()
	switch {
	case outcome.Dropped:
		b.probed = time.Time{} // somebody else finds out
	case !fails(outcome.Cause): // whoever refuses a request answers
		b.Failures, b.opened, b.Cause = 0, 0, ""
		r.turn(b, Closed, now)
	default:
		b.Failures, b.Cause = b.Failures+1, outcome.Cause
		if b.Mode == HalfOpen || b.Mode == Closed && b.Failures >= r.config.Failures {
			rest := min(r.config.First<<min(b.opened, 16), r.config.Longest)
			b.opened++
			b.Until = now.Add(max(rest, outcome.RetryAfter))
			r.turn(b, Open, now)
		}
	}
}

// turn changes a mode and tells of it.
func (r *Register) turn(b *breaker, mode Mode, now time.Time) {
	if b.Mode == mode {
		return
	}
	b.Mode, b.Since = mode, now
	if mode != Open {
		b.Until = time.Time{}
	}
	if r.config.Changed != nil {
		r.config.Changed(b.Standing)
	}
}

// fails reports whether it is the model that failed.
func fails(cause model.ErrorKind) bool {
	return cause != "" && (&model.Error{Kind: cause}).Retryable()
}

// Standings lists how the models stand that were asked, sorted.
func (r *Register) Standings() []Standing {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Standing, 0, len(r.models))
	for _, b := range r.models {
		list = append(list, b.Standing)
	}
	slices.SortFunc(list, func(a, b Standing) int {
		return cmp.Or(cmp.Compare(a.Key.Endpoint, b.Key.Endpoint), cmp.Compare(a.Key.Model, b.Key.Model))
	})
	return list
}

// Watch returns the provider with every outcome of it counted.
func (r *Register) Watch(key Key, provider model.Provider) model.Provider {
	return watched{Provider: provider, register: r, key: key}
}

type watched struct {
	model.Provider
	register *Register
	key      Key
}

// Take asks the provider and counts how that ended.
func (w watched) Take(ctx context.Context, request model.Request, deltas func(text string)) (model.Answer, error) {
	answer, err := w.Provider.Take(ctx, request, deltas)
	var outcome Outcome
	var failure *model.Error
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.Canceled) || !errors.As(err, &failure):
		outcome.Dropped = true
	default:
		outcome.Cause, outcome.RetryAfter = failure.Kind, failure.RetryAfter
	}
	w.register.Note(w.key, outcome)
	return answer, err
}

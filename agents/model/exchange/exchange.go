// Package exchange is one request to a model's server and the stream that it
// answers with, as all providers over a network have it: nothing is sent twice
// or elsewhere, silence and floods end it, and what goes wrong is a
// *model.Error without a word of the server's.
package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"time"

	"gantry.dev/agents/model"
)

// Server says how to reach one server. Nothing else decides it: no environment
// variable is read.
type Server struct {
	BaseURL string // as its provider says
	Key     string // empty for a server that asks for none
	// Idle is how long no byte may come, from the start of the request on. The
	// default is a minute.
	Idle time.Duration
	// AnswerBytes is how much of an answer is read at most. The default is 8 MiB.
	AnswerBytes int64

	Transport http.RoundTripper // what may be dialled; by default anything, without a proxy
	Now       func() time.Time  // for a Retry-After that names a date; by default the system's
	Timer     Timer             // by default the system's
}

// Direct dials anything, without a proxy.
func Direct() *http.Transport {
	return &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 32, IdleConnTimeout: 90 * time.Second}
}

// Timer calls expired once after a while, unless it is stopped before.
type Timer func(after time.Duration, expired func()) (stop func())

// Validate returns all that is wrong with the server. The key is in no error.
func (s Server) Validate() error {
	var faults []error
	// The parser's own error would quote an address that may hold a password.
	base, err := url.Parse(s.BaseURL)
	if err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") || base.User != nil || base.RawQuery != "" {
		faults = append(faults, errors.New("the base URL of the model server must be an http(s) address without user and query"))
	}
	if s.Idle < 0 {
		faults = append(faults, errors.New("the idle time of the model server must not be negative"))
	}
	if s.AnswerBytes < 0 {
		faults = append(faults, errors.New("the largest answer of the model server must not be negative"))
	}
	return errors.Join(faults...)
}

// Open validates the server and fills in what it leaves out. The client takes
// only requests of exchanges, and follows no redirect.
func (s Server) Open() (Server, *http.Client, error) {
	if err := s.Validate(); err != nil {
		return s, nil, err
	}
	if s.Idle == 0 {
		s.Idle = time.Minute
	}
	if s.AnswerBytes == 0 {
		s.AnswerBytes = 8 << 20
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Timer == nil {
		s.Timer = func(after time.Duration, expired func()) func() {
			timer := time.AfterFunc(after, expired)
			return func() { timer.Stop() }
		}
	}
	if s.Transport == nil {
		s.Transport = Direct()
	}
	return s, &http.Client{
		Transport:     through{s.Transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// The errors of an exchange that is given up.
var (
	errIdle    = errors.New("no byte for too long")
	errTooMuch = errors.New("the answer is too long")
	errAgain   = errors.New("a second request in one exchange")
)

// Exchange sees the bytes of one exchange: it gives up on silence and on
// floods, turns refusals into errors, and knows how the stream ended.
type Exchange struct {
	server Server
	cancel context.CancelCauseFunc
	last   string // the line that ends a whole stream, without the space after its colon; empty for none

	mu      sync.Mutex
	disarm  func() // of the running timer
	stopped bool

	sent   bool
	failed error // what broke it; the SDKs get io.EOF in its place
	body   io.ReadCloser
	read   int64
	line   []byte // the beginning of the current line
	whole  bool
	events *events // what was read and not given on; nil where bytes are given on as they come
}

type key struct{}

// Begin starts an exchange of an opened server. Its request must have the
// context. The time of silence runs from now on.
func (s Server) Begin(ctx context.Context, last string) (context.Context, *Exchange) {
	e := &Exchange{server: s, last: last, disarm: func() {}}
	ctx, e.cancel = context.WithCancelCause(ctx)
	e.arm()
	return context.WithValue(ctx, key{}, e), e
}

// End frees what the exchange holds.
func (e *Exchange) End() {
	e.mu.Lock()
	e.stopped = true
	e.disarm()
	e.mu.Unlock()
	e.cancel(nil)
}

// arm starts the time of silence anew.
func (e *Exchange) arm() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.disarm()
	if !e.stopped {
		e.disarm = e.server.Timer(e.server.Idle, func() { e.cancel(errIdle) })
	}
}

// through hands requests to their exchange.
type through struct{ base http.RoundTripper }

// RoundTrip sends the request of an exchange.
func (t through) RoundTrip(request *http.Request) (*http.Response, error) {
	e, of := request.Context().Value(key{}).(*Exchange)
	if !of {
		return nil, errAgain
	}
	response, err := e.exchange(request, t.base)
	if err != nil {
		e.failed = err
	}
	return response, err
}

func (e *Exchange) exchange(request *http.Request, base http.RoundTripper) (*http.Response, error) {
	if e.sent {
		return nil, errAgain // whoever tries again pays again: that is not an SDK's to decide
	}
	e.sent = true
	response, err := base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	e.arm()
	if response.StatusCode != http.StatusOK {
		defer func() { _ = response.Body.Close() }() // what it says was read
		return nil, statusError(response, e.server.Now())
	}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		_ = response.Body.Close() // nothing of it is read
		return nil, &model.Error{Kind: model.BadAnswer, Billed: true, Detail: "the server did not answer with a stream"}
	}
	e.body = response.Body
	response.Body = e
	return response, nil
}

// Read reads on, as far as the answer may go. What goes wrong is kept, and ends
// the stream for whoever reads it: an SDK may write an error to the process's log.
func (e *Exchange) Read(p []byte) (int, error) {
	if e.events == nil {
		return e.next(p)
	}
	for len(e.events.whole) == 0 {
		var piece [4096]byte
		n, err := e.next(piece[:])
		e.events.add(piece[:n])
		if err == nil {
			continue
		}
		if !e.events.end() && e.failed == nil {
			e.failed = CutShort()
		}
		if len(e.events.whole) == 0 {
			return 0, err
		}
	}
	n := copy(p, e.events.whole)
	e.events.whole = e.events.whole[n:]
	return n, nil
}

func (e *Exchange) next(p []byte) (int, error) {
	if e.read >= e.server.AnswerBytes {
		e.failed = errTooMuch
		return 0, io.EOF
	}
	n, err := e.body.Read(p[:min(int64(len(p)), e.server.AnswerBytes-e.read)])
	if n > 0 {
		e.read += int64(n)
		e.look(p[:n])
		e.arm()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		e.failed, err = err, io.EOF
	}
	return n, err
}

// Close closes the body.
func (e *Exchange) Close() error {
	_ = e.body.Close() // the answer is there, or it is not wanted any more
	return nil
}

// look notices the last line.
func (e *Exchange) look(p []byte) {
	most := len(e.last) + 2
	for len(p) > 0 && !e.whole && e.last != "" {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		e.line = append(e.line, part[:min(len(part), most-min(len(e.line), most))]...)
		p = rest
		if ended {
			line := bytes.TrimSuffix(e.line, []byte("\r"))
			e.whole = string(bytes.Replace(line, []byte(": "), []byte(":"), 1)) == e.last
			e.line = e.line[:0]
		}
	}
}

// Whole reports whether the stream's last line came.
func (e *Exchange) Whole() bool { return e.whole }

// HoldEvents gives a stream on by whole events only: half of one, at its end,
// is a cut and no error of whoever would read it.
func (e *Exchange) HoldEvents() { e.events = &events{} }

// events are the bytes of a stream, by whether their event is whole. Its lines
// end in one way, so that where an event ends does not hang on how the network
// cut the stream for a reader who looks for one way before the other.
type events struct{ whole, held []byte }

func (e *events) add(p []byte) {
	// What was held before has no gap: only one that ends in the new piece is
	// looked for, so that a long event costs no more than its bytes.
	from := max(0, len(e.held)-1)
	for _, b := range p {
		if b != '\r' { // JSON has none inside a string
			e.held = append(e.held, b)
		}
	}
	gap := []byte("\n\n")
	if at := bytes.LastIndex(e.held[from:], gap); at >= 0 {
		end := from + at + len(gap)
		e.whole, e.held = append(e.whole, e.held[:end]...), e.held[end:]
	}
}

// end takes what is held as the last event, which needs no empty line behind
// it, and reports whether it can be one.
func (e *events) end() bool {
	last := bytes.TrimSpace(e.held)
	value, of := bytes.CutPrefix(last, []byte("data:"))
	if len(last) > 0 && (!of || !json.Valid(value)) {
		return false
	}
	e.whole, e.held = append(e.whole, last...), nil
	return true
}

// Package recording keeps what went over the wire between a provider and its
// server, so that tests can play it again. It keeps nothing that says whose key
// asked: headers are kept by a list of those that matter, and the key is taken
// out wherever it stands.
package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// Recording is a series of exchanges with one server, in their order.
type Recording struct {
	Provider  string     `json:"provider"`
	Model     string     `json:"model"` // as the provider calls it
	Exchanges []Exchange `json:"exchanges"`
}

// Exchange is one request and what came back.
type Exchange struct {
	Path    string            `json:"path"` // of the request, without a query
	Asked   json.RawMessage   `json:"asked"`
	Status  int               `json:"status"`
	Header  map[string]string `json:"header,omitempty"`
	Answer  string            `json:"answer"`            // the body, as far as it came
	Broken  bool              `json:"broken,omitempty"`  // the connection broke behind it
	Missing bool              `json:"missing,omitempty"` // there was no answer at all
}

// kept are the headers of an answer that mean something to a provider.
var kept = []string{"Content-Type", "Retry-After", "Retry-After-Ms"}

// Recorder is a transport that keeps the exchanges that it carries.
type Recorder struct {
	base   http.RoundTripper
	secret string // that is taken out; empty for none

	mu        sync.Mutex
	exchanges []*Exchange
}

// New returns a recorder in front of a transport.
func New(base http.RoundTripper, secret string) *Recorder {
	return &Recorder{base: base, secret: secret}
}

// RoundTrip carries a request and its answer.
func (r *Recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	exchange := &Exchange{Path: request.URL.Path, Missing: true}
	r.mu.Lock()
	r.exchanges = append(r.exchanges, exchange)
	r.mu.Unlock()
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, fmt.Errorf("body of the request: %w", err)
		}
		if err := request.Body.Close(); err != nil {
			return nil, fmt.Errorf("body of the request: %w", err)
		}
		request = request.Clone(request.Context())
		request.Body = io.NopCloser(bytes.NewReader(body))
		if json.Valid(body) {
			exchange.Asked = body
		}
	}
	response, err := r.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	exchange.Missing, exchange.Status, exchange.Header = false, response.StatusCode, map[string]string{}
	for _, name := range kept {
		if value := response.Header.Get(name); value != "" {
			exchange.Header[name] = value
		}
	}
	response.Body = &listened{ReadCloser: response.Body, recorder: r, exchange: exchange}
	return response, nil
}

// listened is a body that is kept as it is read.
type listened struct {
	io.ReadCloser
	recorder *Recorder
	exchange *Exchange
}

// Read reads on.
func (l *listened) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.recorder.mu.Lock()
	defer l.recorder.mu.Unlock()
	l.exchange.Answer += string(p[:n])
	l.exchange.Broken = l.exchange.Broken || err != nil && !errors.Is(err, io.EOF)
	return n, err
}

// account are fields of answers that say whose they are, or which of theirs.
var account = regexp.MustCompile(`(?i)("(?:request_?id|organization(?:_?id)?|org_?id|user_?id|project(?:_?id)?|workspace_?id|account(?:_?id)?|consumer|system_fingerprint|responseId)"\s*:\s*")[^"\\]*(?:\\.[^"\\]*)*"`)

// named are ids and keys as servers write them into their sentences: a key by
// its ends, an organisation, a project, a workspace, a user or a request by its id.
var named = regexp.MustCompile(`\b(?:sk|pk|rk)-[A-Za-z0-9*._…-]{6,}|\bAIza[A-Za-z0-9_*-]{6,}|` +
	`\b(?:org|proj|user|req|acct|wrkspc|workspace|account|team)[-_][A-Za-z0-9]{6,}|\bprojects?[/ ]"?'?[0-9]{6,}`)

// clean takes out of a text what is nobody else's business.
func (r *Recorder) clean(text string) string {
	if r.secret != "" {
		text = strings.ReplaceAll(text, r.secret, "[key]")
		if escaped, err := json.Marshal(r.secret); err == nil {
			text = strings.ReplaceAll(text, string(escaped[1:len(escaped)-1]), "[key]")
		}
	}
	text = account.ReplaceAllString(text, `${1}removed"`)
	return named.ReplaceAllStringFunc(text, func(name string) string {
		if strings.ContainsAny(name, "0123456789*") {
			return "[removed]"
		}
		return name // a word, such as user_message
	})
}

// Recording returns what was recorded, cleaned. An answer that is no text is
// refused: a recording is there to be read.
func (r *Recorder) Recording(provider, model string) (Recording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	recording := Recording{Provider: provider, Model: model}
	for _, exchange := range r.exchanges {
		if !utf8.ValidString(exchange.Answer) {
			return Recording{}, errors.New("the server answered with bytes that are no text; nothing is recorded")
		}
		clean := *exchange
		clean.Path, clean.Answer = r.clean(exchange.Path), r.clean(exchange.Answer)
		clean.Asked = json.RawMessage(r.clean(string(exchange.Asked)))
		clean.Header = map[string]string{}
		for name, value := range exchange.Header {
			clean.Header[name] = r.clean(value)
		}
		recording.Exchanges = append(recording.Exchanges, clean)
	}
	return recording, nil
}

// Replay plays the exchanges again, each for the next request, whatever it asks.
type Replay struct {
	mu   sync.Mutex
	rest []Exchange
}

// Play returns a transport that answers from the recording.
func (r Recording) Play() *Replay { return &Replay{rest: r.Exchanges} }

// RoundTrip answers with the next exchange.
func (p *Replay) RoundTrip(request *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.rest) == 0 || p.rest[0].Path != request.URL.Path {
		return nil, errors.New("the recording has no answer to this request")
	}
	next := p.rest[0]
	p.rest = p.rest[1:]
	if next.Missing {
		return nil, errors.New("there was no answer")
	}
	header := http.Header{}
	for name, value := range next.Header {
		header.Set(name, value)
	}
	body := io.Reader(strings.NewReader(next.Answer))
	if next.Broken {
		body = io.MultiReader(body, broken{})
	}
	return &http.Response{StatusCode: next.Status, Status: http.StatusText(next.Status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(body), Request: request}, nil
}

// broken is the end of a connection that broke.
type broken struct{}

// Read breaks.
func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

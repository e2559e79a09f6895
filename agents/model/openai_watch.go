package model

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"
)

// errTooMuch is the error of a body that is longer than it may be.
var errTooMuch = errors.New("the answer is too long")

// watch sees the bytes of one exchange: it gives up on silence and on floods,
// turns refusals into errors, and knows whether the stream came to its end.
type watch struct {
	config  OpenAIConfig
	expired func()

	mu      sync.Mutex
	disarm  func() // of the running timer
	stopped bool

	body io.ReadCloser
	read int64
	line []byte // the beginning of the current line
	end  bool
}

func newWatch(config OpenAIConfig, expired func()) *watch {
	w := &watch{config: config, expired: expired, disarm: func() {}}
	w.arm()
	return w
}

// arm starts the time of silence anew.
func (w *watch) arm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disarm()
	if !w.stopped {
		w.disarm = w.config.Timer(w.config.Idle, w.expired)
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.disarm()
}

// exchange is a middleware of the SDK.
func (w *watch) exchange(request *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	response, err := next(request)
	if err != nil {
		return nil, err
	}
	w.arm()
	if response.StatusCode != http.StatusOK {
		defer func() { _ = response.Body.Close() }()
		return nil, statusError(response, w.config.Now())
	}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != "text/event-stream" {
		return nil, errors.Join(&Error{Kind: BadAnswer, Billed: true, Detail: "the server did not answer with a stream"}, response.Body.Close())
	}
	w.body = response.Body
	response.Body = w
	return response, nil
}

// Read reads on, as far as the answer may go.
func (w *watch) Read(p []byte) (int, error) {
	if w.read >= w.config.AnswerBytes {
		return 0, errTooMuch
	}
	n, err := w.body.Read(p[:min(int64(len(p)), w.config.AnswerBytes-w.read)])
	if n > 0 {
		w.read += int64(n)
		w.look(p[:n])
		w.arm()
	}
	return n, err
}

// Close closes the body.
func (w *watch) Close() error { return w.body.Close() }

// doneLine is the last line of a whole stream, without the space that may
// stand after the colon.
const doneLine = "data:[DONE]"

// look notices the last line. The SDK does not tell it from an early end.
func (w *watch) look(p []byte) {
	for len(p) > 0 && !w.end {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		w.line = append(w.line, part[:min(len(part), len(doneLine)+2-min(len(w.line), len(doneLine)+2))]...)
		p = rest
		if ended {
			line := bytes.TrimSuffix(w.line, []byte("\r"))
			w.end = string(bytes.Replace(line, []byte("data: "), []byte("data:"), 1)) == doneLine
			w.line = w.line[:0]
		}
	}
}

// done reports whether the stream said that it is whole.
func (w *watch) done() bool { return w.end }

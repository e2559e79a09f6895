package modeltest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Behaviour is what a server does with one request.
type Behaviour func(w http.ResponseWriter, r *http.Request)

// Received is a request as the server got it.
type Received struct {
	Path   string
	Header http.Header
	Body   []byte
}

// Server is a local server of a model.
type Server struct {
	URL  string // the base URL for a client of chat completions, with the version
	Root string // the base URL for a client of the other protocols

	mu         sync.Mutex
	behaviours []Behaviour
	received   []Received
}

// NewServer starts a server that meets each request with the next behaviour,
// and all further ones with the last. It stops with the test.
func NewServer(t testing.TB, behaviours ...Behaviour) *Server {
	t.Helper()
	s := &Server{behaviours: behaviours}
	mux := http.NewServeMux()
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1beta/models/{call}"} {
		mux.HandleFunc("POST "+path, s.serve)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.URL, s.Root = server.URL+"/v1", server.URL
	return s
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	behaviour := s.behaviours[0]
	if len(s.behaviours) > 1 {
		s.behaviours = s.behaviours[1:]
	}
	s.received = append(s.received, Received{Path: r.URL.Path, Header: r.Header.Clone(), Body: body})
	s.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	behaviour(w, r)
}

// Received returns the requests so far.
func (s *Server) Received() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Received(nil), s.received...)
}

// Whole sends a stream and ends.
func Whole(stream []byte) Behaviour { return Pieces(stream, len(stream)) }

// Pieces sends a stream in writes of so many bytes.
func Pieces(stream []byte, size int) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request) {
		send(w, stream, size)
	}
}

// Cut sends a stream up to a byte and breaks the connection.
func Cut(stream []byte, at int) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request) {
		send(w, stream[:at], at)
		panic(http.ErrAbortHandler)
	}
}

// Short sends a stream up to a byte and ends as if that were all.
func Short(stream []byte, at int) Behaviour { return Whole(stream[:at]) }

// Silent sends the header and the first bytes of a stream, says so on began,
// and then nothing more until the client goes away.
func Silent(stream []byte, at int, began chan<- struct{}) Behaviour {
	return func(w http.ResponseWriter, r *http.Request) {
		send(w, stream[:at], at)
		began <- struct{}{}
		<-r.Context().Done()
	}
}

// Mute takes the request, says so on began, and never even sends a header.
func Mute(began chan<- struct{}) Behaviour {
	return func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-r.Context().Done()
	}
}

// Slow sends a stream in pieces, one for each value that it takes from next.
func Slow(stream []byte, size int, next <-chan struct{}) Behaviour {
	return func(w http.ResponseWriter, r *http.Request) {
		send(w, nil, 0)
		for ; len(stream) > 0; stream = stream[min(size, len(stream)):] {
			select {
			case <-next:
				send(w, stream[:min(size, len(stream))], size)
			case <-r.Context().Done():
				return
			}
		}
	}
}

// Status answers with a status, headers in pairs, and an error of this code.
func Status(status int, code string, headers ...string) Behaviour {
	return StatusBody(status, refusal(code), headers...)
}

// Hidden is what every error of a test server says beside its code, and nobody
// may repeat.
const Hidden = "as the test wants"

// StatusBody answers with a status, headers in pairs, and a body of JSON.
func StatusBody(status int, body any, headers ...string) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
}

// Body answers 200 with a body of any type.
func Body(kind, body string) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.Copy(w, strings.NewReader(body))
	}
}

// send writes and flushes; a client that has gone is no concern of a server.
func send(w http.ResponseWriter, stream []byte, size int) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flusher := w.(http.Flusher)
	for len(stream) > 0 {
		n := min(max(size, 1), len(stream))
		_, _ = w.Write(stream[:n])
		stream = stream[n:]
		flusher.Flush()
	}
	flusher.Flush()
}

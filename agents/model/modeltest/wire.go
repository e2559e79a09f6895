package modeltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
)

// Wire is a provider over a network with its protocol: what all of them keep to.
type Wire struct {
	Protocol
	Open func(server exchange.Server) (model.Provider, error)
}

// Key is what tests ask servers with.
const Key = "sk-test-4f1e8c"

// Asked is the request of the tests.
var Asked = model.Request{
	Model:    "m",
	Messages: []model.Message{{Role: model.System, Text: "be brief"}, {Role: model.User, Text: "how many days of leave?"}},
	Tools:    []model.Spec{{Name: "files.read", Schema: []byte(`{"type":"object"}`)}, {Name: "ask.person", Schema: []byte(`{"type":"object"}`)}},
}

// Golden is the stream of an answer with everything in it.
func (p Protocol) Golden() []byte {
	return p.Stream(model.Answer{
		Finish: model.FinishCalls, Text: "I pay it.", Reasoning: "hm",
		Calls: []model.Proposed{proposed("1", "bank_pay", `{"to":"ACME","cents":123450}`), proposed("2", "files_read", `{"path":"a"}`)},
	}, Style{Piece: 20})
}

// At returns the base URL of a test server for the protocol's clients.
func (p Protocol) At(s *Server) string { return s.Root + p.Base }

// OnWire writes the names of an answer's calls as protocols allow them.
func OnWire(answer model.Answer) model.Answer {
	calls := make([]model.Proposed, len(answer.Calls))
	for i, call := range answer.Calls {
		call.Name = strings.ReplaceAll(call.Name, ".", "_")
		calls[i] = call
	}
	answer.Calls = calls
	return answer
}

// Conforms checks everything that a provider over a network promises.
func (w Wire) Conforms(t *testing.T) {
	for name, check := range map[string]func(*testing.T){
		"answers": w.Answers, "cuts": w.Cuts, "pieces": w.Pieces, "waits": w.Waits, "refusals": w.Refused, "silence": w.Silence,
		"garbage": w.Nonsense, "usage": w.Usage, "given up": w.GivenUp, "environment": w.Environment, "configuration": w.Configuration,
	} {
		t.Run(name, check)
	}
}

func (w Wire) open(t testing.TB, server exchange.Server) model.Provider {
	t.Helper()
	server.Key = Key
	provider, err := w.Open(server)
	require.NoError(t, err)
	return provider
}

// at opens the provider of a server with these behaviours.
func (w Wire) at(t testing.TB, server exchange.Server, behaviours ...Behaviour) (model.Provider, *Server) {
	t.Helper()
	s := NewServer(t, behaviours...)
	server.BaseURL = w.At(s)
	return w.open(t, server), s
}

// Answers runs the suite of all providers in several styles.
func (w Wire) Answers(t *testing.T) {
	styles := map[string]Style{
		"at once": {}, "in pieces": {Piece: 3}, "without usage": {Piece: 7, NoUsage: true}, "other line ends": {LineEnd: "\r\n"},
	}
	for name, style := range styles {
		t.Run(name, func(t *testing.T) {
			Suite(t, func(t *testing.T, want model.Answer) (model.Provider, model.Request, Told) {
				provider, _ := w.at(t, exchange.Server{}, Pieces(w.Stream(OnWire(want), style), 11))
				return provider, Asked, Told{All: true, Arguments: w.Arguments}
			})
		})
	}
}

// Fails takes a turn that must fail, and checks that the error says nothing.
func (w Wire) Fails(t *testing.T, server exchange.Server, behaviours ...Behaviour) *model.Error {
	t.Helper()
	var provider model.Provider
	if len(behaviours) > 0 {
		provider, _ = w.at(t, server, behaviours...)
	} else {
		provider = w.open(t, server)
	}
	return failed(t, provider)
}

func failed(t testing.TB, provider model.Provider) *model.Error {
	t.Helper()
	answer, err := provider.Take(t.Context(), Asked, nil)
	var failure *model.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, model.Answer{}, answer)
	require.NotContains(t, err.Error(), Key)
	require.NotContains(t, err.Error(), Hidden)
	return failure
}

// Cuts checks that no beginning of a stream is an answer.
func (w Wire) Cuts(t *testing.T) {
	golden := w.Golden()
	whole := w.Whole(golden)
	for name, cut := range map[string]func([]byte, int) Behaviour{"broken": Cut, "ended": Short} {
		var behaviours []Behaviour
		for at := range whole {
			behaviours = append(behaviours, cut(golden, at))
		}
		provider, server := w.at(t, exchange.Server{}, behaviours...)
		for at := range whole {
			failure := failed(t, provider)
			require.Equal(t, model.Cut, failure.Kind, "%s at %d of %d: %q", name, at, len(golden), golden[:at])
			require.True(t, failure.Retryable())
			require.True(t, failure.Billed)
			require.Len(t, server.Received(), at+1, "nobody tries again behind our back")
		}
	}
	provider, _ := w.at(t, exchange.Server{}, Whole(golden[:whole]))
	answer, err := provider.Take(t.Context(), Asked, nil)
	require.NoError(t, err)
	require.Len(t, answer.Calls, 2)
}

// Pieces checks that the sizes in which a stream comes make no difference.
func (w Wire) Pieces(t *testing.T) {
	golden := w.Golden()
	provider, _ := w.at(t, exchange.Server{}, Whole(golden))
	want, err := provider.Take(t.Context(), Asked, nil)
	require.NoError(t, err)
	for size := 1; size <= len(golden); size++ {
		got := w.taken(t, &pieces{golden, size})
		require.Nil(t, got.fault)
		require.Equal(t, want, got.answer, "in pieces of %d", size)
	}
}

// pieces is a stream that comes in pieces of a size.
type pieces struct {
	rest []byte
	size int
}

// Read gives the next piece.
func (p *pieces) Read(to []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.rest[:min(p.size, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

// Waits checks what a server asks that does not want to be asked so often.
func (w Wire) Waits(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	table := []struct {
		header, value string
		wait          time.Duration
	}{
		{"", "", 0},
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "Fri, 01 May 2026 12:00:30 GMT", 30 * time.Second},
		{"Retry-After", "Fri, 01 May 2026 11:00:00 GMT", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "-5", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "1e300", 24 * time.Hour},
		{"Retry-After-Ms", "1500", 1500 * time.Millisecond},
	}
	for _, row := range table {
		t.Run(row.header+row.value, func(t *testing.T) {
			failure := w.Fails(t, exchange.Server{Now: func() time.Time { return now }}, Status(http.StatusTooManyRequests, "rate_limit_exceeded", row.header, row.value))
			require.Equal(t, model.RateLimited, failure.Kind)
			require.Equal(t, row.wait, failure.RetryAfter)
			require.False(t, failure.Billed)
		})
	}
}

// Refused checks what each refusal means, and that it is asked once.
func (w Wire) Refused(t *testing.T) {
	for i, row := range w.Refusals {
		t.Run(fmt.Sprintf("%d %s", row.Status, http.StatusText(row.Status)), func(t *testing.T) {
			provider, server := w.at(t, exchange.Server{}, StatusBody(row.Status, row.Body, "Location", "/elsewhere"))
			failure := failed(t, provider)
			require.Equal(t, row.Kind, failure.Kind, "row %d", i)
			require.Equal(t, row.Again, failure.Retryable())
			require.Len(t, server.Received(), 1, "nobody tries again behind our back, or elsewhere")
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		failure := w.Fails(t, exchange.Server{BaseURL: "http://" + listener.Addr().String() + w.Base})
		require.Equal(t, model.Unreachable, failure.Kind)
		require.False(t, failure.Billed)
	})
	for stream, kind := range w.Streamed {
		t.Run("in the middle "+string(kind), func(t *testing.T) {
			require.Equal(t, kind, w.Fails(t, exchange.Server{}, Body("text/event-stream", stream)).Kind)
		})
	}
}

// alarm is a timer that rings when the test says so.
type alarm struct {
	mu    sync.Mutex
	rings func()
	armed int
}

func (a *alarm) set(_ time.Duration, expired func()) func() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.armed++
	a.rings = expired
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.rings = func() {}
	}
}

func (a *alarm) ring() {
	a.mu.Lock()
	rings := a.rings
	a.mu.Unlock()
	rings()
}

// Silence checks that a server that says nothing is given up, and that every
// byte starts the time anew.
func (w Wire) Silence(t *testing.T) {
	golden := w.Golden()
	for name, silent := range map[string]func(chan<- struct{}) Behaviour{
		"before the header": Mute,
		"after the header":  func(began chan<- struct{}) Behaviour { return Silent(golden, 0, began) },
		"in the middle":     func(began chan<- struct{}) Behaviour { return Silent(golden, len(golden)/2, began) },
	} {
		t.Run(name, func(t *testing.T) {
			began, a := make(chan struct{}), &alarm{}
			provider, _ := w.at(t, exchange.Server{Timer: a.set, Idle: time.Second}, silent(began))
			var watcher conc.WaitGroup
			watcher.Go(func() {
				<-began
				a.ring()
			})
			failure := failed(t, provider)
			watcher.Wait()
			require.Equal(t, model.TimedOut, failure.Kind)
			require.True(t, failure.Billed)
		})
	}
	t.Run("every byte counts", func(t *testing.T) {
		next, a := make(chan struct{}), &alarm{}
		provider, _ := w.at(t, exchange.Server{Timer: a.set}, Slow(golden, 200, next))
		var sender conc.WaitGroup
		sender.Go(func() {
			for range (len(golden) + 199) / 200 {
				next <- struct{}{}
			}
		})
		_, err := provider.Take(t.Context(), Asked, nil)
		sender.Wait()
		require.NoError(t, err)
		require.Greater(t, a.armed, 2)
		a.ring() // nothing listens any more
	})
}

// Nonsense checks that what is no answer is none, and a flood neither.
func (w Wire) Nonsense(t *testing.T) {
	behaviours := map[string]Behaviour{
		"page":      Body("text/html", "<html>welcome</html>"),
		"no stream": Body("application/json", `{"choices":[{"message":{"content":"hi"}}]}`),
		"no type":   Body("", ""),
		"flood":     Whole(w.Stream(model.Answer{Finish: model.FinishStop, Text: strings.Repeat("x", 1<<16)}, Style{Piece: 100})),
	}
	for name, stream := range w.Garbage {
		behaviours[name] = Body("text/event-stream", stream)
	}
	for name, behaviour := range behaviours {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, model.BadAnswer, w.Fails(t, exchange.Server{AnswerBytes: 1 << 16}, behaviour).Kind)
		})
	}
	t.Run("any bytes", func(t *testing.T) {
		golden := w.Golden()
		rapid.Check(t, func(r *rapid.T) {
			stream := append([]byte(nil), golden...)
			for range rapid.IntRange(1, 4).Draw(r, "flips") {
				stream[rapid.IntRange(0, len(stream)-1).Draw(r, "at")] = rapid.Byte().Draw(r, "byte")
			}
			require.NotEmpty(r, string(model.Classify(w.taken(t, bytes.NewReader(stream)).answer)))
		})
	})
}

// Usage checks that what a server counts is taken over, and what it does not
// count is estimated.
func (w Wire) Usage(t *testing.T) {
	said := model.Answer{Finish: model.FinishStop, Text: "hello"}
	for estimated, style := range map[bool]Style{false: {}, true: {NoUsage: true}} {
		provider, _ := w.at(t, exchange.Server{}, Whole(w.Stream(said, style)))
		answer, err := provider.Take(t.Context(), Asked, nil)
		require.NoError(t, err)
		require.Equal(t, estimated, answer.Usage.Estimated)
		if !estimated {
			require.Equal(t, Reported, answer.Usage)
		}
	}
}

// GivenUp checks that a request in flight can be given up.
func (w Wire) GivenUp(t *testing.T) {
	began := make(chan struct{})
	provider, _ := w.at(t, exchange.Server{}, Silent(w.Golden(), 300, began))
	ctx, cancel := context.WithCancel(t.Context())
	var watcher conc.WaitGroup
	watcher.Go(func() {
		<-began
		cancel()
	})
	_, err := provider.Take(ctx, Asked, nil)
	watcher.Wait()
	require.ErrorIs(t, err, context.Canceled)
	var failure *model.Error
	require.ErrorAs(t, err, &failure)
	require.True(t, failure.Billed)
}

// Environment checks that nothing of it is read.
func (w Wire) Environment(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_ORG_ID", "ANTHROPIC_CUSTOM_HEADERS"} {
		t.Setenv(name, "x-of-the-operator: y")
	}
	for _, name := range []string{"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"} {
		t.Setenv(name, "http://127.0.0.1:1/")
	}
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
	server := NewServer(t, Whole(w.Golden()))
	for _, key := range []string{"", Key} {
		provider, err := w.Open(exchange.Server{BaseURL: w.At(server), Key: key})
		require.NoError(t, err)
		_, err = provider.Take(t.Context(), Asked, nil)
		require.NoError(t, err)
	}
	got := server.Received()
	require.Empty(t, got[0].Header.Get(w.KeyHeader), "without a key none is sent")
	require.Contains(t, got[1].Header.Get(w.KeyHeader), Key)
	for _, request := range got {
		require.NotContains(t, fmt.Sprint(request.Header), "of-the-operator")
	}
}

// Configuration checks that a wrong one is refused without showing it.
func (w Wire) Configuration(t *testing.T) {
	for _, address := range []string{"", "api.openai.com", "ftp://x/v1", "https://user:hunter2@x/v1", "https://x/v1?key=hunter2", "https://hunter2\x7f/"} {
		_, err := w.Open(exchange.Server{BaseURL: address, Key: Key, Idle: -1, AnswerBytes: -1})
		require.ErrorContains(t, err, "base URL")
		require.ErrorContains(t, err, "idle time")
		require.NotContains(t, err.Error(), "hunter2")
		require.NotContains(t, err.Error(), Key)
	}
}

// canned answers every request with one stream, without a network.
type canned struct {
	stream io.Reader
}

// RoundTrip answers.
func (c canned) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(c.stream)}, nil
}

// taken is what a provider makes of a stream.
type taken struct {
	answer model.Answer
	deltas string
	fault  *model.Error
}

func (w Wire) taken(t testing.TB, stream io.Reader) taken {
	var out taken
	var err error
	provider := w.open(t, exchange.Server{BaseURL: "http://model.invalid" + w.Base, Transport: canned{stream}})
	out.answer, err = provider.Take(t.Context(), Asked, func(text string) { out.deltas += text })
	if err != nil && !errors.As(err, &out.fault) {
		t.Fatalf("not one of our errors: %v", err)
	}
	if err != nil {
		require.Equal(t, model.Answer{}, out.answer, "a broken stream is no answer")
	}
	return out
}

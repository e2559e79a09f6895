package embed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/embed"
	"gantry.dev/memory/rank"
	"gantry.dev/orchestrator/policy"
)

const secretKey = "sk-never-shown"

// server speaks OpenAI's embeddings: a text's vector is its length and the
// number of its letters "a".
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []asked
	answers  []http.HandlerFunc // of the next requests, instead of vectors
}

type asked struct {
	Input      []string `json:"input"`
	Model      string   `json:"model"`
	Dimensions *int     `json:"dimensions"`
	Format     string   `json:"encoding_format"`
	path, key  string
}

func newServer(t *testing.T, answers ...http.HandlerFunc) *server {
	s := &server{answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one := asked{path: r.URL.Path, key: r.Header.Get("Authorization")}
	if err := json.NewDecoder(r.Body).Decode(&one); err != nil {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, one)
	var answer http.HandlerFunc
	if len(s.answers) > 0 {
		answer, s.answers = s.answers[0], s.answers[1:]
	}
	s.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	vectors := make([]string, len(one.Input))
	for i, text := range one.Input { // the last first: the order is the server's
		vectors[len(vectors)-1-i] = fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%d,%d]}`, i, len(text), strings.Count(text, "a"))
	}
	say(w, vectors...)
}

func say(w http.ResponseWriter, vectors ...string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"object":"list","model":"m","data":[%s],"usage":{"prompt_tokens":1,"total_tokens":1}}`, strings.Join(vectors, ","))
}

func vectorsAre(vectors ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { say(w, vectors...) }
}

func status(code int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"error":{"message":"text %s key %s"}}`, "quoted text", r.Header.Get("Authorization"))
	}
}

// open opens the endpoint of a server, whose waits are noted and take no time.
func open(t *testing.T, s *server, change func(*embed.EndpointConfig)) (*embed.Endpoint, *[]time.Duration) {
	waits := &[]time.Duration{}
	config := embed.EndpointConfig{
		BaseURL: s.URL + "/v1", Model: "m", Dim: 2,
		Key:    func(context.Context) (string, error) { return secretKey, nil },
		Sleep:  func(_ context.Context, wait time.Duration) error { *waits = append(*waits, wait); return nil },
		Spread: func(wait time.Duration) time.Duration { return wait },
	}
	if change != nil {
		change(&config)
	}
	endpoint, err := embed.OpenEndpoint(t.Context(), config)
	require.NoError(t, err)
	return endpoint, waits
}

func TestEndpointEmbeds(t *testing.T) {
	s := newServer(t)
	endpoint, _ := open(t, s, nil)
	require.Empty(t, s.requests, "with its dimensions known, nothing is sent to open it")
	vectors, err := endpoint.Embed(t.Context(), []string{"aaaa", " ", "bbb"})
	require.NoError(t, err)
	require.InDelta(t, math.Sqrt2/2, vectors[0][1], 1e-6, "in the order of the texts, of length 1")
	require.Equal(t, []float32{0, 0}, vectors[1], "what says nothing is not sent")
	require.Equal(t, []float32{1, 0}, vectors[2])
	require.Equal(t, []asked{{Input: []string{"aaaa", "bbb"}, Model: "m", Format: "float", path: "/v1/embeddings", key: "Bearer " + secretKey}}, s.requests)
	none, err := endpoint.Embed(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestEndpointAsksForDimensionsOnce(t *testing.T) {
	s := newServer(t)
	endpoint, _ := open(t, s, func(c *embed.EndpointConfig) { c.Dim, c.Version, c.Key = 0, "2", nil })
	require.Equal(t, 2, endpoint.Dim())
	require.Equal(t, "m@2", endpoint.Model())
	require.Len(t, s.requests, 1)
	short, _ := open(t, s, func(c *embed.EndpointConfig) { c.Shorten = true })
	_, err := short.Embed(t.Context(), []string{"x"})
	require.NoError(t, err)
	require.Equal(t, 2, *s.requests[1].Dimensions)
}

func TestEndpointSendsBatches(t *testing.T) {
	s := newServer(t)
	endpoint, _ := open(t, s, func(c *embed.EndpointConfig) { c.Batch, c.BatchBytes, c.TextBytes = 3, 10, 8 })
	texts := []string{"a", "aa", "aaa", "aaaa", "aaaaa", "aaaaaaa", "ééééé"}
	vectors, err := endpoint.Embed(t.Context(), texts)
	require.NoError(t, err)
	for i := range texts[:6] {
		require.InDelta(t, math.Sqrt2/2, vectors[i][0], 1e-6)
	}
	var sent [][]string
	for _, request := range s.requests {
		sent = append(sent, request.Input)
	}
	require.Equal(t, [][]string{{"a", "aa", "aaa"}, {"aaaa", "aaaaa"}, {"aaaaaaa"}, {"éééé"}}, sent, "a longer text is cut where a letter ends")
}

func TestEndpointTriesAgain(t *testing.T) {
	broken := func(_ http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		answers []http.HandlerFunc
		waits   []time.Duration
	}{
		"a failure":           {[]http.HandlerFunc{status(500), status(503)}, []time.Duration{time.Second, 2 * time.Second}},
		"too many requests":   {[]http.HandlerFunc{status(429, "Retry-After", "7")}, []time.Duration{7 * time.Second}},
		"soon":                {[]http.HandlerFunc{status(429, "Retry-After-Ms", "20")}, []time.Duration{time.Second}},
		"at a time":           {[]http.HandlerFunc{status(503, "Retry-After", "Thu, 01 Jan 1970 00:00:09 GMT")}, []time.Duration{9 * time.Second}},
		"a broken connection": {[]http.HandlerFunc{broken}, []time.Duration{time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, c.answers...)
			endpoint, waits := open(t, s, func(c *embed.EndpointConfig) {
				c.Wait, c.Now = time.Second, func() time.Time { return time.Unix(0, 0) }
			})
			vectors, err := endpoint.Embed(t.Context(), []string{"b"})
			require.NoError(t, err)
			require.Equal(t, []float32{1, 0}, vectors[0])
			require.Equal(t, c.waits, *waits)
			require.Len(t, s.requests, len(c.answers)+1)
		})
	}
}

// What cannot get better is not tried again, and no error says what was sent or
// what came back.
func TestEndpointGivesUp(t *testing.T) {
	quota := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"error":{"code":"insufficient_quota"}}`)
	}
	for name, c := range map[string]struct {
		answer   http.HandlerFunc
		requests int
		detail   string
	}{
		"failures":        {status(500), 3, "it failed"},
		"a wait too long": {status(429, "Retry-After", "3600"), 1, "too many requests"},
		"no credit":       {quota, 1, "no credit"},
		"the key":         {status(401), 1, "does not accept the key"},
		"the model":       {status(404), 1, "knows no such model"},
		"a refusal":       {status(400), 1, "refused"},
		"another address": {status(302, "Location", "http://127.0.0.1:1/"), 1, "did not answer with vectors"},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "quoted text")
		}, 1, ""},
		"a flood":           {vectorsAre(`{"index":0,"embedding":[` + strings.Repeat("1,", 3000) + `1]}`), 1, "too long"},
		"too few":           {vectorsAre(), 1, "one vector for each text"},
		"the same twice":    {vectorsAre(`{"index":0,"embedding":[1,2]}`, `{"index":0,"embedding":[1,2]}`), 1, "one vector for each text"},
		"no such text":      {vectorsAre(`{"index":7,"embedding":[1,2]}`, `{"index":0,"embedding":[1,2]}`), 1, "one vector for each text"},
		"other dimensions":  {vectorsAre(`{"index":0,"embedding":[1,2]}`, `{"index":1,"embedding":[1,2,3]}`), 1, "dimensions"},
		"without direction": {vectorsAre(`{"index":0,"embedding":[1,2]}`, `{"index":1,"embedding":[0,0]}`), 1, "dimensions"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, c.answer, c.answer, c.answer)
			endpoint, _ := open(t, s, func(c *embed.EndpointConfig) { c.AnswerBytes = 4096 })
			_, err := endpoint.Embed(t.Context(), []string{"quoted text", "second"})
			require.ErrorIs(t, err, embed.ErrUnavailable)
			require.ErrorContains(t, err, c.detail)
			require.NotContains(t, fmt.Sprintf("%v %+v", err, err), secretKey)
			require.NotContains(t, fmt.Sprintf("%v %+v", err, err), "quoted")
			require.Len(t, s.requests, c.requests)
		})
	}
}

func TestEndpointKeepsToDeadlines(t *testing.T) {
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	s := newServer(t, silent, silent, silent)
	endpoint, _ := open(t, s, func(c *embed.EndpointConfig) { c.Timeout, c.Attempts = 20*time.Millisecond, 2 })
	_, err := endpoint.Embed(t.Context(), []string{"x"})
	require.ErrorContains(t, err, "took too long")
	require.Len(t, s.requests, 2)

	// Whoever asks may go away, and hears that it was their own doing.
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	s = newServer(t, func(_ http.ResponseWriter, r *http.Request) { cancel(gone); <-r.Context().Done() })
	endpoint, _ = open(t, s, nil)
	_, err = endpoint.Embed(ctx, []string{"x"})
	require.ErrorIs(t, err, gone)
	require.NotErrorIs(t, err, embed.ErrUnavailable)
}

func TestEndpointWithoutAServerIsUnavailable(t *testing.T) {
	s := newServer(t)
	s.Close()
	_, err := embed.OpenEndpoint(t.Context(), embed.EndpointConfig{BaseURL: s.URL, Model: "m", Attempts: 1})
	require.ErrorIs(t, err, embed.ErrUnavailable)
}

// A key is asked for at every request, so that it may change; what keeps it
// from being there stays with whoever keeps it.
func TestEndpointResolvesItsKeyEachTime(t *testing.T) {
	s := newServer(t)
	keys := []string{"first", "second"}
	endpoint, _ := open(t, s, func(c *embed.EndpointConfig) {
		c.Key = func(context.Context) (string, error) {
			if len(keys) == 0 {
				return "", errors.New("vault at https://user:" + secretKey + "@vault is sealed")
			}
			key := keys[0]
			keys = keys[1:]
			return key, nil
		}
	})
	for range 2 {
		_, err := endpoint.Embed(t.Context(), []string{"x"})
		require.NoError(t, err)
	}
	require.Equal(t, "Bearer first", s.requests[0].key)
	require.Equal(t, "Bearer second", s.requests[1].key)
	_, err := endpoint.Embed(t.Context(), []string{"x"})
	require.ErrorIs(t, err, embed.ErrUnavailable)
	require.NotContains(t, err.Error(), secretKey)
	require.Len(t, s.requests, 2, "nothing is sent without it")
}

// Nothing labelled leaves unless the configuration says so; labels that may each
// be sent alone may not be sent together.
func TestEndpointMayOnlyBeGivenWhatTheConfigurationSays(t *testing.T) {
	s := newServer(t)
	endpoint, _ := open(t, s, nil)
	require.True(t, endpoint.May(nil))
	require.False(t, endpoint.May(policy.Labels{"hr"}))
	endpoint, _ = open(t, s, func(c *embed.EndpointConfig) { c.Sent = []policy.Labels{{"internal", "sales"}, {"hr"}} })
	require.True(t, endpoint.May(policy.Labels{"sales"}))
	require.True(t, endpoint.May(policy.Labels{"hr"}))
	require.False(t, endpoint.May(policy.Labels{"hr", "sales"}))
}

func TestEndpointConfigIsChecked(t *testing.T) {
	key := func(context.Context) (string, error) { return secretKey, nil }
	for name, config := range map[string]embed.EndpointConfig{
		"no address":          {Model: "m"},
		"a password in it":    {Model: "m", BaseURL: "https://user:" + secretKey + "@example.org/v1"},
		"no model":            {BaseURL: "https://example.org/v1"},
		"a key in the clear":  {BaseURL: "http://example.org/v1", Model: "m", Key: key},
		"shorter than what":   {BaseURL: "https://example.org/v1", Model: "m", Shorten: true},
		"a negative bound":    {BaseURL: "https://example.org/v1", Model: "m", Timeout: -1},
		"no address, escaped": {BaseURL: "https://exa%zzmple.org/" + secretKey, Model: "m"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := embed.OpenEndpoint(t.Context(), config)
			require.Error(t, err)
			require.NotErrorIs(t, err, embed.ErrUnavailable)
			require.NotContains(t, err.Error(), secretKey)
		})
	}
}

// Vectors of any size come out with length 1.
func TestEndpointNormalisesWhateverLength(t *testing.T) {
	s := newServer(t, vectorsAre(`{"index":0,"embedding":[3e300,4e300]}`, `{"index":1,"embedding":[-3e-300,4e-300]}`))
	endpoint, _ := open(t, s, nil)
	vectors, err := endpoint.Embed(t.Context(), []string{"x", "y"})
	require.NoError(t, err)
	for _, vector := range vectors {
		require.InDelta(t, 1, rank.Dot(vector, vector), 1e-6)
	}
}

func TestWhoeverWaitsDoesNotWaitLongForAnEndpoint(t *testing.T) {
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	refused := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }
	s := newServer(t, refused, refused, refused, refused, silent, silent, silent)
	now := time.Unix(1, 0)
	endpoint, _ := open(t, s, func(c *embed.EndpointConfig) {
		c.Timeout, c.Soon, c.Rest = time.Hour, 20*time.Millisecond, time.Minute
		c.Now = func() time.Time { return now }
	})
	ask := func() error {
		_, err := embed.Now(t.Context(), endpoint, []string{"x"})
		return err
	}
	for range 4 { // texts that the server does not take
		require.ErrorIs(t, ask(), embed.ErrUnavailable)
	}
	for range 3 {
		require.ErrorContains(t, ask(), "took too long")
	}
	require.Len(t, s.requests, 7, "one attempt each")
	require.ErrorIs(t, ask(), embed.ErrUnavailable)
	require.ErrorContains(t, ask(), "left alone")
	require.Len(t, s.requests, 7, "a server that keeps failing is left alone")

	_, err := endpoint.Embed(t.Context(), []string{"x"}) // who does not wait for it asks all the same
	require.NoError(t, err)
	now = now.Add(time.Minute)
	require.NoError(t, ask(), "after the rest it is asked again")
	require.NoError(t, ask())

	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	s = newServer(t, func(_ http.ResponseWriter, r *http.Request) { cancel(gone); <-r.Context().Done() })
	endpoint, _ = open(t, s, func(c *embed.EndpointConfig) { c.Soon = time.Hour })
	_, err = endpoint.EmbedNow(ctx, []string{"x"})
	require.ErrorIs(t, err, gone, "who goes away hears that it was their own doing")
}

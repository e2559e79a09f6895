package embed

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
)

// EndpointError says why an endpoint gave no vectors. It is ErrUnavailable, and
// holds nothing that a server said: that may be anything, even a text or the key.
type EndpointError struct {
	Status     int           // of HTTP; 0 where there was no answer
	Detail     string        // one sentence
	RetryAfter time.Duration // how long the server wants to be left alone
	again      bool          // the same request may succeed later
}

// Error returns the detail.
func (e *EndpointError) Error() string { return ErrUnavailable.Error() + ": " + e.Detail }

// Unwrap returns ErrUnavailable.
func (*EndpointError) Unwrap() error { return ErrUnavailable }

// completed fills in the defaults.
func (c EndpointConfig) completed() EndpointConfig {
	fill(&c.Batch, 128)
	fill(&c.BatchBytes, 256<<10)
	fill(&c.TextBytes, 24_000)
	fill(&c.AnswerBytes, 32<<20)
	fill(&c.Timeout, 20*time.Second)
	fill(&c.Attempts, 3)
	fill(&c.Wait, 500*time.Millisecond)
	fill(&c.MostWait, 20*time.Second)
	fill(&c.Soon, 3*time.Second)
	fill(&c.Rest, 10*time.Second)
	if c.Transport == nil {
		c.Transport = &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	if c.Spread == nil {
		c.Spread = func(wait time.Duration) time.Duration {
			return wait/2 + rand.N(wait/2+1) //nolint:gosec // a wait is no secret
		}
	}
	return c
}

func fill[T int | int64 | time.Duration](value *T, otherwise T) {
	if *value == 0 {
		*value = otherwise
	}
}

func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// send sends one batch, again where that may help, so many times at most.
func (e *Endpoint) send(ctx context.Context, batch []string, attempts int) ([][]float32, error) {
	wait := e.config.Wait
	for attempt := 1; ; attempt++ {
		vectors, err := e.once(ctx, batch)
		var failed *EndpointError
		if err == nil || !errors.As(err, &failed) || !failed.again || attempt >= attempts || failed.RetryAfter > e.config.MostWait {
			return vectors, err
		}
		// A server that says when is not asked earlier.
		if err := e.config.Sleep(ctx, max(e.config.Spread(min(wait, e.config.MostWait)), failed.RetryAfter)); err != nil {
			return nil, err
		}
		wait *= 2
	}
}

// once sends one request.
func (e *Endpoint) once(ctx context.Context, batch []string) ([][]float32, error) {
	bounded, cancel := context.WithTimeout(ctx, e.config.Timeout)
	defer cancel()
	options := []option.RequestOption{option.WithMiddleware(e.exchange)}
	if e.config.Key != nil {
		key, err := e.config.Key(bounded)
		if err != nil || key == "" {
			return nil, &EndpointError{Detail: "its key cannot be resolved"} // whatever the error says stays there
		}
		options = append(options, option.WithAPIKey(key))
	}
	params := openai.EmbeddingNewParams{
		Model: e.config.Model, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: batch},
		EncodingFormat: openai.EmbeddingNewParamsEncodingFormatFloat,
	}
	if e.config.Shorten {
		params.Dimensions = param.NewOpt(int64(e.config.Dim))
	}
	answer, err := e.service.New(bounded, params, options...)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, failure(bounded, err)
	}
	return e.vectors(answer, len(batch))
}

// vectors checks an answer: one vector for each text, in whatever order they
// came, all of one dimension.
func (e *Endpoint) vectors(answer *openai.CreateEmbeddingResponse, count int) ([][]float32, error) {
	if len(answer.Data) != count {
		return nil, &EndpointError{Status: http.StatusOK, Detail: "it did not answer with one vector for each text"}
	}
	vectors := make([][]float32, count)
	dim := e.dim
	for _, one := range answer.Data {
		if one.Index < 0 || one.Index >= int64(count) || vectors[one.Index] != nil {
			return nil, &EndpointError{Status: http.StatusOK, Detail: "it did not answer with one vector for each text"}
		}
		if dim == 0 {
			dim = len(one.Embedding)
		}
		vector, ok := normalised(one.Embedding)
		if !ok || len(vector) != dim {
			return nil, &EndpointError{Status: http.StatusOK, Detail: "its vectors are not of the dimensions that this model has here"}
		}
		vectors[one.Index] = vector
	}
	return vectors, nil
}

// exchange is a middleware of the SDK: it bounds answers, and keeps refusals,
// which may quote what was sent, from the SDK's errors.
func (e *Endpoint) exchange(request *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	response, err := next(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer func() { _ = response.Body.Close() }() // what was read is read
		return nil, refusal(response, e.config.Now())
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{&bounded{response.Body, e.config.AnswerBytes}, response.Body}
	return response, nil
}

var errTooMuch = errors.New("the answer is too long")

// bounded fails where a reader goes on for too long; to end there would make a
// shorter answer of it.
type bounded struct {
	from io.Reader
	left int64
}

// Read reads on, as far as it may go.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// refusal reads what a server answered instead of an answer.
func refusal(response *http.Response, now time.Time) *EndpointError {
	body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	var said struct {
		Error struct {
			Code any    `json:"code"`
			Type string `json:"type"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &said) // what is no JSON says nothing
	code, _ := said.Error.Code.(string)
	failed := &EndpointError{Status: response.StatusCode, RetryAfter: retryAfter(response.Header, now)}
	switch status := response.StatusCode; {
	case status == http.StatusTooManyRequests && strings.Contains(code+said.Error.Type, "insufficient_quota"):
		failed.Detail = "the account has no credit"
	case status == http.StatusTooManyRequests:
		failed.Detail, failed.again = "it got too many requests", true
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		failed.Detail = "it does not accept the key"
	case status == http.StatusNotFound:
		failed.Detail = "it knows no such model or address"
	case status == http.StatusRequestTimeout, status >= 500:
		failed.Detail, failed.again = "it failed", true
	case status >= 400:
		failed.Detail = "it refused the request"
	default:
		failed.Detail = "it did not answer with vectors"
	}
	return failed
}

// retryAfter reads both forms of the header, and the one in milliseconds.
func retryAfter(header http.Header, now time.Time) time.Duration {
	const most = 24 * time.Hour
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil {
		return time.Duration(min(max(ms, 0), float64(most/time.Millisecond)) * float64(time.Millisecond))
	}
	if seconds, err := strconv.ParseFloat(header.Get("Retry-After"), 64); err == nil {
		return time.Duration(min(max(seconds, 0), most.Seconds()) * float64(time.Second))
	}
	if date, err := http.ParseTime(header.Get("Retry-After")); err == nil {
		return min(max(date.Sub(now), 0), most)
	}
	return 0
}

// failure says what kept an answer from coming. The SDK's error may quote the
// request, so nothing of it is kept.
func failure(bounded context.Context, err error) error {
	var known *EndpointError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &known):
		return known
	case bounded.Err() != nil:
		return &EndpointError{Detail: "it took too long", again: true}
	case errors.Is(err, errTooMuch):
		return &EndpointError{Status: http.StatusOK, Detail: "its answer is too long"}
	case errors.As(err, &syntax):
		return &EndpointError{Status: http.StatusOK, Detail: "its answer is not of the protocol"}
	}
	return &EndpointError{Detail: "there is no connection to it, or it broke", again: true}
}

// Package client speaks to a Gantry server over its GraphQL interface: it
// sends commands that may be repeated, reads runs, and follows streams that
// survive a cut connection.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	requestWait = 30 * time.Second // for one answer that is no stream
	maxAnswer   = 64 << 20         // bytes of one answer, or of one event of a stream
	maxSends    = 4                // of one command
	maxCuts     = 12               // of a stream in a row, without any event between
)

// Config says where the server is and who asks.
type Config struct {
	URL   string       // base, for example "http://127.0.0.1:8080"
	Token string       // bearer token; never logged and never part of an error
	HTTP  *http.Client // nil for one without a time limit of its own
	// Pause waits between attempts, which count from 1. Errors: that of the
	// context. Nil waits 100 ms, doubled each time up to 5 s.
	Pause func(ctx context.Context, attempt int) error
	// Silence is how long a stream may bring nothing before it counts as cut;
	// the server sends a sign of life every 15 s. Zero for 45 s.
	Silence time.Duration
}

// Client is one person's or service's access to a server. It may be used by
// many goroutines.
type Client struct {
	endpoint string
	token    string
	http     *http.Client
	pause    func(ctx context.Context, attempt int) error
	silence  time.Duration
}

// New returns a client. Errors: the URL is none, or there is no token.
func New(config Config) (*Client, error) {
	base, err := url.Parse(config.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("the server's address %q is no http or https URL", config.URL)
	}
	if base.User != nil {
		return nil, errors.New("the server's address holds a name or password; give a token instead")
	}
	if config.Token == "" {
		return nil, errors.New("there is no bearer token")
	}
	c := &Client{endpoint: strings.TrimSuffix(base.String(), "/") + "/graphql", token: config.Token,
		http: config.HTTP, pause: config.Pause, silence: config.Silence}
	if c.http == nil {
		c.http = &http.Client{}
	}
	if c.pause == nil {
		c.pause = backOff
	}
	if c.silence == 0 {
		c.silence = 45 * time.Second
	}
	return c, nil
}

func backOff(ctx context.Context, attempt int) error {
	const first, most = 100 * time.Millisecond, 5 * time.Second
	wait := min(first<<min(attempt-1, 10), most)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ask sends a query and decodes its data. Errors: *Error.
func (c *Client) Ask(ctx context.Context, document string, variables map[string]any, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	response, err := c.send(ctx, document, variables, "application/json")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read whole
	data, err := c.readAnswer(response)
	if err != nil {
		return err
	}
	return decode(data, into)
}

// send posts an operation. Errors: *Error with CodeUnreachable.
func (c *Client) send(ctx context.Context, document string, variables map[string]any, accept string) (*http.Response, error) {
	body, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		return nil, fmt.Errorf("variables: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", accept)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	return response, nil
}

// answer is the form of every answer and of every event of a stream.
type answer struct {
	Data   json.RawMessage `json:"data"`
	Errors []serverError   `json:"errors"`
}

func (c *Client) readAnswer(response *http.Response) (json.RawMessage, error) {
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, c.unreachable(response.Request.Context(), err)
	}
	if len(raw) > maxAnswer {
		return nil, unexpected(response)
	}
	return readData(raw, response)
}

// readData returns the data of an answer without errors. Errors: *Error.
func readData(raw []byte, response *http.Response) (json.RawMessage, error) {
	var got answer
	if err := json.Unmarshal(raw, &got); err != nil || len(got.Data) == 0 && len(got.Errors) == 0 {
		return nil, unexpected(response)
	}
	if len(got.Errors) > 0 {
		return nil, got.Errors[0].public()
	}
	return got.Data, nil
}

func decode(data json.RawMessage, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return &Error{Code: CodeUnexpected, Message: "The answer is not of the form that was asked for (" + err.Error() + "); use a client of the server's version."}
	}
	return nil
}

// change sends a mutation whose one field is named "done" and returns what is
// in it. A command that got no answer is sent again under the same id, so that
// it counts once. Errors: *Error.
func change[T any](ctx context.Context, c *Client, document string, input map[string]any) (T, error) {
	input["commandId"] = rand.Text()
	for attempt := 1; ; attempt++ {
		var got struct{ Done json.RawMessage }
		err := c.Ask(ctx, document, map[string]any{"input": input}, &got)
		if err == nil {
			return readPayload[T](got.Done)
		}
		var none T
		var refused *Error
		if !errors.As(err, &refused) || !refused.Retryable || attempt == maxSends {
			return none, err
		}
		if err := c.pause(ctx, attempt); err != nil {
			return none, err
		}
	}
}

func readPayload[T any](raw json.RawMessage) (T, error) {
	var payload T
	var refused struct{ UserErrors []serverError }
	if err := decode(raw, &refused); err != nil {
		return payload, err
	}
	if len(refused.UserErrors) > 0 {
		return payload, refused.UserErrors[0].public()
	}
	return payload, decode(raw, &payload)
}

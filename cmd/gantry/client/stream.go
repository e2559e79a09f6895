package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

var errSilent = errors.New("the stream was silent for too long")

// follow keeps a subscription up until visit wants no more. A stream that was
// cut goes on after the cursor of the last event that was visited; one whose
// reader was too slow, after the cursor that the server names. Errors: *Error,
// those of visit and of the context.
func follow[T any](ctx context.Context, c *Client, document string, variables map[string]any, after string,
	visit func(event T) (cursor string, more bool, err error)) error {
	done := errors.New("no more is wanted")
	reached := false
	for cuts := 1; ; cuts++ {
		asked := maps.Clone(variables)
		if after != "" {
			asked["after"] = after
		}
		err := c.stream(ctx, document, asked, func(data json.RawMessage) error {
			var event T
			if err := decode(data, &event); err != nil {
				return err
			}
			cursor, more, err := visit(event)
			if err != nil {
				return visitError{err}
			}
			if !more {
				return done
			}
			after, cuts, reached = cursor, 0, true
			return nil
		})
		var visited visitError
		switch {
		case errors.Is(err, done):
			return nil
		case errors.As(err, &visited):
			return visited.error
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if lasts, err := lasting(err, reached, cuts); lasts {
			return err
		}
		after = resume(err, after)
		if err := c.pause(ctx, max(cuts, 1)); err != nil {
			return err
		}
	}
}

// visitError keeps what the visitor reports apart from what the stream does.
type visitError struct{ error }

// lasting reports whether a stream that ended with an error, or with none
// because its server closed, is not worth another attempt.
func lasting(err error, reached bool, cuts int) (lasts bool, why error) {
	if err == nil {
		err = &Error{Code: CodeUnreachable, Message: "The server ends the stream again and again; try later.", Retryable: true}
		return cuts >= maxCuts, err
	}
	var refused *Error
	if !errors.As(err, &refused) || !refused.Retryable {
		return true, err
	}
	return cuts >= maxCuts || refused.Code == CodeUnreachable && !reached, err
}

func resume(err error, after string) string {
	var refused *Error
	if errors.As(err, &refused) && refused.Code == codeResync && refused.cursor != "" {
		return refused.cursor
	}
	return after
}

// stream reads one subscription over server-sent events until the server
// completes it. Errors: *Error, those of visit.
func (c *Client) stream(ctx context.Context, document string, variables map[string]any, visit func(data json.RawMessage) error) error {
	listening, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.silence, func() { cancel(errSilent) })
	defer silence.Stop()
	response, err := c.send(listening, document, variables, "text/event-stream")
	if err != nil {
		return c.cut(ctx, err)
	}
	defer func() { _ = response.Body.Close() }() // nothing more is wanted of it
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		_, err := c.readAnswer(response)
		if err == nil {
			err = unexpected(response)
		}
		return err
	}
	completed, err := readEvents(response, func() { silence.Reset(c.silence) }, visit)
	if err != nil || completed {
		return err
	}
	return c.cut(ctx, io.ErrUnexpectedEOF)
}

// Stream reads one subscription until the server completes it, or until visit
// returns an error, which is then returned. It does not go on after a cut.
// Errors: *Error, those of visit and of the context.
func (c *Client) Stream(ctx context.Context, document string, variables map[string]any, visit func(data json.RawMessage) error) error {
	return c.stream(ctx, document, variables, visit)
}

// cut says that a stream broke, unless it is the caller who gave up.
func (c *Client) cut(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	return c.unreachable(ctx, err)
}

// readEvents visits the data of each event. It reports whether the server
// completed the stream; a broken one is not completed.
func readEvents(response *http.Response, alive func(), visit func(data json.RawMessage) error) (completed bool, err error) {
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxAnswer)
	var data strings.Builder
	for lines.Scan() {
		alive()
		line := lines.Text()
		if line == "event: complete" {
			return true, nil
		}
		if text, is := strings.CutPrefix(line, "data:"); is {
			data.WriteString(text)
			continue
		}
		if line != "" || data.Len() == 0 {
			continue
		}
		shown, err := readData([]byte(data.String()), response)
		data.Reset()
		if err != nil {
			return false, err
		}
		if err := visit(shown); err != nil {
			return false, err
		}
	}
	return false, nil
}

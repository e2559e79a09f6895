package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// subscribe reads one subscription over server-sent events, whose one field is
// named "told", until visit wants no more. A stream that ends before that is an
// error, with the last response in it.
func subscribe[T any](ctx context.Context, p *person, document string, variables map[string]any, visit func(T) (more bool)) error {
	stream, err := p.open(ctx, document, variables)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // nothing more is wanted of it
	return read(stream, visit)
}

// open begins a subscription: the server has it once this returns.
func (p *person) open(ctx context.Context, document string, variables map[string]any) (io.ReadCloser, error) {
	body, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+p.token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

func read[T any](stream io.Reader, visit func(T) (more bool)) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		text, found := strings.CutPrefix(lines.Text(), "data:")
		if !found || strings.TrimSpace(text) == "" {
			continue
		}
		var got struct {
			Data   struct{ Told T }
			Errors []json.RawMessage
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			return err
		}
		if len(got.Errors) > 0 {
			return errors.New(text)
		}
		if !visit(got.Data.Told) {
			return nil
		}
	}
	return errors.Join(errors.New("the stream ended"), lines.Err())
}

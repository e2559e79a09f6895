package embed

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Prompt is an Embedder that may take long, as one over a network does.
type Prompt interface {
	Embedder
	// EmbedNow is Embed for whoever waits for it: it gives up soon, and at once
	// while what was asked before kept failing. The error is ErrUnavailable then.
	EmbedNow(ctx context.Context, texts []string) ([][]float32, error)
}

// Now embeds texts for whoever waits for it. Errors: those of Embedder.
func Now(ctx context.Context, embedder Embedder, texts []string) ([][]float32, error) {
	if prompt, is := embedder.(Prompt); is {
		return prompt.EmbedNow(ctx, texts)
	}
	return embedder.Embed(ctx, texts)
}

var _ Prompt = (*Endpoint)(nil)

// EmbedNow embeds texts within EndpointConfig.Soon, in one attempt for each
// batch. A server that keeps failing is left alone for EndpointConfig.Rest.
func (e *Endpoint) EmbedNow(ctx context.Context, texts []string) ([][]float32, error) {
	if !e.patience.may(e.config.Now(), e.config.Soon) {
		return nil, &EndpointError{Detail: "it failed too often and is left alone for a moment"}
	}
	soon, cancel := context.WithTimeout(ctx, e.config.Soon)
	defer cancel()
	vectors, err := e.embed(soon, texts, 1)
	switch {
	case err == nil:
		e.patience.note(false, e.config.Now(), e.config.Rest)
		return vectors, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case soon.Err() != nil:
		err = &EndpointError{Detail: "it took too long", again: true}
	}
	// What the server refuses of one text says nothing of the next.
	if failed := (*EndpointError)(nil); errors.As(err, &failed) && failed.again {
		e.patience.note(true, e.config.Now(), e.config.Rest)
	}
	return nil, err
}

// mostFailed is how many requests may fail one after the other before a server
// is left alone.
const mostFailed = 3

// patience is whether a server is worth asking for those who wait.
type patience struct {
	mu     sync.Mutex
	failed int // requests since one was answered
	until  time.Time
}

// may reports whether to ask now. After a rest one asks for all, who have until
// then to hear of it.
func (p *patience) may(now time.Time, within time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed < mostFailed {
		return true
	}
	if now.Before(p.until) {
		return false
	}
	p.until = now.Add(within)
	return true
}

// note keeps what became of a request.
func (p *patience) note(failed bool, now time.Time, rest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !failed {
		p.failed = 0
		return
	}
	p.failed, p.until = p.failed+1, now.Add(rest)
}

// Package openai speaks OpenAI's chat completions, to OpenAI or to any server
// with the same protocol.
package openai

import (
	"context"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
)

// BaseURL is where OpenAI's own models answer.
const BaseURL = "https://api.openai.com/v1"

// Config says how to reach one server. Its base URL goes up to and with the
// version.
type Config struct {
	exchange.Server
	// Compatible is for servers other than OpenAI's own: they get the limit of
	// tokens as max_tokens, which not all OpenAI models take any more, and may end
	// an answer in words of their own.
	Compatible bool
}

// Provider asks one server. It sends every request once: to try again is the
// caller's to decide and to pay.
type Provider struct {
	config  Config
	service openai.ChatCompletionService
}

var _ model.Provider = (*Provider)(nil)

// New returns the provider of one server.
func New(config Config) (*Provider, error) {
	server, client, err := config.Open()
	if err != nil {
		return nil, err
	}
	config.Server = server
	options := []option.RequestOption{option.WithBaseURL(config.BaseURL), option.WithMaxRetries(0), option.WithHTTPClient(client)}
	if config.Key != "" {
		options = append(options, option.WithAPIKey(config.Key))
	}
	return &Provider{config: config, service: openai.NewChatCompletionService(options...)}, nil
}

// lastLine ends a whole stream. The SDK does not tell it from an early end.
const lastLine = "data:[DONE]"

// Take sends the request once and returns when the last byte of its answer is
// there. An answer whose stream ends early is an error, whatever it said.
func (p *Provider) Take(ctx context.Context, request model.Request, deltas func(text string)) (model.Answer, error) {
	names := exchange.NewNames(request)
	params, err := p.params(request, names)
	if err != nil {
		return model.Answer{}, err
	}
	ctx, e := p.config.Begin(ctx, lastLine)
	defer e.End()
	stream := p.service.NewStreaming(ctx, params)
	defer func() { _ = stream.Close() }()
	collected := collector{deltas: deltas, names: names, compatible: p.config.Compatible}
	for stream.Next() {
		if err := collected.add(stream.Current()); err != nil {
			return model.Answer{}, err
		}
	}
	err = stream.Err()
	if streamed := (*ssestream.StreamError)(nil); errors.As(err, &streamed) {
		err = exchange.Streamed(streamed.Event.Data)
	}
	if failure := e.Failure(ctx, err); failure != nil {
		return model.Answer{}, failure
	}
	if !e.Whole() {
		return model.Answer{}, exchange.CutShort()
	}
	return collected.answer(request)
}

// Package anthropic speaks Anthropic's messages, to Anthropic or to a gateway
// with the same protocol.
package anthropic

import (
	"context"
	"errors"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
)

// BaseURL is where Anthropic's own models answer.
const BaseURL = "https://api.anthropic.com"

// Config says how to reach one server. Its base URL goes up to the version.
type Config struct {
	exchange.Server
	// Reasoning asks a model to think as long as it likes and to show a summary.
	// Without it a model does what it does by itself.
	Reasoning bool
}

// Provider asks one server. It sends every request once: to try again is the
// caller's to decide and to pay.
type Provider struct {
	config  Config
	service anthropic.MessageService
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
	return &Provider{config: config, service: anthropic.NewMessageService(options...)}, nil
}

// Take sends the request once and returns when the answer says that it is
// whole. One whose stream ends early is an error, whatever it said.
func (p *Provider) Take(ctx context.Context, request model.Request, deltas func(text string)) (model.Answer, error) {
	names := exchange.NewNames(request)
	params, err := p.params(request, names)
	if err != nil {
		return model.Answer{}, err
	}
	ctx, e := p.config.Begin(ctx, "")
	defer e.End()
	stream := p.service.NewStreaming(ctx, params)
	defer func() { _ = stream.Close() }()
	collected := collector{deltas: deltas, names: names}
	for !collected.whole && stream.Next() {
		if err := collected.add(stream.Current()); err != nil {
			return model.Answer{}, err
		}
	}
	err = stream.Err()
	if streamed := (*anthropic.Error)(nil); errors.As(err, &streamed) {
		err = exchange.Streamed([]byte(streamed.RawJSON()))
	}
	if failure := e.Failure(ctx, err); failure != nil && !collected.whole {
		return model.Answer{}, failure
	}
	if !collected.whole {
		return model.Answer{}, exchange.CutShort()
	}
	return collected.answer(request)
}

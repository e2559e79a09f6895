// Package gemini speaks the Gemini API's generateContent, to Google or to a
// gateway with the same protocol.
package gemini

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/genai"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
)

// BaseURL is where Google's own models answer.
const BaseURL = "https://generativelanguage.googleapis.com"

// Config says how to reach one server. Its base URL goes up to the version.
type Config struct {
	exchange.Server
	// Reasoning asks a model to show a summary of its thoughts. Whether it thinks
	// is its own to decide.
	Reasoning bool
}

// Provider asks one server. It sends every request once: to try again is the
// caller's to decide and to pay.
type Provider struct {
	config Config
	models *genai.Models
}

var _ model.Provider = (*Provider)(nil)

// noKey stands for the key that a server does not ask for: the SDK would look
// for one in the environment.
const noKey = "none"

// New returns the provider of one server.
func New(config Config) (*Provider, error) {
	server, client, err := config.Open()
	if err != nil {
		return nil, err
	}
	config.Server = server
	if config.Key == "" {
		config.Key = noKey
		client.Transport = keyless{client.Transport}
	}
	// The SDK's own errors would quote the configuration, and with it the key.
	opened, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: config.Key, HTTPClient: client, HTTPOptions: genai.HTTPOptions{BaseURL: config.BaseURL},
	})
	if err != nil {
		return nil, errors.New("the client of the model server cannot be made of this configuration")
	}
	return &Provider{config: config, models: opened.Models}, nil
}

// keyless sends requests without the key that stands for none.
type keyless struct{ base http.RoundTripper }

// RoundTrip sends a request.
func (k keyless) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Del("X-Goog-Api-Key")
	return k.base.RoundTrip(request)
}

// Take sends the request once and returns when the stream is at its end. An
// answer that gives no reason for its end is an error, whatever it said.
func (p *Provider) Take(ctx context.Context, request model.Request, deltas func(text string)) (model.Answer, error) {
	names := exchange.NewNames(request)
	contents, config, err := p.params(request, names)
	if err != nil {
		return model.Answer{}, err
	}
	ctx, e := p.config.Begin(ctx, "")
	defer e.End()
	e.HoldEvents() // the SDK takes what comes last for an event, whether it is one or not
	collected := collector{deltas: deltas, names: names}
	err = p.stream(ctx, request.Model, contents, config, &collected)
	if said := (genai.APIError{}); errors.As(err, &said) {
		err = exchange.Streamed(refusalOf(said))
	}
	if known := (*model.Error)(nil); err != nil && !errors.As(err, &known) {
		err = exchange.Garbled() // only then does the SDK say anything of its own
	}
	if failure := e.Failure(ctx, err); failure != nil {
		return model.Answer{}, failure
	}
	if collected.finish == "" {
		return model.Answer{}, exchange.CutShort()
	}
	return collected.answer(request)
}

// stream collects an answer. The SDK panics on some bytes that are no answer.
func (p *Provider) stream(ctx context.Context, name string, contents []*genai.Content, config *genai.GenerateContentConfig, collected *collector) (err error) {
	defer func() {
		if recover() != nil {
			err = exchange.Garbled()
		}
	}()
	for chunk, err := range p.models.GenerateContentStream(ctx, name, contents, config) {
		if err != nil {
			return err
		}
		if err := collected.add(chunk); err != nil {
			return err
		}
	}
	return nil
}

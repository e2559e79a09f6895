package model

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// OpenAIConfig says how to reach one server that speaks OpenAI's chat
// completions. Nothing else decides it: no environment variable is read.
type OpenAIConfig struct {
	BaseURL string // up to and with the version, for example "https://api.openai.com/v1"
	Key     string // empty for a server that asks for none
	// Compatible is for servers other than OpenAI's own: they get the limit of
	// tokens as max_tokens, which not all OpenAI models take any more.
	Compatible bool
	// Idle is how long no byte may come, from the start of the request on. The
	// default is a minute.
	Idle time.Duration
	// AnswerBytes is how much of an answer is read at most. The default is 8 MiB.
	AnswerBytes int64

	Transport http.RoundTripper // what may be dialled; by default anything, without a proxy
	Now       func() time.Time  // for a Retry-After that names a date; by default the system's
	Timer     Timer             // by default the system's
}

// Timer calls expired once after a while, unless it is stopped before.
type Timer func(after time.Duration, expired func()) (stop func())

// Validate returns all that is wrong with the configuration. The key is in no
// error.
func (c OpenAIConfig) Validate() error {
	var faults []error
	// The parser's own error would quote an address that may hold a password.
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") || base.User != nil || base.RawQuery != "" {
		faults = append(faults, errors.New("the base URL of the model server must be an http(s) address without user and query"))
	}
	if c.Idle < 0 {
		faults = append(faults, errors.New("the idle time of the model server must not be negative"))
	}
	if c.AnswerBytes < 0 {
		faults = append(faults, errors.New("the largest answer of the model server must not be negative"))
	}
	return errors.Join(faults...)
}

// OpenAI is a provider that speaks OpenAI's chat completions, to OpenAI or to
// any server with the same protocol. It sends every request once: to try again
// is the caller's to decide and to pay.
type OpenAI struct {
	config  OpenAIConfig
	service openai.ChatCompletionService
}

var _ Provider = (*OpenAI)(nil)

// NewOpenAI returns the provider of one server.
func NewOpenAI(config OpenAIConfig) (*OpenAI, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Idle == 0 {
		config.Idle = time.Minute
	}
	if config.AnswerBytes == 0 {
		config.AnswerBytes = 8 << 20
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Timer == nil {
		config.Timer = func(after time.Duration, expired func()) func() {
			timer := time.AfterFunc(after, expired)
			return func() { timer.Stop() }
		}
	}
	if config.Transport == nil {
		config.Transport = &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 32, IdleConnTimeout: 90 * time.Second}
	}
	options := []option.RequestOption{
		option.WithBaseURL(config.BaseURL),
		option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{
			Transport:     config.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
	}
	if config.Key != "" {
		options = append(options, option.WithAPIKey(config.Key))
	}
	return &OpenAI{config: config, service: openai.NewChatCompletionService(options...)}, nil
}

// errIdle is the cause of a request that was given up for silence.
var errIdle = errors.New("no byte for too long")

// Take sends the request once and returns when the last byte of its answer is
// there. An answer whose stream ends early is an error, whatever it said.
func (o *OpenAI) Take(ctx context.Context, request Request, deltas func(text string)) (Answer, error) {
	names := newNames(request)
	params, err := o.params(request, names)
	if err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := newWatch(o.config, func() { cancel(errIdle) })
	defer watch.stop()

	stream := o.service.NewStreaming(ctx, params, option.WithMiddleware(watch.exchange))
	defer func() { _ = stream.Close() }()
	collected := collector{deltas: deltas, names: names}
	for stream.Next() {
		if err := collected.add(stream.Current()); err != nil {
			return Answer{}, err
		}
	}
	if err := stream.Err(); err != nil || ctx.Err() != nil {
		return Answer{}, failureFrom(ctx, err)
	}
	if !watch.done() {
		return Answer{}, &Error{Kind: Cut, Billed: true, Detail: "the stream ended before the answer did"}
	}
	return collected.answer(request)
}

package embed

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"gantry.dev/orchestrator/policy"
)

// EndpointConfig says how to reach a server that speaks OpenAI's embeddings, and
// what may be sent there. Nothing else decides it: no environment variable is
// read.
type EndpointConfig struct {
	BaseURL string // up to and with the version, for example "https://api.openai.com/v1"
	Model   string // as the server names it
	Version string // told apart from vectors of the same model before; empty for none
	// Key resolves the reference to the key, at every request; nil for a server
	// that asks for none.
	Key func(ctx context.Context) (string, error)
	// Dim is how many dimensions the vectors have; 0: the server is asked once.
	Dim int
	// Shorten asks the server for Dim dimensions, of models that can give fewer.
	Shorten bool
	// Sent are the label sets of texts that may be sent: those within one of them.
	// Texts without labels may always be. Empty: nothing labelled leaves.
	Sent []policy.Labels

	Batch       int           // texts in a request; 0: 128
	BatchBytes  int           // of their text; 0: 256 KiB
	TextBytes   int           // of a longer text the beginning is sent; 0: 24,000
	AnswerBytes int64         // how much of an answer is read at most; 0: 32 MiB
	Timeout     time.Duration // of one request; 0: 20 seconds
	Attempts    int           // of one request; 0: 3
	Wait        time.Duration // before the second attempt, and twice as long before each further one; 0: 500 ms
	MostWait    time.Duration // a server that wants more time is given up; 0: 20 seconds
	Soon        time.Duration // of all that somebody waits for; 0: 3 seconds
	Rest        time.Duration // how long a server that keeps failing is left alone by those; 0: 10 seconds

	Transport http.RoundTripper                                   // what may be dialled; by default anything, without a proxy
	Now       func() time.Time                                    // for a Retry-After that names a date; by default the system's
	Sleep     func(ctx context.Context, wait time.Duration) error // by default the system's
	Spread    func(wait time.Duration) time.Duration              // shortens waits so that many do not come back at once; by default to between half and all of it
}

// Validate returns all that is wrong with the configuration.
func (c EndpointConfig) Validate() error {
	var faults []error
	// The parser's own error would quote an address that may hold a password.
	base, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") || base.User != nil || base.RawQuery != "":
		faults = append(faults, errors.New("the base URL of the embedding endpoint must be an http(s) address without user and query"))
	case base.Scheme == "http" && c.Key != nil && !loopback(base.Hostname()):
		faults = append(faults, errors.New("the key of the embedding endpoint would be sent in the clear; give an https address"))
	}
	if strings.TrimSpace(c.Model) == "" {
		faults = append(faults, errors.New("the embedding endpoint needs the name of a model"))
	}
	if c.Shorten && c.Dim == 0 {
		faults = append(faults, errors.New("shorter vectors of the embedding endpoint need a number of dimensions"))
	}
	for _, n := range [10]int64{int64(c.Dim), int64(c.Batch), int64(c.BatchBytes), int64(c.TextBytes), c.AnswerBytes, int64(c.Timeout), int64(c.Attempts), int64(min(c.Wait, c.MostWait)), int64(c.Soon), int64(c.Rest)} {
		if n < 0 {
			faults = append(faults, errors.New("no bound of the embedding endpoint may be negative"))
			break
		}
	}
	return errors.Join(faults...)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Endpoint makes vectors by a server. It may be used from many goroutines.
type Endpoint struct {
	config  EndpointConfig
	service openai.EmbeddingService
	dim     int

	patience patience
}

var _ Embedder = (*Endpoint)(nil)

// OpenEndpoint returns the embedder of a server. It asks the server for the
// number of dimensions where the configuration has none, with a text that says
// nothing; otherwise it sends nothing.
func OpenEndpoint(ctx context.Context, config EndpointConfig) (*Endpoint, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.completed()
	e := &Endpoint{config: config, dim: config.Dim, service: openai.NewEmbeddingService(
		option.WithBaseURL(config.BaseURL),
		option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{
			Transport:     config.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
	)}
	if e.dim == 0 {
		vectors, err := e.send(ctx, []string{"dimensions"}, config.Attempts)
		if err != nil {
			return nil, err
		}
		e.dim = len(vectors[0])
	}
	return e, nil
}

// Model names the model, with its version where it has one.
func (e *Endpoint) Model() string {
	if e.config.Version != "" {
		return e.config.Model + "@" + e.config.Version
	}
	return e.config.Model
}

// Dim is the number of dimensions.
func (e *Endpoint) Dim() int { return e.dim }

// May reports whether texts with these labels may be sent to the server.
func (e *Endpoint) May(labels policy.Labels) bool {
	if len(labels) == 0 {
		return true
	}
	for _, sent := range e.config.Sent {
		if labels.Within(sent) {
			return true
		}
	}
	return false
}

// Embed sends the texts in batches, and returns all vectors or an error:
// ErrUnavailable, wrapped, or the context's. A text without letters is not
// sent; its vector is of zeros, which is like nothing.
func (e *Endpoint) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return e.embed(ctx, texts, e.config.Attempts)
}

func (e *Endpoint) embed(ctx context.Context, texts []string, attempts int) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	var batch []string
	var places []int
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		made, err := e.send(ctx, batch, attempts)
		if err != nil {
			return err
		}
		for i, place := range places {
			vectors[place] = made[i]
		}
		batch, places, size = batch[:0], places[:0], 0
		return nil
	}
	for i, text := range texts {
		text = beginning(text, e.config.TextBytes)
		if strings.TrimSpace(text) == "" {
			vectors[i] = make([]float32, e.dim)
			continue
		}
		if len(batch) == e.config.Batch || size+len(text) > e.config.BatchBytes {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		batch, places, size = append(batch, text), append(places, i), size+len(text)
	}
	return vectors, flush()
}

// beginning cuts a text where a letter ends.
func beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// normalised turns an answer into a vector of length 1; ok is false for what
// has no direction.
func normalised(from []float64) (vector []float32, ok bool) {
	most := 0.0
	for _, x := range from {
		most = max(most, math.Abs(x)) // NaN where any is
	}
	if !(most > 0) || math.IsInf(most, 0) {
		return nil, false
	}
	sum := 0.0
	for _, x := range from {
		sum += (x / most) * (x / most)
	}
	vector = make([]float32, len(from))
	for i, x := range from {
		vector[i] = float32(x / most / math.Sqrt(sum))
	}
	return vector, true
}

// Package telemetry tells a collector what runs did, as OpenTelemetry traces by
// the GenAI conventions. A run's spans are made from its journal when it has
// ended, so they show what was recorded, at the times at which it was, whichever
// process did it. They hold no text of a run unless that is asked for, and then
// only what the collector may read.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Config says where traces go and what may stand in them.
type Config struct {
	Collector string // base URL of an OTLP/HTTP collector, for example "http://127.0.0.1:4318"
	Service   string // names this process's service
	// Content has the texts of runs stand in spans: only those whose labels are
	// all in Clearance, and without what looks like a secret or a person's number.
	Content   bool
	Clearance policy.Labels
	Log       *slog.Logger `json:"-"`
}

// Validate returns what is wrong with the configuration.
func (c Config) Validate() error {
	u, err := url.Parse(c.Collector)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return errors.New("traces: must be the http(s) address of a collector, without user") // it is not repeated
	}
	return nil
}

// Journal is where runs are read.
type Journal interface {
	// Load returns a run's head and its records after a version.
	Load(ctx context.Context, run string, after uint64) (run.Head, []run.Record, error)
	// Payloads returns texts by id; an erased one is absent.
	Payloads(ctx context.Context, ids []string) (map[string]engine.Payload, error)
}

// Tracer makes and sends spans.
type Tracer struct {
	config   Config
	journal  Journal
	provider *trace.TracerProvider
	ended    chan string
}

// waiting is how many runs may wait to be told of. What is more is left out:
// nothing waits for a collector.
const waiting = 4096

// New returns a tracer. Nothing is sent before Run.
func New(ctx context.Context, config Config, journal Journal) (*Tracer, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(config.Collector+"/v1/traces"), otlptracehttp.WithHTTPClient(collectorClient()))
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	described := resource.NewSchemaless(semconv.ServiceName(config.Service))
	return newTracer(config, journal, trace.WithBatcher(quiet{exporter, config.Log}), trace.WithResource(described)), nil
}

// sendTakes bounds one attempt to send spans.
const sendTakes = 10 * time.Second

// collectorClient sends spans to the collector, and nowhere else.
func collectorClient() *http.Client {
	return &http.Client{Timeout: sendTakes, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func newTracer(config Config, journal Journal, options ...trace.TracerProviderOption) *Tracer {
	provider := trace.NewTracerProvider(append(options, trace.WithIDGenerator(ids{}), trace.WithSampler(trace.AlwaysSample()),
		trace.WithRawSpanLimits(trace.SpanLimits{AttributeValueLengthLimit: mostText, AttributeCountLimit: 64, EventCountLimit: 256, LinkCountLimit: 8,
			AttributePerEventCountLimit: 16, AttributePerLinkCountLimit: 8}))...)
	return &Tracer{config: config, journal: journal, provider: provider, ended: make(chan string, waiting)}
}

// Ended tells of a run that has ended. It never blocks.
func (t *Tracer) Ended(run string) {
	select {
	case t.ended <- run:
	default:
		t.config.Log.Warn("trace left out: too many runs wait to be told of", "run", run)
	}
}

// Run makes spans until the context ends, and then those of what still waits.
func (t *Tracer) Run(ctx context.Context) {
	for {
		select {
		case id := <-t.ended:
			t.tell(ctx, id)
		case <-ctx.Done():
			t.drain(context.WithoutCancel(ctx))
			return
		}
	}
}

// drainTakes bounds how long the end of a process waits for its collector.
const drainTakes = 5 * time.Second

func (t *Tracer) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTakes)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case id := <-t.ended:
			t.tell(ctx, id)
			continue
		default:
		}
		break
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		t.config.Log.Warn("not all traces were sent")
	}
}

func (t *Tracer) tell(ctx context.Context, id string) {
	_, records, err := t.journal.Load(ctx, id, 0)
	if err == nil {
		err = t.spans(ctx, records)
	}
	if err != nil && ctx.Err() == nil {
		t.config.Log.Warn("trace left out: the run could not be read", "run", id)
	}
}

// quiet says of a failed export that it failed: a collector's answer may hold
// anything.
type quiet struct {
	trace.SpanExporter
	log *slog.Logger
}

// ExportSpans sends spans.
func (q quiet) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	if err := q.SpanExporter.ExportSpans(ctx, spans); err != nil {
		q.log.Warn("traces could not be sent", "spans", len(spans))
	}
	return nil
}

package telemetry

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"gantry.dev/orchestrator/run"
)

// ids gives a span the ids that its context names: the same run has the same
// ids whoever tells of it, so a repetition adds nothing and children find their
// parents.
type ids struct{}

type idKey struct{}

type named struct {
	trace trace.TraceID
	span  trace.SpanID
}

// NewIDs returns the ids of a span without a parent.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	n, _ := ctx.Value(idKey{}).(named)
	return n.trace, n.span
}

// NewSpanID returns the id of a span with a parent.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	n, _ := ctx.Value(idKey{}).(named)
	return n.span
}

func traceID(root string) (id trace.TraceID) {
	sum := sha256.Sum256([]byte("trace/" + root))
	copy(id[:], sum[:])
	return id
}

// spanID is the id of a part of a run, for example "call/3"; "" is the run.
func spanID(run, part string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte("span/" + run + "/" + part))
	copy(id[:], sum[:])
	return id
}

// telling is one run being told of.
type telling struct {
	*Tracer
	id      string
	started run.Started
	texts   map[string]string // by id, as the collector may read them
	open    map[string]trace.Span
	at      time.Time
	turn    string // part of the turn in flight
}

// spans makes the spans of one run.
func (t *Tracer) spans(ctx context.Context, records []run.Record) error {
	if len(records) == 0 {
		return nil
	}
	events := make([]run.Event, len(records))
	for i, record := range records {
		event, err := run.Decode(record)
		if err != nil {
			return err
		}
		events[i] = event
	}
	started, ok := events[0].(run.Started)
	if !ok {
		return fmt.Errorf("the run does not begin with its start")
	}
	texts, err := t.content(ctx, events)
	if err != nil {
		return err
	}
	l := &telling{Tracer: t, id: records[0].Run, started: started, texts: texts, open: map[string]trace.Span{}}
	for i, event := range events {
		l.at = time.UnixMilli(records[i].AtMs)
		l.tell(ctx, event)
	}
	for _, span := range l.open { // a run that ended has none; a record of the future may leave some
		span.End(trace.WithTimestamp(l.at))
	}
	return nil
}

// begin opens a span for a part of the run, under another part.
func (l *telling) begin(ctx context.Context, part, under, name string, kind trace.SpanKind, attributes ...attribute.KeyValue) {
	owner := l.id
	if part == "" {
		if owner = l.started.Parent; l.started.Task != nil && l.started.Task.Call > 0 {
			under = callPart(l.started.Task.Call)
		}
	}
	root := traceID(l.started.Root)
	ctx = context.WithValue(ctx, idKey{}, named{root, spanID(l.id, part)})
	if owner != "" {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: root, SpanID: spanID(owner, under), TraceFlags: trace.FlagsSampled}))
	}
	_, l.open[part] = l.provider.Tracer("gantry.dev").Start(ctx, name, trace.WithTimestamp(l.at), trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
}

// end closes the span of a part; a code makes it a failed one.
func (l *telling) end(part, failed string, attributes ...attribute.KeyValue) {
	span, open := l.open[part]
	if !open {
		return
	}
	delete(l.open, part)
	span.SetAttributes(attributes...)
	if failed != "" {
		span.SetStatus(codes.Error, failed)
		span.SetAttributes(semconv.ErrorTypeKey.String(failed))
	}
	span.End(trace.WithTimestamp(l.at))
}

// note marks a moment of a part.
func (l *telling) note(part, name string, attributes ...attribute.KeyValue) {
	if span, open := l.open[part]; open {
		span.AddEvent(name, trace.WithTimestamp(l.at), trace.WithAttributes(attributes...))
	}
}

// text is an attribute with a text, where the collector may read it.
func (l *telling) text(key attribute.Key, text *run.Text) []attribute.KeyValue {
	if text == nil {
		return nil
	}
	shown, readable := l.texts[text.ID]
	if !readable {
		return nil
	}
	return []attribute.KeyValue{key.String(shown)}
}

func callPart(call int) string { return "call/" + strconv.Itoa(call) }

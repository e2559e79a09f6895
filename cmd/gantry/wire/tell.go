package wire

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"gantry.dev/agents/perform"
	"gantry.dev/cmd/gantry/telemetry"
	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// committed tells everybody who waits for what this process wrote.
func (p *Platform) committed(written []journal.Committed) {
	for _, c := range written {
		batch := batchOf(c)
		if p.Hub != nil {
			p.Hub.Offer(batch)
		}
		if p.relay != nil {
			p.relay.Offer(batch)
		}
		if p.notary != nil {
			p.notary.Count(len(c.Records))
		}
		if p.tracer != nil && slices.ContainsFunc(c.Records, func(r run.Record) bool { return r.Kind == run.KindEnded }) {
			p.tracer.Ended(c.Head.Run)
		}
		if len(c.Entries) > 0 && p.turns != nil {
			p.turns.Ring()
		}
		if c.Outside && len(c.Records) > 0 && p.worker != nil {
			p.worker.Ring(c.Head.Run)
		}
		for _, woken := range c.Wakes {
			if p.worker != nil {
				p.worker.Ring(woken)
			}
		}
	}
}

// batchOf numbers the records of one write.
func batchOf(c journal.Committed) bus.Batch {
	batch := bus.Batch{Writer: c.Writer, Entries: c.Entries, Due: c.Outside && c.Head.DueMs > 0 || len(c.Wakes) > 0}
	first := c.N + 1 - uint64(len(c.Records))
	for i, record := range c.Records {
		batch.Rows = append(batch.Rows, bus.Committed{N: first + uint64(i), Organisation: c.Head.Organisation, Record: record})
	}
	if len(c.Inbox) > 0 {
		batch.Inboxes = []string{c.Head.Organisation}
	}
	return batch
}

// moved hears that somebody wrote to a run. What this process wrote it knows.
func (p *Platform) moved(writer, runID string) {
	if writer != p.Store.Writer() {
		p.worker.Rouse(runID)
	}
}

// hearDue wakes the worker when any process made a run due.
func (p *Platform) hearDue(ctx context.Context, ticks <-chan time.Time) {
	p.hear(ctx, ticks, bus.TopicDue, func() { p.worker.Ring("") })
}

// hear is told of each message of a topic, and subscribes again at a tick.
func (p *Platform) hear(ctx context.Context, ticks <-chan time.Time, topic bus.Topic, told func()) {
	for {
		if subscription, err := p.bus.Subscribe(ctx, topic); err == nil {
			subscription.Each(func(context.Context, bus.Message) error {
				told()
				return nil
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}

// beginScheduled begins the runs that are due by their schedules. By the time
// that it looks, the database's clock says which are.
func (p *Platform) beginScheduled(ctx context.Context, ticks <-chan time.Time) {
	for {
		if err := p.calendar.Tick(ctx); err != nil && ctx.Err() == nil {
			p.Config.Log.Warn("schedules", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}

// Text in progress waits in a few lanes, each run's in one of them.
const (
	textLanes = 8
	textsKept = 256 // of one lane
)

// newTextLanes returns empty lanes.
func newTextLanes() (lanes [textLanes]chan bus.TextDelta) {
	for i := range lanes {
		lanes[i] = make(chan bus.TextDelta, textsKept)
	}
	return lanes
}

// tellText tells a piece of an answer, soon and in order. Nothing depends on it:
// a bus that is away or does not keep up loses it, and holds up no model.
func (p *Platform) tellText(d perform.Delta) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(d.Run)) // it cannot fail
	select {
	case p.texts[hash.Sum32()%textLanes] <- bus.TextDelta{Run: d.Run, Turn: d.Turn, Attempt: d.Attempt, Part: d.Part, Text: d.Text, Marking: d.Marking}:
	default:
	}
}

// tellTexts tells what waits in a lane.
func (p *Platform) tellTexts(ctx context.Context, lane <-chan bus.TextDelta) {
	for {
		select {
		case <-ctx.Done():
			return
		case delta := <-lane:
			_ = p.bus.TellText(ctx, delta)
		}
	}
}

// writers shows the journal to the relay.
type writers struct{ *journal.Store }

// After returns the records of one writer after a number.
func (w writers) After(ctx context.Context, writer string, n uint64, limit int) ([]run.Record, error) {
	rows, err := w.Store.After(ctx, writer, n, limit)
	records := make([]run.Record, len(rows))
	for i, row := range rows {
		records[i] = row.Record
	}
	return records, err
}

// entries shows conversations to the hub.
type entries struct{ store *journal.Store }

// pageEntries is how many entries one reading gives.
const pageEntries = 256

// Entries returns entries after a number and the number of the newest.
func (e entries) Entries(ctx context.Context, organisation, conversation string, after uint64) ([]engine.Entry, uint64, error) {
	list, err := e.store.Entries(ctx, organisation, conversation, after, pageEntries)
	if err != nil {
		return nil, 0, err
	}
	found, err := e.store.Conversation(ctx, organisation, conversation)
	return list, found.Entries, err
}

// newTracer tells a collector of the runs whose ends this process writes.
func (p *Platform) newTracer(ctx context.Context) (*telemetry.Tracer, error) {
	config := p.Config.Traces
	config.Log, config.Service = p.Config.Log, "gantry"
	return telemetry.New(ctx, config, p.Store)
}

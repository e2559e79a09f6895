package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/service/brain"
	"gantry.dev/memory"
	"gantry.dev/memory/detect"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/index/qdrant"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
)

// Memory says with what this process remembers. The zero value is the index in
// this process and the vectors that come with it.
type Memory struct {
	Qdrant qdrant.Config // without a URL: the index in this process
	// Embeddings makes vectors besides those that come with the process, of texts
	// that may be sent there; without a BaseURL: nothing does.
	Embeddings embed.EndpointConfig `json:"-"` // holds functions
	Sweep      time.Duration        // how often it is put right what is left over; 0: 5 min
}

// remembering is the memory of a process, with what goes on beside it.
type remembering struct {
	*memory.Service
	indexes index.Indexes
	queued  chan struct{} // this process queued something for the index
	rung    chan struct{} // any process did
}

// signal tells of something that may be told already.
func signal(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// openMemory builds the memory over the journal's database.
func (p *Platform) openMemory(ctx context.Context) error {
	p.memory.queued, p.memory.rung = make(chan struct{}, 1), make(chan struct{}, 1)
	databases := p.Store.Databases()
	records, err := store.New(store.Config{Write: databases.Write, Read: databases.Read, Postgres: databases.Postgres, MasterKey: p.Keys.Master,
		Now: p.Store.Now, NewID: p.Source.ID, Relayed: p.Config.Memory.Qdrant.URL != "", Announced: func() { signal(p.memory.queued) }})
	if err != nil {
		return err
	}
	p.Feed = brain.NewFeed(records, p.polls, &p.streams)
	if p.memory.indexes, err = p.Config.Memory.indexes(); err != nil {
		return err
	}
	embedders, err := p.Config.Memory.embedders(ctx)
	if err != nil {
		return err
	}
	p.memory.Service, err = memory.New(ctx, memory.Config{Store: records, Indexes: p.memory.indexes, Embedders: embedders, Rules: p.memoryRules,
		Erasers: map[string]memory.Eraser{"run texts": p.Store}, SeesRun: p.seesRun,
		Tending: !p.Config.Work && p.Config.Listen == ""})
	p.Brain = p.memory.Service
	return err
}

// embedders are those by which texts are compared: one takes every text, and an
// endpoint those that may be sent to it.
func (m Memory) embedders(ctx context.Context) ([]embed.Embedder, error) {
	made := []embed.Embedder{embed.NewStatic()}
	if m.Embeddings.BaseURL == "" {
		return made, nil
	}
	endpoint, err := embed.OpenEndpoint(ctx, m.Embeddings)
	if err != nil {
		return nil, fmt.Errorf("embeddings: %w", err)
	}
	return append(made, endpoint), nil
}

// Tender is the memory for its operator.
func (p *Platform) Tender() *memory.Service { return p.memory.Service }

// tellQueued tells every process that something is queued for the index. What is
// not told is found at the next tick.
func (p *Platform) tellQueued(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.memory.queued:
			signal(p.memory.rung)
			_ = p.bus.Publish(ctx, bus.TopicMemory, bus.Message{ID: p.Source.ID()})
		}
	}
}

// hearQueued rings the relay when any process queued something for the index.
func (p *Platform) hearQueued(ctx context.Context, ticks <-chan time.Time) {
	p.hear(ctx, ticks, bus.TopicMemory, func() { signal(p.memory.rung) })
}

// relayMemory tells the index what is queued.
func (p *Platform) relayMemory(ctx context.Context, ticks <-chan time.Time) {
	p.memory.Relay(ctx, memory.Relaying{Report: func(err error) { p.Config.Log.Warn("memory's index", "error", err) }}, p.memory.rung, ticks)
}

func (m Memory) indexes() (index.Indexes, error) {
	if m.Qdrant.URL == "" {
		return flat.New(), nil
	}
	return qdrant.New(m.Qdrant)
}

// SweepMemory puts right what is left over, once.
func (p *Platform) SweepMemory(ctx context.Context) (memory.Swept, error) { return p.memory.Sweep(ctx) }

// sweepMemory puts right what is left over, now and then.
func (p *Platform) sweepMemory(ctx context.Context) {
	ticker := time.NewTicker(p.Config.Memory.Sweep)
	defer ticker.Stop()
	p.memory.Janitor(ctx, ticker.C, func(swept memory.Swept, err error) {
		if swept != (memory.Swept{}) {
			p.Config.Log.Info("memory swept", "expired", swept.Expired, "verified", swept.Verified, "open", swept.Open, "embedded", swept.Embedded, "mended", swept.Mended)
		}
		if err != nil {
			p.Config.Log.Warn("sweep of memory", "error", err)
		}
	})
}

// memoryRules are what an organisation's configuration in force says about what
// is remembered.
func (p *Platform) memoryRules(ctx context.Context, organisation string) (memory.Rules, error) {
	o, err := p.Organisation(ctx, organisation)
	if err != nil {
		return memory.Rules{}, fmt.Errorf("rules of memory: %w", err)
	}
	return memory.Rules{
		Known: func(label policy.Label) bool { _, known := o.Label(label); return known },
		Owns: func(principal string, label policy.Label) bool {
			rule, known := o.Label(label)
			return known && rule.Owner == principal
		},
		Detect: func(text string) []memory.Found { return detected(o, text) },
	}, nil
}

// detected is what detectors find in a text, with the labels that the
// organisation gives to it.
func detected(o agents.Organisation, text string) (found []memory.Found) {
	for _, span := range detect.Find(text) {
		if label, looked := o.Memory.Detectors[string(span.Kind)]; looked {
			found = append(found, memory.Found{Start: span.Start, End: span.End, Labels: policy.Labels{label}, Detector: span.Rule})
		}
	}
	return found
}

// seesRun reports whether a reader may know of a run, by the run's row.
func (p *Platform) seesRun(ctx context.Context, reader view.Reader, run string) (bool, error) {
	o, err := p.Organisation(ctx, reader.Organisation)
	if err != nil {
		return false, err
	}
	person, known := o.Principal(reader.Principal)
	head, _, err := p.Store.Load(ctx, run, 1<<62)
	if errors.Is(err, engine.ErrNotFound) {
		return false, nil
	}
	return known && o.Concerns(person, head), err
}

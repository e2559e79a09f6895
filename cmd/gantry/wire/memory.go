package wire

import (
	"context"
	"errors"
	"fmt"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/service"
	"gantry.dev/memory"
	"gantry.dev/memory/detect"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/index/qdrant"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
)

// Memory says with what this process remembers. The zero value is the index in
// this process and the vectors that come with it.
type Memory struct {
	Qdrant qdrant.Config // without a URL: the index in this process
}

// openMemory builds the memory over the journal's database.
func (p *Platform) openMemory(ctx context.Context) error {
	databases := p.Store.Databases()
	records, err := store.New(store.Config{Write: databases.Write, Read: databases.Read, Postgres: databases.Postgres, MasterKey: p.Keys.Master,
		Now: p.Store.Now, NewID: p.Source.ID, Relayed: p.Config.Memory.Qdrant.URL != ""})
	if err != nil {
		return err
	}
	p.Feed = service.NewFeed(records, p.polls, &p.streams)
	if p.indexes, err = p.Config.Memory.indexes(); err != nil {
		return err
	}
	p.Brain, err = memory.New(ctx, memory.Config{Store: records, Indexes: p.indexes, Embedders: []embed.Embedder{embed.NewStatic()}, Rules: p.memoryRules,
		Erasers: map[string]memory.Eraser{"run texts": p.Store}, SeesRun: p.seesRun})
	return err
}

func (m Memory) indexes() (index.Indexes, error) {
	if m.Qdrant.URL == "" {
		return flat.New(), nil
	}
	return qdrant.New(m.Qdrant)
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

package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"gantry.dev/agents"
	"gantry.dev/agents/perform"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// configurations is where organisations' configurations are kept.
type configurations interface {
	// Configuration returns the body with a digest. engine.ErrNotFound for none.
	Configuration(ctx context.Context, organisation, digest string) ([]byte, error)
	// SaveConfiguration makes a body the one in force and sets the gate of the
	// organisation's configuration in the same transaction.
	SaveConfiguration(ctx context.Context, organisation, digest string, body []byte) error
	// Gate returns the value of a gate.
	Gate(ctx context.Context, name string) (string, error)
}

// kits builds each configuration once.
type kits struct {
	store   configurations
	builder perform.Builder

	mu    sync.Mutex
	built map[string]*perform.Kit
}

var _ perform.Kits = (*kits)(nil)

func newKits(store configurations, builder perform.Builder) *kits {
	return &kits{store: store, builder: builder, built: map[string]*perform.Kit{}}
}

// Current returns the kit of what is in force: the gate that every intent's
// write checks names it.
func (k *kits) Current(ctx context.Context, organisation string) (*perform.Kit, error) {
	digest, err := k.store.Gate(ctx, run.ConfigGate(organisation))
	if err != nil {
		return nil, err
	}
	if digest == "" {
		return nil, fmt.Errorf("organisation %q: %w", organisation, engine.ErrNotFound)
	}
	return k.At(ctx, organisation, digest)
}

// At returns the kit of a configuration.
func (k *kits) At(ctx context.Context, organisation, digest string) (*perform.Kit, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if kit, known := k.built[organisation+"/"+digest]; known {
		return kit, nil
	}
	body, err := k.store.Configuration(ctx, organisation, digest)
	if err != nil {
		return nil, err
	}
	var o agents.Organisation
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, fmt.Errorf("configuration %.12s: %w", digest, err)
	}
	kit, err := k.builder.Build(o)
	if err != nil {
		return nil, fmt.Errorf("configuration %.12s: %w", digest, err)
	}
	k.built[organisation+"/"+digest] = kit
	return kit, nil
}

// rules gives the rules in force.
func (k *kits) rules(ctx context.Context, organisation string) (run.Rules, error) {
	kit, err := k.Current(ctx, organisation)
	if err != nil {
		return nil, err
	}
	return kit.Rules, nil
}

// apply puts a configuration in force. The same one again changes nothing.
func (k *kits) apply(ctx context.Context, o agents.Organisation) (digest string, changed bool, err error) {
	kit, err := k.builder.Build(o)
	if err != nil {
		return "", false, err
	}
	current, err := k.store.Gate(ctx, run.ConfigGate(o.Name))
	if err != nil || current == kit.Digest {
		return kit.Digest, false, err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return "", false, fmt.Errorf("configuration: %w", err)
	}
	return kit.Digest, true, k.store.SaveConfiguration(ctx, o.Name, kit.Digest, body)
}

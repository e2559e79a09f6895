package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	"gantry.dev/agents"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/server"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// Kits builds each configuration of each organisation once.
type Kits struct {
	store   *journal.Store
	builder perform.Builder

	mu    sync.Mutex
	built map[string]*perform.Kit

	changing sync.Mutex // so that of two people who ask for the same at once one is the second
}

var _ perform.Kits = (*Kits)(nil)

// NewKits returns kits of the configurations in a store.
func NewKits(store *journal.Store, builder perform.Builder) *Kits {
	return &Kits{store: store, builder: builder, built: map[string]*perform.Kit{}}
}

// Current returns the kit of what is in force: the gate that every intent's
// write checks names it. Errors: engine.ErrNotFound for an organisation that
// has none.
func (k *Kits) Current(ctx context.Context, organisation string) (*perform.Kit, error) {
	digest, err := k.store.Gate(ctx, run.ConfigGate(organisation))
	if err != nil {
		return nil, err
	}
	if digest == "" {
		return nil, fmt.Errorf("organisation %q: %w", organisation, engine.ErrNotFound)
	}
	return k.At(ctx, organisation, digest)
}

// errAltered means that a stored configuration is not what its digest names.
var errAltered = errors.New("what is stored is not what was put in force; nothing is done with it")

// At returns the kit of a configuration. What is stored under its digest must
// be what the digest is of: else it is an error.
func (k *Kits) At(ctx context.Context, organisation, digest string) (*perform.Kit, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if kit, known := k.built[organisation+"/"+digest]; known {
		return kit, nil
	}
	body, err := k.store.Configuration(ctx, organisation, digest)
	if err != nil {
		return nil, err
	}
	stored, err := canon.JSON(body)
	if err != nil || canon.Digest(stored) != digest {
		return nil, errors.Join(fmt.Errorf("configuration %.12s: %w", digest, errAltered), err)
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

// Rules gives the rules in force.
func (k *Kits) Rules(ctx context.Context, organisation string) (run.Rules, error) {
	kit, err := k.Current(ctx, organisation)
	if err != nil {
		return nil, err
	}
	return kit.Rules, nil
}

// changeAttempts bounds how often a change is decided again after another one
// came first.
const changeAttempts = 8

// Step is what one change of an organisation comes to.
type Step struct {
	Next            *agents.Organisation // nil: nothing changes yet
	Propose, Settle *journal.Proposal
	Limits          map[string]run.Amount // of budget nodes, set before Next is in force
}

// change decides a change on what is in force and commits it, again when
// another change came first. It reports whether a configuration was put in
// force.
func (k *Kits) change(ctx context.Context, organisation string, receipt *engine.Receipt, decide func(current agents.Organisation) (Step, error)) (changed bool, err error) {
	k.changing.Lock()
	defer k.changing.Unlock()
	for range changeAttempts {
		changed, err = k.attempt(ctx, organisation, receipt, decide)
		if !errors.Is(err, run.ErrConflict) {
			return changed, err
		}
	}
	return false, engine.ErrTooBusy
}

func (k *Kits) attempt(ctx context.Context, organisation string, receipt *engine.Receipt, decide func(agents.Organisation) (Step, error)) (bool, error) {
	from, err := k.store.Gate(ctx, run.ConfigGate(organisation))
	if err != nil {
		return false, err
	}
	var current agents.Organisation
	if from != "" {
		kit, err := k.At(ctx, organisation, from)
		if err != nil {
			return false, err
		}
		current = kit.Organisation
	}
	decided, err := decide(current)
	if err != nil {
		return false, err
	}
	change := journal.Change{Organisation: organisation, From: from, Propose: decided.Propose, Settle: decided.Settle, Receipt: receipt}
	if decided.Next != nil {
		kit, err := k.builder.Build(*decided.Next)
		if err != nil {
			return false, err
		}
		if kit.Digest != from {
			change.Digest = kit.Digest
			if change.Body, err = json.Marshal(*decided.Next); err != nil {
				return false, fmt.Errorf("configuration: %w", err)
			}
		}
	}
	for node, limit := range decided.Limits {
		if err := k.store.SetBudget(ctx, node, limit); err != nil {
			return false, err
		}
	}
	return change.Digest != "", k.store.ChangeOrganisation(ctx, change)
}

// Apply puts loaded files in force: what people decided since then about
// stages, kills and budgets stays. The same files again change nothing.
// It returns the digest that is in force now.
//
// Limits that the files changed are set first: after an end in between, the
// same files are applied anew, limits and all.
func (k *Kits) Apply(ctx context.Context, loaded agents.Organisation) (digest string, changed bool, err error) {
	nowMs, err := k.store.Now(ctx)
	if err != nil {
		return "", false, err
	}
	after := loaded
	changed, err = k.change(ctx, loaded.Name, nil, func(current agents.Organisation) (Step, error) {
		after = loaded
		if current.Name != "" {
			if after, err = agents.Apply(current, loaded); err != nil {
				return Step{}, err
			}
		}
		limits := moved(current, after, nowMs)
		// Nobody sets it but the files, so it is theirs whatever stood before.
		limits[after.ConversationNode()] = run.Amount{MicroUSD: after.Conversation.MicroUSD, Tokens: after.Conversation.Tokens}
		return Step{Next: &after, Limits: limits}, nil
	})
	if err != nil {
		return "", false, err
	}
	digest, err = after.Digest()
	return digest, changed, err
}

// Quarantine keeps calls of a tool back, for every worker at once: what is in
// force is a condition of every intent's write.
func (k *Kits) Quarantine(ctx context.Context, organisation string, q server.Quarantine) error {
	_, err := k.change(ctx, organisation, nil, func(current agents.Organisation) (Step, error) {
		next, err := agents.Keep(current, q)
		if err != nil || len(next.Quarantines) == len(current.Quarantines) {
			return Step{}, err
		}
		return Step{Next: &next}, nil
	})
	return err
}

// moved are the limits that files set anew or changed, in the period of now and
// for those to come.
func moved(before, after agents.Organisation, nowMs int64) map[string]run.Amount {
	earlier := limits(before, nowMs)
	changed := limits(after, nowMs)
	maps.DeleteFunc(changed, func(node string, limit run.Amount) bool {
		old, known := earlier[node]
		return known && old == limit
	})
	return changed
}

// limits are what an organisation's files say of each node of its budgets.
func limits(o agents.Organisation, nowMs int64) map[string]run.Amount {
	all := map[string]run.Amount{}
	for _, node := range nodes(o, nowMs) {
		limit := run.Amount{MicroUSD: node.budget.MicroUSD, Tokens: node.budget.Tokens}
		all[node.account.Node], all[node.account.Ledger] = limit, limit
	}
	return all
}

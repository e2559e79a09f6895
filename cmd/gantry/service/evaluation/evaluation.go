// Package evaluation answers the port of evaluations: who may say what an agent
// came to, and who may read it.
package evaluation

import (
	"context"
	"errors"

	"gantry.dev/agents/evaluate"
	"gantry.dev/agents/evaluate/kept"
	"gantry.dev/cmd/gantry/service"
	"gantry.dev/graph"
	"gantry.dev/graph/evaluated"
	"gantry.dev/orchestrator/engine"
)

// Evaluations answers for results.
type Evaluations struct {
	*service.Service
	Results *kept.Results
}

var (
	_ evaluated.Evaluations = Evaluations{}
	_ service.Measured      = Evaluations{}
)

// recorded is what a repeated recording is answered with.
type recorded struct {
	AtMs int64 `json:"atMs"`
}

// answers says whether the caller answers for an agent, or would for a new one.
func (e Evaluations) answers(ctx context.Context, caller graph.Caller, agent string) error {
	o, person, err := e.Fresh(ctx, caller)
	if err != nil {
		return err
	}
	if !o.Answers(person, agent) {
		return engine.ErrNotFound
	}
	return nil
}

// Record keeps a result on the caller's word.
func (e Evaluations) Record(ctx context.Context, caller graph.Caller, commandID string, result evaluate.Result) (evaluated.Kept, bool, error) {
	one := evaluated.Kept{Result: result, By: caller.Principal.ID}
	if err := e.answers(ctx, caller, result.Agent); err != nil {
		return one, false, err
	}
	var err error
	if one.AtMs, err = e.Store.Now(ctx); err != nil {
		return one, false, err
	}
	receipt, err := service.Receipt(caller, commandID, "", recorded{one.AtMs}, "evaluation", result)
	if err != nil {
		return one, false, err
	}
	var first recorded
	replayed, err := e.Replayed(ctx, receipt, &first)
	if !replayed && err == nil {
		err = e.Results.Record(ctx, caller.Principal.Organisation, kept.Result(one), &receipt)
		if errors.Is(err, engine.ErrReplayed) {
			replayed, err = true, e.Replay(ctx, receipt, &first)
		}
	}
	if replayed {
		one.AtMs = first.AtMs
	}
	return one, replayed, err
}

// List returns the latest results of an agent, the newest first.
func (e Evaluations) List(ctx context.Context, caller graph.Caller, agent string) ([]evaluated.Kept, error) {
	if err := e.answers(ctx, caller, agent); err != nil {
		return nil, err
	}
	found, err := e.Results.List(ctx, caller.Principal.Organisation, agent)
	list := make([]evaluated.Kept, len(found))
	for i := range found {
		list[i] = evaluated.Kept(found[i])
	}
	return list, err
}

// Measured returns the latest results of an agent, the newest first.
func (e Evaluations) Measured(ctx context.Context, organisation, agent string) ([]evaluate.Result, error) {
	found, err := e.Results.List(ctx, organisation, agent)
	results := make([]evaluate.Result, len(found))
	for i := range found {
		results[i] = found[i].Result
	}
	return results, err
}

// Package models answers the port of models: the catalogue, how its models
// stand in this process, and what turns would have cost with others.
package models

import (
	"cmp"
	"context"
	"slices"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/health"
	"gantry.dev/cmd/gantry/service"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/run"
)

// Models answers for models.
type Models struct {
	*service.Service
	Health *health.Register // of this process
}

var _ graph.Models = Models{}

// List returns the catalogue that is in force. Everybody of the organisation
// sees it; which agents may use a model, as far as they may know of them.
func (m Models) List(ctx context.Context, caller graph.Caller) ([]graph.ModelEntry, error) {
	o, _, err := m.Fresh(ctx, caller)
	if err != nil {
		return nil, err
	}
	known, err := service.Agents{Service: m.Service}.List(ctx, caller)
	if err != nil {
		return nil, err
	}
	standings := map[health.Key]health.Standing{}
	for _, standing := range m.Health.Standings() {
		standings[standing.Key] = standing
	}
	list := make([]graph.ModelEntry, len(o.Models))
	for i, entry := range o.Models {
		list[i] = graph.ModelEntry{Model: entry}
		for _, agent := range known {
			if slices.Contains(agent.Revision.Models, entry.Name) {
				list[i].Agents = append(list[i].Agents, agent.Revision.Name)
			}
		}
		slices.Sort(list[i].Agents)
		if standing, asked := standings[health.KeyOf(entry)]; asked {
			list[i].Standing = &standing
		}
	}
	slices.SortFunc(list, func(a, b graph.ModelEntry) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Report compares the turns of runs whose usage the caller may see. Each run is
// reckoned with the prices that it was admitted under.
func (m Models) Report(ctx context.Context, caller graph.Caller, agent string, fromMs, toMs int64) ([]graph.ModelReport, error) {
	reports := reports{}
	err := service.Budgets{Service: m.Service}.Turns(ctx, caller, fromMs, toMs, func(state *run.State, turn *run.Turn) error {
		started := state.Started
		if agent != "" && started.Agent.Name != agent {
			return nil
		}
		kit, err := m.Kits.At(ctx, started.Organisation, started.Snapshot.Config)
		if err != nil {
			return err
		}
		reports.add(kit.Organisation, started.Agent.Name, turn)
		return nil
	})
	return reports.list(), err
}

// reports are rows by agent and model.
type reports map[[2]string]*report

type report struct {
	graph.ModelReport
	others map[string]*graph.ModelComparison
}

// row is that of a model of an agent.
func (r reports) row(agent, name string) *report {
	key := [2]string{agent, name}
	if r[key] == nil {
		r[key] = &report{graph.ModelReport{Agent: agent, Model: name}, map[string]*graph.ModelComparison{}}
	}
	return r[key]
}

func (r reports) add(o agents.Organisation, agent string, turn *run.Turn) {
	row, cost := r.row(agent, turn.Model), turn.Answer.Cost
	if other := turn.Other(); other != "" && turn.Answer.Hedged.Usage != nil {
		late := r.row(agent, other) // its answer was not taken: it has no turn for it
		late.Spent, cost = late.Spent.Plus(turn.Answer.Hedged.Cost), cost.Minus(turn.Answer.Hedged.Cost)
	}
	row.Turns++
	row.Spent = row.Spent.Plus(cost)
	for _, offer := range turn.Offers {
		if offer.Model == turn.Model {
			continue
		}
		other := row.others[offer.Model]
		if other == nil {
			other = &graph.ModelComparison{Model: offer.Model, Refusals: map[string]int64{}}
			row.others[offer.Model] = other
		}
		if offer.Refusal != "" {
			other.Refusals[offer.Refusal]++
			continue
		}
		entry, _ := o.Model(offer.Model)
		other.Turns++
		other.Cost += model.Prices(entry.Prices).Cost(model.Usage(turn.Answer.Usage))
		other.Instead += cost.MicroUSD
	}
}

func (r reports) list() []graph.ModelReport {
	list := make([]graph.ModelReport, 0, len(r))
	for _, row := range r {
		for _, other := range row.others {
			row.Others = append(row.Others, *other)
		}
		slices.SortFunc(row.Others, func(a, b graph.ModelComparison) int { return cmp.Compare(a.Model, b.Model) })
		list = append(list, row.ModelReport)
	}
	slices.SortFunc(list, func(a, b graph.ModelReport) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Model, b.Model))
	})
	return list
}

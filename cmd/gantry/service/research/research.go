// Package research answers the port of researches: it begins them and reads from
// the journals of their runs how they stand.
package research

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gantry.dev/agents"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/research"
	"gantry.dev/cmd/gantry/service"
	"gantry.dev/graph"
	"gantry.dev/graph/generated"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Researches answers for researches.
type Researches struct{ *service.Service }

var _ graph.Researches = Researches{}

// Start begins a research: a run of the coordinator whose goal is the plan.
func (r Researches) Start(ctx context.Context, caller graph.Caller, in graph.ResearchInput) (graph.Outcome, error) {
	o, person, err := r.Fresh(ctx, caller)
	if err != nil {
		return graph.Outcome{}, err
	}
	nowMs, err := r.Store.Now(ctx)
	if err != nil {
		return graph.Outcome{}, err
	}
	plan, err := fitted(o, person, nowMs, in.Coordinator, in.Plan)
	if err != nil {
		return graph.Outcome{}, err
	}
	return r.begin(ctx, caller, person, plan, in)
}

func (r Researches) begin(ctx context.Context, caller graph.Caller, person policy.Principal, plan research.Plan, in graph.ResearchInput) (graph.Outcome, error) {
	goal, err := json.Marshal(plan)
	if err != nil {
		return graph.Outcome{}, err
	}
	if len(goal) > maxGoal {
		return graph.Outcome{}, &run.Refusal{Code: "TOO_LARGE", Detail: "The plan is too long; give fewer branches, or shorter titles and briefs."}
	}
	order := perform.Order{Person: person, By: caller.Identity, Agent: in.Coordinator, Goal: string(goal), GoalBytes: maxGoal, CommandID: in.CommandID}
	if in.MicroUSD != nil {
		if *in.MicroUSD == 0 {
			return graph.Outcome{}, &run.Refusal{Code: "BUDGET", Detail: "A research with a budget of zero could do nothing; give it some money."}
		}
		order.MicroUSD = *in.MicroUSD
	}
	admitted, err := r.Admission.Start(ctx, order)
	return graph.Outcome{Run: admitted.Run, Replayed: admitted.Replayed}, err
}

// maxGoal bounds a plan, in bytes.
const maxGoal = 1 << 20

// fitted is the plan with what its coordinator allows. Errors: *run.Refusal.
func fitted(o agents.Organisation, person policy.Principal, nowMs int64, coordinator string, plan research.Plan) (research.Plan, error) {
	revision, _, serves := o.Serves(coordinator, person, nowMs)
	if !serves {
		return plan, engine.ErrNotFound
	}
	if !revision.Branches {
		return plan, &run.Refusal{Code: "NO_COORDINATOR", Detail: "The agent does not coordinate branches; name one whose file says `branches: true`."}
	}
	takers := []string{plan.Agent}
	for _, branch := range plan.Branches {
		if branch.Agent != "" {
			takers = append(takers, branch.Agent)
		}
	}
	if plan.Consolidator != "" {
		takers = append(takers, plan.Consolidator)
	}
	slices.Sort(takers)
	for _, taker := range slices.Compact(takers) {
		if _, may := revision.Delegate(taker, run.SubAgent); !may {
			return plan, &run.Refusal{Code: "DELEGATES", Detail: fmt.Sprintf("The coordinator hands no work to %q; name one of its delegates.", taker)}
		}
	}
	if calls := len(plan.Branches) + consolidations(plan); calls > revision.Limits.FanOut {
		return plan, &run.Refusal{Code: "FAN_OUT", Detail: fmt.Sprintf("The coordinator has at most %d children; give fewer branches.", revision.Limits.FanOut)}
	}
	if most := revision.Limits.CallsPerTurn; plan.AtOnce == 0 || plan.AtOnce > most {
		plan.AtOnce = most
	}
	return plan, nil
}

// consolidations is how many runs make one of what the branches found.
func consolidations(plan research.Plan) int {
	if plan.Consolidator == "" {
		return 0
	}
	return (len(plan.Branches) + research.PerConsolidation - 1) / research.PerConsolidation
}

// Retry begins a research that takes the failed branches of another one again,
// by the same agents or by another one, and keeps what the others found.
func (r Researches) Retry(ctx context.Context, caller graph.Caller, commandID, runID, agent string) (graph.Outcome, error) {
	o, person, err := r.Fresh(ctx, caller)
	if err != nil {
		return graph.Outcome{}, err
	}
	read, err := r.read(ctx, caller, runID)
	if err != nil {
		return graph.Outcome{}, err
	}
	switch {
	case read.state.Started.Subject.ID != person.ID:
		return graph.Outcome{}, &run.Refusal{Code: "NOT_ENTITLED", Detail: "The research is not yours; ask for whom it was made."}
	case read.state.Ended == nil:
		return graph.Outcome{}, &run.Refusal{Code: "NOT_ENDED", Detail: "The research goes on; wait for its end, or cancel it."}
	}
	plan := read.again(agent)
	if len(plan.Open()) == 0 {
		return graph.Outcome{}, &run.Refusal{Code: "NOTHING_FAILED", Detail: "Every branch has a result; begin another research."}
	}
	nowMs, err := r.Store.Now(ctx)
	if err != nil {
		return graph.Outcome{}, err
	}
	coordinator := read.state.Started.Agent.Name
	if plan, err = fitted(o, person, nowMs, coordinator, plan); err != nil {
		return graph.Outcome{}, err
	}
	return r.begin(ctx, caller, person, plan, graph.ResearchInput{Coordinator: coordinator, CommandID: commandID})
}

// again is the plan of what is still to be done.
func (r *reading) again(agent string) research.Plan {
	plan := *r.plan
	plan.RetryOf, plan.Done, plan.AtOnce = r.state.ID, nil, 0
	plan.Branches = slices.Clone(plan.Branches)
	for n, branch := range r.branches {
		switch {
		case branch.Child != "" && (branch.Status == generated.BranchStatusDone || branch.Status == generated.BranchStatusKept):
			plan.Done = append(plan.Done, research.Kept{Branch: n, Child: branch.Child, Findings: branch.Findings})
		case agent != "":
			plan.Branches[n].Agent = agent
		}
	}
	return plan
}

// Get returns a research as it is now.
func (r Researches) Get(ctx context.Context, caller graph.Caller, runID string) (graph.Research, error) {
	read, err := r.read(ctx, caller, runID)
	if err != nil {
		return graph.Research{}, err
	}
	out := graph.Research{Run: runID, Status: read.state.Status, Branches: read.branches, Merged: read.merged, Spent: read.state.Budget.Settled,
		StartedMs: read.startedMs, EndedMs: read.endedMs}
	if caller.Principal.Sees(read.state.Started.Goal.Marking.Labels) {
		out.Plan = read.plan
	}
	switch ended := read.state.Ended; {
	case ended != nil:
		out.Code = cmp.Or(ended.Code, read.code)
	case read.state.Reached != nil:
		out.Code = string(read.state.Reached.Limit)
	}
	if out.EndedMs == 0 {
		nowMs, err := r.Store.Now(ctx)
		if err != nil {
			return out, err
		}
		out.LeftMs = left(read.branches, nowMs-read.startedMs)
	}
	return out, nil
}

// left guesses how long the rest takes from how long what is done took.
func left(branches []graph.ResearchBranch, elapsedMs int64) int64 {
	var over, rest int64
	for _, branch := range branches {
		switch branch.Status {
		case generated.BranchStatusDone, generated.BranchStatusFailed:
			over++
		case generated.BranchStatusOpen, generated.BranchStatusRunning:
			rest++
		case generated.BranchStatusKept: // took no time here
		}
	}
	if over == 0 || rest == 0 {
		return 0
	}
	return max(elapsedMs*rest/over, 1)
}

package research

import (
	"context"

	"gantry.dev/agents/research"
	"gantry.dev/agents/tool"
	"gantry.dev/cmd/gantry/service"
	"gantry.dev/graph"
	"gantry.dev/graph/generated"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// reading is a research as its coordinating run's journal tells it. It holds
// what was found by id alone: what a reader gets of that is for memory to say.
type reading struct {
	state     *run.State
	plan      *research.Plan
	texts     map[string][]byte // by text id
	branches  []graph.ResearchBranch
	merged    []string // ids
	code      string   // why it could not be consolidated
	startedMs int64
	endedMs   int64
}

// read reads a research that the caller may see. Errors: engine.ErrNotFound,
// also for a run that is none.
func (r Researches) read(ctx context.Context, caller graph.Caller, runID string) (*reading, error) {
	state, err := service.Runs{Service: r.Service}.State(ctx, caller, runID)
	if err != nil {
		return nil, err
	}
	read := &reading{state: state, texts: map[string][]byte{}}
	if err := r.open(ctx, read); err != nil {
		return nil, err
	}
	plan, err := research.ReadPlan(read.texts[state.Started.Goal.ID])
	if err != nil {
		return nil, engine.ErrNotFound
	}
	read.plan, read.branches = &plan, make([]graph.ResearchBranch, len(plan.Branches))
	read.all()
	_, records, err := r.Store.Load(ctx, runID, 0)
	if err != nil {
		return nil, err
	}
	for _, record := range records {
		if record.Seq > state.Version {
			break // recorded since
		}
		switch record.Kind {
		case run.KindStarted:
			read.startedMs = record.AtMs
		case run.KindEnded:
			read.endedMs = record.AtMs
		}
	}
	return read, nil
}

// open opens the texts that a research is read from: its plan, what it asked of
// its children, and what they answered.
func (r Researches) open(ctx context.Context, read *reading) error {
	ids := []string{read.state.Started.Goal.ID}
	for i := range read.state.Calls {
		call := &read.state.Calls[i]
		if call.Tool != tool.DelegateName {
			continue
		}
		ids = append(ids, call.Arguments.ID)
		if call.Result != nil {
			ids = append(ids, call.Result.ID)
		}
	}
	payloads, err := r.Store.Payloads(ctx, ids)
	if err != nil {
		return err
	}
	for id, payload := range payloads {
		read.texts[id] = payload.Bytes
	}
	return nil
}

// all reads how each branch stands. The coordinator hands the open ones on in
// their order, and what it hands on with results to go along is a consolidation.
func (r *reading) all() {
	for n := range r.branches {
		r.branches[n].Status = generated.BranchStatusOpen
	}
	for _, kept := range r.plan.Done {
		r.branches[kept.Branch] = graph.ResearchBranch{Status: generated.BranchStatusKept, Child: kept.Child, Findings: kept.Findings}
	}
	open := r.plan.Open()
	for i := range r.state.Calls {
		call := &r.state.Calls[i]
		if call.Tool != tool.DelegateName {
			continue
		}
		if research.Consolidates(r.texts[call.Arguments.ID]) {
			branch := r.branch(call)
			r.merged = append(r.merged, branch.Findings...)
			if branch.Status == generated.BranchStatusFailed {
				r.code = "CONSOLIDATION_" + branch.Code
			}
			continue
		}
		if len(open) > 0 {
			r.branches[open[0]], open = r.branch(call), open[1:]
		}
	}
	if r.state.Ended == nil {
		return
	}
	for n := range r.branches {
		if branch := &r.branches[n]; branch.Status == generated.BranchStatusOpen || branch.Status == generated.BranchStatusRunning {
			branch.Status, branch.Code = generated.BranchStatusFailed, string(r.state.Status)
		}
	}
}

// branch reads how one call to another agent stands.
func (r *reading) branch(call *run.Call) graph.ResearchBranch {
	out := graph.ResearchBranch{Status: generated.BranchStatusOpen}
	if child := r.state.Child(call.Child); child != nil {
		out.Child, out.Status = call.Child, generated.BranchStatusRunning
		if child.Ended != nil {
			out.Spent = &child.Ended.Settled
		}
	}
	if call.Outcome == "" {
		return out
	}
	if call.Outcome != run.OutcomeOK || call.Result == nil {
		out.Status, out.Code = generated.BranchStatusFailed, call.Code
		if out.Code == "" {
			out.Code = string(call.Outcome)
		}
		return out
	}
	out.Status = generated.BranchStatusDone
	result, ok := research.ReadResult(r.texts[call.Result.ID])
	if _, there := r.texts[call.Result.ID]; there && !ok { // what was forgotten since was readable once
		out.Status, out.Code = generated.BranchStatusFailed, research.Unreadable
	}
	for _, finding := range result.Findings {
		out.Findings = append(out.Findings, finding.Item)
	}
	return out
}

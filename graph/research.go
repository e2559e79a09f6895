package graph

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gantry.dev/agents/research"
	"gantry.dev/graph/edge"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/legible"
	"gantry.dev/graph/opaque"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// ResearchInput asks for a research.
type ResearchInput struct {
	Coordinator string // agent
	Plan        research.Plan
	CommandID   string
	MicroUSD    *int64 // spend less than the coordinator's limit; nil for that limit
}

// Research is a research as its journal tells it. What the caller may see of the
// findings is for memory to say.
type Research struct {
	Run       string
	Plan      *research.Plan // nil where the caller may not see it
	Status    run.Status
	Code      string
	Branches  []ResearchBranch // as many as the plan has
	Merged    []string         // ids of findings that several branches found
	Spent     run.Amount
	StartedMs int64 // UTC ms
	EndedMs   int64 // 0 while it goes on
	LeftMs    int64 // guessed; 0 where nothing is known
}

// ResearchBranch is one branch.
type ResearchBranch struct {
	Status   generated.BranchStatus
	Child    string // run id; empty before it began
	Code     string
	Findings []string    // ids
	Spent    *run.Amount // nil before it ended
}

// Researches are the researches that the caller may see; others are
// engine.ErrNotFound. What is not accepted is a *run.Refusal.
type Researches interface {
	// Start begins a research.
	Start(ctx context.Context, caller Caller, in ResearchInput) (Outcome, error)
	// Retry begins a research that takes the failed branches of another one again.
	Retry(ctx context.Context, caller Caller, commandID, runID, agent string) (Outcome, error)
	// Get returns a research as it is now.
	Get(ctx context.Context, caller Caller, runID string) (Research, error)
}

// Research returns one research.
func (r queries) Research(ctx context.Context, id string) (*generated.Research, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := opaque.ReadID(id, caller.Principal.Organisation, opaque.Run, 1)
	if err != nil {
		return nil, err
	}
	return r.research(ctx, caller, parts[0])
}

func (r root) research(ctx context.Context, caller Caller, id string) (*generated.Research, error) {
	if r.config.Researches == nil {
		return nil, engine.ErrNotFound
	}
	found, err := r.config.Researches.Get(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	m, err := r.rememberingAs(ctx, caller)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(found.Merged)
	for _, branch := range found.Branches {
		ids = append(ids, branch.Findings...)
	}
	seen, err := m.items(ctx, ids)
	if err != nil {
		return nil, err
	}
	return m.showResearch(found, ids, seen), nil
}

// items returns those of the ids that the reader sees.
func (m remembering) items(ctx context.Context, ids []string) (map[string]view.Rendering, error) {
	seen := map[string]view.Rendering{}
	for part := range slices.Chunk(ids, edge.MaxFirst) {
		some, err := m.brain.Items(ctx, m.reader, part)
		if err != nil {
			return nil, err
		}
		for id, item := range some {
			seen[id] = item
		}
	}
	return seen, nil
}

func (m remembering) showResearch(r Research, ids []string, seen map[string]view.Rendering) *generated.Research {
	out := &generated.Research{ID: m.names.Run(r.Run), Status: generated.RunStatus(r.Status), Code: maybe(r.Code), Spent: amount(r.Spent),
		StartedAt: at(r.StartedMs), EndedAt: maybeAt(r.EndedMs), Branches: []*generated.Branch{}, Findings: []*generated.MemoryItem{}}
	if r.LeftMs > 0 {
		out.SecondsLeft = maybe(int(math.Ceil(float64(r.LeftMs) / 1000)))
	}
	shown := map[string]bool{}
	for _, id := range ids {
		if item, sees := seen[id]; sees && !shown[id] {
			shown[id] = true
			out.Findings = append(out.Findings, m.names.Show(item))
		}
	}
	if r.Plan == nil {
		return out
	}
	out.Question = &r.Plan.Question
	if r.Plan.RetryOf != "" {
		out.RetryOf = maybe(m.names.Run(r.Plan.RetryOf))
	}
	for n, branch := range r.Branches {
		out.Branches = append(out.Branches, m.showBranch(r.Plan, n, branch, seen))
		switch branch.Status {
		case generated.BranchStatusOpen:
			out.Open++
		case generated.BranchStatusRunning:
			out.Running++
		case generated.BranchStatusDone, generated.BranchStatusKept:
			out.Done++
		case generated.BranchStatusFailed:
			out.Failed++
		}
	}
	return out
}

func (m remembering) showBranch(plan *research.Plan, n int, b ResearchBranch, seen map[string]view.Rendering) *generated.Branch {
	planned := plan.Branches[n]
	out := &generated.Branch{Title: planned.Title, Inputs: words(planned.Inputs), Agent: plan.AgentOf(n), Status: b.Status, Code: maybe(b.Code)}
	if b.Child != "" {
		out.Run = maybe(m.names.Run(b.Child))
	}
	if b.Spent != nil {
		out.Spent = amount(*b.Spent)
	}
	for _, id := range b.Findings {
		if _, sees := seen[id]; sees {
			out.Findings++
		}
	}
	return out
}

// StartResearch begins a research.
func (r mutations) StartResearch(ctx context.Context, in generated.StartResearchInput) (*generated.ResearchPayload, error) {
	outcome, err := r.startResearch(ctx, in)
	return r.researchPayload(ctx, in.ClientMutationID, outcome, err)
}

func (r mutations) startResearch(ctx context.Context, in generated.StartResearchInput) (Outcome, error) {
	c, err := r.command(ctx, in.CommandID)
	if err != nil {
		return Outcome{}, err
	}
	if r.config.Researches == nil {
		return Outcome{}, engine.ErrNotFound
	}
	if in.Money != nil && *in.Money < 0 {
		return Outcome{}, &inputError{"INVALID", "money", "Money is not negative."}
	}
	plan, err := planOf(in)
	if err != nil {
		return Outcome{}, err
	}
	return r.config.Researches.Start(ctx, c.caller, ResearchInput{Coordinator: in.Coordinator, Plan: plan, CommandID: c.id, MicroUSD: in.Money})
}

// planOf makes a plan of what was asked for.
func planOf(in generated.StartResearchInput) (research.Plan, error) {
	plan := research.Plan{Question: in.Question, Agent: in.Agent}
	if in.Consolidator != nil {
		plan.Consolidator = *in.Consolidator
	}
	if in.AtOnce != nil {
		if plan.AtOnce = *in.AtOnce; plan.AtOnce < 1 {
			return plan, &inputError{"INVALID", "atOnce", "At least one branch is under way."}
		}
	}
	given := 0
	for _, set := range []bool{in.Inputs != nil, in.Queries != nil, in.Branches != nil} {
		if set {
			given++
		}
	}
	if given != 1 {
		return plan, &inputError{"INVALID", "input", "Give exactly one of inputs, queries and branches."}
	}
	if in.PerBranch < 1 || in.PerBranch > research.MaxInputs {
		return plan, &inputError{"INVALID", "perBranch", fmt.Sprintf("A branch has 1 to %d documents.", research.MaxInputs)}
	}
	for some := range slices.Chunk(in.Inputs, in.PerBranch) {
		plan.Branches = append(plan.Branches, research.Branch{Title: fmt.Sprintf("%d: %s", len(plan.Branches)+1, shortTitle(some)), Inputs: some})
	}
	for n, query := range in.Queries {
		plan.Branches = append(plan.Branches, research.Branch{Title: fmt.Sprintf("%d: %s", n+1, shortTitle([]string{query})), Brief: query})
	}
	for _, b := range in.Branches {
		branch := research.Branch{Title: b.Title, Inputs: b.Inputs}
		if b.Brief != nil {
			branch.Brief = *b.Brief
		}
		if b.Agent != nil {
			branch.Agent = *b.Agent
		}
		plan.Branches = append(plan.Branches, branch)
	}
	if err := plan.Check(); err != nil {
		return plan, &inputError{"INVALID", "input", "The plan does not fit: " + err.Error() + "."}
	}
	return plan, nil
}

// shortTitle names a branch by what it is about.
func shortTitle(about []string) string {
	title := strings.Join(strings.Fields(strings.Join(about, ", ")), " ")
	const most = 120
	if len(title) > most {
		title = strings.ToValidUTF8(title[:most], "") + "…"
	}
	return title
}

// RetryBranches begins a research that takes failed branches again.
func (r mutations) RetryBranches(ctx context.Context, in generated.RetryBranchesInput) (*generated.ResearchPayload, error) {
	outcome, err := r.retryBranches(ctx, in)
	return r.researchPayload(ctx, in.ClientMutationID, outcome, err)
}

func (r mutations) retryBranches(ctx context.Context, in generated.RetryBranchesInput) (Outcome, error) {
	c, err := r.command(ctx, in.CommandID)
	if err != nil {
		return Outcome{}, err
	}
	if r.config.Researches == nil {
		return Outcome{}, engine.ErrNotFound
	}
	parts, err := opaque.ReadID(in.Run, c.caller.Principal.Organisation, opaque.Run, 1)
	if err != nil {
		return Outcome{}, err
	}
	agent := ""
	if in.Agent != nil {
		agent = *in.Agent
	}
	return r.config.Researches.Retry(ctx, c.caller, c.id, parts[0], agent)
}

func (r root) researchPayload(ctx context.Context, client *string, outcome Outcome, err error) (*generated.ResearchPayload, error) {
	caller, refusals, err := accepted(ctx, err)
	if err != nil {
		return nil, err
	}
	payload := &generated.ResearchPayload{UserErrors: refusals, ClientMutationID: client}
	if len(refusals) > 0 {
		return payload, nil
	}
	payload.Outcome = mutationOutcome(outcome.Replayed)
	payload.Research, err = r.research(ctx, caller, outcome.Run)
	return payload, err
}

// ResearchProgress follows a research until it has ended.
func (r subscriptions) ResearchProgress(ctx context.Context, id string) (<-chan *generated.Research, error) {
	runID, w, err := r.watchRun(ctx, id)
	if err != nil {
		return nil, err
	}
	state, err := r.config.Runs.State(ctx, w.caller, runID)
	if err != nil {
		return nil, err
	}
	if _, err := r.research(ctx, w.caller, runID); err != nil { // before anything is told: that it is one
		return nil, err
	}
	records, err := r.config.Live.Run(ctx, w.caller.Principal.Organisation, runID, state.Version)
	if err != nil {
		return nil, err
	}
	ended := false
	show := func(struct{}) (*generated.Research, error) {
		now, err := r.research(ctx, w.caller, runID)
		ended = err == nil && now.EndedAt != nil
		return now, err
	}
	return stream(ctx, w, moves(ctx, w, state.Ended != nil, records), show, func() error {
		if ended {
			return nil
		}
		return resync("")
	}), nil
}

// moves tells once at the beginning, and again when something was recorded since
// it was last heard, up to the run's end: a reader that is slow hears less often.
func moves(ctx context.Context, w *watch, over bool, records <-chan run.Record) <-chan struct{} {
	out := make(chan struct{})
	w.streams.Go(func() {
		defer close(out)
		sink := out // nil while there is nothing to tell
		for !over || sink != nil {
			select {
			case <-ctx.Done():
				return
			case sink <- struct{}{}:
				sink = nil
			case record, open := <-records:
				if !open {
					return
				}
				if over = over || record.Kind == run.KindEnded; over {
					records = nil
				}
				sink = out
			}
		}
	})
	return out
}

// Citations are the words that a finding rests on.
func (r items) Citations(ctx context.Context, obj *generated.MemoryItem) ([]*generated.Citation, error) {
	out := []*generated.Citation{}
	if obj.Kind != generated.MemoryKindFinding {
		return out, nil
	}
	_, cited := research.ReadWritten(obj.Text)
	if len(cited) == 0 {
		return out, nil
	}
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	ids, conversations, err := readItems(obj.DerivedFrom, caller.Principal.Organisation)
	if err != nil {
		return nil, err
	}
	m, err := r.remembering(ctx, conversations...)
	if err != nil {
		return nil, err
	}
	seen, err := m.items(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, citation := range cited {
		shown := &generated.Citation{Passage: legible.Text(citation.Passage), Quote: legible.Text(citation.Quote)}
		if at := slices.Index(ids, citation.Item); at >= 0 {
			shown.Item = &obj.DerivedFrom[at]
			if start, end, found := research.Located(seen[citation.Item].Text, citation.Quote); found {
				shown.Start, shown.End = &start, &end
			}
		}
		out = append(out, shown)
	}
	return out, nil
}

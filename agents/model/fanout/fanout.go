// Package fanout is the provider that coordinates a research. It is no language
// model: it reads a plan, has one child run take each branch, has another make
// one of what they found, and says what became of each. The same prompt always
// gives the same answer.
package fanout

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"gantry.dev/agents/model"
	"gantry.dev/agents/research"
)

const (
	delegateTool = "agents.delegate"
	// batch is how many branches one turn proposes where the plan sets no bound:
	// how many of them are under way together is for the run's limits.
	batch = 64
	// callBytes is what a call costs of an answer besides its arguments.
	callBytes = 64
)

const selfDescription = "I coordinate a research by a plan; I am not a language model."

// Fanout is the provider.
type Fanout struct{}

var _ model.Provider = Fanout{}

// New returns the provider.
func New() Fanout { return Fanout{} }

// Take proposes the next branches, or the consolidation, or says what came of
// all. It fails only when ctx has ended. Usage is estimated.
func (Fanout) Take(ctx context.Context, request model.Request, deltas func(text string)) (model.Answer, error) {
	if ctx.Err() != nil {
		return model.Answer{}, model.Ended(ctx)
	}
	answer := next(request)
	answer.Model = "fanout"
	return model.Give(request, answer, deltas), nil
}

func next(request model.Request) model.Answer {
	c := read(request)
	switch {
	case c.fault != nil:
		return model.Answer{Finish: model.FinishRefusal, Text: selfDescription + " My goal must be a plan: " + c.fault.Error() + "."}
	case !c.offered:
		return model.Answer{Finish: model.FinishRefusal, Text: selfDescription + " I have been given no tool to delegate with."}
	}
	if calls := c.branches(); len(calls) > 0 {
		return model.Answer{Finish: model.FinishCalls, Calls: calls}
	}
	if calls := c.consolidations(); len(calls) > 0 {
		return model.Answer{Finish: model.FinishCalls, Calls: calls}
	}
	text, err := json.Marshal(c.outcome())
	if err != nil {
		return model.Answer{Finish: model.FinishRefusal, Text: selfDescription + " What came of it cannot be written."}
	}
	return model.Answer{Finish: model.FinishStop, Text: string(text)}
}

// coordination is what the prompt tells of a research so far.
type coordination struct {
	plan          research.Plan
	fault         error
	offered       bool
	room          int         // bytes of an answer
	taken         []delegated // branches that were proposed, in order of the plan's open ones
	consolidating []delegated
}

// delegated is one call of agents.delegate and what came of it.
type delegated struct {
	id     string
	code   string // why it gave nothing; empty where it gave a result
	result research.Result
}

func read(request model.Request) *coordination {
	c := &coordination{fault: fmt.Errorf("there is none"), room: int(request.MaxTokens) * model.BytesPerToken}
	for _, spec := range request.Tools {
		c.offered = c.offered || spec.Name == delegateTool
	}
	begun := false
	at := map[string]*delegated{}
	var order []model.Call
	for _, message := range request.Messages {
		switch {
		case message.Earlier:
		case message.Role == model.User && !begun:
			begun = true
			c.plan, c.fault = research.ReadPlan([]byte(model.Unwrap(message.Text)))
		case message.Role == model.Assistant:
			for _, call := range message.Calls {
				if call.Name == delegateTool {
					order, at[call.ID] = append(order, call), &delegated{id: call.ID, code: "OPEN"}
				}
			}
		case message.Role == model.ToolReply && at[message.CallID] != nil:
			at[message.CallID].heard(message.Text)
		}
	}
	for _, call := range order {
		if research.Consolidates(call.Arguments) {
			c.consolidating = append(c.consolidating, *at[call.ID])
			continue
		}
		c.taken = append(c.taken, *at[call.ID])
	}
	return c
}

var (
	undone = regexp.MustCompile(`^(FAILED|REFUSED|FORBIDDEN|DENIED|EXPIRED|VOID|SIMULATED|UNKNOWN): `)
	coded  = regexp.MustCompile(` Code ([A-Z][A-Z0-9_]*)\.`)
)

// heard reads what came of the call.
func (d *delegated) heard(text string) {
	if match := undone.FindStringSubmatch(text); match != nil {
		d.code = match[1]
		first, _, _ := strings.Cut(text, "\n")
		if code := coded.FindStringSubmatch(first); code != nil {
			d.code = code[1]
		}
		return
	}
	result, ok := research.ReadResult([]byte(model.Unwrap(text)))
	if d.result, d.code = result, ""; !ok {
		d.code = research.Unreadable
	}
}

// branches proposes the next branches, as many as fit.
func (c *coordination) branches() (calls []model.Proposed) {
	most, size := batch, 0
	if c.plan.AtOnce > 0 {
		most = min(most, c.plan.AtOnce)
	}
	open := c.plan.Open()
	for _, branch := range open[min(len(c.taken), len(open)):] {
		call := propose(research.Delegation{Agent: c.plan.AgentOf(branch), Brief: c.plan.BriefOf(branch)})
		size += len(call.Arguments) + callBytes
		if len(calls) == most || len(calls) > 0 && c.room > 0 && size > c.room {
			break
		}
		calls = append(calls, call)
	}
	return calls
}

// consolidations proposes to make one of what there is, once.
func (c *coordination) consolidations() (calls []model.Proposed) {
	if c.plan.Consolidator == "" || len(c.consolidating) > 0 {
		return nil
	}
	var results []string
	for _, kept := range c.plan.Done {
		if len(kept.Findings) > 0 {
			results = append(results, kept.Child)
		}
	}
	for _, one := range c.taken {
		if one.code == "" && len(one.result.Findings) > 0 {
			results = append(results, one.id)
		}
	}
	for len(results) > 0 {
		some := results[:min(len(results), research.PerConsolidation)]
		results = results[len(some):]
		calls = append(calls, propose(research.Delegation{Agent: c.plan.Consolidator, Brief: c.plan.ConsolidationBrief(), Context: some}))
	}
	return calls
}

func propose(d research.Delegation) model.Proposed {
	arguments, err := json.Marshal(d)
	if err != nil {
		arguments = nil // texts always marshal
	}
	return model.Proposed{Name: delegateTool, Arguments: arguments}
}

// outcome says what became of each branch, in the order of the plan.
func (c *coordination) outcome() research.Outcome {
	out := research.Outcome{Status: research.Complete, Missing: []string{}, Findings: []string{}, Branches: make([]research.Said, len(c.plan.Branches))}
	for _, one := range c.consolidating {
		if one.code != "" {
			out.Status, out.Code = research.Partial, "CONSOLIDATION_"+one.code
		}
		for _, finding := range one.result.Findings {
			out.Findings, out.Consolidated = append(out.Findings, finding.Item), out.Consolidated+1
		}
	}
	found := make([][]string, len(c.plan.Branches))
	for _, kept := range c.plan.Done {
		out.Branches[kept.Branch] = research.Said{Status: research.Reused, Child: kept.Child}
		found[kept.Branch] = kept.Findings
	}
	for n, branch := range c.plan.Open() {
		one := delegated{code: "OPEN"}
		if n < len(c.taken) {
			one = c.taken[n]
		}
		said := research.Said{Status: research.Done, Call: ordinal(one.id), Code: one.code}
		if one.code != "" {
			said.Status = research.Failed
		}
		out.Branches[branch] = said
		for _, finding := range one.result.Findings {
			found[branch] = append(found[branch], finding.Item)
		}
	}
	for n := range out.Branches {
		out.Branches[n].Title = c.plan.Branches[n].Title
		out.Findings = append(out.Findings, found[n]...)
		if out.Branches[n].Status == research.Failed {
			out.Missing = append(out.Missing, out.Branches[n].Title)
		}
	}
	switch len(out.Missing) {
	case 0:
	case len(out.Branches):
		out.Status = research.Nothing
	default:
		out.Status = research.Partial
	}
	return out
}

// ordinal reads the number of a call out of its id.
func ordinal(id string) (n int) {
	if _, err := fmt.Sscanf(id, "c%d", &n); err != nil {
		return 0
	}
	return n
}

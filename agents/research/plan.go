package research

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The most that a plan may have.
const (
	MaxBranches = 1000
	MaxInputs   = 20 // of one branch
	MaxQuestion = 2000
)

// Branch is one of many narrow questions, or the one question asked of a few
// inputs alone.
type Branch struct {
	Title  string   `json:"title"`
	Brief  string   `json:"brief,omitempty"`  // what is asked; empty: the research's question
	Inputs []string `json:"inputs,omitempty"` // names of documents to keep to
	Agent  string   `json:"agent,omitempty"`  // who takes it; empty: the plan's
}

// Kept is a branch whose result an earlier run of the same research has.
type Kept struct {
	Branch   int      `json:"branch"`             // from 0
	Child    string   `json:"child"`              // id of the run that took it
	Findings []string `json:"findings,omitempty"` // ids of what it found
}

// Plan is the goal of a coordinating run.
type Plan struct {
	Question     string   `json:"question"`
	Agent        string   `json:"agent"`                  // takes the branches
	Consolidator string   `json:"consolidator,omitempty"` // makes one of what they found; empty: nobody does
	Branches     []Branch `json:"branches"`
	AtOnce       int      `json:"atOnce,omitempty"` // branches under way together at most; 0: as the agent's limits allow
	RetryOf      string   `json:"retryOf,omitempty"`
	Done         []Kept   `json:"done,omitempty"`
}

// ReadPlan reads a plan. The error says what does not fit.
func ReadPlan(text []byte) (Plan, error) {
	var plan Plan
	if !strictly(text, &plan) {
		return Plan{}, fmt.Errorf("the plan is not the JSON object that it must be")
	}
	return plan, plan.Check()
}

// Check says what does not fit.
func (p Plan) Check() error {
	switch {
	case strings.TrimSpace(p.Question) == "" || len(p.Question) > MaxQuestion:
		return fmt.Errorf("a question of at most %d bytes is needed", MaxQuestion)
	case p.Agent == "":
		return fmt.Errorf("the agent that takes the branches is needed")
	case len(p.Branches) == 0 || len(p.Branches) > MaxBranches:
		return fmt.Errorf("1 to %d branches are needed", MaxBranches)
	case p.AtOnce < 0:
		return fmt.Errorf("atOnce must not be negative")
	}
	titles := map[string]bool{}
	for n, branch := range p.Branches {
		switch {
		case branch.Title == "" || len(branch.Title) > 200 || titles[branch.Title]:
			return fmt.Errorf("branch %d needs a title of its own of at most 200 bytes", n+1)
		case len(branch.Inputs) > MaxInputs:
			return fmt.Errorf("branch %d has more than %d inputs", n+1, MaxInputs)
		case len(branch.Brief) > MaxQuestion:
			return fmt.Errorf("the brief of branch %d is longer than %d bytes", n+1, MaxQuestion)
		}
		titles[branch.Title] = true
	}
	for _, kept := range p.Done {
		if kept.Branch < 0 || kept.Branch >= len(p.Branches) || kept.Child == "" {
			return fmt.Errorf("a kept result belongs to no branch")
		}
	}
	return nil
}

// Open lists the branches, from 0, whose result no earlier run has.
func (p Plan) Open() []int {
	var open []int
	for n := range p.Branches {
		if !slices.ContainsFunc(p.Done, func(k Kept) bool { return k.Branch == n }) {
			open = append(open, n)
		}
	}
	return open
}

// AgentOf is who takes a branch.
func (p Plan) AgentOf(branch int) string {
	if own := p.Branches[branch].Agent; own != "" {
		return own
	}
	return p.Agent
}

// The lines of a brief by which an agent without a language model finds what it
// needs.
const (
	questionLine = "Question: "
	inputsLine   = "Documents: "
)

// BriefOf is what the agent of a branch is told.
func (p Plan) BriefOf(branch int) string {
	b := p.Branches[branch]
	asked := b.Brief
	if asked == "" {
		asked = p.Question
	}
	lines := []string{"This is one branch of a research: " + oneLine(b.Title) + ".", questionLine + oneLine(asked)}
	if len(b.Inputs) > 0 {
		inputs, err := json.Marshal(b.Inputs)
		if err == nil { // texts always marshal
			lines = append(lines, inputsLine+string(inputs), "Ask memory about these documents alone, and name in notFound each in which there is nothing.")
		}
	}
	return strings.Join(append(lines, "Record what you find with findings.record, each finding with words that stand in what you cite, and answer with what was recorded."), "\n")
}

// ReadBrief reads the question and the documents out of a brief. Any other text
// is a question about everything.
func ReadBrief(text string) (question string, inputs []string) {
	question = strings.TrimSpace(text)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if asked, found := strings.CutPrefix(line, questionLine); found {
			question = asked
		}
		if list, found := strings.CutPrefix(line, inputsLine); found && json.Unmarshal([]byte(list), &inputs) != nil {
			inputs = nil
		}
	}
	return question, inputs
}

// PerConsolidation is how many results one consolidation is given.
const PerConsolidation = 64

// Unreadable is the code of a branch whose answer is no Result.
const Unreadable = "RESULT_UNREADABLE"

// Delegation is how a coordinator hands something on: the arguments of
// agents.delegate.
type Delegation struct {
	Agent   string   `json:"agent"`
	Brief   string   `json:"brief"`
	Context []string `json:"context,omitempty"` // whose results go along; only a consolidation has some
}

// Consolidates reports whether these arguments hand on a consolidation.
func Consolidates(arguments []byte) bool {
	var made Delegation
	return json.Unmarshal(arguments, &made) == nil && len(made.Context) > 0
}

// ConsolidationBrief is what the consolidator is told.
func (p Plan) ConsolidationBrief() string {
	return strings.Join([]string{"The branches of a research have answered; their results are given with this.", questionLine + oneLine(p.Question),
		"Where several say the same, record it once with findings.record, with a citation of each. Leave the others as they are.",
		"Answer with all findings, the recorded ones first, and with what was not found."}, "\n")
}

// Said states what became of one branch.
type Said struct {
	Title  string `json:"title"`
	Status Fate   `json:"status"`
	Call   int    `json:"call,omitempty"`  // ordinal of the call that it was; 0 for a kept one
	Child  string `json:"child,omitempty"` // of a kept one
	Code   string `json:"code,omitempty"`  // why it failed
}

// Fate is what became of a branch.
type Fate string

// The fates of branches.
const (
	Done   Fate = "DONE"
	Reused Fate = "KEPT" // an earlier run has its result
	Failed Fate = "FAILED"
)

// Outcome is what a coordinating run answers with.
type Outcome struct {
	Status       Status   `json:"status"`
	Branches     []Said   `json:"branches"` // in the order of the plan
	Missing      []string `json:"missing"`  // titles of the branches that failed
	Consolidated int      `json:"consolidated,omitempty"`
	Findings     []string `json:"findings"` // ids of the remembered findings
	Code         string   `json:"code,omitempty"`
}

// Status says how much of a research there is.
type Status string

// The statuses of a research that has ended.
const (
	Complete Status = "COMPLETE"
	Partial  Status = "PARTIAL"
	Nothing  Status = "FAILED"
)

// ReadOutcome reads an Outcome. ok is false for anything else.
func ReadOutcome(text []byte) (outcome Outcome, ok bool) {
	ok = strictly(text, &outcome) && outcome.Status != ""
	return outcome, ok
}

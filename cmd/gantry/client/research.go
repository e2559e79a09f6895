package client

import (
	"context"
	"strconv"
	"time"
)

// Research is a question that many runs looked into, branch by branch.
type Research struct {
	ID          string           `json:"id"` // global, of the run that coordinates it
	RetryOf     string           `json:"retryOf,omitempty"`
	Question    string           `json:"question"`
	Status      string           `json:"status"`
	Code        string           `json:"code,omitempty"`
	Branches    []ResearchBranch `json:"branches"`
	Done        int              `json:"done"`
	Running     int              `json:"running"`
	Failed      int              `json:"failed"`
	Open        int              `json:"open"`
	Spent       Amount           `json:"spent"`
	StartedAt   time.Time        `json:"startedAt"`
	EndedAt     *time.Time       `json:"endedAt,omitempty"`
	SecondsLeft *int             `json:"secondsLeft,omitempty"` // guessed
	Findings    []CitedItem      `json:"findings"`
}

// Missing are the titles of the branches that failed.
func (r Research) Missing() (titles []string) {
	for _, branch := range r.Branches {
		if branch.Status == "FAILED" {
			titles = append(titles, branch.Title)
		}
	}
	return titles
}

// ResearchBranch is one branch of a research.
type ResearchBranch struct {
	Title    string   `json:"title"`
	Inputs   []string `json:"inputs"`
	Agent    string   `json:"agent"`
	Status   string   `json:"status"`        // OPEN, RUNNING, DONE, KEPT or FAILED
	Run      string   `json:"run,omitempty"` // global id
	Code     string   `json:"code,omitempty"`
	Findings int      `json:"findings"`
	Spent    *Amount  `json:"spent,omitempty"`
}

// CitedItem is a finding with the words that it rests on.
type CitedItem struct {
	MemoryItem
	Citations []Citation `json:"citations"`
}

// Citation is words that a finding rests on.
type Citation struct {
	Item    string `json:"item,omitempty"` // global id; empty where the viewer does not see it
	Passage string `json:"passage"`
	Quote   string `json:"quote"`
	Start   *int   `json:"start,omitempty"` // bytes of the item's text as the viewer sees it
	End     *int   `json:"end,omitempty"`
}

// StartResearch is a research to begin. One of Inputs and Branches is given.
type StartResearch struct {
	Coordinator  string
	Question     string
	Inputs       []string // names of documents
	PerBranch    int      // documents of one branch
	Branches     []PlannedBranch
	Agent        string // takes the branches
	Consolidator string // empty: nobody
	AtOnce       int    // 0: as the coordinator's limits allow
	MicroUSD     int64  // 0: as the coordinator's limits allow
}

// PlannedBranch is one branch of a research to begin.
type PlannedBranch struct {
	Title  string   `json:"title"`
	Brief  string   `json:"brief,omitempty"`
	Inputs []string `json:"inputs,omitempty"`
	Agent  string   `json:"agent,omitempty"`
}

const (
	progressFields = ` fragment G on Research{id retryOf question status code done running failed open spent{money tokens} startedAt endedAt secondsLeft
 branches{title inputs agent status run code findings spent{money tokens}}}`
	researchFields    = ` fragment S on Research{...G findings{...M citations{...Q}}}` + progressFields + citationFields + memoryFields
	citationFields    = ` fragment Q on Citation{item passage quote start end}`
	researchPayload   = `{research{...S} userErrors{code message field}}}` + researchFields
	researchStart     = `mutation($input:StartResearchInput!){done:startResearch(input:$input)` + researchPayload
	researchRetry     = `mutation($input:RetryBranchesInput!){done:retryBranches(input:$input)` + researchPayload
	researchDocument  = `query($id:ID!){research(id:$id){...S}}` + researchFields
	progressDocument  = `subscription($id:ID!){researchProgress(id:$id){...G}}` + progressFields
	citedItemDocument = `query($id:ID!){memoryItem(id:$id){...M citations{...Q}}}` + citationFields + memoryFields
)

type researchDone struct{ Research Research }

// StartResearch begins a research. Errors: *Error.
func (c *Client) StartResearch(ctx context.Context, start StartResearch) (Research, error) {
	input := map[string]any{"coordinator": start.Coordinator, "question": start.Question, "agent": start.Agent}
	if start.Branches != nil {
		input["branches"] = start.Branches
	} else {
		input["inputs"] = start.Inputs
	}
	if start.PerBranch > 0 {
		input["perBranch"] = start.PerBranch
	}
	if start.Consolidator != "" {
		input["consolidator"] = start.Consolidator
	}
	if start.AtOnce > 0 {
		input["atOnce"] = start.AtOnce
	}
	if start.MicroUSD > 0 {
		input["money"] = strconv.FormatInt(start.MicroUSD, 10)
	}
	got, err := change[researchDone](ctx, c, researchStart, input)
	return got.Research, err
}

// RetryBranches has the failed branches of a research that has ended taken
// again; agent may be empty for those that took them before. Errors: *Error.
func (c *Client) RetryBranches(ctx context.Context, id, agent string) (Research, error) {
	input := map[string]any{"run": id}
	if agent != "" {
		input["agent"] = agent
	}
	got, err := change[researchDone](ctx, c, researchRetry, input)
	return got.Research, err
}

// Research reads a research by the global id of its run. Errors: *Error.
func (c *Client) Research(ctx context.Context, id string) (Research, error) {
	var got struct{ Research Research }
	err := c.Ask(ctx, researchDocument, map[string]any{"id": id}, &got)
	return got.Research, err
}

// ResearchProgress visits a research as it moves on, until it has ended or
// visit wants no more. What it found is not told on the way: Research reads it.
// Errors: *Error, those of visit and of the context.
func (c *Client) ResearchProgress(ctx context.Context, id string, visit func(r Research) (more bool, err error)) error {
	type told struct{ ResearchProgress Research }
	return follow(ctx, c, progressDocument, map[string]any{"id": id}, "", func(got told) (string, bool, error) {
		more, err := visit(got.ResearchProgress)
		return "", more && got.ResearchProgress.EndedAt == nil, err
	})
}

// CitedItem reads an item with the words that it rests on. Errors: *Error.
func (c *Client) CitedItem(ctx context.Context, id string) (CitedItem, error) {
	var got struct{ MemoryItem CitedItem }
	err := c.Ask(ctx, citedItemDocument, map[string]any{"id": id}, &got)
	return got.MemoryItem, err
}

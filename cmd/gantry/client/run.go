package client

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"time"
)

// Text is a text as the viewer may see it.
type Text struct {
	Value    string     `json:"value"`   // "[redacted]" where it is withheld
	Display  string     `json:"display"` // the same with characters that are not seen written as \u{...}
	Withheld []Withheld `json:"withheld,omitempty"`
}

// Withheld is why a text is not shown.
type Withheld struct {
	Reason string `json:"reason"` // NOT_CLEARED or ERASED
}

// Actor is somebody or something that acts.
type Actor struct {
	Principal string `json:"principal"` // id
	Name      string `json:"name"`
}

// Amount is money in micro-dollars and model tokens.
type Amount struct {
	MicroUSD int64 `json:"money,string"`
	Tokens   int64 `json:"tokens,string"`
}

// Budget is what a run may spend, has reserved and has settled.
type Budget struct {
	Limit    Amount `json:"limit"`
	Reserved Amount `json:"reserved"`
	Settled  Amount `json:"settled"`
	Unknown  Amount `json:"unknown"`
}

// End is how a run ended.
type End struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
	Code   string `json:"code"`
	Result *Text  `json:"result"`
}

// Limit is a limit that waits for a person.
type Limit struct {
	Limit     string     `json:"limit"` // what ran out, for example TURNS
	Detail    string     `json:"detail"`
	Approvers []Approver `json:"approvers"`
}

// Parked is why an operator must look.
type Parked struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Run is a run in short. All but its events is as of Version.
type Run struct {
	ID         string     `json:"id"` // global
	Status     string     `json:"status"`
	WaitingFor []string   `json:"waitingFor"`
	Agent      string     `json:"agent"`
	Goal       Text       `json:"goal"`
	Subject    Actor      `json:"subject"`
	Budget     Budget     `json:"budget"`
	Limit      *Limit     `json:"limit"`
	Parked     *Parked    `json:"parked"`
	End        *End       `json:"end"`
	Version    int64      `json:"version,string"` // records in its journal
	StartedAt  time.Time  `json:"startedAt"`
	EndedAt    *time.Time `json:"endedAt"`
	Lineage    []Link     `json:"lineage,omitempty"` // the root first, the run itself last; only of a run in the inbox

	// Only Run reads what follows.
	Turns     []Turn     `json:"turns,omitempty"`
	Calls     []Call     `json:"calls,omitempty"`
	Approvals []Approval `json:"approvals,omitempty"`
	Questions []Question `json:"questions,omitempty"`
	Steers    []Steer    `json:"steers,omitempty"`
	Sidecars  []Sidecar  `json:"sidecars,omitempty"`
	Reviews   []Review   `json:"reviews,omitempty"`
}

// Steer is guidance, or a finding, that came in while a run went on.
type Steer struct {
	By          Actor  `json:"by"`
	Text        Text   `json:"text"`
	From        string `json:"from"` // global id of the sidecar's run; empty for a person's
	Evidence    bool   `json:"evidence"`
	Disposition string `json:"disposition"` // empty while it waits
	Turn        int    `json:"turn"`        // that absorbed it; 0 for none
}

// Sidecar is a run beside another one.
type Sidecar struct {
	Number   int    `json:"number"` // place in the agent's file; 0 for one that a person started
	Run      string `json:"run"`    // global id; empty where it may not be seen, or did not begin
	Agent    string `json:"agent"`
	Purpose  string `json:"purpose"`
	Outlives bool   `json:"outlives"`
	Status   string `json:"status"`
	Code     string `json:"code"` // why it could not begin
}

// Review is a call or an answer that somebody reviews before it counts.
type Review struct {
	Of       string `json:"of"`
	Call     int    `json:"call"` // 0 for an answer
	Turn     int    `json:"turn"`
	Agent    string `json:"agent"`
	Standing string `json:"standing"`
	Run      string `json:"run"` // global id of the reviewer's run
	Reason   *Text  `json:"reason"`
	Code     string `json:"code"`
}

// MarshalJSON writes the run as it was read, and beside its global id the one
// that its journal bears and that commands print.
func (r Run) MarshalJSON() ([]byte, error) {
	type plain Run
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // as whoever prints it decides
	err := encoder.Encode(struct {
		plain
		JournalID string `json:"journalId"`
	}{plain(r), ShortID(r.ID)})
	return out.Bytes(), err
}

// Ended reports whether nothing more begins.
func (r Run) Ended() bool { return r.End != nil }

// Waits reports whether only a person can bring the run on.
func (r Run) Waits() bool {
	for _, reason := range r.WaitingFor {
		if reason != "RETRY" {
			return true
		}
	}
	return false
}

// Turn is one model request and its answer.
type Turn struct {
	Number int    `json:"number"` // from 1
	Phase  string `json:"phase"`
	Model  string `json:"model"`
	Class  string `json:"class"` // empty before the answer
	Text   *Text  `json:"text"`
}

// Call is one tool call that the model proposed.
type Call struct {
	Number    int      `json:"number"` // from 1
	Turn      int      `json:"turn"`
	Tool      string   `json:"tool"`
	Arguments Text     `json:"arguments"` // canonical JSON
	Impact    string   `json:"impact"`
	Phase     string   `json:"phase"`
	Verdict   *Verdict `json:"verdict"`
	Outcome   string   `json:"outcome"` // empty before it ended
	Code      string   `json:"code"`
	Result    *Text    `json:"result"`
}

// Verdict is what policy said to a call.
type Verdict struct {
	Answer  string   `json:"answer"`
	Would   string   `json:"would"` // what a simulated call would have been
	Reasons []Reason `json:"reasons"`
}

// Reason is one policy that decided.
type Reason struct {
	Policy string `json:"policy"`
	Text   string `json:"text"`
}

const (
	textFields  = ` fragment T on Text{value display withheld{reason}}`
	actorFields = ` fragment P on Actor{principal name}`
	whoFields   = ` fragment W on Approver{principal{...P} role why}`
	runFields   = ` fragment R on Run{id status waitingFor agent goal{...T} subject{...P} version startedAt endedAt
 budget{limit{money tokens} reserved{money tokens} settled{money tokens} unknown{money tokens}}
 limit{limit detail approvers{...W}} parked{code detail} end{status reason code result{...T}}}` + textFields + actorFields + whoFields
	callFields = ` fragment C on Call{number turn tool arguments{...T} impact phase verdict{answer would reasons{policy text}} outcome code result{...T}}`
	payload    = `{run{...R} userErrors{code message field}}}` + runFields

	startDocument = `mutation($input:StartRunInput!){done:startRun(input:$input)` + payload
	runDocument   = `query($id:ID!){run(id:$id){...R turns{number phase model class text{...T}} calls{...C} approvals{...A} questions{...Q}
 steers{by{...P} text{...T} from evidence disposition turn} sidecars{number run agent purpose outlives status code}
 reviews{of call turn agent standing run reason{...T} code}}}` +
		runFields + callFields + approvalFields + questionFields
	statusDocument = `query($id:ID!){run(id:$id){...R}}` + runFields
	runsDocument   = `query($filter:RunFilter,$first:Int!,$after:Cursor){runs(filter:$filter,first:$first,after:$after){
 edges{node{...R}} pageInfo{hasNextPage endCursor}}}` + runFields
	observedDocument = `query($filter:RunFilter,$first:Int!,$after:Cursor){runs(filter:$filter,first:$first,after:$after){
 edges{node{...R calls{...C}}} pageInfo{hasNextPage endCursor}}}` + runFields + callFields
	sidecarDocument  = `mutation($input:DispatchSidecarInput!){done:dispatchSidecar(input:$input)` + payload
	delegateDocument = `mutation($input:DelegateInput!){done:delegate(input:$input)` + payload
	steerDocument    = `mutation($input:SteerRunInput!){done:steerRun(input:$input)` + payload
	cancelDocument   = `mutation($input:CancelRunInput!){done:cancelRun(input:$input)` + payload
	resumeDocument   = `mutation($input:ResumeRunInput!){done:resumeRun(input:$input)` + payload
	resolveDocument  = `mutation($input:ResolveUncertainInput!){done:resolveUncertain(input:$input)` + payload
	eventsDocument   = `subscription($run:ID!,$after:Cursor){runEvents(run:$run,after:$after){cursor seq kind at summary event}}`

	treeEventsDocument = `subscription($run:ID!,$after:Cursor){runEvents(run:$run,after:$after,includeDescendants:true){cursor run seq kind at summary event}}`
	lineageDocument    = `query($id:ID!){run(id:$id){lineage{run kind agent agentRevision}}}`
	childrenDocument   = `query($id:ID!,$first:Int!,$after:Cursor){run(id:$id){children(first:$first,after:$after){
 edges{node{kind purpose agent status call carve{money tokens} settled{money tokens} run{id}}} pageInfo{hasNextPage endCursor}}}}`
)

type runPayload struct{ Run Run }

func (c *Client) changeRun(ctx context.Context, document string, input map[string]any) (Run, error) {
	got, err := change[runPayload](ctx, c, document, input)
	return got.Run, err
}

// Start is a run to start.
type Start struct {
	Agent    string // name
	Goal     string
	MicroUSD int64 // spend less than the agent's limit; 0 for that limit
}

// StartRun starts a run. Errors: *Error.
func (c *Client) StartRun(ctx context.Context, start Start) (Run, error) {
	input := map[string]any{"agent": start.Agent, "goal": start.Goal}
	if start.MicroUSD != 0 {
		input["money"] = strconv.FormatInt(start.MicroUSD, 10)
	}
	return c.changeRun(ctx, startDocument, input)
}

// Link is one run in the line from the root of a tree down to a run.
type Link struct{ Run, Kind, Agent, AgentRevision string }

// Lineage returns the line of runs down to one, the root first. Errors: *Error.
func (c *Client) Lineage(ctx context.Context, id string) ([]Link, error) {
	var got struct{ Run struct{ Lineage []Link } }
	err := c.Ask(ctx, lineageDocument, map[string]any{"id": id}, &got)
	return got.Run.Lineage, err
}

// Child is a run as the one right above it knows it.
type Child struct {
	Kind    string              `json:"kind"`
	Purpose string              `json:"purpose,omitempty"`
	Agent   string              `json:"agent"`
	Status  string              `json:"status"`
	Call    int                 `json:"call,omitempty"`    // of the run above; 0 for none
	Carve   *Amount             `json:"carve,omitempty"`   // nil where it has a budget of its own
	Settled *Amount             `json:"settled,omitempty"` // nil while it goes on
	Run     struct{ ID string } `json:"run"`
}

// Children returns the runs right below one, as they started. Errors: *Error.
func (c *Client) Children(ctx context.Context, id string) ([]Child, error) {
	var all []Child
	variables := map[string]any{"id": id, "first": 100}
	for {
		var got struct {
			Run struct {
				Children struct {
					Edges    []struct{ Node Child }
					PageInfo struct {
						HasNextPage bool
						EndCursor   string
					}
				}
			}
		}
		if err := c.Ask(ctx, childrenDocument, variables, &got); err != nil {
			return nil, err
		}
		page := got.Run.Children
		for _, edge := range page.Edges {
			all = append(all, edge.Node)
		}
		if !page.PageInfo.HasNextPage {
			return all, nil
		}
		variables["after"] = page.PageInfo.EndCursor
	}
}

// Guidance is what a person tells a run while it goes on.
type Guidance struct {
	Text      string
	Interrupt bool // begin the turn in flight anew
	Void      bool // void the open approvals
}

// Steer gives guidance to a run. Errors: *Error.
func (c *Client) Steer(ctx context.Context, id string, guidance Guidance) (Run, error) {
	return c.changeRun(ctx, steerDocument, map[string]any{"run": id, "text": guidance.Text,
		"interrupt": guidance.Interrupt, "void": guidance.Void})
}

// Dispatch is a run to start beside another one.
type Dispatch struct {
	Agent    string // name
	Brief    string
	Purpose  string // RESEARCH or MONITOR; empty: not a sidecar, but a piece of work that lands as evidence
	Lands    string // STEER, EVIDENCE or MESSAGE
	Outlives bool   // it goes on when the run has ended
}

// Dispatch starts a run beside another one, and returns it. Errors: *Error.
func (c *Client) Dispatch(ctx context.Context, main string, order Dispatch) (Run, error) {
	input := map[string]any{"run": main, "agent": order.Agent, "brief": order.Brief}
	if order.Purpose == "" {
		return c.changeRun(ctx, delegateDocument, input)
	}
	input["purpose"], input["lands"], input["outlives"] = order.Purpose, order.Lands, order.Outlives
	return c.changeRun(ctx, sidecarDocument, input)
}

// Cancel cancels a run: nothing new begins. Reason may be empty. Errors: *Error.
func (c *Client) Cancel(ctx context.Context, id, reason string) (Run, error) {
	input := map[string]any{"run": id}
	if reason != "" {
		input["reason"] = reason
	}
	return c.changeRun(ctx, cancelDocument, input)
}

// Resume says how a run goes on that waits at a limit or is parked.
type Resume struct {
	Turns    int   // more model turns
	MicroUSD int64 // more money
	Tokens   int64 // more tokens
	Accept   bool  // take the unchecked answer as it is
	End      bool  // end the run instead
}

// Resume lets a run go on, or ends it. Errors: *Error.
func (c *Client) Resume(ctx context.Context, id string, how Resume) (Run, error) {
	return c.changeRun(ctx, resumeDocument, map[string]any{"run": id, "turns": how.Turns, "accept": how.Accept, "end": how.End,
		"money": strconv.FormatInt(how.MicroUSD, 10), "tokens": strconv.FormatInt(how.Tokens, 10)})
}

// Finding says what became of a call that may or may not have happened.
type Finding struct {
	Call       int    // number in the run, from 1
	Resolution string // HAPPENED, NOT_HAPPENED or REPEAT
	Evidence   string // what was looked at, and where
	Override   bool   // with REPEAT: the first attempt may still act
}

// Resolve records a person's finding. Errors: *Error.
func (c *Client) Resolve(ctx context.Context, id string, found Finding) (Run, error) {
	return c.changeRun(ctx, resolveDocument, map[string]any{"run": id, "call": found.Call, "resolution": found.Resolution,
		"evidence": found.Evidence, "override": found.Override})
}

// Run reads a run with its turns, calls, approvals and questions. Errors: *Error.
func (c *Client) Run(ctx context.Context, id string) (Run, error) {
	var got struct{ Run Run }
	err := c.Ask(ctx, runDocument, map[string]any{"id": id}, &got)
	return got.Run, err
}

// Status reads a run in short. Errors: *Error.
func (c *Client) Status(ctx context.Context, id string) (Run, error) {
	var got struct{ Run Run }
	err := c.Ask(ctx, statusDocument, map[string]any{"id": id}, &got)
	return got.Run, err
}

// Filter selects runs; empty parts match everything.
type Filter struct {
	Statuses []string
	Agent    string // name
	Subject  string // principal id
	Roots    bool   // only runs that no other run started
}

func (f Filter) variables() map[string]any {
	filter := map[string]any{}
	if len(f.Statuses) > 0 {
		filter["statuses"] = f.Statuses
	}
	if f.Roots {
		filter["kinds"] = []string{"ROOT"}
	}
	if f.Agent != "" {
		filter["agent"] = f.Agent
	}
	if f.Subject != "" {
		filter["subject"] = f.Subject
	}
	return filter
}

// Runs reads up to most runs in short, latest first. Errors: *Error.
func (c *Client) Runs(ctx context.Context, filter Filter, most int) ([]Run, error) {
	return c.pages(ctx, runsDocument, filter, most)
}

// Observed reads up to most runs of an agent, latest first, with their calls.
// Errors: *Error.
func (c *Client) Observed(ctx context.Context, agent string, most int) ([]Run, error) {
	return c.pages(ctx, observedDocument, Filter{Agent: agent}, most)
}

func (c *Client) pages(ctx context.Context, document string, filter Filter, most int) ([]Run, error) {
	const page = 50
	var runs []Run
	variables := map[string]any{"filter": filter.variables()}
	for len(runs) < most {
		variables["first"] = min(page, most-len(runs))
		var got struct {
			Runs struct {
				Edges    []struct{ Node Run }
				PageInfo struct {
					HasNextPage bool
					EndCursor   *string
				}
			}
		}
		if err := c.Ask(ctx, document, variables, &got); err != nil {
			return nil, err
		}
		for _, edge := range got.Runs.Edges {
			runs = append(runs, edge.Node)
		}
		if !got.Runs.PageInfo.HasNextPage || got.Runs.PageInfo.EndCursor == nil {
			break
		}
		variables["after"] = *got.Runs.PageInfo.EndCursor
	}
	return runs, nil
}

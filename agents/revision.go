package agents

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gantry.dev/agents/evaluate"
	"gantry.dev/agents/route"
	"gantry.dev/agents/tool"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// agentPrefix sets the principal ids of agents apart from all others.
const agentPrefix = "agent:"

// AgentID returns the principal id of an agent, for example
// "agent:invoice-reconciler".
func AgentID(name string) string { return agentPrefix + name }

// Revision is one published version of an agent. It never changes: another
// content is another revision with another digest.
type Revision struct {
	Name         string        `json:"name"`
	Description  string        `json:"description"` // for people who look for an agent
	Department   string        `json:"department"`
	Owner        string        `json:"owner"`            // principal id
	Contact      string        `json:"contact"`          // principal id: gets held, parked and uncertain work
	Audience     []string      `json:"audience"`         // departments whose people may start runs; sorted, never empty
	Listed       bool          `json:"listed,omitempty"` // everybody may find it and ask for a share
	Persona      string        `json:"persona"`
	Stage        policy.Stage  `json:"stage"`               // as published; see Organisation.Stage
	Clearance    policy.Labels `json:"clearance,omitempty"` // labels that it may read at most
	Instructions string        `json:"instructions"`
	Models       []string      `json:"models"`          // preferred first
	Choice       Choice        `json:"choice,omitzero"` // how one of them is chosen for a turn
	Tools        []ToolUse     `json:"tools,omitempty"`
	Spaces       Spaces        `json:"spaces"`
	Memory       *Recall       `json:"memory,omitempty"`      // without it runs recall nothing by themselves
	ResultBytes  int64         `json:"resultBytes,omitempty"` // of one result that a prompt shows; 0: all, or as much as results.read leaves to read
	Limits       Limits        `json:"limits"`
	Completion   Completion    `json:"completion"`
	Delegates    []Delegate    `json:"delegates,omitempty"`  // whom its runs may hand work to; nobody by default
	Sidecars     []Sidecar     `json:"sidecars,omitempty"`   // what goes on beside its runs; nothing by default
	MayRequest   *Requestable  `json:"mayRequest,omitempty"` // what its runs may ask for beyond this; nothing by default
	Branches     bool          `json:"branches,omitempty"`   // what it hands on are branches of one work: a run is only PARTIAL unless all succeed

	Evaluation *evaluate.Gate `json:"evaluation,omitempty"` // what it must have come to before it is put in force or made freer; nil: nothing
}

// Requestable is what runs of an agent may ask for that they were not given. To
// name it gives nothing: the owner of each thing says yes or no to each run.
type Requestable struct {
	Tools    []ToolUse     `json:"tools,omitempty"`    // within these bounds, for example the files below a prefix
	Spaces   []string      `json:"spaces,omitempty"`   // of memory, to read: "organisation" or "department:NAME"
	Labels   policy.Labels `json:"labels,omitempty"`   // as far as the person is cleared for them
	Models   []string      `json:"models,omitempty"`   // of the catalogue
	MicroUSD int64         `json:"microUsd,omitempty"` // micro-dollars of one request at most
	Tokens   int64         `json:"tokens,omitempty"`   // of one request at most
}

// Choice says how a model is chosen for a turn among those that a revision
// names. Its zero value takes the cheapest that is right and as good as the
// first.
type Choice struct {
	Prefer  route.Prefer `json:"prefer,omitempty"`  // empty: cheapest
	Tier    int          `json:"tier,omitempty"`    // no model below it is taken; 0: any, those below the first one's only where there is no other
	Quality int          `json:"quality,omitempty"` // percent that a model that was measured must have reached; 0: any
	// Hedge is how long the model that is taken may send nothing before another
	// right one, at another place, is asked too; 0: none is.
	Hedge tool.Duration `json:"hedge,omitempty"`
}

// choice finds what does not fit in how a revision's models are chosen.
func (v *validation) choice(object string, r Revision) {
	c := r.Choice
	v.require(slices.Contains([]route.Prefer{"", route.Cheapest, route.InOrder}, c.Prefer), object, "choice.prefer", "must be %s or %s", route.Cheapest, route.InOrder)
	v.require(c.Quality >= 0 && c.Quality <= 100, object, "choice.quality", "must be 0 to 100")
	named := func(is func(Model) bool) bool {
		return slices.ContainsFunc(r.Models, func(name string) bool { m, known := v.o.Model(name); return !known || is(m) })
	}
	v.require(c.Tier >= 0 && named(func(m Model) bool { return m.Tier >= c.Tier }), object, "choice.tier", "none of the agent's models reaches it")
	places := map[string]bool{}
	for _, name := range r.Models {
		m, _ := v.o.Model(name)
		places[m.Place()] = true
	}
	v.require(c.Hedge == 0 || c.Hedge >= leastHedge && c.Hedge < r.Limits.Turn, object, "choice.hedge", "must be at least %s and below the limit of a turn", time.Duration(leastHedge))
	v.require(c.Hedge == 0 || len(places) > 1, object, "choice.hedge", "the agent's models all stand at one place: name one with another endpoint or provider")
	v.require(len(r.Tools) == 0 || named(func(m Model) bool { return m.Tools }), object, "models", "the agent has tools, and none of its models can propose calls")
}

// leastHedge is the least silence after which a second model may be asked: what
// is shorter asks two models for nearly every turn.
const leastHedge = tool.Duration(100 * time.Millisecond)

// leastResultBytes is the least that a prompt shows of a result: below that its
// ends say nothing.
const leastResultBytes = 512

// ToolUse allows one tool to an agent, within bounds.
type ToolUse struct {
	Name        string        `json:"name"`
	Impact      policy.Impact `json:"impact"` // highest impact
	Calls       int           `json:"calls"`  // over the whole run
	Constraints []Constraint  `json:"constraints,omitempty"`
}

// Constraint bounds one argument; every part that is set must hold.
type Constraint struct {
	Path   string            `json:"path"` // JSON pointer into the arguments
	Enum   []json.RawMessage `json:"enum,omitempty"`
	Min    json.Number       `json:"min,omitempty"`
	Max    json.Number       `json:"max,omitempty"`
	Prefix *string           `json:"prefix,omitempty"`
}

// Spaces names the memory spaces that an agent may read and write.
type Spaces struct {
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
}

// Recall says how much a run recalls by itself, from the spaces that it may
// read: once by its goal, and once for each turn before which text came in.
type Recall struct {
	Tokens   int         `json:"tokens"`             // of one recall at most: bytes/4
	Items    int         `json:"items"`              // of one recall at most
	OnOutage OnOutage    `json:"onOutage,omitempty"` // empty: DEGRADE
	Kinds    []view.Kind `json:"kinds,omitempty"`    // empty: all
}

// OnOutage says what a run does while memory cannot be asked.
type OnOutage string

// The ways to meet an outage of memory.
const (
	DegradeOnOutage OnOutage = "DEGRADE" // go on without it, and say so
	WaitOnOutage    OnOutage = "WAIT"    // take no turn
)

// maxRecallItems is as much as memory gives for one question.
const maxRecallItems = 100

// recall finds what does not fit in an agent's recall.
func (v *validation) recall(object string, r *Recall) {
	if r == nil {
		return
	}
	v.require(r.Tokens > 0, object, "memory.tokens", "must be above 0")
	v.require(r.Items > 0 && r.Items <= maxRecallItems, object, "memory.items", "must be 1 to %d", maxRecallItems)
	v.require(slices.Contains([]OnOutage{"", DegradeOnOutage, WaitOnOutage}, r.OnOutage), object, "memory.onOutage", "must be %s or %s", DegradeOnOutage, WaitOnOutage)
	for i, kind := range r.Kinds {
		v.require(slices.Contains(view.Kinds(), kind),
			object, fmt.Sprintf("memory.kinds[%d]", i), "is no kind of remembered thing")
	}
}

// Limits bound one run of an agent.
type Limits struct {
	Turns         int           `json:"turns"`
	MicroUSD      int64         `json:"microUsd"` // micro-dollars
	Tokens        int64         `json:"tokens"`
	Duration      tool.Duration `json:"duration"` // from admission to deadline
	CallsPerTurn  int           `json:"callsPerTurn"`
	CallsAtOnce   int           `json:"callsAtOnce"`
	TurnAttempts  int           `json:"turnAttempts"`
	CallAttempts  int           `json:"callAttempts"`
	NoProgress    int           `json:"noProgress"` // equal calls with equal results
	RepairTurns   int           `json:"repairTurns"`
	CheckAttempts int           `json:"checkAttempts"`
	Steers        int           `json:"steers"`   // open at once
	Approval      tool.Duration `json:"approval"` // how long a held call may wait
	Question      tool.Duration `json:"question"` // how long a question may wait
	Turn          tool.Duration `json:"turn"`     // longest model request
	OnLimit       run.OnLimit   `json:"onLimit"`
	Depth         int           `json:"depth"`      // levels of sub-agents; 0 for none
	FanOut        int           `json:"fanOut"`     // children of one run
	RunsAtOnce    int           `json:"runsAtOnce"` // live descendants

	Approvals int `json:"approvals,omitempty"` // that a run may ask for before an operator looks at it; 0: run.DefaultApprovals
}

// Delegate lets runs of an agent hand work to another one, or to themselves
// under other bounds. What it does not bound, the other agent's own revision
// does.
type Delegate struct {
	Agent       string        `json:"agent"`                 // name
	As          []run.Kind    `json:"as,omitempty"`          // SUB_AGENT or SIDECAR; empty: SUB_AGENT
	MicroUSD    int64         `json:"microUsd,omitempty"`    // micro-dollars of one child; 0: as its revision says
	Tokens      int64         `json:"tokens,omitempty"`      // of one child; 0: as its revision says
	Turns       int           `json:"turns,omitempty"`       // of one child; 0: as its revision says
	Duration    tool.Duration `json:"duration,omitempty"`    // of one child; 0: as its revision says
	ResultBytes int           `json:"resultBytes,omitempty"` // bytes of a result at most; 0: DefaultResultBytes
}

// Sidecar is a session that goes on beside every run of an agent, with an
// authority that only reads.
type Sidecar struct {
	Agent    string      `json:"agent"` // name
	Purpose  run.Purpose `json:"purpose"`
	Brief    string      `json:"brief"`              // what it is to do
	Reviews  []string    `json:"reviews,omitempty"`  // of a CHECK: names of tools whose calls wait for its word, or "answer"
	Guards   bool        `json:"guards,omitempty"`   // of a CHECK: no call of a turn is attempted before it has spoken of those that it reviews
	Lands    run.Landing `json:"lands,omitempty"`    // of any other: STEER, EVIDENCE or MESSAGE; empty: EVIDENCE
	Outlives bool        `json:"outlives,omitempty"` // goes on when the run has ended; what it finds then goes nowhere but into its own record

	MicroUSD    int64         `json:"microUsd,omitempty"`    // micro-dollars of one session; 0: as its revision says
	Tokens      int64         `json:"tokens,omitempty"`      // of one session; 0: as its revision says
	Turns       int           `json:"turns,omitempty"`       // of one session; 0: as its revision says
	Duration    tool.Duration `json:"duration,omitempty"`    // of one session; 0: as its revision says
	ResultBytes int           `json:"resultBytes,omitempty"` // bytes of a result at most; 0: DefaultResultBytes
}

// Terms are the bounds of the session.
func (s Sidecar) Terms() Delegate {
	return Delegate{Agent: s.Agent, As: []run.Kind{run.Sidecar}, MicroUSD: s.MicroUSD, Tokens: s.Tokens, Turns: s.Turns, Duration: s.Duration, ResultBytes: s.ResultBytes}
}

// Reviewer returns the sidecar that reviews calls of a tool, or the answer.
func (r Revision) Reviewer(of string) (Sidecar, bool) {
	return find(r.Sidecars, func(s Sidecar) bool { return s.Purpose == run.ForCheck && slices.Contains(s.Reviews, of) })
}

// Reviewers lists who reviews what of a run.
func (r Revision) Reviewers() (reviewers []run.Reviewer) {
	for _, s := range r.Sidecars {
		for _, of := range s.Reviews {
			if s.Purpose == run.ForCheck {
				reviewers = append(reviewers, run.Reviewer{Of: of, Agent: s.Agent, Guards: s.Guards && of != run.ReviewsAnswer})
			}
		}
	}
	return reviewers
}

// Beside returns the nth sidecar, from 1, that begins with a run.
func (r Revision) Beside(n int) (Sidecar, bool) {
	for _, s := range r.Sidecars {
		if s.Purpose != run.ForCheck {
			if n--; n == 0 {
				return s, true
			}
		}
	}
	return Sidecar{}, false
}

// BesideAll lists the sidecars that begin with a run.
func (r Revision) BesideAll() (list []run.Beside) {
	for _, s := range r.Sidecars {
		if s.Purpose != run.ForCheck {
			list = append(list, run.Beside{Agent: s.Agent, Purpose: s.Purpose, Lands: s.Landing()})
		}
	}
	return list
}

// Landing is where the session's result goes.
func (s Sidecar) Landing() run.Landing {
	if s.Lands == "" {
		return run.LandsAsEvidence
	}
	return s.Lands
}

// DefaultResultBytes bounds the result of a child.
const DefaultResultBytes = 64 << 10

// mostResultBytes is the most that a revision may allow.
const mostResultBytes = 1 << 20

// Delegate returns how the agent may hand work to another one.
func (r Revision) Delegate(agent string, as run.Kind) (Delegate, bool) {
	return find(r.Delegates, func(d Delegate) bool { return d.Agent == agent && d.allows(as) })
}

func (d Delegate) allows(as run.Kind) bool {
	return len(d.As) == 0 && as == run.SubAgent || slices.Contains(d.As, as)
}

// Bytes is the most that a result may have.
func (d Delegate) Bytes() int {
	if d.ResultBytes == 0 {
		return DefaultResultBytes
	}
	return d.ResultBytes
}

// Longest is how long a child may take, UTC ms; 0 where only its revision says.
func (d Delegate) Longest() int64 { return time.Duration(d.Duration).Milliseconds() }

// DefaultLimits returns the limits of an agent whose file names none. Money
// and tokens are zero: they have to be given.
func DefaultLimits() Limits {
	return Limits{
		Turns: 20, Duration: tool.Duration(7 * 24 * time.Hour),
		CallsPerTurn: 8, CallsAtOnce: 4, TurnAttempts: 4, CallAttempts: 3,
		NoProgress: 3, RepairTurns: 2, CheckAttempts: 3, Steers: 8,
		Approval: tool.Duration(48 * time.Hour), Question: tool.Duration(48 * time.Hour),
		Turn: tool.Duration(2 * time.Minute), OnLimit: run.AskOnLimit,
	}
}

// Run returns the limits as a run keeps them.
func (l Limits) Run() run.Limits {
	ms := func(d tool.Duration) int64 { return time.Duration(d).Milliseconds() }
	return run.Limits{
		Turns: l.Turns, CallsPerTurn: l.CallsPerTurn, CallsAtOnce: l.CallsAtOnce,
		TurnAttempts: l.TurnAttempts, CallAttempts: l.CallAttempts, NoProgress: l.NoProgress,
		RepairTurns: l.RepairTurns, CheckAttempts: l.CheckAttempts, Steers: l.Steers,
		ApprovalMs: ms(l.Approval), QuestionMs: ms(l.Question), TurnMs: ms(l.Turn), OnLimit: l.OnLimit,
		Approvals: l.Approvals,
	}
}

// Completion says when a run of the agent is done. The platform checks it, not
// the model.
type Completion struct {
	Output   json.RawMessage `json:"output,omitempty"`   // JSON Schema of the answer; none: free text
	Required []string        `json:"required,omitempty"` // JSON pointers into the answer that must lead to something
	Checks   []Check         `json:"checks,omitempty"`
	Review   bool            `json:"review,omitempty"` // a sidecar must have reviewed the answer, and found nothing against it
}

// Names returns the names of the checks, in order.
func (c Completion) Names() []string {
	names := make([]string, len(c.Checks), len(c.Checks)+1)
	for i, check := range c.Checks {
		names[i] = check.Name
	}
	if c.Review {
		names = append(names, run.ReviewCheck)
	}
	return names
}

// Digest returns the digest that names this revision. Its errors are those of
// canon.Marshal, which no validated revision gives.
func (r Revision) Digest() (string, error) { return canon.DigestOf(r) }

// Principal returns the agent as an actor of the organisation.
func (r Revision) Principal(organisation string) policy.Principal {
	return policy.Principal{
		ID: AgentID(r.Name), Kind: policy.Agent, Organisation: organisation,
		Department: r.Department, Name: r.Name, Manager: r.Owner, Clearance: r.Clearance,
	}
}

// Facts returns what policy knows of the revision.
func (r Revision) Facts() (policy.AgentFacts, error) {
	digest, err := r.Digest()
	return policy.AgentFacts{Name: r.Name, Revision: digest, Department: r.Department, Owner: r.Owner}, err
}

// Serves reports whether a person may start runs of the agent.
func (r Revision) Serves(subject policy.Principal) bool {
	return slices.Contains(r.Audience, subject.Department)
}

// grant returns the bounds as authority has them. Enum values become canonical
// JSON, so that a value counts however it was written.
func (u ToolUse) grant(digest string) (policy.ToolGrant, error) {
	grant := policy.ToolGrant{Revision: digest, Impact: u.Impact, Calls: u.Calls}
	for _, c := range u.Constraints {
		bound := policy.Constraint{Path: c.Path, Prefix: c.Prefix, Min: decimal(c.Min), Max: decimal(c.Max)}
		if c.Enum != nil {
			values := make([]string, 0, len(c.Enum))
			for _, raw := range c.Enum {
				canonical, err := canon.JSON(raw)
				if err != nil {
					return policy.ToolGrant{}, err
				}
				values = append(values, string(canonical))
			}
			slices.Sort(values)
			values = slices.Compact(values)
			bound.Enum = &values
		}
		grant.Constraints = append(grant.Constraints, bound)
	}
	slices.SortStableFunc(grant.Constraints, func(a, b policy.Constraint) int {
		if a.Path < b.Path {
			return -1
		}
		if a.Path > b.Path {
			return 1
		}
		return 0
	})
	return grant, nil
}

func decimal(n json.Number) *string {
	if n == "" {
		return nil
	}
	text := n.String()
	return &text
}

// Package graph serves the organisation's GraphQL interface: it verifies who
// asks, bounds what is asked, maps the domain onto the schema, and shows every
// reader only what that reader may see. It decides nothing itself.
package graph

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"gantry.dev/agents"
	"gantry.dev/agents/catalogue"
	"gantry.dev/agents/model/health"
	"gantry.dev/agents/server"
	"gantry.dev/graph/edge"
	"gantry.dev/graph/opaque"
	"gantry.dev/graph/remembered"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/group"
	"gantry.dev/orchestrator/notice"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Caller is who asks: the verified credential, and the principal as the
// directory knows them now.
type Caller = edge.Caller

// ErrCursor means that a number to go on after is beyond the end of its stream.
var ErrCursor error = opaque.ErrCursor

// Directory finds principals.
type Directory interface {
	edge.People
	// Epoch names what is in force in the organisation: while it stays the same,
	// so does what its principals may see.
	Epoch(ctx context.Context, organisation string) (string, error)
}

// Outcome says which run a command reached.
type Outcome struct {
	Run      string // run id, empty where the command concerns none
	Replayed bool   // the command id was accepted before
}

// View is a text as one caller may see it.
type View struct {
	Text     string
	Withheld bool // the caller is not cleared; Text is empty
}

// StartInput asks for a run.
type StartInput struct {
	Agent        string
	Goal         string
	Conversation string // id, empty for none
	CommandID    string
	MicroUSD     *int64 // spend less than the agent's limit; nil for that limit
}

// RunFilter selects runs; empty parts match everything.
type RunFilter struct {
	Statuses     []run.Status
	Agent        string
	Conversation string // id
	Subject      string // principal id
	Kinds        []run.Kind
	Parent       string // run id
}

// Runs are the runs of the caller's organisation. What the caller may not see
// is engine.ErrNotFound. A command that is not accepted is a *run.Refusal.
type Runs interface {
	// Start admits a run.
	Start(ctx context.Context, caller Caller, in StartInput) (Outcome, error)
	// Command takes what build makes to the run. Build gets the sealer of texts
	// and the caller as the directory knows them at that moment.
	Command(ctx context.Context, caller Caller, commandID, runID string,
		build func(seal func(text string) run.Text, person policy.Principal) run.Command) (Outcome, error)
	// State folds the run.
	State(ctx context.Context, caller Caller, runID string) (*run.State, error)
	// Texts opens texts by id, redacted for the caller; an erased or unknown one is absent.
	Texts(ctx context.Context, caller Caller, ids []string) (map[string]View, error)
	// List returns up to first runs after a cursor ("" for the first page), latest first,
	// and the cursor of the next page, "" for none.
	List(ctx context.Context, caller Caller, filter RunFilter, after string, first int) (heads []run.Head, next string, err error)
	// Events returns the records after a number, in order.
	Events(ctx context.Context, caller Caller, runID string, after uint64) ([]run.Record, error)
}

// Trees are what stands above and below the runs that the caller may see; who
// may see a run may see those below it, but for the private sides of shares.
// Others are engine.ErrNotFound.
type Trees interface {
	// Lineage returns the run with those above it, the root first: also where the
	// caller may not see the others.
	Lineage(ctx context.Context, caller Caller, runID string) ([]*run.State, error)
	// Children returns the rows of the runs right below, those that started first
	// first.
	Children(ctx context.Context, caller Caller, runID string) ([]run.Head, error)
	// Follow tells the records of the run and of all below it after the places,
	// as far as the caller may see them, without gap or repeat: each run's in their order, and a child's after the one
	// by which its parent started it. The channel is closed when the context ends,
	// or when the journal does not answer. Callers have checked who may listen.
	// Errors: ErrCursor.
	Follow(ctx context.Context, caller Caller, runID string, after opaque.Places) (<-chan run.Record, error)
}

// SidecarInput asks for a run beside another one.
type SidecarInput struct {
	Main      string // run id
	Kind      run.Kind
	Agent     string      // name
	Purpose   run.Purpose // of a SIDECAR
	Brief     string
	Lands     run.Landing
	Outlives  bool
	CommandID string
}

// Sidecars starts runs beside those that the caller may guide.
type Sidecars interface {
	// Dispatch starts one. A run that the caller may not see is
	// engine.ErrNotFound.
	Dispatch(ctx context.Context, caller Caller, in SidecarInput) (Outcome, error)
}

// noSidecars is where nobody starts any.
type noSidecars struct{}

// Dispatch starts nothing.
func (noSidecars) Dispatch(context.Context, Caller, SidecarInput) (Outcome, error) {
	return Outcome{}, engine.ErrNotFound
}

// Consent is the word of a thing's owner on a run's request for it.
type Consent struct {
	Run, Access string // ids
	Digest      string // of the request that was seen
	Granted     bool
	Scope       run.Scope // of a yes
	UntilMs     int64     // UTC ms: when one for a conversation ends; 0 for no end
	Reason      string    // empty for none
	CommandID   string
}

// Consents give runs what they ask for, or do not.
type Consents interface {
	// Decide decides one request. A run that the caller may not see is
	// engine.ErrNotFound.
	Decide(ctx context.Context, caller Caller, in Consent) (Outcome, error)
	// Proposed returns the manifest of a revision that a yes proposed: empty where it
	// waits for nobody any more, and for who neither proposed it nor answers for the
	// agent.
	Proposed(ctx context.Context, caller Caller, agent, digest string) (manifest string, err error)
}

// noConsents is where nobody decides any request.
type noConsents struct{}

// Proposed knows of none.
func (noConsents) Proposed(context.Context, Caller, string, string) (string, error) { return "", nil }

// Decide decides nothing.
func (noConsents) Decide(context.Context, Caller, Consent) (Outcome, error) {
	return Outcome{}, engine.ErrNotFound
}

// Conversation is a shared thread.
type Conversation struct {
	ID           string
	Title        run.Text
	Participants []string // principal ids, sorted
	CreatedMs    int64    // UTC ms
	Turns        group.Rule
}

// ConversationInput asks for a conversation.
type ConversationInput struct {
	Title        string
	Participants []string // principal ids besides the caller
	Turns        group.Rule
	CommandID    string
}

// Gathering asks for a change of who takes part in a conversation, or of its
// rule of turns.
type Gathering struct {
	Conversation string      // id
	Add, Remove  string      // principal ids; empty for nobody
	Turns        *group.Rule // nil: it stays
	CommandID    string
}

// Groups changes who takes part in conversations, and whose turn it is.
type Groups interface {
	// Change changes a conversation that the caller takes part in; any other one
	// is engine.ErrNotFound.
	Change(ctx context.Context, caller Caller, in Gathering) (Outcome, error)
}

// Message asks to say something in a conversation.
type Message struct {
	Conversation string // id
	Text         string
	Agent        string // name; empty for people only
	Steer        bool   // steer the active run instead of starting one
	CommandID    string
}

// Conversations are the conversations that the caller takes part in; others
// are engine.ErrNotFound.
type Conversations interface {
	// Create begins a conversation and returns it; Replayed for a repeated command.
	Create(ctx context.Context, caller Caller, in ConversationInput) (Conversation, Outcome, error)
	// Get returns one conversation.
	Get(ctx context.Context, caller Caller, id string) (Conversation, error)
	// List returns up to first conversations after a cursor, and the next page's cursor, "" for none.
	List(ctx context.Context, caller Caller, after string, first int) (list []Conversation, next string, err error)
	// Entries returns up to first entries after a number, in order.
	Entries(ctx context.Context, caller Caller, id string, after uint64, first int) ([]engine.Entry, error)
	// Send says something; Outcome.Run is the run that was started or steered.
	Send(ctx context.Context, caller Caller, in Message) (Outcome, error)
}

// Item is one thing in somebody's inbox. Times are UTC ms; 0 stands for none.
type Item struct {
	engine.InboxItem
	OnBehalfOf  string // principal id whose deputy the caller reacts as; empty: none
	Onlooker    bool   // it is only shown to the caller, because nobody reacted
	RemindedMs  int64  // when people were reminded last
	EscalatedMs int64  // when it was shown to others besides
	DueMs       int64  // when it will be, unless somebody reacts
}

// DeputyInput names the caller's deputy; an empty one takes the deputy back.
type DeputyInput struct {
	Deputy  string // principal id
	FromMs  int64  // UTC ms; 0: from now on
	UntilMs int64  // UTC ms, no longer from then on
}

// Inbox finds what waits for people, and says who reacts for whom.
type Inbox interface {
	// Items returns what waits for the caller, oldest first.
	Items(ctx context.Context, caller Caller) ([]Item, error)
	// Deputies returns the caller's deputy and those whose deputy the caller is.
	Deputies(ctx context.Context, caller Caller) ([]agents.Deputy, error)
	// SetDeputy names the caller's own deputy, or takes the deputy back.
	SetDeputy(ctx context.Context, caller Caller, commandID string, deputy DeputyInput) (Change, error)
	// Told returns the notices that the caller may see, the caller's own first.
	Told(ctx context.Context, caller Caller) ([]notice.Notice, error)
}

// Operation is what a call does, in its tool owner's words.
type Operation struct {
	Description string
	Resource    string // for example "ledger:invoice/INV-017"
}

// Tools describe calls.
type Tools interface {
	// Operation describes a call of exactly this definition; without arguments
	// the tool alone. Errors:
	// engine.ErrNotFound for a tool or revision that is not known any more.
	Operation(ctx context.Context, caller Caller, tool, revision string, arguments []byte) (Operation, error)
}

// Agent is an agent as it is now.
type Agent struct {
	Revision agents.Revision
	Digest   string // of the revision
	Stage    policy.Stage
	Stopped  bool // a kill stops it
	// Available says how the caller has it; empty where they do not.
	Available []Availability
}

// Change says what became of a change to the organisation.
type Change struct {
	Replayed bool
	Pending  bool // proposed; a second person must do the same
}

// Agents are the agents that the caller may know of, and how they are changed;
// refusals are the errors of package agents.
type Agents interface {
	// List returns the agents, sorted by name.
	List(ctx context.Context, caller Caller) ([]Agent, error)
	// Get returns one; engine.ErrNotFound.
	Get(ctx context.Context, caller Caller, name string) (Agent, error)
	// Publish proposes a revision, or approves the same one that another person
	// proposed, and returns the agent's name.
	Publish(ctx context.Context, caller Caller, commandID string, manifest []byte) (name string, change Change, err error)
	// SetStage changes how much an agent may do by itself.
	SetStage(ctx context.Context, caller Caller, commandID, name string, stage policy.Stage, evidence string) (Change, error)
	// Personas returns the personas of the agents of List, sorted by name.
	Personas(ctx context.Context, caller Caller) ([]Persona, error)
	// LendVoice lets agents speak in the caller's own voice, or no more. Any
	// other voice is agents.ErrUnknown.
	LendVoice(ctx context.Context, caller Caller, commandID, persona string, lend bool) (Change, error)
}

// Persona is a voice, and whether agents may speak in it.
type Persona struct {
	agents.Persona
	Lent bool
}

// Kills stop new intents. What the caller may not know of is
// engine.ErrNotFound; refusals are the errors of package agents.
type Kills interface {
	// List returns what is stopped, sorted by scope and name.
	List(ctx context.Context, caller Caller) ([]agents.Kill, error)
	// Stop stops something at once.
	Stop(ctx context.Context, caller Caller, commandID string, scope agents.KillScope, name, reason string) (Change, error)
	// Lift proposes to end a kill, or ends the one whose end another person proposed.
	Lift(ctx context.Context, caller Caller, commandID string, scope agents.KillScope, name string) (Change, error)
}

// Quarantined is a tool whose calls are kept back, and what it was when it was
// reviewed; nil where that was not kept.
type Quarantined struct {
	server.Quarantine
	Seen *server.Offer
}

// Pins say what a tool of a server is. What the caller may not know of is
// engine.ErrNotFound; refusals are the errors of package agents.
type Pins interface {
	// Quarantines returns the tools whose calls are kept back, sorted by name.
	Quarantines(ctx context.Context, caller Caller) ([]Quarantined, error)
	// Pin proposes that a tool is what its server gives now, or puts in force what
	// another person proposed alike.
	Pin(ctx context.Context, caller Caller, commandID, tool, pin string) (Change, error)
}

// Budget is one node of the organisation's budgets in its current period.
type Budget struct {
	Node   string
	Period string
	run.Budget
}

// UsageRow is what one group spent.
type UsageRow struct {
	Key     string
	Runs    int64
	Spent   run.Amount
	Tokens  run.Usage // of its model requests; Estimated where one of them is
	Counted int64     // tokens of the prompts that providers counted
	Cached  int64     // of these, those that the providers had kept from before
}

// Budgets are the budgets that the caller may see.
type Budgets interface {
	// List returns them, sorted by node.
	List(ctx context.Context, caller Caller) ([]Budget, error)
	// Set changes a limit; engine.ErrNotFound for an unknown node.
	Set(ctx context.Context, caller Caller, commandID, node string, limit run.Amount) (Change, error)
	// Usage returns what was settled in [fromMs, toMs) by AGENT, DEPARTMENT, SUBJECT, MODEL, DAY or TOOL.
	Usage(ctx context.Context, caller Caller, groupBy string, fromMs, toMs int64) ([]UsageRow, error)
}

// ModelEntry is one model of the catalogue, for one caller.
type ModelEntry struct {
	catalogue.Model
	Agents   []string         // names of those that may use it and that the caller may know of; sorted
	Standing *health.Standing // nil where it was not asked here
}

// ModelReport is what turns of an agent with a model cost.
type ModelReport struct {
	Agent, Model string
	Turns        int64
	Spent        run.Amount
	Others       []ModelComparison // sorted by model
}

// ModelComparison is what turns would have been with another model.
type ModelComparison struct {
	Model         string
	Turns         int64            // for which it was right too
	Cost, Instead int64            // micro-dollars of these turns: with it, and as they were
	Refusals      map[string]int64 // turns by code
}

// Models are the models that an organisation may use.
type Models interface {
	// List returns the catalogue, sorted by name.
	List(ctx context.Context, caller Caller) ([]ModelEntry, error)
	// Report compares what was settled in [fromMs, toMs), of one agent or of all
	// (""), sorted by agent and model.
	Report(ctx context.Context, caller Caller, agent string, fromMs, toMs int64) ([]ModelReport, error)
}

// DocumentOutcome is what became of a document.
type DocumentOutcome struct {
	Title                       string // empty for none
	Space                       view.Space
	Passages                    int
	Added, Known, Changed, Gone int             // passages
	Unseen                      int             // passages of which the caller does not see all, and whose rest is the same
	Receipt                     *memory.Receipt // of those that are gone; nil where none is
}

// Readers know as whom a caller meets what is remembered.
type Readers interface {
	// Reader returns the caller as memory knows it now, in its spaces and in those
	// of the conversations that it takes part in of these.
	Reader(ctx context.Context, caller Caller, conversations ...string) (view.Reader, error)
}

// Documents takes documents apart and remembers them.
type Documents interface {
	// Document remembers a document passage by passage. Errors: *memory.Refusal,
	// and those of memory.Brain.
	Document(ctx context.Context, reader view.Reader, in remembered.Document) (DocumentOutcome, error)
}

// Delta is a piece of a turn's text while the model writes it.
type Delta struct {
	Turn, Attempt int
	Text          string
	Marking       policy.Marking // of what the turn has read
}

// Live tells what happens. The channels are closed when the context ends, or
// when the reader is too slow: then it reads again from its cursor. Callers
// have checked who may listen. Errors: ErrCursor.
type Live interface {
	// Run tells the records after a number, without gap or repeat.
	Run(ctx context.Context, organisation, runID string, after uint64) (<-chan run.Record, error)
	// Conversation tells the entries after a number, without gap or repeat.
	Conversation(ctx context.Context, organisation, conversationID string, after uint64) (<-chan engine.Entry, error)
	// Inbox tells that something of the organisation's inbox changed.
	Inbox(ctx context.Context, organisation string) (<-chan struct{}, error)
	// Memory tells the ids of items that changed in memory, whoever may see them,
	// and those of other organisations too; some of them again.
	Memory(ctx context.Context) (<-chan []string, error)
	// TurnText tells the pieces of the turn in flight; none is repeated.
	TurnText(ctx context.Context, runID string) (<-chan Delta, error)
}

// once reads the runs of one query once, whatever number of its fields ask for
// them.
type once struct{ Runs }

// readings are what one query has read.
type readings struct {
	mu      sync.Mutex
	states  map[string]func() (*run.State, error)
	records map[string]func() ([]run.Record, error)
	texts   map[string]View
	asked   map[string]bool // texts that were looked for
}

type readingsKey struct{}

func withReadings(ctx context.Context) context.Context {
	return context.WithValue(ctx, readingsKey{}, &readings{states: map[string]func() (*run.State, error){},
		records: map[string]func() ([]run.Record, error){}, texts: map[string]View{}, asked: map[string]bool{}})
}

// first returns the one reading of a key.
func first[T any](r *readings, known map[string]func() (T, error), key string, read func() (T, error)) (T, error) {
	r.mu.Lock()
	reading, found := known[key]
	if !found {
		reading = sync.OnceValues(read)
		known[key] = reading
	}
	r.mu.Unlock()
	return reading()
}

// State folds the run.
func (o once) State(ctx context.Context, caller Caller, id string) (*run.State, error) {
	read := func() (*run.State, error) { return o.Runs.State(ctx, caller, id) }
	r, ok := ctx.Value(readingsKey{}).(*readings)
	if !ok {
		return read()
	}
	return first(r, r.states, id, read)
}

// Events returns the records after a number, in order.
func (o once) Events(ctx context.Context, caller Caller, id string, after uint64) ([]run.Record, error) {
	r, ok := ctx.Value(readingsKey{}).(*readings)
	if !ok {
		return o.Runs.Events(ctx, caller, id, after)
	}
	all, err := first(r, r.records, id, func() ([]run.Record, error) { return o.Runs.Events(ctx, caller, id, 0) })
	if err != nil {
		return nil, err
	}
	at, _ := slices.BinarySearchFunc(all, after+1, func(one run.Record, seq uint64) int { return cmp.Compare(one.Seq, seq) })
	return slices.Clip(all[at:]), nil
}

// Texts opens texts by id.
func (o once) Texts(ctx context.Context, caller Caller, ids []string) (map[string]View, error) {
	r, ok := ctx.Value(readingsKey{}).(*readings)
	if !ok {
		return o.Runs.Texts(ctx, caller, ids)
	}
	r.mu.Lock()
	missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return r.asked[id] })
	r.mu.Unlock()
	var found map[string]View
	if len(missing) > 0 {
		var err error
		if found, err = o.Runs.Texts(ctx, caller, missing); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.texts, found)
	for _, id := range missing {
		r.asked[id] = true
	}
	shown := make(map[string]View, len(ids))
	for _, id := range ids {
		if view, opened := r.texts[id]; opened {
			shown[id] = view
		}
	}
	return shown, nil
}

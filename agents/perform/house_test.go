package perform_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/results"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is an organisation with one agent, tools in memory and a scripted
// model, in a bubble of time.
type house struct {
	t *testing.T
	*journaltest.Memory
	organisation agents.Organisation
	admitted     *perform.Kit            // in force
	kits         map[string]*perform.Kit // every one that was, by digest
	engine       *engine.Engine
	source       *counting
	brain        *brain
	memory       perform.Memory // in the brain's place; nil for the brain
	loading      *loading       // counts; nil for nothing

	mu       sync.Mutex
	requests []model.Request                 // that the model got
	answer   func(model.Answer) model.Answer // changes what it says; nil for nothing
	take     take                            // answers in the script's place; nil for the script
	does     map[string]does                 // what tools do in place of their reply
	invoked  map[string]int                  // by tool
	calls    []tool.Invocation               // in the order in which they began
	deltas   []perform.Delta                 // that watchers got
}

type (
	take func(context.Context, model.Request, func(string)) (model.Answer, error)
	does func(context.Context, tool.Invocation) (tool.Result, error)
)

// counting gives ids in their order.
type counting struct {
	mu sync.Mutex
	n  int
}

func (c *counting) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return fmt.Sprint("id", c.n)
}

func (*counting) Salt() []byte { return []byte("salt of 16 bytes") }

// memoryTool does what a test says; without that it gives its reply.
type memoryTool struct {
	definition tool.Definition
	house      *house
	reply      string
}

func (m memoryTool) Definition() tool.Definition { return m.definition }

func (m memoryTool) Invoke(ctx context.Context, invocation tool.Invocation) (tool.Result, error) {
	m.house.mu.Lock()
	m.house.invoked[m.definition.Name]++
	m.house.calls = append(m.house.calls, invocation)
	does := m.house.does[m.definition.Name]
	m.house.mu.Unlock()
	if does != nil {
		return does(ctx, invocation)
	}
	return tool.Result{Content: []byte(m.reply), MediaType: tool.MediaJSON, Marking: m.definition.Result}, nil
}

func definition(name string, impact policy.Impact, class policy.EffectClass) tool.Definition {
	return tool.Definition{Name: name, Description: "Does " + name + ".", Impact: impact, Class: class, Resource: "thing:{/id}",
		Input:   json.RawMessage(`{"type":"object","required":["id"],"properties":{"id":{"type":"string","maxLength":20}}}`),
		Timeout: tool.Duration(time.Second), ResultBytes: 1000, Owner: "olga", Contact: "carl", Kind: tool.KindBuiltin, CostBound: 5}
}

const policies = `
@id("all")
permit (principal, action, resource);`

// newOrganisation has the agent "clerk" for the department "d", whose models
// run the script. It may read, write and ask.
func newOrganisation(script string) agents.Organisation {
	read := definition("things.read", policy.ImpactRead, policy.ClassRead)
	read.Result = policy.Marking{Labels: policy.NewLabels("secret"), Integrity: policy.FromTool}
	write := definition("things.write", policy.Reversible, policy.Keyed)
	ask := tool.NewAsk("olga", "carl").Definition()
	limits := agents.DefaultLimits()
	limits.MicroUSD, limits.Tokens, limits.NoProgress = 1_000_000, 1_000_000, 9
	prices := agents.Prices{Input: 1_000_000, Output: 2_000_000}
	entry := func(name string) agents.Model {
		return agents.Model{Name: name, Provider: agents.ProviderScript, Script: "s", Context: 100_000, MaxOutput: 100, Tools: true, Prices: prices}
	}
	who := func(id, department string, labels ...policy.Label) policy.Principal {
		return policy.Principal{ID: id, Kind: policy.Person, Organisation: "o", Department: department, Clearance: policy.NewLabels(labels...)}
	}
	return agents.Organisation{
		Name: "o", Owner: "olga", Contact: "carl", BudgetOwner: "olga",
		Departments: []agents.Department{{Name: "d", Owner: "olga", Contact: "carl", BudgetOwner: "olga"}, {Name: "e", Owner: "olga", Contact: "carl"}},
		Labels:      []agents.LabelRule{{Name: "secret", Owner: "olga", Models: []string{"safe"}}},
		Principals:  []policy.Principal{who("ada", "d", "secret"), who("olga", "d"), who("carl", "d"), who("eve", "e")},
		Personas:    []agents.Persona{{Name: "plain", Voice: "You are plain.", ApprovedBy: "olga"}},
		Models:      []agents.Model{entry("quick"), entry("safe")},
		Scripts:     []agents.Source{{Name: "s", Text: script}},
		Tools:       []tool.Definition{read, write, ask},
		Policies:    []agents.Source{{Name: "all", Text: policies}},
		Builtins:    agents.Builtins{Ask: &agents.AskTool{Owner: "olga", Contact: "carl"}},
		Agents: []agents.Revision{{Name: "clerk", Department: "d", Owner: "olga", Contact: "carl", Audience: []string{"d"}, Persona: "plain",
			Stage: policy.Automate, Clearance: policy.NewLabels("secret"), Instructions: "Keep the things.", Models: []string{"quick", "safe"}, Limits: limits,
			Tools: []agents.ToolUse{{Name: "things.read", Impact: policy.ImpactRead, Calls: 20}, {Name: "things.write", Impact: policy.Reversible, Calls: 20},
				{Name: tool.AskName, Impact: policy.ImpactRead, Calls: 3}}}},
	}
}

// inside runs a test in the house of an organisation.
func inside(t *testing.T, organisation agents.Organisation, test func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &house{t: t, organisation: organisation, source: &counting{}, brain: &brain{}, does: map[string]does{}, invoked: map[string]int{}}
		h.Memory = journaltest.NewMemory(func() int64 { return time.Now().UnixMilli() })
		h.admitted = h.kit(organisation)
		h.engine = engine.New(h, h.rules)
		require.NoError(t, h.SetGate(t.Context(), run.GateChange{Gate: run.ConfigGate("o"), Value: h.admitted.Digest}))
		for _, node := range organisation.Accounts("d", "", 0) {
			require.NoError(t, h.SetBudget(t.Context(), node, run.Amount{MicroUSD: 5_000_000, Tokens: 5_000_000}))
		}
		test(t, h)
		for _, request := range h.requests {
			paired(t, request)
		}
	})
}

// paired checks what every prompt keeps to: each call is followed at once by
// one reply under its own id, in the model's order, and no reply stands alone.
func paired(t *testing.T, request model.Request) {
	t.Helper()
	seen := map[string]bool{}
	var open []model.Call
	for _, message := range request.Messages {
		if message.Role == model.ToolReply {
			require.NotEmpty(t, open, "a reply to no call")
			require.Equal(t, open[0].ID, message.CallID)
			require.NotEmpty(t, message.Text)
			open = open[1:]
			continue
		}
		require.Empty(t, open, "a call without a reply")
		for _, call := range message.Calls {
			require.False(t, seen[call.ID], "two calls under the id %s", call.ID)
			seen[call.ID] = true
		}
		open = message.Calls
	}
	require.Empty(t, open, "a call without a reply")
}

// kit builds the organisation's kit with the tools of the house.
func (h *house) kit(o agents.Organisation) *perform.Kit {
	h.t.Helper()
	kit, err := perform.Builder{Egress: func(agents.Organisation) (*tool.Egress, error) { return nil, nil }, Memory: h.mind()}.Build(o)
	require.NoError(h.t, err)
	tools := tool.NewMemory(h.mind(), "olga", "carl", policy.ImpactUnset)
	for _, d := range o.Tools {
		if strings.HasPrefix(d.Name, "memory.") {
			continue
		}
		switch d.Name {
		case tool.AskName:
			tools = append(tools, tool.NewAsk("olga", "carl"))
			continue
		case results.Name:
			tools = append(tools, results.New(shelf{h}, "olga", "carl"))
			continue
		case tool.DelegateName:
			tools = append(tools, tool.NewDelegate("olga", "carl"))
			continue
		}
		tools = append(tools, memoryTool{definition: d, house: h, reply: `{"done":true}`})
	}
	kit.Box, err = tool.NewBox(tools...)
	require.NoError(h.t, err)
	serve := kit.Provider
	kit.Provider = func(name string) (model.Provider, bool) {
		provider, known := serve(name)
		return listening{provider, h}, known
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kits == nil {
		h.kits = map[string]*perform.Kit{}
	}
	h.kits[kit.Digest] = kit
	return kit
}

// mind is what the house remembers with.
func (h *house) mind() perform.Memory {
	if h.memory != nil {
		return h.memory
	}
	return h.brain
}

// listening keeps what the model was asked.
type listening struct {
	model.Provider
	house *house
}

func (l listening) Take(ctx context.Context, request model.Request, deltas func(string)) (model.Answer, error) {
	l.house.mu.Lock()
	l.house.requests = append(l.house.requests, request)
	l.house.mu.Unlock()
	if l.house.take != nil {
		return l.house.take(ctx, request, deltas)
	}
	answer, err := l.Provider.Take(ctx, request, deltas)
	if l.house.answer != nil {
		answer = l.house.answer(answer)
	}
	return answer, err
}

func (h *house) Current(context.Context, string) (*perform.Kit, error) { return h.admitted, nil }

// At is the configuration with a digest: the one in force for one that was never.
func (h *house) At(_ context.Context, _, digest string) (*perform.Kit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if kit, known := h.kits[digest]; known {
		return kit, nil
	}
	return h.admitted, nil
}

func (h *house) rules(context.Context, string) (run.Rules, error) { return h.admitted.Rules, nil }

func (h *house) admission() *perform.Admission {
	return perform.NewAdmission(h, h.engine, h, h.source)
}

func (h *house) person(id string) policy.Principal {
	who, _ := h.organisation.Principal(id)
	return who
}

// order asks for a run of the clerk for ada.
func (h *house) order(goal string) perform.Order {
	return perform.Order{Person: h.person("ada"), By: run.Identity{Principal: "ada"}, Agent: "clerk", Goal: goal}
}

func (h *house) start(goal string) string {
	h.t.Helper()
	admitted, err := h.admission().Start(h.t.Context(), h.order(goal))
	require.NoError(h.t, err)
	return admitted.Run
}

// mortal is a process that can die between any two steps.
type mortal struct {
	engine.RealWorld
	dead atomic.Bool
}

var errDead = errors.New("the process is dead")

// Await runs the operation unless the process is dead.
func (m *mortal) Await(ctx context.Context, _ string, operation func(context.Context) error) error {
	if m.dead.Load() {
		return errDead
	}
	return operation(ctx)
}

// work lets a worker do all that runs ask for until nothing moves any more.
func (h *house) work() {
	h.t.Helper()
	h.workIn(&mortal{})
}

// workIn lets the worker of one process do so.
func (h *house) workIn(world *mortal) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	worker := engine.NewWorker(engine.WorkerConfig{Name: "w", Journal: h, Claims: h, Rules: h.rules,
		Performer: perform.New(h, h.source, h.tree(), h.delta), World: world, Log: slog.New(slog.DiscardHandler)})
	world.Go(func() { _ = worker.Work(ctx) }) // always nil
	h.later(time.Minute)
	cancel()
	world.Close()
}

// tree reaches the runs of the house.
func (h *house) tree() perform.Tree {
	return struct {
		*journaltest.Memory
		*engine.Engine
	}{h.Memory, engine.New(h, h.rules)}
}

// later lets time pass.
func (h *house) later(long time.Duration) {
	<-time.After(long)
	synctest.Wait()
}

func (h *house) delta(d perform.Delta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deltas = append(h.deltas, d)
}

func (h *house) state(id string) *run.State {
	h.t.Helper()
	state, err := h.engine.State(h.t.Context(), id)
	require.NoError(h.t, err)
	return state
}

// text opens a text of a run.
func (h *house) text(ref *run.Text) string {
	h.t.Helper()
	require.NotNil(h.t, ref)
	texts, err := h.Payloads(h.t.Context(), []string{ref.ID})
	require.NoError(h.t, err)
	return string(texts[ref.ID].Bytes)
}

package invariant_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/invariant"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

const startMs = 1_000_000

var (
	masterKey  = []byte("0123456789abcdef0123456789abcdef")
	source     = engine.RandomSource{}
	olga       = policy.Principal{ID: "olga", Clearance: policy.NewLabels("finance"), Organisation: "o"}
	errNobody  = errors.New("not named")
	noArgument = run.CallInputs{Arguments: []byte("{}")}
)

// rules know tools by their effect class and hold the keyed one.
type rules struct{}

func (rules) Revision() string       { return "config" }
func (rules) PolicyRevision() string { return "policy" }

func (rules) Judge(request policy.Request) policy.Verdict {
	verdict := policy.Verdict{Answer: policy.Permit, Revision: "policy"}
	if request.Tool.Name == "keyed" {
		verdict.Answer, verdict.Quorum = policy.Hold, 1
		verdict.Approvers = []policy.Approver{{Principal: "olga", Why: "tool owner"}}
	}
	return verdict
}

func (rules) Tool(name string) (policy.ToolFacts, bool) {
	class := map[string]policy.EffectClass{"read": policy.ClassRead, "keyed": policy.Keyed, "opaque": policy.Opaque, "ask": policy.ClassRead, "hand": policy.ClassRead}[name]
	return policy.ToolFacts{Name: name, Revision: "r1", Owner: "olga", Impact: policy.Reversible, Class: class}, true
}

func (rules) Ceiling(acting run.Acting) policy.Authority {
	if acting.Under != nil {
		return *acting.Under
	}
	tools := map[string]policy.ToolGrant{}
	for _, name := range []string{"read", "keyed", "opaque", "ask", "hand"} {
		tools[name] = policy.ToolGrant{Revision: "r1", Impact: policy.Irreversible, Calls: 9}
	}
	return policy.Authority{Tools: tools, MicroUSD: 1000, Tokens: 1000, DeadlineMs: 1 << 50, Turns: 9, CallsAtOnce: 4,
		Depth: 1, FanOut: 4, RunsAtOnce: 4, Stage: policy.Automate}
}

func (rules) Voices(_ []policy.Approver, person policy.Principal, _ []string, _ int64) ([]string, error) {
	if person.ID != "olga" {
		return nil, errNobody
	}
	return []string{person.ID}, nil
}

// house is a store on a file with runs of every kind in it.
type house struct {
	t      *testing.T
	path   string
	store  *journal.Store
	engine *engine.Engine
	nowMs  int64
	turns  int // that a run may take
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, path: filepath.Join(t.TempDir(), "gantry.db"), nowMs: startMs, turns: 9}
	h.open()
	ctx := t.Context()
	require.NoError(t, h.store.ChangeOrganisation(ctx, journal.Change{Organisation: "o", Digest: "config", Body: []byte("{}")}))
	require.NoError(t, h.store.SetBudget(ctx, "department", run.Amount{MicroUSD: 100_000, Tokens: 100_000}))
	require.NoError(t, h.store.SetBudget(ctx, "idle", run.Amount{MicroUSD: 1}))
	title, payload := engine.Seal(source, "talk", "ada", policy.Marking{}, []byte("Talk"))
	require.NoError(t, h.store.CreateConversation(ctx, journal.Conversation{ID: "talk", Organisation: "o", Title: title, CreatedBy: "ada"}, payload, nil))
	said, payload := engine.Seal(source, "talk", "ada", policy.Marking{}, []byte("hello"))
	require.NoError(t, h.store.Say(ctx, engine.Entry{Organisation: "o", Conversation: "talk", Kind: "message", Author: "ada", Text: &said}, payload,
		engine.Receipt{Organisation: "o", Caller: "ada", Command: "say", Answer: []byte("{}")}))
	return h
}

func (h *house) open() {
	store, err := journal.Open(context.WithoutCancel(h.t.Context()), journal.Config{DSN: "sqlite:" + h.path, MasterKey: masterKey, Clock: func() int64 { return h.nowMs }})
	require.NoError(h.t, err)
	h.store = store
	h.engine = engine.New(store, func(context.Context, string) (run.Rules, error) { return rules{}, nil })
	h.t.Cleanup(func() { require.NoError(h.t, store.Close()) })
}

// fill starts one run for each thing that a run may wait for or come to.
func (h *house) fill() {
	h.finished("r-finished")
	h.calls("r-approval", "keyed")
	h.calls("r-question", "ask")
	h.calls("r-uncertain", "opaque")
	h.attempt("r-uncertain", run.OutcomeUnknown)
	h.calls("r-cancelled", "keyed", "opaque")
	h.attempt("r-cancelled", run.OutcomeUnknown)
	h.send("r-cancelled", run.Cancel{By: run.Identity{Principal: "ada"}})
	h.start("r-parked")
	h.send("r-parked", run.Park{Code: "TEST", Detail: "A test."})
	h.turns = 1
	h.calls("r-limit", "read")
	h.turns = 9
	h.attempt("r-limit", run.OutcomeOK)
	h.send("r-limit", run.BeginTurn{Model: "m", Reserve: run.Amount{MicroUSD: 10, Tokens: 10}})
}

func (h *house) send(id string, command run.Command, payloads ...engine.Payload) *run.State {
	h.nowMs++
	state, err := h.engine.Submit(h.t.Context(), engine.Submission{Organisation: "o", Run: id, Command: command, Payloads: payloads})
	require.NoError(h.t, err, "%T", command)
	return state
}

func (h *house) start(id string) {
	h.nowMs++
	authority := rules{}.Ceiling(run.Acting{})
	authority.Turns = h.turns
	goal, payload := engine.Seal(source, id, "ada", policy.Marking{Integrity: policy.Trusted}, []byte("goal"))
	_, err := h.engine.Submit(h.t.Context(), engine.Submission{Organisation: "o", Run: id, Payloads: []engine.Payload{payload},
		Receipt: &engine.Receipt{Organisation: "o", Caller: "ada", Command: "start " + id, Run: id, Answer: []byte("{}")},
		Command: run.Start{Started: run.Started{Organisation: "o", RunKind: run.Root, Root: id, Conversation: "talk",
			Subject: policy.Principal{ID: "ada", Organisation: "o"}, Chain: []string{"ada", "agent:a"},
			Agent: policy.AgentFacts{Name: "a", Department: "d", Owner: "olga"}, Contact: "olga", Goal: goal, Authority: authority,
			Limits: run.Limits{Turns: 9, CallsPerTurn: 8, CallsAtOnce: 8, TurnAttempts: 3, CallAttempts: 3, NoProgress: 9, RepairTurns: 2,
				CheckAttempts: 2, Steers: 4, ApprovalMs: 60_000, QuestionMs: 60_000, TurnMs: 60_000, OnLimit: run.AskOnLimit},
			Checks: []string{"output"}, Accounts: []string{"department"}}}})
	require.NoError(h.t, err)
}

// calls starts a run whose first turn proposes calls.
func (h *house) calls(id string, tools ...string) {
	h.start(id)
	h.send(id, run.BeginTurn{Model: "m", Reserve: run.Amount{MicroUSD: 10, Tokens: 10}})
	report := run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassCalls, Cost: run.Amount{MicroUSD: 7, Tokens: 5}}
	var payloads []engine.Payload
	for _, name := range tools {
		text, payload := engine.Seal(source, id, "ada", policy.Marking{Labels: policy.NewLabels("finance")}, []byte("{}"))
		facts, _ := rules{}.Tool(name)
		report.Calls = append(report.Calls, run.Proposal{Tool: name, Text: text, Fingerprint: text.ID, Revision: "r1", Impact: facts.Impact,
			Class: facts.Class, Asks: name == "ask", To: []policy.Approver{{Principal: "olga", Why: "asked"}}, CostBound: 3,
			Delegate: map[string]string{"hand": "b"}[name], Inputs: noArgument, Approval: source.ID(), Nonce: "n"})
		payloads = append(payloads, payload)
	}
	h.send(id, report, payloads...)
}

// attempt makes the attempts that a run asks for.
func (h *house) attempt(id string, outcome run.Outcome) {
	state, err := h.engine.State(h.t.Context(), id)
	require.NoError(h.t, err)
	for _, effect := range run.Pending(state, h.nowMs) {
		if dispatch, calls := effect.(run.DispatchCall); calls {
			h.send(id, run.BeginCall{Call: dispatch.Call, Inputs: noArgument, Key: id + effect.Key(), NotAfterMs: 1 << 50})
			h.send(id, run.ReportCall{Call: dispatch.Call, Intent: dispatch.Intent, Outcome: outcome, Cost: run.Amount{MicroUSD: 2}})
		}
	}
}

func (h *house) finished(id string) {
	h.calls(id, "read", "keyed")
	state, err := h.engine.State(h.t.Context(), id)
	require.NoError(h.t, err)
	h.send(id, run.DecideApproval{Approval: state.Approvals[0].Approval, Digest: state.Approvals[0].Digest, Granted: true,
		By: run.Identity{Principal: "olga"}, Person: olga})
	h.attempt(id, run.OutcomeOK)
	h.send(id, run.BeginTurn{Model: "m", Reserve: run.Amount{MicroUSD: 10, Tokens: 10}})
	text, payload := engine.Seal(source, id, "ada", policy.Marking{}, []byte("done"))
	h.send(id, run.ReportTurn{Turn: 2, Attempt: 1, Class: run.ClassText, Text: &text, Cost: run.Amount{MicroUSD: 4, Tokens: 4}}, payload)
	state = h.send(id, run.ReportChecks{Turn: 2, Checks: []run.CheckResult{{Name: "output", Verdict: run.CheckPassed}}})
	require.Equal(h.t, run.StatusCompleted, state.Status)
}

// damage changes the file behind the store's back.
func (h *house) damage(statement string) {
	require.NoError(h.t, h.store.Close())
	db, err := sql.Open("sqlite", h.path)
	require.NoError(h.t, err)
	require.NoError(h.t, journaltest.Alter(h.t.Context(), db, false, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(h.t.Context(), statement)
		if err != nil {
			return err
		}
		changed, err := result.RowsAffected()
		require.NotZero(h.t, changed, "the damage must hit something")
		return err
	}))
	require.NoError(h.t, db.Close())
	h.open()
}

// audit checks the whole store.
func (h *house) audit() (invariant.Report, []invariant.Violation) {
	snapshot, err := h.store.Snapshot(h.t.Context())
	require.NoError(h.t, err)
	defer func() { require.NoError(h.t, snapshot.Close()) }()
	var found []invariant.Violation
	report, err := invariant.NewAudit(snapshot, func(v invariant.Violation) error {
		found = append(found, v)
		return nil
	}).Store(h.t.Context())
	require.NoError(h.t, err)
	require.Len(h.t, found, report.Violations())
	return report, found
}

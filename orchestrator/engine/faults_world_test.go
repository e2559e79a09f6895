package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/invariant"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// lane is a world in which one thing happens at a time, in the same order every
// time: what would run beside the caller runs at once, and time passes only
// when all wait. So the n-th operation of the store is always the same one.
type lane struct {
	nowMs int64
	waits int
	idle  func() // when all wait
}

func (l *lane) NowMs() int64 { return l.nowMs }

func (l *lane) Await(ctx context.Context, _ string, operation func(context.Context) error) error {
	return operation(ctx)
}

func (l *lane) Go(task func()) { task() }

func (l *lane) Wait(ctx context.Context, box *engine.Mailbox, untilMs int64) {
	if ctx.Err() != nil || len(box.Signal()) > 0 {
		return
	}
	l.nowMs = max(l.nowMs, untilMs)
	l.waits++
	l.idle()
}

// port is everything that an engine and its workers need of a store.
type port interface {
	engine.Journal
	engine.Claims
}

// ordeal is one passage of two runs, from their starts to their ends, through a
// store that may fail. Its people repeat what was not answered under the same id.
type ordeal struct {
	*bench
	lane    *lane
	port    port
	engine  *engine.Engine
	store   *journal.Store
	stop    context.CancelFunc
	errands []*errand
	found   []string // what was broken
}

// errand is what a person does once a run has come so far.
type errand struct {
	name  string
	run   string
	ready func(*run.State) bool
	does  func(*run.State) (run.Command, []engine.Payload)
	sent  *engine.Submission // repeated as it is until it is answered
	done  bool
}

const (
	ordealStartMs = 1_000_000
	ordealWaits   = 500 // that no passage needs
	ordealPollMs  = 3_000
)

// newOrdeal makes ready a store with an organisation in it. Its port is what the
// runs work through; people look at the store itself.
func newOrdeal(t *testing.T, l *lane, store *journal.Store, through func(port) port) *ordeal {
	b := &bench{t: t, rules: &fixedRules{}, source: &counting{}, scripts: map[string][][]string{}, attempts: map[string]int{},
		effects: map[string]bool{}, sites: map[string]func(context.Context) error{}, passed: map[string]int{}, epochs: map[run.EventKind]uint64{},
		limits: run.Limits{Turns: 20, CallsPerTurn: 8, CallsAtOnce: 8, TurnAttempts: 9, CallAttempts: 9, NoProgress: 20, RepairTurns: 2,
			CheckAttempts: 9, Steers: 4, ApprovalMs: 1 << 40, QuestionMs: 1 << 40, TurnMs: 60_000, OnLimit: run.AskOnLimit}}
	o := &ordeal{bench: b, lane: l, store: store, port: through(store)}
	o.engine = engine.New(o.port, b.sourceOfRules)
	require.NoError(t, store.ChangeOrganisation(t.Context(), journal.Change{Organisation: "o", Digest: b.rules.Revision(), Body: []byte("{}")}))
	require.NoError(t, store.SetBudget(t.Context(), "department:o/d", run.Amount{MicroUSD: 1 << 40, Tokens: 1 << 40}))
	o.plan()
	l.idle = o.people
	return o
}

func (o *ordeal) plan() {
	o.scripts["r1"] = [][]string{{"read", "keyed"}, {"held.opaque"}, {"checkable"}}
	o.scripts["r2"] = [][]string{{"held"}}
	held := func(s *run.State) bool { return s.Status == run.StatusWaiting && len(s.Approvals) > 0 }
	o.errand("start", "r1", nil, o.starts("r1"))
	o.errand("start", "r2", nil, o.starts("r2"))
	o.errand("steer", "r1", held, func(*run.State) (run.Command, []engine.Payload) {
		text, payload := o.seal("r1", "rather this way")
		return run.Steer{Steer: text.ID, By: run.Identity{Principal: "ada"}, Text: text}, []engine.Payload{payload}
	})
	o.errand("approve", "r1", held, func(s *run.State) (run.Command, []engine.Payload) {
		last := s.Approvals[len(s.Approvals)-1]
		return run.DecideApproval{Approval: last.Approval, Digest: last.Digest, Granted: true, By: run.Identity{Principal: "olga"}, Person: person("olga")}, nil
	})
	o.errand("cancel", "r2", held, func(*run.State) (run.Command, []engine.Payload) {
		return run.Cancel{By: run.Identity{Principal: "ada"}}, nil
	})
}

func (o *ordeal) errand(name, id string, ready func(*run.State) bool, does func(*run.State) (run.Command, []engine.Payload)) {
	o.errands = append(o.errands, &errand{name: name, run: id, ready: ready, does: does})
}

func (o *ordeal) starts(id string) func(*run.State) (run.Command, []engine.Payload) {
	return func(*run.State) (run.Command, []engine.Payload) {
		goal, payload := o.seal(id, "the goal")
		started := run.Started{Organisation: "o", RunKind: run.Root, Root: id, Subject: person("ada"), Chain: []string{"ada", "agent:a"},
			Agent: policy.AgentFacts{Name: "a", Owner: "otto"}, Contact: "carl", Goal: goal, Authority: authority(), Checks: []string{"output"},
			Limits: o.limits, Accounts: []string{"department:o/d"}, Snapshot: run.Snapshot{Goal: goal.ID}}
		started.SnapshotDigest = started.Snapshot.Digest()
		return run.Start{Started: started}, []engine.Payload{payload}
	}
}

// people do what is theirs, in order, and then see whether all is over.
func (o *ordeal) people() {
	if o.lane.waits > ordealWaits {
		o.violate("it does not come to rest")
		o.stop()
		return
	}
	for _, e := range o.errands {
		if !e.done && !o.run(e) {
			return
		}
	}
	if o.over() {
		o.stop()
	}
}

// run does an errand when it is time, and reports whether it is done.
func (o *ordeal) run(e *errand) bool {
	if e.sent == nil {
		var state *run.State
		if e.ready != nil {
			var err error
			if state, err = o.engine.State(o.t.Context(), e.run); err != nil || !e.ready(state) {
				return false
			}
		}
		command, payloads := e.does(state)
		e.sent = &engine.Submission{Organisation: "o", Run: e.run, Command: command, Payloads: payloads,
			Receipt: &engine.Receipt{Organisation: "o", Caller: "ada", Command: e.name + " " + e.run, Run: e.run, Answer: []byte("{}")}}
	}
	_, err := o.engine.Submit(o.t.Context(), *e.sent)
	if refused(err) {
		o.violate("%s of %s was refused: %v", e.name, e.run, err)
	}
	e.done = err == nil || errors.Is(err, engine.ErrReplayed)
	return e.done
}

func refused(err error) bool {
	var refusal *run.Refusal
	return errors.As(err, &refusal)
}

// over reports whether both runs have ended. On the way people look into what
// became of calls whose outcome is not known.
func (o *ordeal) over() bool {
	over := true
	for id := range o.scripts {
		state, err := o.engine.State(o.t.Context(), id)
		if err != nil {
			return false
		}
		for i := range state.Calls {
			if call := &state.Calls[i]; call.Phase == run.CallUncertainOpen && call.AskPerson {
				o.resolve(id, call)
			}
		}
		if state.Status == run.StatusParked {
			o.resume(id)
		}
		over = over && state.Ended != nil
	}
	return over
}

func (o *ordeal) resolve(id string, call *run.Call) {
	text, payload := o.seal(id, "seen outside")
	resolution := run.NotHappened
	if o.happened(call.Key) {
		resolution = run.Happened
	}
	_, _ = o.engine.Submit(o.t.Context(), engine.Submission{Organisation: "o", Run: id, Payloads: []engine.Payload{payload}, // asked again while it is open
		Command: run.ResolveUncertain{Call: call.CallProposed.Call, By: run.Identity{Principal: "carl"}, Person: person("carl"), Resolution: resolution, Evidence: text}})
}

func (o *ordeal) resume(id string) {
	_, _ = o.engine.Submit(o.t.Context(), engine.Submission{Organisation: "o", Run: id, // asked again while it is parked
		Command: run.Resume{By: run.Identity{Principal: "carl"}, Person: person("carl")}})
}

func (o *ordeal) violate(format string, args ...any) {
	o.found = append(o.found, fmt.Sprintf(format, args...))
}

// endure lets a worker take the runs to their ends.
func (o *ordeal) endure() {
	ctx, stop := context.WithCancel(o.t.Context())
	defer stop()
	o.stop = stop
	o.at("begin call/1/1", func(context.Context) error { o.lane.nowMs += leaseMs / 2; return nil }) // so long that the lease is renewed
	worker := engine.NewWorker(engine.WorkerConfig{Name: "w1", Journal: o.port, Claims: o.port, Rules: o.sourceOfRules, Performer: performer{o.bench},
		World: o.lane, Log: slog.New(slog.DiscardHandler), LeaseMs: leaseMs, PollMs: ordealPollMs})
	_ = worker.Work(ctx) // always nil
}

// judge says what is broken once all is over, with the outside's own book.
func (o *ordeal) judge() []string {
	for id, status := range map[string]run.Status{"r1": run.StatusCompleted, "r2": run.StatusCancelled} {
		head, records, err := o.store.Load(o.t.Context(), id, 0)
		state := &run.State{ID: id}
		if err = errors.Join(err, run.Replay(state, records)); err != nil {
			o.violate("%s: %v", id, err)
			continue
		}
		if state.Status != status || head.Status != status {
			o.violate("%s ended as %s, its row says %s", id, state.Status, head.Status)
		}
		if state.Budget.Reserved != (run.Amount{}) {
			o.violate("%s holds %+v back", id, state.Budget.Reserved)
		}
		o.judgeCalls(state)
		o.judgeCount(id, records)
	}
	for _, who := range []string{"olga", "carl", "otto"} {
		if items, err := o.store.Inbox(o.t.Context(), person(who)); err != nil || len(items) > 0 {
			o.violate("the inbox of %s holds %v %v", who, items, err)
		}
	}
	o.audit()
	return o.found
}

func (o *ordeal) judgeCalls(state *run.State) {
	if state.ID == "r1" && len(state.Calls) != 4 {
		o.violate("r1 made %d calls", len(state.Calls))
	}
	for i := range state.Calls {
		call := &state.Calls[i]
		key := fmt.Sprint(state.ID, "/", call.CallProposed.Call)
		begun, happened := o.attempted(key), o.happened(key)
		once := call.Class == policy.Checkable || call.Class == policy.Opaque
		switch {
		case happened != (call.Outcome == run.OutcomeOK):
			o.violate("%s is recorded as %s, outside it happened: %t", key, call.Outcome, happened)
		case once && begun > 1:
			o.violate("%s, which is %s, was attempted %d times", key, call.Class, begun)
		case begun > call.Intent:
			o.violate("%s was attempted %d times with %d intents", key, begun, call.Intent)
		}
	}
}

// judgeCount sees to it that what people did counted once.
func (o *ordeal) judgeCount(id string, records []run.Record) {
	counts := map[run.EventKind]int{}
	for _, record := range records {
		counts[record.Kind]++
	}
	want := map[run.EventKind]int{run.KindStarted: 1, run.KindEnded: 1}
	if id == "r1" {
		want[run.KindSteerAccepted], want[run.KindApprovalDecided] = 1, 1
	} else {
		want[run.KindCancelAccepted], want[run.KindCallIntended] = 1, 0
	}
	for kind, n := range want {
		if counts[kind] != n {
			o.violate("%s has %d × %s", id, counts[kind], kind)
		}
	}
}

func (o *ordeal) audit() {
	snapshot, err := o.store.Snapshot(o.t.Context())
	require.NoError(o.t, err)
	defer func() { require.NoError(o.t, snapshot.Close()) }()
	_, err = invariant.NewAudit(snapshot, func(v invariant.Violation) error { o.violate("%v", v); return nil }).Store(o.t.Context())
	require.NoError(o.t, err)
}

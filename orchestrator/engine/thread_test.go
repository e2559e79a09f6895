package engine_test

import (
	"errors"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// thread is one run of the bench.
type thread struct {
	*bench
	id string
}

// start admits a run whose model proposes these tools, turn by turn, and then
// answers with text.
func (b *bench) start(id string, script ...[]string) *thread {
	b.t.Helper()
	b.mu.Lock()
	b.scripts[id] = script
	b.mu.Unlock()
	goal, payload := b.seal(id, "the goal")
	started := run.Started{Organisation: "o", RunKind: run.Root, Root: id, Subject: person("ada"), Chain: []string{"ada", "agent:a"},
		Agent: policy.AgentFacts{Name: "a", Owner: "otto"}, Contact: "carl", Goal: goal, Authority: authority(), Checks: []string{"output"},
		Limits: b.limits, Accounts: []string{"department:o/d"}, Snapshot: run.Snapshot{Goal: goal.ID}}
	started.SnapshotDigest = started.Snapshot.Digest()
	_, err := b.engine.Submit(b.t.Context(), engine.Submission{Organisation: "o", Run: id, Command: run.Start{Started: started}, Payloads: []engine.Payload{payload}})
	require.NoError(b.t, err)
	b.ring(id)
	return &thread{bench: b, id: id}
}

// submit takes a command from outside to the run, and tells the workers.
func (r *thread) submit(command run.Command, payloads ...engine.Payload) error {
	_, err := r.engine.Submit(r.t.Context(), engine.Submission{Organisation: "o", Run: r.id, Command: command, Payloads: payloads})
	r.ring(r.id)
	return err
}

func (r *thread) do(command run.Command, payloads ...engine.Payload) {
	r.t.Helper()
	require.NoError(r.t, r.submit(command, payloads...))
}

// code is why a command was refused, "" when it was accepted.
func (r *thread) code(err error) string {
	r.t.Helper()
	var refusal *run.Refusal
	if err == nil {
		return ""
	}
	require.True(r.t, errors.As(err, &refusal), "%v", err)
	return refusal.Code
}

func (r *thread) state() *run.State {
	r.t.Helper()
	state, err := r.engine.State(r.t.Context(), r.id)
	require.NoError(r.t, err)
	return state
}

func (r *thread) status() run.Status { return r.state().Status }

func (r *thread) head() run.Head {
	r.t.Helper()
	head, _, err := r.Load(r.t.Context(), r.id, 0)
	require.NoError(r.t, err)
	return head
}

func (r *thread) ends(status run.Status) *run.State {
	r.t.Helper()
	r.until("the end", func() bool { return r.status().Ended() })
	state := r.state()
	require.Equal(r.t, status, state.Status)
	return state
}

// events lists the kinds of event that were recorded, in order.
func (r *thread) events() []run.EventKind {
	r.t.Helper()
	_, records, err := r.Load(r.t.Context(), r.id, 0)
	require.NoError(r.t, err)
	kinds := make([]run.EventKind, len(records))
	for i, record := range records {
		kinds[i] = record.Kind
	}
	return kinds
}

func (r *thread) recorded(kind run.EventKind) int {
	r.t.Helper()
	n := 0
	for _, k := range r.events() {
		if k == kind {
			n++
		}
	}
	return n
}

// waits lets time pass until the run waits for people.
func (r *thread) waits() *run.State {
	r.t.Helper()
	r.until("waiting", func() bool { return r.status() == run.StatusWaiting && r.head().Owner == "" })
	return r.state()
}

// decision is a person's word on the run's last approval.
func (r *thread) decision(by string, granted bool) run.DecideApproval {
	approvals := r.state().Approvals
	last := approvals[len(approvals)-1]
	return run.DecideApproval{Approval: last.Approval, Digest: last.Digest, Granted: granted, By: run.Identity{Principal: by}, Person: person(by)}
}

func (r *thread) cancel() error { return r.submit(run.Cancel{By: run.Identity{Principal: "ada"}}) }

// finding is a person's finding on an uncertain call.
func (r *thread) finding(by string, call int, resolution run.Resolution) error {
	text, payload := r.seal(r.id, "seen outside")
	return r.submit(run.ResolveUncertain{Call: call, By: run.Identity{Principal: by}, Person: person(by), Resolution: resolution, Evidence: text}, payload)
}

// inbox lists the kinds of what waits for a person.
func (b *bench) inbox(who string) []engine.InboxKind {
	b.t.Helper()
	items, err := b.Inbox(b.t.Context(), person(who))
	require.NoError(b.t, err)
	var kinds []engine.InboxKind
	for _, item := range items {
		kinds = append(kinds, item.Kind)
	}
	return kinds
}

// sound checks what holds of every run at any time.
func (b *bench) sound(id string) {
	b.t.Helper()
	r := &thread{bench: b, id: id}
	state := r.state() // the chain verifies and every record follows the rules
	require.LessOrEqual(b.t, r.recorded(run.KindEnded), 1, "one terminal event")
	cancelled := false
	for _, kind := range r.events() {
		cancelled = cancelled || kind == run.KindCancelAccepted
		if cancelled {
			require.NotContains(b.t, []run.EventKind{run.KindTurnStarted, run.KindCallIntended}, kind, "no intent after cancel")
		}
	}
	for i := range state.Calls {
		call := &state.Calls[i]
		begun := b.attempted(call.Key)
		require.LessOrEqual(b.t, begun, call.Intent, "no attempt without an intent")
		if call.Class == policy.Checkable || call.Class == policy.Opaque {
			require.LessOrEqual(b.t, begun, 1+call.Repeats, "one attempt")
		}
		if state.Ended != nil {
			require.Equal(b.t, run.CallDone, call.Phase)
		}
	}
	if state.Ended != nil {
		require.Zero(b.t, state.Budget.Reserved)
	}
}

package invariant_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/invariant"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// decided is the write of a command to a run, as an owner makes it.
func (h *house) decided(state *run.State, command run.Command) engine.Write {
	h.t.Helper()
	h.nowMs++
	write := engine.Write{From: state.Version}
	decision, refusal := run.Decide(state, command, run.Env{NowMs: h.nowMs, Rules: rules{}})
	require.Nil(h.t, refusal)
	last := run.Record{Run: state.ID, Seq: state.Version, Digest: state.Head}
	for _, event := range decision.Events {
		record, err := run.Encode(state.ID, last, h.nowMs, event)
		require.NoError(h.t, err)
		require.NoError(h.t, run.Replay(state, []run.Record{record}))
		last, write.Records = record, append(write.Records, record)
	}
	started := state.Started
	write.Guards, write.Gates, write.Budget = decision.Guards, decision.Gates, decision.Budget
	write.Head = run.Head{Run: state.ID, Version: state.Version, Digest: state.Head, Status: state.Status, DueMs: run.DueMs(state, h.nowMs),
		Organisation: "o", Root: started.Root, Parent: started.Parent, Conversation: started.Conversation, Subject: started.Subject.ID,
		Agent: started.Agent.Name, Department: started.Payer(), Labels: state.Marking.Labels}
	return write
}

// family starts a run with two children, one of which ends and is folded, and
// another one whose end its parent has not heard of.
func (h *house) family(id string) (first, second string) {
	h.calls(id, "hand", "hand")
	parent, err := h.engine.State(h.t.Context(), id)
	require.NoError(h.t, err)
	first, second = run.ChildOfCall(id, 1), run.ChildOfCall(id, 2)
	h.born(parent, 1)
	h.born(parent, 2)
	h.ends(parent, first)
	end, err := h.engine.State(h.t.Context(), first)
	require.NoError(h.t, err)
	fold := h.decided(parent, run.ReportChildren{Ends: []run.ChildEnd{{ChildEnded: run.ChildEnded{Child: first, Status: end.Status,
		Reason: end.Ended.Reason, Settled: end.Ended.Settled, Unknown: end.Ended.Unknown, Head: end.Head}}}})
	fold.Heard = 1
	require.NoError(h.t, h.store.Append(h.t.Context(), fold))
	h.ends(parent, second)
	return first, second
}

func (h *house) born(parent *run.State, call int) {
	h.t.Helper()
	id := run.ChildOfCall(parent.ID, call)
	goal, payload := engine.Seal(source, id, "ada", policy.Marking{Integrity: policy.Trusted}, []byte("part"))
	authority := rules{}.Ceiling(run.Acting{})
	authority.MicroUSD, authority.Tokens, authority.Depth, authority.FanOut, authority.RunsAtOnce = 100, 100, 0, 0, 0
	started := run.Started{Organisation: "o", RunKind: run.SubAgent, Root: parent.ID, Parent: parent.ID, Conversation: "talk",
		Subject: parent.Started.Subject, Chain: append(append([]string{}, parent.Started.Chain...), "agent:b"),
		Agent: policy.AgentFacts{Name: "b", Department: "another", Owner: "olga"}, Contact: "olga", Goal: goal, Authority: authority,
		Limits: parent.Started.Limits, Task: &run.Task{Call: call, Lands: run.LandsAsResult, ResultBytes: 100}, Borrower: "d",
		Lineage: []run.Link{{Run: parent.ID, Agent: "a"}}}
	started.Limits.OnLimit = run.FailOnLimit
	birth := h.decided(&run.State{ID: id}, run.Start{Started: started})
	birth.Payloads = []engine.Payload{payload}
	write := h.decided(parent, run.BeginCall{Call: call, Inputs: noArgument, Key: id, NotAfterMs: 1 << 50, Child: &run.Spawn{Child: id, RunKind: run.SubAgent,
		Agent: "b", Authority: authority, Carve: run.Amount{MicroUSD: 100, Tokens: 100}}})
	write.Births = []*engine.Write{&birth}
	require.NoError(h.t, h.store.Append(h.t.Context(), write))
}

// ends cancels a child, which is one way to end.
func (h *house) ends(parent *run.State, child string) {
	h.t.Helper()
	h.nowMs += 5
	_, err := h.engine.Submit(h.t.Context(), engine.Submission{Organisation: "o", Run: child, Command: run.Cancel{By: run.Identity{Principal: "ada"}}})
	require.NoError(h.t, err)
	head, _, err := h.store.Load(h.t.Context(), parent.ID, 0)
	require.NoError(h.t, err)
	require.Greater(h.t, head.News, head.Heard)
}

func TestATreeOfRunsIsSound(t *testing.T) {
	h := newHouse(t)
	h.fill()
	h.family("r-parent")
	report, found := h.audit()
	require.Empty(t, found)
	require.Contains(t, strings.Join(report.Lines(), "\n"), "trees: 2 children are as their parents say")
}

// Each damage to a sound tree is found by its code, at the run that it is of.
func TestPlantedDamageToATreeIsFound(t *testing.T) {
	const parent = "r-parent"
	first, second := run.ChildOfCall(parent, 1), run.ChildOfCall(parent, 2)
	chain := func(id string) string {
		return "DELETE FROM journal WHERE run = '" + id + "'; DELETE FROM payloads WHERE run = '" + id + "'; DELETE FROM heads WHERE run = '" + id + "'"
	}
	for name, test := range map[string]struct {
		code  invariant.Code
		run   string
		spoil string
	}{
		"a child is gone":               {invariant.ChildMissing, first, chain(first)},
		"a parent is gone":              {invariant.ChildMissing, second, chain(parent)},
		"nobody tells of an end":        {invariant.ChildForgotten, parent, "UPDATE heads SET heard = news WHERE run = '" + parent + "'"},
		"more was heard than was told":  {invariant.NewsWrong, parent, "UPDATE heads SET heard = 9 WHERE run = '" + parent + "'"},
		"news, and it is not due":       {invariant.HeadWrong, parent, "UPDATE heads SET due_ms = 0 WHERE run = '" + parent + "'"},
		"a child is billed elsewhere":   {invariant.HeadWrong, first, "UPDATE heads SET department = 'another' WHERE run = '" + first + "'"},
		"the gate of a child opens":     {invariant.GateWrong, first, "DELETE FROM gates WHERE name = 'root:" + first + "'"},
		"a child has ended, not at all": {invariant.ChildWrong, first, "UPDATE heads SET ended_ms = 0 WHERE run = '" + first + "'"},
		"the end is another one":        {invariant.ChildWrong, first, "UPDATE journal SET digest = 'x' WHERE run = '" + first + "' AND kind = 'ended'"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.family(parent)
			h.damage(test.spoil)
			_, found := h.audit()
			require.True(t, has(found, test.code, test.run), "%v", found)
		})
	}
}

// What a parent says of how its child began is held against the child.
func TestEdgesThatDifferAreFound(t *testing.T) {
	parent := &run.State{ID: "p", Started: run.Started{Root: "p"}}
	edge := run.ChildStarted{Child: "c", Call: 1, Agent: "b", Snapshot: "s", Carve: run.Amount{MicroUSD: 5, Tokens: 5}}
	sound := run.Started{Root: "p", Parent: "p", SnapshotDigest: "s", Agent: policy.AgentFacts{Name: "b"},
		Authority: policy.Authority{MicroUSD: 5, Tokens: 5}, Task: &run.Task{Call: 1, Lands: run.LandsAsResult}}
	require.Empty(t, invariant.CheckChild(run.Child{ChildStarted: edge}, parent, sound, nil))
	for name, spoil := range map[string]func(*run.Started){
		"another parent":  func(s *run.Started) { s.Parent = "q" },
		"another root":    func(s *run.Started) { s.Root = "q" },
		"another call":    func(s *run.Started) { s.Task = &run.Task{Call: 2, Lands: run.LandsAsResult} },
		"nobody waits":    func(s *run.Started) { s.Task = &run.Task{Call: 1, Lands: run.LandsAsSteer} },
		"no task":         func(s *run.Started) { s.Task = nil },
		"more money":      func(s *run.Started) { s.Authority.MicroUSD = 6 },
		"its own account": func(s *run.Started) { s.Accounts = []string{"department"} },
		"other inputs":    func(s *run.Started) { s.SnapshotDigest = "t" },
		"another grant":   func(s *run.Started) { s.Grant = "g" },
	} {
		spoiled := sound
		spoil(&spoiled)
		found := invariant.CheckChild(run.Child{ChildStarted: edge}, parent, spoiled, nil)
		require.True(t, has(found, invariant.ChildWrong, "c"), name)
	}
	told := run.Child{ChildStarted: edge, Ended: &run.ChildEnded{Child: "c", Head: "x"}}
	require.True(t, has(invariant.CheckChild(told, parent, sound, nil), invariant.ChildWrong, "c"))
}

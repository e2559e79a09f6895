package run_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// world decides commands against one run and folds what they give.
type world struct {
	t     testing.TB
	s     *run.State
	nowMs int64
	rules *fixedRules
	last  run.Record
	kept  []run.Record
}

// fixedRules hold every tool named "held" for olga, and permit the rest.
type fixedRules struct {
	policy, tool string
	revoked      bool              // the agent may do nothing with "held" any more
	retired      string            // person who may not decide any more
	withdrawn    bool              // an agent of the line may not act any more
	forbids      string            // tool that policy forbids
	given        *policy.Authority // the agent's own, where it is not the usual one
	lent         bool              // a grant gives the run the tool "wanted"

	quarantined bool     // tools are kept back
	replaces    []string // revisions that "tool" stands in the place of
}

func (r *fixedRules) Revision() string       { return "config" + r.policy + r.tool }
func (r *fixedRules) PolicyRevision() string { return r.policy }
func (r *fixedRules) Judge(q policy.Request) policy.Verdict {
	if q.Tool.Name == "held" || q.Tool.Name == "delegate-held" {
		return policy.Verdict{Answer: policy.Hold, Revision: r.policy, Quorum: 1, Approvers: []policy.Approver{{Principal: "olga", Why: "tool owner"}}}
	}
	if q.Tool.Name == r.forbids {
		return policy.Verdict{Answer: policy.Forbid, Revision: r.policy}
	}
	return policy.Verdict{Answer: policy.Permit, Revision: r.policy}
}
func (r *fixedRules) Tool(name string) (policy.ToolFacts, bool) {
	facts := policy.ToolFacts{Name: name, Revision: r.tool, Owner: "olga", Impact: policy.ImpactRead, Class: policy.ClassRead}
	if name == "held" {
		facts.Impact, facts.Class = policy.Reversible, policy.Keyed
	}
	facts.Quarantined, facts.Replaces = r.quarantined, r.replaces
	switch name {
	case "opaque":
		facts.Impact, facts.Class = policy.Irreversible, policy.Opaque
	case "checkable":
		facts.Impact, facts.Class = policy.Irreversible, policy.Checkable
	}
	return facts, name != "unknown"
}
func (r *fixedRules) Ceiling(acting run.Acting) policy.Authority {
	ceiling := authority(r.tool)
	if r.given != nil {
		ceiling = *r.given
	}
	ceiling.DeadlineMs = math.MaxInt64 // the run keeps its own
	if r.revoked {
		delete(ceiling.Tools, "held")
	}
	switch {
	case r.withdrawn:
		return policy.Authority{}
	case acting.Under != nil:
		return policy.Meet(*acting.Under, ceiling)
	case r.lent && acting.Links[len(acting.Links)-1].Run == "r1":
		return policy.Widen(ceiling, want(r.tool).Gives)
	}
	return ceiling
}
func (r *fixedRules) Voices(approvers []policy.Approver, person policy.Principal, chain []string, _ int64) ([]string, error) {
	for _, a := range approvers {
		if a.Principal == person.ID && person.ID != chain[0] && person.ID != r.retired {
			return []string{person.ID}, nil
		}
	}
	return nil, fmt.Errorf("%s may not", person.ID)
}

func authority(revision string) policy.Authority {
	grant := func(impact policy.Impact) policy.ToolGrant {
		return policy.ToolGrant{Revision: revision, Impact: impact, Calls: 100}
	}
	return policy.Authority{Tools: map[string]policy.ToolGrant{"held": grant(policy.Reversible), "free": grant(policy.ImpactRead),
		"opaque": grant(policy.Irreversible), "checkable": grant(policy.Irreversible),
		"request": grant(policy.ImpactRead), "delegate": grant(policy.ImpactRead), "delegate-held": grant(policy.ImpactRead)},
		MicroUSD: 1000, Tokens: 1000, DeadlineMs: 1_000_000, Turns: 10, Depth: 2, FanOut: 4, RunsAtOnce: 3, CallsAtOnce: 8, Stage: policy.Automate}
}

func begin(t testing.TB) *world {
	w := &world{t: t, s: &run.State{ID: "r1"}, nowMs: 1000, rules: &fixedRules{policy: "p1", tool: "t1"}}
	started := run.Started{Organisation: "o", RunKind: run.Root, Root: "r1", Subject: policy.Principal{ID: "ada", Organisation: "o"},
		Chain: []string{"ada", "agent:a"}, Agent: policy.AgentFacts{Name: "a", Owner: "olga"}, Contact: "olga", Goal: run.Text{ID: "goal"},
		Authority: authority("t1"), Checks: []string{"output"},
		Limits: run.Limits{Turns: 10, CallsPerTurn: 8, CallsAtOnce: 8, TurnAttempts: 3, CallAttempts: 3, NoProgress: 3, RepairTurns: 2,
			CheckAttempts: 2, Steers: 4, ApprovalMs: 5000, QuestionMs: 5000, TurnMs: 1000, OnLimit: run.AskOnLimit}}
	started.SnapshotDigest = started.Snapshot.Digest()
	w.do(run.Start{Started: started})
	return w
}

// restart begins the run again as it is told.
func (w *world) restart(started run.Started) run.Decision {
	w.t.Helper()
	w.s, w.last, w.kept = &run.State{ID: w.s.ID}, run.Record{}, nil
	return w.do(run.Start{Started: started})
}

// under begins the run again as a child of another one.
func (w *world) under() run.Decision {
	w.t.Helper()
	return w.restart(below(w.s.Started))
}

func (w *world) try(command run.Command) (run.Decision, *run.Refusal) {
	decision, refusal := run.Decide(w.s, command, run.Env{NowMs: w.nowMs, Rules: w.rules})
	for _, event := range decision.Events {
		record, err := run.Encode(w.s.ID, w.last, w.nowMs, event)
		require.NoError(w.t, err)
		require.NoError(w.t, run.Replay(w.s, []run.Record{record}))
		w.last, w.kept = record, append(w.kept, record)
	}
	return decision, refusal
}

func (w *world) do(command run.Command) run.Decision {
	w.t.Helper()
	decision, refusal := w.try(command)
	require.Nil(w.t, refusal)
	return decision
}

func (w *world) refused(code string, command run.Command) {
	w.t.Helper()
	before := w.s.Version
	_, refusal := w.try(command)
	require.NotNil(w.t, refusal)
	require.Equal(w.t, code, refusal.Code)
	require.Equal(w.t, before, w.s.Version, "a refusal changes nothing")
}

// turn takes a turn in which the model proposes calls of the tools.
func (w *world) turn(tools ...string) {
	w.t.Helper()
	w.do(run.BeginTurn{Epoch: 1, Model: "m", Reserve: run.Amount{MicroUSD: 1, Tokens: 1}})
	turn := w.s.LastTurn()
	report := run.ReportTurn{Turn: turn.Number, Attempt: turn.Attempt, Class: run.ClassText}
	for i, name := range tools {
		report.Class = run.ClassCalls
		facts, _ := w.rules.Tool(name)
		id := fmt.Sprintf("%s-%d-%d", name, turn.Number, i)
		asked, of := wantOf(name, w.rules.tool)
		report.Calls = append(report.Calls, run.Proposal{Want: asked, To: of, Requests: name == "request", Tool: name, Text: run.Text{ID: id, Commitment: id}, Fingerprint: name, Revision: facts.Revision,
			Impact: facts.Impact, Class: facts.Class, Delegate: delegateOf(name), Approval: "ap-" + id, Nonce: id, Inputs: run.CallInputs{Arguments: []byte("{}")}})
	}
	w.do(report)
}

func (w *world) decide(approval string, granted bool) run.DecideApproval {
	return run.DecideApproval{Approval: approval, Digest: w.s.Approval(approval).Digest, Granted: granted,
		By: run.Identity{Principal: "olga"}, Person: policy.Principal{ID: "olga", Kind: policy.Person}}
}

// attempt begins a call and reports that it went well.
func (w *world) attempt(call int) {
	w.t.Helper()
	w.do(run.BeginCall{Epoch: 1, Call: call, Key: fmt.Sprint(call), Inputs: run.CallInputs{Arguments: []byte("{}")}})
	require.Equal(w.t, run.CallInFlight, w.s.Call(call).Phase)
	w.do(run.ReportCall{Call: call, Intent: w.s.Call(call).Intent, Outcome: run.OutcomeOK, Result: &run.Text{ID: fmt.Sprint("result", call)}, Fingerprint: fmt.Sprint(call)})
}

func (w *world) pending() []run.Effect { return run.Pending(w.s, w.nowMs) }

func (w *world) outcomes() []run.Outcome {
	var list []run.Outcome
	for i := range w.s.Calls {
		list = append(list, w.s.Calls[i].Outcome)
	}
	return list
}

func TestRunEndsWhenItsChecksPass(t *testing.T) {
	w := begin(t)
	w.turn("free")
	w.attempt(1)
	w.turn()
	w.do(run.ReportChecks{Turn: 2, Checks: []run.CheckResult{{Name: "output", Verdict: run.CheckPassed}}})
	require.Equal(t, run.StatusCompleted, w.s.Status)
	require.Zero(t, w.s.Budget.Reserved)
}

func TestCase_01_ThreeHeldCallsAreDecidedInAnyOrder(t *testing.T) {
	w := begin(t)
	w.turn("held", "held", "held")
	ids := map[string]bool{}
	for _, approval := range w.s.Approvals {
		ids[approval.Approval] = true
	}
	require.Len(t, ids, 3)
	w.do(w.decide("ap-held-1-2", true))
	require.Equal(t, []run.Effect{run.DispatchCall{Call: 3, Intent: 1}}, run.Pending(w.s, w.nowMs))
	w.attempt(3)
	w.do(w.decide("ap-held-1-0", false))
	require.Equal(t, []run.Outcome{run.OutcomeDenied, "", run.OutcomeOK}, w.outcomes())
	require.Empty(t, run.Pending(w.s, w.nowMs), "the second call still waits")
	w.do(w.decide("ap-held-1-1", true))
	w.attempt(2)
	require.Equal(t, []run.Effect{run.TakeTurn{Turn: 2, Attempt: 1}}, run.Pending(w.s, w.nowMs))
}

func TestCase_03_FreeCallsRunBesideAHeldOne(t *testing.T) {
	w := begin(t)
	w.turn("free", "held", "free")
	require.Len(t, run.Pending(w.s, w.nowMs), 2)
	w.attempt(3)
	w.attempt(1)
	require.Equal(t, run.StatusWaiting, w.s.Status)
	w.do(w.decide("ap-held-1-1", true))
	w.attempt(2)
	require.Equal(t, []run.Outcome{run.OutcomeOK, run.OutcomeOK, run.OutcomeOK}, w.outcomes())
}

func TestCase_05_AnApprovalIsSpentOnce(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	w.attempt(1)
	require.Equal(t, run.ApprovalSpent, w.s.Approval("ap-held-1-0").Status)
	w.refused("NOT_DUE", run.BeginCall{Epoch: 1, Call: 1, Inputs: run.CallInputs{Arguments: []byte("{}")}})
	w.turn("held")
	require.Equal(t, run.CallHeld, w.s.Call(2).Phase, "the same arguments need another approval")
}

func TestCase_09_AChangedToolOrDigestVoids(t *testing.T) {
	w := begin(t)
	w.turn("held")
	wrong := w.decide("ap-held-1-0", true)
	wrong.Digest = "another"
	w.refused("DIGEST_MISMATCH", wrong)
	w.do(w.decide("ap-held-1-0", true))
	w.rules.tool = "t2"
	w.do(run.BeginCall{Epoch: 1, Call: 1, Inputs: run.CallInputs{Arguments: []byte("{}")}})
	require.Equal(t, run.ApprovalVoid, w.s.Approval("ap-held-1-0").Status)
	require.Zero(t, w.s.Call(1).Intent)
}

func TestCase_11_CancelVoidsWhatIsOpen(t *testing.T) {
	w := begin(t)
	w.turn("held", "held")
	decision := w.do(run.Cancel{By: run.Identity{Principal: "ada"}})
	require.Equal(t, []run.GateChange{{Gate: run.RootGate("r1"), Value: run.GateClosed}}, decision.Gates)
	require.Equal(t, run.StatusCancelled, w.s.Status)
	require.Equal(t, []run.Outcome{run.OutcomeVoid, run.OutcomeVoid}, w.outcomes())
	require.Equal(t, run.ApprovalVoid, w.s.Approvals[0].Status)
}

func TestCase_20_CancelWaitsForWhatIsInFlight(t *testing.T) {
	w := begin(t)
	w.turn("free", "held", "free")
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: run.CallInputs{Arguments: []byte("{}")}})
	w.do(run.Cancel{By: run.Identity{Principal: "ada"}})
	require.Equal(t, run.StatusCancelling, w.s.Status)
	w.refused("NOT_DUE", run.BeginCall{Epoch: 1, Call: 3, Inputs: run.CallInputs{Arguments: []byte("{}")}})
	w.do(run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeOK})
	require.Equal(t, run.StatusCancelled, w.s.Status)
	require.Equal(t, []run.Outcome{run.OutcomeOK, run.OutcomeVoid, run.OutcomeVoid}, w.outcomes())
}

func TestCase_30_ASteerDuringTheLastTurnForcesAnother(t *testing.T) {
	w := begin(t)
	w.do(run.BeginTurn{Epoch: 1, Model: "m"})
	w.do(run.Steer{Steer: "s1", By: run.Identity{Principal: "ada"}, Text: run.Text{ID: "s1"}})
	w.do(run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassText})
	require.Equal(t, []run.Effect{run.TakeTurn{Turn: 2, Attempt: 1}}, run.Pending(w.s, w.nowMs))
	require.Empty(t, w.s.Steers[0].Disposition, "no turn contained it yet")
	w.do(run.BeginTurn{Epoch: 1, Model: "m", Steers: []string{"s1"}})
	w.do(run.ReportTurn{Turn: 2, Attempt: 1, Class: run.ClassText})
	require.Equal(t, run.Absorbed, w.s.Steers[0].Disposition)
}

func TestFault_D14_ALoopAsksAPerson(t *testing.T) {
	w := begin(t)
	for range 3 {
		w.turn("free")
		call := len(w.s.Calls)
		w.do(run.BeginCall{Epoch: 1, Call: call, Inputs: run.CallInputs{Arguments: []byte("{}")}})
		w.do(run.ReportCall{Call: call, Intent: 1, Outcome: run.OutcomeOK, Fingerprint: "same"})
	}
	require.NotNil(t, w.s.Reached)
	require.Equal(t, run.LimitNoProgress, w.s.Reached.Limit)
	require.Equal(t, run.StatusWaiting, w.s.Status)
}

func TestFault_F1_TheSecondDecisionIsRefused(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	w.refused("ALREADY_DECIDED", w.decide("ap-held-1-0", false))
}

func TestFault_F2_NothingIsApprovedAfterCancel(t *testing.T) {
	w := begin(t)
	w.turn("free", "held")
	w.do(run.BeginCall{Epoch: 1, Call: 1, Inputs: run.CallInputs{Arguments: []byte("{}")}})
	w.do(run.Cancel{By: run.Identity{Principal: "ada"}})
	w.refused("RUN_CANCELLED", w.decide("ap-held-1-1", true))
}

func TestFault_F6_AnExpiredApprovalIsNeverSpent(t *testing.T) {
	w := begin(t)
	w.turn("held", "held")
	decided := w.do(w.decide("ap-held-1-0", true))
	require.Contains(t, decided.Guards, run.Guard{BeforeMs: 6000}, "the write itself checks the time")
	w.nowMs = 6000
	w.refused("APPROVAL_EXPIRED", w.decide("ap-held-1-1", true))
	w.do(run.BeginCall{Epoch: 1, Call: 1, Inputs: run.CallInputs{Arguments: []byte("{}")}})
	require.Equal(t, run.OutcomeExpired, w.s.Call(1).Outcome)
	w.do(run.Fire{})
	require.Equal(t, []run.Outcome{run.OutcomeExpired, run.OutcomeExpired}, w.outcomes())
}

func TestCase_09_WhoSeesNoArgumentsGrantsNone(t *testing.T) {
	w := begin(t)
	w.turn("held")
	command := w.decide("ap-held-1-0", true)
	w.s.Call(1).Arguments.Marking.Labels = policy.NewLabels("finance")
	w.refused("NOT_CLEARED", command)
	command.Person.Clearance = policy.NewLabels("finance")
	w.do(command)
}

func TestFault_F8_AForgedApprovalIsNotFound(t *testing.T) {
	w := begin(t)
	w.turn("held")
	forged := w.decide("ap-held-1-0", true)
	forged.Approval = "ap-of-another-run"
	w.refused("NOT_FOUND", forged)
	stranger := w.decide("ap-held-1-0", true)
	stranger.Person.ID = "ada"
	w.refused("NOT_FOUND", stranger)
}

func TestFault_A5_ALostAttemptIsUncertainAndRepeatedWithTheSameKeyOnlyWhereThatIsSafe(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: run.CallInputs{Arguments: []byte("{}")}})
	w.do(run.Recover{Epoch: 2})
	require.Equal(t, []run.Effect{run.DispatchCall{Call: 1, Intent: 2}}, run.Pending(w.s, w.nowMs))
	w.do(run.BeginCall{Epoch: 2, Call: 1, Key: "k", Inputs: run.CallInputs{Arguments: []byte("{}")}})
	w.do(run.ReportCall{Call: 1, Intent: 2, Outcome: run.OutcomeOK})
	w.do(run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeFailed})
	require.Equal(t, run.OutcomeOK, w.s.Call(1).Outcome)
	require.Len(t, w.s.Call(1).Late, 1, "the first attempt's late word is kept")
}

func TestFault_A5_ARepeatThatCameToNothingDoesNotSayThatTheFirstAttemptDid(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	for intent := 1; intent <= w.s.Limits.CallAttempts; intent++ {
		w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: run.CallInputs{Arguments: []byte("{}")}})
		report := run.ReportCall{Call: 1, Intent: intent, Outcome: run.OutcomeFailed, Code: "UNREACHABLE"}
		if intent == 1 {
			report.Outcome = run.OutcomeUnknown
		}
		w.do(report)
	}
	require.Equal(t, run.CallUncertainOpen, w.s.Call(1).Phase)
	require.True(t, w.s.Call(1).AskPerson, "after as many attempts as allowed a person finds out")

	w = begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: run.CallInputs{Arguments: []byte("{}")}})
	w.do(run.Recover{Epoch: 2})
	w.do(run.BeginCall{Epoch: 2, Call: 1, Key: "k", Inputs: run.CallInputs{Arguments: []byte("{}")}})
	w.do(run.ReportCall{Call: 1, Intent: 2, Outcome: run.OutcomeFailed})
	require.Equal(t, run.CallReady, w.s.Call(1).Phase, "nor does a refusal: who refuses may not have looked for the key")
}

func TestAFlippedRecordBreaksTheChain(t *testing.T) {
	w := begin(t)
	record, err := run.Encode("r1", w.last, 1, run.CancelAccepted{By: run.Identity{Principal: "ada"}})
	require.NoError(t, err)
	record.Body = append([]byte{}, record.Body...)
	record.Body[0] ^= 1
	require.ErrorIs(t, run.Replay(w.s, []run.Record{record}), run.ErrChain)
	unknown := record
	unknown.Kind, unknown.Body = "later", []byte("{}")
	unknown.Digest = run.Chain(unknown)
	require.ErrorIs(t, run.Replay(w.s, []run.Record{unknown}), run.ErrUnknownRecord)
}

// A list of no values allows nothing; written as it stands it would be read as
// no list, which allows everything.
func TestAnAuthorityThatAllowsNothingIsReadAsNothing(t *testing.T) {
	var none []string
	given := authority("t1")
	grant := given.Tools["free"]
	grant.Constraints = []policy.Constraint{{Path: "/to", Enum: &none}}
	given.Tools["free"] = grant
	given.Turns, given.MicroUSD = 3, -5
	w := begin(t)
	started := w.s.Started
	started.Authority, started.Accounts = given, []string{"acme"}
	w.s, w.last = &run.State{ID: "r1"}, run.Record{}
	decision := w.do(run.Start{Started: started})
	require.NotContains(t, w.s.Authority.Tools, "free")
	require.Zero(t, w.s.Budget.Limit.MicroUSD)
	for _, move := range decision.Budget {
		require.False(t, move.Reserve.MicroUSD < 0, "a start takes nothing out of an account")
	}
}

package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// want is for the tool "wanted", which no run is admitted with.
func want(revision string) *run.Want {
	return &run.Want{Thing: run.ThingTool, Name: "wanted", Gives: policy.Authority{
		Tools: map[string]policy.ToolGrant{"wanted": {Revision: revision, Impact: policy.ImpactRead, Calls: 2}}}}
}

// wantOf is what a call of a tool needs that the run may not use, and whom it
// asks.
func wantOf(tool, revision string) (*run.Want, []policy.Approver) {
	if tool != "wanted" && tool != "request" {
		return nil, nil
	}
	return want(revision), []policy.Approver{{Principal: "olga", Why: "tool owner"}}
}

// consent is olga's word on a request.
func (w *world) consent(access string, granted bool) run.DecideAccess {
	return run.DecideAccess{Access: access, Digest: w.s.Access(access).Digest, Granted: granted, Grant: "grant-1", By: by("olga"), Person: olga()}
}

func TestWhatIsMissingIsARequestAndTheSameRunGoesOn(t *testing.T) {
	w := begin(t)
	w.rules.lent = true
	w.turn("wanted", "free")
	require.Equal(t, run.CallWanting, w.s.Call(1).Phase)
	require.Equal(t, []run.Effect{run.DispatchCall{Call: 2, Intent: 1}}, w.pending(), "its sibling does not wait")
	w.attempt(2)
	require.Equal(t, run.StatusWaiting, w.s.Status)
	require.EqualValues(t, 6000, run.DueMs(w.s, w.nowMs), "it expires by itself")

	decision := w.do(w.consent("ap-wanted-1-0", true))
	require.Contains(t, decision.Guards, run.Guard{Gate: run.ConfigGate("o"), Value: w.rules.Revision(), BeforeMs: 6000}, "the grant and the time are conditions of the write")
	access := w.s.Access("ap-wanted-1-0")
	require.True(t, access.Decision.Sealed(w.s.Started.SnapshotDigest, access.AccessRequested))
	require.Equal(t, "t1", w.s.Authority.Tools["wanted"].Revision, "pinned by its definition")
	require.Equal(t, []run.Effect{run.RejudgeCall{Call: 1}}, w.pending(), "a consent is no approval of the call")
	w.do(run.Judge{Call: 1, Inputs: noArguments})
	w.attempt(1)
	w.turn("wanted", "wanted")
	w.attempt(3)
	w.do(run.BeginCall{Epoch: 1, Call: 4, Inputs: noArguments})
	require.Equal(t, run.OutcomeForbidden, w.s.Call(4).Outcome, "it was given two calls")
}

func TestARequestIsRefusedExpiresAndIsVoid(t *testing.T) {
	w := begin(t)
	w.rules.lent = true
	w.turn("wanted", "request", "wanted", "request")
	w.do(w.consent("ap-wanted-1-0", false))
	w.do(w.consent("ap-request-1-1", true))
	require.Equal(t, []run.Outcome{run.OutcomeDenied, run.OutcomeAnswered, "", ""}, w.outcomes())
	w.refused("ALREADY_DECIDED", w.consent("ap-wanted-1-0", true))
	w.do(run.Steer{Steer: "s", By: by("ada"), Text: run.Text{ID: "s"}, Void: true})
	require.Equal(t, []run.Outcome{run.OutcomeDenied, run.OutcomeAnswered, run.OutcomeVoid, run.OutcomeVoid}, w.outcomes())
	require.Equal(t, run.VoidSteered, w.s.Access("ap-wanted-1-2").Cause)

	w = begin(t)
	w.rules.lent = true
	w.turn("wanted", "wanted")
	w.nowMs = 6000
	w.refused("ACCESS_EXPIRED", w.consent("ap-wanted-1-0", true))
	w.do(run.Fire{})
	require.Equal(t, []run.Outcome{run.OutcomeExpired, run.OutcomeExpired}, w.outcomes())

	w = begin(t)
	w.turn("wanted")
	w.do(run.Cancel{By: by("ada")})
	require.Equal(t, run.StatusCancelled, w.s.Status)
	require.Equal(t, run.VoidCancelled, w.s.Access("ap-wanted-1-0").Cause)
	w.refused("RUN_ENDED", w.consent("ap-wanted-1-0", true))
}

func TestOnlyItsOwnerAnswersAndOnlyWhatWasSeen(t *testing.T) {
	w := begin(t)
	w.rules.lent = true
	w.turn("wanted")
	requester, other, forged := w.consent("ap-wanted-1-0", true), w.consent("ap-wanted-1-0", true), w.consent("ap-wanted-1-0", true)
	requester.Person.ID, other.Digest, forged.Access = "ada", "another", "ap-of-another-run"
	w.refused("NOT_FOUND", requester)
	w.refused("DIGEST_MISMATCH", other)
	w.refused("NOT_FOUND", forged)
	w.s.Call(1).Arguments.Marking.Labels = policy.NewLabels("finance")
	w.refused("NOT_CLEARED", w.consent("ap-wanted-1-0", true))
	w.rules.retired = "olga"
	w.refused("NOT_FOUND", w.consent("ap-wanted-1-0", true))
}

// A word alone gives nothing: it rests on a grant in force, now and at every
// intent.
func TestAConsentRestsOnAGrantInForce(t *testing.T) {
	w := begin(t)
	w.turn("wanted")
	w.refused("NOT_GIVEN", w.consent("ap-wanted-1-0", true))
	w.rules.lent = true
	w.do(w.consent("ap-wanted-1-0", true))
	w.do(run.Judge{Call: 1, Inputs: noArguments})
	w.rules.lent = false
	w.do(run.BeginCall{Epoch: 1, Call: 1, Inputs: noArguments})
	require.Equal(t, run.OutcomeForbidden, w.s.Call(1).Outcome, "it was taken back before the attempt")
	w.turn("wanted")
	require.Equal(t, run.CallWanting, w.s.Call(2).Phase, "another call asks anew")
}

func TestAToolThatChangedIsNotGiven(t *testing.T) {
	w := begin(t)
	w.rules.lent = true
	w.turn("wanted")
	command := w.consent("ap-wanted-1-0", true)
	w.rules.tool = "t2"
	decision := w.do(command)
	require.Equal(t, "ACCESS_STALE", decision.Unmet.Code)
	require.Equal(t, run.VoidToolChanged, w.s.Access("ap-wanted-1-0").Cause)
	require.NotContains(t, w.s.Authority.Tools, "wanted")
	w.do(run.Judge{Call: 1, Inputs: noArguments})
	require.Equal(t, run.OutcomeForbidden, w.s.Call(1).Outcome)
}

// Whoever floods people with requests waits for an operator, as with approvals.
func TestFault_F15_TooManyRequestsForAccessParkTheRun(t *testing.T) {
	w := begin(t)
	started := w.s.Started
	started.Limits.Approvals = 3
	w.restart(started)
	w.turn("wanted", "held", "request", "wanted", "request")
	require.Equal(t, run.ParkedFlood, w.s.Parked.Code)
	require.Len(t, w.s.Accesses, 2)
	require.Equal(t, run.CallProposedPhase, w.s.Call(4).Phase)
}

func TestNobodyIsAskedForWhatPolicyForbids(t *testing.T) {
	w := begin(t)
	w.rules.forbids = "wanted"
	w.turn("wanted")
	require.Equal(t, run.OutcomeForbidden, w.s.Call(1).Outcome)
	require.Empty(t, w.s.Accesses)
}

func TestMoreBudgetIsReservedInTheWriteThatGivesIt(t *testing.T) {
	w := begin(t)
	started := w.s.Started
	started.Accounts = []string{"acme"}
	w.restart(started)
	more := run.Amount{MicroUSD: 500, Tokens: 70}
	w.do(run.BeginTurn{Epoch: 1, Model: "m"})
	w.do(run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassCalls, Calls: []run.Proposal{{Tool: "request", Revision: "t1", Requests: true, Impact: policy.ImpactRead,
		Class: policy.ClassRead, Text: run.Text{ID: "r"}, Approval: "more", Inputs: noArguments, To: []policy.Approver{{Principal: "olga", Why: "budget owner"}},
		Want: &run.Want{Thing: run.ThingBudget, Gives: policy.Authority{MicroUSD: more.MicroUSD, Tokens: more.Tokens}}}}})
	decision := w.do(w.consent("more", true))
	require.Equal(t, []run.BudgetMove{{Node: "acme", Reserve: more}}, decision.Budget)
	require.Equal(t, run.Amount{MicroUSD: 1500, Tokens: 1070}, w.s.Budget.Limit)
	require.Equal(t, run.OutcomeAnswered, w.s.Call(1).Outcome)
	require.Empty(t, w.s.Given(), "money is nothing that one may use")
}

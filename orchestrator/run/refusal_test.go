package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

func TestAStartIsRefusedForOneReason(t *testing.T) {
	admitted := begin(t).s.Started
	for code, change := range map[string]func(*run.Started){
		"AUTHORITY":      func(s *run.Started) { s.Authority.Turns = 11 },
		"BUDGET":         func(s *run.Started) { s.Authority.Tokens = 0 },
		"LIMITS":         func(s *run.Started) { s.Limits.TurnAttempts = 0 },
		"DEADLINE":       func(s *run.Started) { s.Authority.DeadlineMs = 1000 },
		"INVALID_AMOUNT": func(s *run.Started) { s.Authority.MicroUSD = 1 << 53 },
	} {
		started := admitted
		change(&started)
		rules := &generous{fixedRules{policy: "p1", tool: "t1"}, code == "INVALID_AMOUNT"}
		decision, refusal := run.Decide(&run.State{ID: "r2"}, run.Start{Started: started}, run.Env{NowMs: 1000, Rules: rules})
		require.NotNil(t, refusal, code)
		require.Equal(t, code, refusal.Code)
		require.Empty(t, decision)
	}
	w := begin(t)
	w.refused("RUN_EXISTS", run.Start{Started: admitted})
	_, refusal := run.Decide(&run.State{ID: "none"}, run.Fire{}, run.Env{Rules: w.rules})
	require.Equal(t, "NOT_FOUND: There is no such run.", refusal.Error())
}

// generous rules let an agent spend without end, where asked to.
type generous struct {
	fixedRules
	endless bool
}

func (r *generous) Ceiling(acting run.Acting) policy.Authority {
	ceiling := r.fixedRules.Ceiling(acting)
	if r.endless {
		ceiling.MicroUSD = 1 << 60
	}
	return ceiling
}

// The bytes that were approved are the bytes that are sent: anything else in
// the call's place voids the approval, whoever put it there.
func TestCase_09_OtherArgumentsThanTheApprovedVoid(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	w.s.Call(1).Arguments.Commitment = "other"
	decision := w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	require.Equal(t, []run.Event{run.ApprovalVoided{Approval: "ap-held-1-0", Cause: run.VoidToolChanged}}, decision.Events)
}

// pairRules hold for two people of one role.
type pairRules struct{ fixedRules }

func (r *pairRules) Judge(policy.Request) policy.Verdict {
	return policy.Verdict{Answer: policy.Hold, Revision: r.policy, Quorum: 2, Approvers: []policy.Approver{{Role: "controller", Quorum: 2, Why: "two of them"}}}
}

func (r *pairRules) Voices(_ []policy.Approver, person policy.Principal, _ []string, _ int64) ([]string, error) {
	if person.ID == r.retired {
		return nil, errRetired
	}
	return []string{person.ID}, nil
}

var errRetired = &run.Refusal{Code: "RETIRED"}

func TestAQuorumCountsDifferentPeopleWhoStillMay(t *testing.T) {
	w := begin(t)
	rules := &pairRules{fixedRules{policy: "p1", tool: "t1"}}
	as := func(person string) *run.Refusal {
		wish := w.decide("ap-held-1-0", true)
		wish.By.Principal, wish.Person.ID = person, person
		decision, refusal := run.Decide(w.s, wish, run.Env{NowMs: w.nowMs, Rules: rules})
		for _, event := range decision.Events {
			require.NoError(t, run.Apply(w.s, event))
		}
		return refusal
	}
	w.do(run.BeginTurn{Epoch: 1, Model: "m"})
	held := bounded("held", 0)
	held.Approval = "ap-held-1-0"
	decision, refusal := run.Decide(w.s, run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassCalls, Calls: []run.Proposal{held}}, run.Env{NowMs: 1000, Rules: rules})
	require.Nil(t, refusal)
	for _, event := range decision.Events {
		require.NoError(t, run.Apply(w.s, event))
	}
	require.Nil(t, as("olga"))
	require.Equal(t, "ALREADY_DECIDED", as("olga").Code, "one person counts once")
	require.Equal(t, run.CallHeld, w.s.Call(1).Phase)
	rules.retired = "olga"
	require.Nil(t, as("ivan"))
	require.Equal(t, run.CallHeld, w.s.Call(1).Phase, "olga may not any more, so only ivan counts")
	require.Nil(t, as("petra"))
	require.Equal(t, run.CallReady, w.s.Call(1).Phase)
	require.Contains(t, as("boris").Detail, "decided by petra", "who comes late learns who was first")
}

func TestACallStartsOnlyWithinItsLimits(t *testing.T) {
	w := begin(t)
	w.turn("free", "held", "free")
	w.do(w.decide("ap-held-1-1", true))
	w.s.Limits.CallsAtOnce = 1
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	w.refused("NOT_DUE", run.BeginCall{Epoch: 1, Call: 3, Key: "k", Inputs: noArguments})
	w.refused("INVALID_OUTCOME", run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeVoid})
	w.do(run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeOK})
	w.nowMs = 1_000_000
	w.do(run.BeginCall{Epoch: 1, Call: 3, Key: "k", Inputs: noArguments})
	require.Equal(t, run.LimitDeadline, w.s.Reached.Limit)
	require.Zero(t, w.s.Call(3).Intent)
}

// Events that fit no state of the run are refused, so that a damaged journal
// parks the run instead of being guessed at.
func TestAnEventThatDoesNotFitIsBroken(t *testing.T) {
	held := func(w *world) { w.turn("held") }
	ended := func(w *world) { w.turn("free"); w.do(run.Cancel{By: by("ada")}) }
	for name, c := range map[string]struct {
		before func(*world)
		event  run.Event
	}{
		"started twice":                {held, run.Started{}},
		"a second turn in flight":      {func(w *world) { w.do(run.BeginTurn{Epoch: 1}) }, run.TurnStarted{Turn: 2, Attempt: 1}},
		"a turn out of order":          {held, run.TurnStarted{Turn: 3, Attempt: 1}},
		"a retry under another number": {func(w *world) { w.do(run.BeginTurn{Epoch: 1}); w.do(run.Recover{Epoch: 2}) }, run.TurnStarted{Turn: 2, Attempt: 2}},
		"an answer to no turn":         {held, run.TurnAnswered{Turn: 2}},
		"a call of no turn":            {held, run.CallProposed{Call: 2, Turn: 2}},
		"a call out of order":          {held, run.CallProposed{Call: 3, Turn: 1}},
		"a verdict on no call":         {held, run.CallJudged{Call: 9}},
		"a verdict on a held call":     {held, run.CallJudged{Call: 1}},
		"an intent of a held call":     {held, run.CallIntended{Call: 1, Intent: 1}},
		"an uncertain held call":       {held, run.CallUncertain{Call: 1}},
		"a finding on a held call":     {held, run.UncertainResolved{Call: 1}},
		"an approval of no call":       {held, run.ApprovalRequested{Approval: "b", Call: 2}},
		"a word on no approval":        {held, run.ApprovalDecided{Approval: "b"}},
		"a question of a held call":    {held, run.QuestionAsked{Question: "q", Call: 1}},
		"an answer to no question":     {held, run.QuestionAnswered{Question: "q"}},
		"a steer that is not open":     {held, run.SteerSettled{Steer: "s", Disposition: run.Absorbed}},
		"a call that ends twice": {func(w *world) { w.turn("held"); w.do(w.decide("ap-held-1-0", false)) },
			run.CallEnded{Call: 1, Outcome: run.OutcomeOK}},
		"another approval's intent": {func(w *world) { w.turn("free", "held"); w.do(w.decide("ap-held-1-1", true)) },
			run.CallIntended{Call: 1, Intent: 1, Approval: "ap-held-1-1"}},
		"anything after the end": {ended, run.Parked{Code: "LATE"}},
		"a second end":           {ended, run.Ended{Status: run.StatusFailed}},
		"a run that parks twice": {func(w *world) { w.do(run.Park{Code: "CRASHES"}) }, run.Parked{Code: "CRASHES"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t)
			c.before(w)
			require.ErrorIs(t, run.Apply(w.s, c.event), run.ErrBroken)
		})
	}
	require.ErrorIs(t, run.Apply(&run.State{ID: "r"}, run.Parked{}), run.ErrBroken, "nothing comes before the start")
}

// deputyRules hold for two controllers; dora is the deputy of olga and of ivan.
type deputyRules struct {
	pairRules
	over bool
}

func (r *deputyRules) Voices(approvers []policy.Approver, person policy.Principal, chain []string, atMs int64) ([]string, error) {
	if person.ID != "dora" {
		return r.pairRules.Voices(approvers, person, chain, atMs)
	}
	if r.over {
		return nil, errRetired
	}
	return []string{"ivan", "olga"}, nil
}

func TestADeputyGivesOneVoiceThatNobodyElseGave(t *testing.T) {
	begun := func(t *testing.T) (*deputyRules, func(person string, granted bool) *run.Refusal, *run.State) {
		w := begin(t)
		rules := &deputyRules{pairRules: pairRules{fixedRules{policy: "p1", tool: "t1"}}}
		w.do(run.BeginTurn{Epoch: 1, Model: "m"})
		held := bounded("held", 0)
		held.Approval = "ap-held-1-0"
		decision, refusal := run.Decide(w.s, run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassCalls, Calls: []run.Proposal{held}}, run.Env{NowMs: 1000, Rules: rules})
		require.Nil(t, refusal)
		for _, event := range decision.Events {
			require.NoError(t, run.Apply(w.s, event))
		}
		return rules, func(person string, granted bool) *run.Refusal {
			wish := w.decide("ap-held-1-0", granted)
			wish.By.Principal, wish.Person.ID = person, person
			decision, refusal := run.Decide(w.s, wish, run.Env{NowMs: w.nowMs, Rules: rules})
			for _, event := range decision.Events {
				require.NoError(t, run.Apply(w.s, event))
			}
			return refusal
		}, w.s
	}
	t.Run("recorded for whom", func(t *testing.T) {
		_, as, s := begun(t)
		require.Nil(t, as("ivan", true))
		require.Nil(t, as("dora", true))
		require.Equal(t, run.CallReady, s.Call(1).Phase)
		require.Empty(t, s.Approvals[0].Decisions[0].By.OnBehalfOf)
		require.Equal(t, "olga", s.Approvals[0].Decisions[1].By.OnBehalfOf, "ivan gave his own")
	})
	t.Run("one person, one word", func(t *testing.T) {
		_, as, s := begun(t)
		require.Nil(t, as("dora", true))
		require.Equal(t, "ALREADY_DECIDED", as("dora", true).Code, "not for the other one, too")
		require.Equal(t, "ivan", s.Approvals[0].Decisions[0].By.OnBehalfOf)
		require.Equal(t, "ALREADY_DECIDED", as("ivan", true).Code, "his voice was given")
		require.Equal(t, run.CallHeld, s.Call(1).Phase)
		require.Nil(t, as("ivan", false), "but he may still say no")
		require.Equal(t, run.OutcomeDenied, s.Call(1).Outcome)
	})
	t.Run("counts while it holds", func(t *testing.T) {
		rules, as, s := begun(t)
		require.Nil(t, as("dora", true))
		rules.over = true
		require.Nil(t, as("petra", true))
		require.Equal(t, run.CallHeld, s.Call(1).Phase, "dora stands for nobody any more")
		require.Nil(t, as("olga", true))
		require.Equal(t, run.CallReady, s.Call(1).Phase)
	})
}

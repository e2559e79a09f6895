package run_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// asks lets the server of a call that is in flight ask a person, or what may be
// shown to nobody.
func (w *world) asks(call int, declined string) run.Decision {
	w.t.Helper()
	return w.do(w.asked(call, declined))
}

func (w *world) asked(call int, declined string) run.ReportCall {
	n := strconv.Itoa(len(w.s.Questions) + 1)
	ask := run.Ask{Origin: "tickets", Kind: run.AskForm, Fingerprint: "f" + n, State: &run.Text{ID: "state" + n}, Declined: declined}
	if declined == "" {
		ask.Form = &run.Text{ID: "form" + n}
	}
	return run.ReportCall{Call: call, Intent: w.s.Call(call).Intent, Outcome: run.OutcomeFailed, Ask: &run.Asked{Ask: ask, Question: "q" + n}}
}

func (w *world) accept(question string) run.AnswerQuestion {
	return run.AnswerQuestion{Question: question, By: by("ada"), Person: policy.Principal{ID: "ada"}, Answer: run.Text{ID: "values of " + question}, Action: run.Accept}
}

// waits begins a call of a tool whose server asks at once.
func waits(t *testing.T, tool string) *world {
	w := begin(t)
	w.begun(tool)
	w.asks(1, "")
	require.Equal(t, run.CallAsking, w.s.Call(1).Phase)
	return w
}

func (w *world) again(call int) {
	w.do(run.BeginCall{Epoch: 1, Call: call, Key: "k", Inputs: noArguments})
}

func TestFault_E18_WhatAServerAsksGoesToThePersonTheRunActsForAndTheCallGoesOn(t *testing.T) {
	w := waits(t, "opaque")
	question := w.s.Question("q1")
	require.Equal(t, "tickets", question.Ask.Origin)
	require.Equal(t, 1, question.Ask.Intent)
	require.Equal(t, "ada", question.To[0].Principal)
	require.Equal(t, run.StatusWaiting, w.s.Status)
	require.Zero(t, w.s.Budget.Reserved, "while it waits nothing is held for it")
	settled, _ := w.s.AnswerTo(w.s.Call(1))
	require.Nil(t, settled, "nothing is said to it yet")

	w.do(w.accept("q1"))
	require.Equal(t, run.StatusRunning, w.s.Status)
	settled, action := w.s.AnswerTo(w.s.Call(1))
	require.Equal(t, run.Accept, action)
	require.Equal(t, "state1", settled.Ask.State.ID)
	require.Equal(t, "values of q1", settled.Answer.Answer.ID)
	w.refused("ALREADY_ANSWERED", w.accept("q1"))

	w.again(1)
	require.Equal(t, 2, w.s.Call(1).Intent)
	require.Equal(t, "k", w.s.Call(1).Key, "the same key for every attempt")
	w.do(run.ReportCall{Call: 1, Intent: 2, Outcome: run.OutcomeOK, Result: &run.Text{ID: "done"}})
	require.Equal(t, []run.Outcome{run.OutcomeOK}, w.outcomes())
	w.refused("STALE", w.asked(1, ""))
}

func TestFault_E18_AnApprovalIsSpentOnceHoweverOftenTheServerAsks(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	w.again(1)
	for n := 1; n <= 2; n++ {
		w.asks(1, "")
		w.do(w.accept("q" + strconv.Itoa(n)))
		w.nowMs += 5000 // longer than the approval was good for
		w.again(1)
	}
	require.Len(t, w.s.Approvals, 1)
	require.Equal(t, run.ApprovalSpent, w.s.Approvals[0].Status)
	w.asks(1, "")
	w.rules.revoked = true
	w.do(w.accept("q3"))
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	require.Equal(t, run.OutcomeForbidden, w.s.Call(1).Outcome, "what may not be done any more is not done, answered or not")
}

func TestFault_E18_NoAndNothingAreToldToTheServer(t *testing.T) {
	for _, action := range []run.Action{run.Decline, run.Dismiss} {
		w := waits(t, "opaque")
		no := w.accept("q1")
		no.Action = action
		w.do(no)
		_, told := w.s.AnswerTo(w.s.Call(1))
		require.Equal(t, action, told)
		w.again(1)
		require.Equal(t, run.CallInFlight, w.s.Call(1).Phase)
	}
}

func TestFault_E18_WhatMayNotBeShownIsDeclinedForEverybody(t *testing.T) {
	w := begin(t)
	w.begun("opaque")
	w.asks(1, "ASKS_FOR_SECRET")
	require.Equal(t, run.CallReady, w.s.Call(1).Phase, "nobody is waited for")
	question, told := w.s.AnswerTo(w.s.Call(1))
	require.Equal(t, run.Decline, told)
	require.Equal(t, run.VoidNotShown, question.Cause)
	require.Nil(t, question.Ask.Form)
	w.refused("ALREADY_ANSWERED", w.accept("q1"))
	w.again(1)
	w.refused("INVALID_ASK", func() run.ReportCall {
		shown := w.asked(1, "ASKS_FOR_SECRET")
		shown.Ask.Form = &run.Text{ID: "form"}
		return shown
	}())
}

// Each way to have no answer has its one outcome; that a call was not done is
// believed of its server unless an earlier attempt was lost.
func TestFault_E18_WithoutAnAnswerACallEndsOnce(t *testing.T) {
	expire := func(w *world) { w.nowMs += 5000; w.do(run.Fire{}) }
	cancel := func(w *world) { w.do(run.Cancel{By: by("ada")}) }
	for name, c := range map[string]struct {
		end     func(*world)
		outcome run.Outcome
		cause   run.Void
	}{"expired": {expire, run.OutcomeExpired, run.VoidExpired}, "cancelled": {cancel, run.OutcomeVoid, run.VoidCancelled}} {
		t.Run(name, func(t *testing.T) {
			w := waits(t, "opaque")
			c.end(w)
			require.Equal(t, []run.Outcome{c.outcome}, w.outcomes())
			require.Equal(t, c.cause, w.s.Question("q1").Cause)
			require.Zero(t, w.s.Budget.Committed().MicroUSD)

			w = begin(t)
			w.begun("opaque")
			w.do(run.Recover{Epoch: 2})
			w.do(found(1, run.Repeat)(w))
			w.do(run.BeginCall{Epoch: 2, Call: 1, Key: "k", Inputs: noArguments})
			w.asks(1, "")
			c.end(w)
			require.Equal(t, []run.Outcome{run.OutcomeUnknown}, w.outcomes(), "what was lost before may have been done")
		})
	}
	w := begin(t)
	w.begun("opaque")
	w.do(run.Cancel{By: by("ada")})
	w.asks(1, "")
	require.Equal(t, []run.Outcome{run.OutcomeVoid}, w.outcomes())
	require.Empty(t, w.s.Questions, "a run that closes asks nobody")
	require.Equal(t, run.StatusCancelled, w.s.Status)
}

func TestFault_E18_AServerThatAsksWithoutEndFails(t *testing.T) {
	w := begin(t)
	w.begun("free")
	for n := 1; n <= run.MaxAsks; n++ {
		w.asks(1, "")
		w.do(w.accept("q" + strconv.Itoa(n)))
		w.again(1)
	}
	w.asks(1, "")
	require.Equal(t, run.OutcomeFailed, w.s.Call(1).Outcome)
	require.Equal(t, run.AskedTooOften, w.s.Call(1).Code)
	require.Len(t, w.s.Questions, run.MaxAsks)
}

func TestFault_E18_WhatWasAnsweredIsNotAskedAgain(t *testing.T) {
	w := waits(t, "opaque")
	w.do(w.accept("q1"))
	w.again(1)
	replay := w.asked(1, "")
	replay.Ask.Fingerprint = "f1"
	w.do(replay)
	require.Equal(t, run.OutcomeFailed, w.s.Call(1).Outcome)
	require.Equal(t, run.AskedAgain, w.s.Call(1).Code)
}

func TestFault_E18_ALostAttemptTakesTheAnswerAlong(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	w.again(1)
	w.asks(1, "")
	w.do(w.accept("q1"))
	w.again(1)
	w.do(run.Recover{Epoch: 2})
	require.Equal(t, run.CallReady, w.s.Call(1).Phase, "its key makes it safe")
	_, told := w.s.AnswerTo(w.s.Call(1))
	require.Equal(t, run.Accept, told, "the next attempt brings it, too")
	late := w.asked(1, "")
	w.refused("STALE", late)
}

func TestFault_E18_OnlyWhoWasAskedAnswersAndInItsForm(t *testing.T) {
	w := waits(t, "opaque")
	stranger := w.accept("q1")
	stranger.Person, stranger.By = policy.Principal{ID: "eve"}, by("eve")
	w.refused("NOT_FOUND", stranger)
	words := w.accept("q1")
	words.Action = ""
	w.refused("INVALID_ACTION", words)
	words.Action = "PERHAPS"
	w.refused("INVALID_ACTION", words)

	asking := begin(t)
	asking.asking()
	model := asking.accept("qm")
	asking.refused("INVALID_ACTION", model)

	secret := begin(t)
	secret.begun("opaque")
	labelled := secret.asked(1, "")
	labelled.Ask.Form.Marking.Labels = policy.Labels{"salaries"}
	labelled.Ask.To = []policy.Approver{{Principal: "olga", Why: "tool owner"}}
	secret.do(labelled)
	answer := secret.accept("q1")
	secret.refused("NOT_FOUND", answer)
	answer.By, answer.Person = by("olga"), olga()
	secret.refused("NOT_CLEARED", answer)
	answer.Action = run.Decline
	secret.do(answer)
}

func TestFault_E18_AsksDoNotUseUpAttempts(t *testing.T) {
	w := begin(t)
	w.turn("held")
	w.do(w.decide("ap-held-1-0", true))
	w.again(1)
	for n := 1; n <= 4; n++ { // more than the attempts that a call has
		w.asks(1, "")
		w.do(w.accept("q" + strconv.Itoa(n)))
		w.again(1)
	}
	require.Equal(t, run.CallInFlight, w.s.Call(1).Phase)
}

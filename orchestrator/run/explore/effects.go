package explore

import (
	"slices"
	"strconv"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// prepare is what an owner does about an effect: it decides the intent on what
// it knows and commits it in a later step, so that anything may come between.
func (w *world) prepare(i int, effect run.Effect) []action {
	epoch := w.workers[i].epoch
	name := "worker " + strconv.Itoa(i) + " " + effect.Key()
	intend := func(command run.Command, begins *hand) []action {
		return []action{{name, func(w *world) error {
			decision, refusal := run.Decide(w.state, command, w.env())
			if refusal != nil {
				return errRefused
			}
			w.workers[i].write = &write{from: w.state.Version, decision: decision, begins: begins}
			return nil
		}}}
	}
	submit := func(does string, command run.Command, spend func(*world)) action {
		return action{name + does, func(w *world) error {
			if spend != nil {
				spend(w)
			}
			return w.owned(i, w.submit(command, epoch))
		}}
	}
	switch e := effect.(type) {
	case run.TakeTurn:
		return w.turns(e, submit, w.intents(epoch, e, intend))
	case run.CollectChildren:
		return w.collect(i, e.Key())
	case run.StartReview:
		return w.orDeclines(intend(run.BeginReview{Of: e.Of, Child: w.review(e.Of)}, nil), submit(" declines", run.DeclineReview{Of: e.Of, Code: "NOT_FOUND"}, spendDecline))
	case run.DispatchSidecar:
		return w.beside(i, e)
	case run.StopChild:
		return w.tell(i, e.Key(), e.Child)
	case run.DispatchCall:
		if w.state.Call(e.Call).Delegate != "" {
			delegated := intend(run.BeginCall{Epoch: epoch, Call: e.Call, Key: "run/" + strconv.Itoa(e.Call), Inputs: run.CallInputs{Arguments: []byte(`{}`)},
				NotAfterMs: deadlineMs, Child: w.spawn(e.Call)}, nil)
			return w.orDeclines(delegated, submit(" declines", run.DeclineCall{Call: e.Call, Code: "NOT_FOUND"}, spendDecline))
		}
		return intend(run.BeginCall{Epoch: epoch, Call: e.Call, Key: "run/" + strconv.Itoa(e.Call), Inputs: run.CallInputs{Arguments: []byte(`{}`)}, NotAfterMs: deadlineMs},
			&hand{Key: e.Key(), Call: e.Call, Intent: e.Intent})
	case run.RejudgeCall:
		id := strconv.Itoa(e.Call) + "-" + strconv.Itoa(len(w.state.Approvals))
		return []action{submit("", run.Judge{Call: e.Call, Inputs: run.CallInputs{Arguments: []byte(`{}`)}, Approval: "approval-" + id, Nonce: id,
			Want: w.scope.Calls[e.Call-1].want(), To: w.scope.Calls[e.Call-1].owners()}, nil)}
	case run.ProbeCall:
		probes := []action{submit(" absent", run.ReportProbe{Call: e.Call}, nil)}
		if w.attempts[e.Call] > 0 {
			probes = append(probes, submit(" found", run.ReportProbe{Call: e.Call, Found: true, Outcome: run.OutcomeOK}, nil))
		}
		return probes
	case run.Verify:
		return w.checks(e, submit)
	}
	return nil
}

// turns is what an owner does about a turn: it begins it, or finds that it cannot
// yet be begun.
func (w *world) turns(e run.TakeTurn, submit func(string, run.Command, func(*world)) action, begins []action) []action {
	if w.left.Briefs > 0 {
		begins = append(begins, submit(" shortens", run.Compact{Turn: e.Turn, Attempt: e.Attempt, Cause: run.CompactedForRoom, Model: "m", Brief: w.shorter()},
			func(w *world) { w.left.Briefs-- }))
	}
	if w.state.Rejected() {
		begins = append(begins, submit(" cannot shorten", run.Compact{Turn: e.Turn, Attempt: e.Attempt, Cause: run.CompactedRejected, Model: "m", Unfit: true}, nil))
	}
	if w.left.Outages > 0 {
		begins = append(begins, submit(" finds no model", run.AwaitModels{Turn: e.Turn, Attempt: e.Attempt}, func(w *world) { w.left.Outages-- }))
	}
	return begins
}

// intents begin a turn with one model, or with a second one held ready.
func (w *world) intents(epoch uint64, e run.TakeTurn, intend func(run.Command, *hand) []action) []action {
	begin := run.BeginTurn{Epoch: epoch, Model: "m", Reserve: run.Amount{MicroUSD: turnCost, Tokens: turnCost}, Steers: w.openSteers(), Memory: w.recalls(e)}
	begins := intend(begin, &hand{Key: e.Key(), Turn: e.Turn, Attempt: e.Attempt})
	if w.left.Hedges == 0 {
		return begins
	}
	begin.Hedge = &run.Hedge{Model: "n", AfterMs: 1, Reserve: begin.Reserve}
	begin.Reserve = begin.Reserve.Plus(begin.Reserve)
	both := intend(begin, &hand{Key: e.Key(), Turn: e.Turn, Attempt: e.Attempt, Hedged: true})[0]
	return append(begins, action{both.name + " with a second model", func(w *world) error { w.left.Hedges--; return both.do(w) }})
}

func (w *world) checks(e run.Verify, submit func(string, run.Command, func(*world)) action) []action {
	report := func(verdict run.CheckVerdict) run.ReportChecks {
		return run.ReportChecks{Turn: e.Turn, Checks: []run.CheckResult{{Name: "done", Verdict: verdict}}}
	}
	checks := []action{submit(" passed", report(run.CheckPassed), nil)}
	if w.left.Unchecked > 0 {
		checks = append(checks, submit(" unchecked", report(run.CheckUnchecked), func(w *world) { w.left.Unchecked-- }))
	}
	if w.left.Wrong > 0 {
		checks = append(checks, submit(" failed", report(run.CheckFailed), func(w *world) { w.left.Wrong-- }))
	}
	return checks
}

// shorter is a brief form that shows less than the one that stands: a turn less
// where there is one, and less of every result.
func (w *world) shorter() run.Brief {
	brief := w.state.Brief()
	brief.Result = 9 - int64(len(w.state.Compactions))
	if last := w.state.LastTurn(); last != nil && last.Number > brief.Through+2 {
		brief.Through++
	}
	return brief
}

// recalls is what memory gives before every second turn, with the marking of
// text from outside.
func (w *world) recalls(e run.TakeTurn) *run.Remembrance {
	item := run.Recalled{Item: "item", Etag: strconv.Itoa(e.Turn), Marking: policy.Marking{Integrity: policy.Untrusted}}
	if e.Turn%2 == 1 || slices.Contains(itemsOf(w.state), item.Etag) {
		return nil
	}
	return &run.Remembrance{Cause: run.RecallNews, Items: []run.Recalled{item}}
}

func itemsOf(s *run.State) (etags []string) {
	for _, recalled := range s.Recalled() {
		etags = append(etags, recalled.Etag)
	}
	return etags
}

func (w *world) openSteers() []string {
	var open []string
	for _, steer := range w.state.Steers {
		if steer.Disposition == "" {
			open = append(open, steer.Steer)
		}
	}
	return open
}

// handActions let an effect happen outside and its outcome come back. A worker
// that lost its lease goes on all the same.
func (w *world) handActions(i, h int, held hand) []action {
	name := "worker " + strconv.Itoa(i) + " " + held.Key
	if held.Turn > 0 {
		return w.turnActions(name, i, h, held)
	}
	if held.Child != "" || len(held.Ends) > 0 || held.Beside > 0 {
		return w.bring(i, h, held)
	}
	if !held.Done {
		outcomes := []run.Outcome{run.OutcomeOK, run.OutcomeFailed}
		if w.left.Unknowns > 0 {
			outcomes = append(outcomes, run.OutcomeUnknown)
		}
		var all []action
		for _, outcome := range outcomes {
			all = append(all, action{name + " acts " + string(outcome), func(w *world) error { return w.act(i, h, outcome) }})
		}
		return append(all, w.askActions(name, i, h)...)
	}
	if held.Reported && w.left.Duplicates == 0 {
		return nil
	}
	return []action{{name + " reports", func(w *world) error {
		if held.Reported {
			w.left.Duplicates--
		}
		w.finish(i, h)
		return w.report(i, run.ReportCall{Call: held.Call, Intent: held.Intent, Outcome: held.Outcome, Fingerprint: string(held.Outcome),
			Cost: run.Amount{MicroUSD: callCost}, Ask: held.Asks})
	}}}
}

// askActions let the server of a call ask a person instead of doing it, in words
// that may be shown or not.
func (w *world) askActions(name string, i, h int) []action {
	held := w.workers[i].hands[h]
	if w.left.Asks < 1 || !w.scope.Calls[held.Call-1].Elicits {
		return nil
	}
	asks := func(does string, ask run.Ask) action {
		return action{name + does, func(w *world) error {
			w.left.Asks--
			id := "ask-" + strconv.Itoa(held.Call) + "-" + strconv.Itoa(held.Intent)
			ask.Origin, ask.Kind, ask.Fingerprint = "server", run.AskForm, id
			ours := &w.workers[i].hands[h]
			ours.Done, ours.Outcome, ours.Asks = true, run.OutcomeFailed, &run.Asked{Ask: ask, Question: id}
			return nil
		}}
	}
	return []action{asks(" asks", run.Ask{Form: &run.Text{ID: "form"}}), asks(" asks what may not be shown", run.Ask{Declined: "SECRET"})}
}

// finish keeps a reported effect only as long as it may be reported again.
func (w *world) finish(i, h int) {
	if w.left.Duplicates > 0 && !w.workers[i].hands[h].Reported {
		w.workers[i].hands[h].Reported = true
		return
	}
	w.workers[i].hands = append(w.workers[i].hands[:h:h], w.workers[i].hands[h+1:]...)
}

// report hands an outcome to the run: as its owner, or from outside when the
// lease is gone. A refused report is out of date and dropped.
func (w *world) report(i int, command run.Command) error {
	err := w.submit(command, w.workers[i].epoch)
	if _, late := command.(run.ReportCall); late && err != nil && w.workers[i].epoch != w.epoch {
		w.workers[i].epoch = 0
		err = w.submit(command, 0)
	}
	return dropRefused(w.owned(i, err))
}

func (w *world) act(i, h int, outcome run.Outcome) error {
	held := &w.workers[i].hands[h]
	intended := false
	for _, e := range w.events {
		if intent, ok := e.event.(run.CallIntended); ok && intent.Call == held.Call && intent.Intent == held.Intent {
			intended = true
		}
	}
	if !intended {
		return broken("effect of call %d without a recorded intent", held.Call)
	}
	held.Done, held.Outcome = true, outcome
	if outcome == run.OutcomeUnknown {
		w.left.Unknowns--
	}
	w.attempts[held.Call]++
	return nil
}

func (w *world) turnActions(name string, i, h int, held hand) []action {
	reply := func(does string, report run.ReportTurn, spend func(*world)) action {
		return action{name + does, func(w *world) error {
			if spend != nil {
				spend(w)
			}
			report.Turn, report.Attempt = held.Turn, held.Attempt
			report.Cost = run.Amount{MicroUSD: turnCost - 1, Tokens: turnCost}
			w.workers[i].hands = append(w.workers[i].hands[:h:h], w.workers[i].hands[h+1:]...)
			if w.workers[i].epoch == 0 {
				return nil // a worker without a lease drops what its model said
			}
			parked := w.state.Parked != nil
			err := w.report(i, report)
			if parked && w.workers[i].epoch != 0 {
				// Nothing is left to do for its owner, who gives the lease back.
				w.workers[i] = worker{hands: w.workers[i].hands}
				w.held = false
				w.left.Claims++
			}
			return err
		}}
	}
	var all []action
	if held.Turn == 1 && len(w.scope.Calls) > 0 {
		all = append(all, reply(" calls", run.ReportTurn{Class: run.ClassCalls, Calls: w.scope.proposals()}, nil))
	} else {
		all = append(all, reply(" text", run.ReportTurn{Class: run.ClassText, Text: &run.Text{ID: "answer"}}, nil))
	}
	if w.left.Failures > 0 {
		failed := func(w *world) { w.left.Failures-- }
		all = append(all, reply(" fails", run.ReportTurn{Failure: &run.TurnFailure{Cause: "OUTAGE", Retryable: true}}, failed),
			reply(" is rejected", run.ReportTurn{Failure: &run.TurnFailure{Cause: "REJECTED", Unknown: true}}, failed))
	}
	if w.left.TooLong > 0 {
		all = append(all, reply(" cannot take it", run.ReportTurn{Failure: &run.TurnFailure{Cause: run.TooLong}}, func(w *world) { w.left.TooLong-- }))
	}
	if w.left.Outages > 0 {
		out := func(w *world) { w.left.Outages-- }
		all = append(all, reply(" goes out", run.ReportTurn{Failure: &run.TurnFailure{Cause: "OUTAGE", Retryable: true, Out: true}}, out),
			reply(" goes elsewhere", run.ReportTurn{Failure: &run.TurnFailure{Cause: "OUTAGE", Retryable: true, Out: true, Elsewhere: true}}, out))
	}
	if held.Hedged {
		all = append(all, w.hedgeActions(reply)...)
	}
	if w.scope.Refusal {
		all = append(all, reply(" refuses", run.ReportTurn{Class: run.ClassRefusal}, nil), reply(" empty", run.ReportTurn{Class: run.ClassEmpty}, nil))
	}
	return all
}

// hedgeActions let a turn of two models end in every way that differs: who
// answers, and what became of the other request.
func (w *world) hedgeActions(reply func(string, run.ReportTurn, func(*world)) action) []action {
	answers := func(does string, hedged run.Hedged) action {
		return reply(does, run.ReportTurn{Class: run.ClassText, Text: &run.Text{ID: "answer"}, Hedged: &hedged}, nil)
	}
	fails := func(does string, failure run.TurnFailure) action {
		failure.Cause, failure.Retryable = "OUTAGE", true
		return reply(does, run.ReportTurn{Failure: &failure}, nil)
	}
	return []action{
		answers(" answers, and drops the second", run.Hedged{By: "m", Unknown: true}),
		answers(" is answered by the second", run.Hedged{By: "n", Unknown: true}),
		answers(" is answered by the second, and by the first too late", run.Hedged{By: "n", Usage: &run.Usage{Output: 1}, Cost: run.Amount{MicroUSD: 1}}),
		fails(" fails before the second is asked", run.TurnFailure{Unknown: true, Second: run.SecondUnasked}),
		fails(" fails with both", run.TurnFailure{Second: run.SecondUnknown}),
	}
}

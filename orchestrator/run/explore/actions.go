package explore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// action is one step of a walk. It returns errRefused where it is not possible.
type action struct {
	name string
	do   func(*world) error
}

// actions are all steps that may be possible in a world.
func (w *world) actions() []action {
	var all []action
	for i := range w.workers {
		all = append(all, w.workerActions(i)...)
	}
	all = append(append(all, w.peopleActions()...), w.childActions()...)
	return append(all, w.timeActions()...)
}

func (w *world) timeActions() []action {
	var all []action
	add := func(name string, do func(*world) error) { all = append(all, action{name, do}) }
	if w.held && w.owner >= 0 && w.left.Claims > 0 {
		add("lease expires", func(w *world) error { w.held = false; return nil })
	}
	if due := run.DueMs(w.state, w.nowMs); due > w.nowMs && (w.left.Expiries || !w.waitsForPeople()) {
		add("time passes", func(w *world) error { w.nowMs = due; return nil })
	}
	if w.left.Expiries {
		for _, approval := range w.state.Approvals {
			if approval.Status == run.ApprovalGranted && approval.NotAfterMs > w.nowMs {
				add("approval runs out", func(w *world) error { w.nowMs = approval.NotAfterMs; return nil })
			}
		}
		for _, question := range w.state.Questions {
			if question.Status == run.QuestionOpen && question.NotAfterMs > w.nowMs {
				add("question runs out", func(w *world) error { w.nowMs = question.NotAfterMs; return nil })
			}
		}
	}
	if w.left.Changes > 0 && w.state.Ended == nil {
		add("policy changes", func(w *world) error {
			w.left.Changes--
			w.policy += "'"
			w.gates[run.ConfigGate("acme")] = w.rules().Revision()
			return nil
		})
	}
	if w.scope.Below && w.nowMs < deadlineMs && w.state.Ended == nil {
		add("its time is over", func(w *world) error { w.nowMs = deadlineMs; return nil })
	}
	if w.left.Closings > 0 {
		add("its tree closes", func(w *world) error {
			w.left.Closings--
			w.left.Cancels++
			w.gates[run.RootGate("run")] = run.GateClosed
			return nil
		})
	}
	if w.left.Parks > 0 {
		add("park", func(w *world) error { w.left.Parks--; return w.submit(run.Park{Code: "CRASHES"}, 0) })
	}
	if w.state.Parked != nil && w.left.Expiries {
		// A worker may notice the time just after the run was parked.
		add("time is noticed", func(w *world) error { return w.submit(run.Fire{}, 0) })
	}
	return all
}

func (w *world) waitsForPeople() bool {
	for _, approval := range w.state.Approvals {
		if approval.Status == run.ApprovalOpen {
			return true
		}
	}
	for _, access := range w.state.Accesses {
		if access.Status == run.AccessOpen {
			return true
		}
	}
	for _, question := range w.state.Questions {
		if question.Status == run.QuestionOpen {
			return true
		}
	}
	return false
}

var owner = policy.Principal{ID: "owner"}

func (w *world) peopleActions() []action {
	var all []action
	by := run.Identity{Principal: "owner"}
	add := func(name string, command run.Command, spend func(*world)) {
		all = append(all, action{name, func(w *world) error {
			if spend != nil {
				spend(w)
			}
			return w.submit(command, 0)
		}})
	}
	for _, a := range w.state.Approvals {
		if a.Status == run.ApprovalOpen {
			add("approve", run.DecideApproval{Approval: a.Approval, Digest: a.Digest, Granted: true, By: by, Person: owner}, nil)
			add("deny", run.DecideApproval{Approval: a.Approval, Digest: a.Digest, By: by, Person: owner}, nil)
		}
	}
	for _, a := range w.state.Accesses {
		if a.Status == run.AccessOpen {
			add("consent", run.DecideAccess{Access: a.AccessRequested.Access, Digest: a.Digest, Granted: true, Grant: "grant", By: by, Person: owner}, nil)
			add("refuse", run.DecideAccess{Access: a.AccessRequested.Access, Digest: a.Digest, By: by, Person: owner}, nil)
		}
	}
	for _, q := range w.state.Questions {
		if q.Status == run.QuestionOpen && q.Ask != nil {
			answer := run.AnswerQuestion{Question: q.Question, By: by, Person: policy.Principal{ID: "asker"}, Answer: run.Text{ID: "answer"}, Action: run.Accept}
			add("accept", answer, nil)
			answer.Action = run.Decline
			add("decline", answer, nil)
		} else if q.Status == run.QuestionOpen {
			add("answer", run.AnswerQuestion{Question: q.Question, By: by, Person: policy.Principal{ID: "asker"}, Answer: run.Text{ID: "answer"}}, nil)
		}
	}
	for _, c := range w.state.Calls {
		if c.Phase == run.CallUncertainOpen || c.Outcome == run.OutcomeUnknown && len(c.Resolutions) <= c.Repeats {
			finding := run.ResolveUncertain{Call: c.CallProposed.Call, By: by, Person: owner, Override: true, Resolution: run.Happened}
			add("it happened", finding, nil)
			finding.Resolution = run.NotHappened
			add("it did not happen", finding, nil)
			finding.Resolution = run.Repeat
			if w.left.Repeats > 0 {
				add("repeat it", finding, func(w *world) { w.left.Repeats-- })
			}
		}
	}
	if w.left.Steers > 0 {
		steer := run.Steer{Steer: "steer-" + strconv.Itoa(w.left.Steers), By: by, Text: run.Text{ID: "steer"}, Interrupt: w.scope.Voids, Void: w.scope.Voids}
		add("steer", steer, func(w *world) { w.left.Steers-- })
	}
	if w.left.Cancels > 0 {
		add("cancel", run.Cancel{By: by}, func(w *world) { w.left.Cancels-- })
	}
	if w.state.Parked != nil || w.state.Reached != nil {
		add("resume", run.Resume{By: by, Person: owner, Turns: 1, Amount: run.Amount{MicroUSD: 50, Tokens: 50}}, nil)
		add("end it", run.Resume{By: by, Person: owner, End: true}, nil)
		add("accept it", run.Resume{By: by, Person: owner, Accept: true}, nil)
	}
	return all
}

func (w *world) workerActions(i int) []action {
	var all []action
	add := func(name string, do func(*world) error) {
		all = append(all, action{fmt.Sprintf("worker %d %s", i, name), do})
	}
	member := w.workers[i]
	if member.epoch == 0 {
		if w.left.Claims > 0 && !w.twin(i) && run.Claimable(w.head(), w.nowMs) {
			add("claims", func(w *world) error {
				w.left.Claims--
				w.epoch++
				w.owner, w.held = i, true
				w.workers[i] = worker{epoch: w.epoch, hands: w.workers[i].hands}
				return nil
			})
		}
	} else {
		all = append(all, w.ownerActions(i)...)
	}
	if (member.epoch != 0 || len(member.hands) > 0) && w.left.Claims > 0 {
		add("crashes", func(w *world) error {
			w.workers[i] = worker{}
			w.held = w.held && w.owner != i // its lease runs out: nobody renews it
			return nil
		})
	}
	for h, held := range member.hands {
		all = append(all, w.handActions(i, h, held)...)
	}
	return all
}

// twin reports whether an earlier worker is as idle as this one: which of them
// claims makes no difference.
func (w *world) twin(i int) bool {
	idle := func(member worker) bool { return member.epoch == 0 && len(member.hands) == 0 }
	return i == 1 && idle(w.workers[1]) && idle(w.workers[0])
}

func (w *world) ownerActions(i int) []action {
	member := w.workers[i]
	name := "worker " + strconv.Itoa(i)
	switch {
	case !member.recovered:
		return []action{{name + " recovers", func(w *world) error {
			w.workers[i].recovered = true
			return w.owned(i, w.submit(run.Recover{Epoch: member.epoch}, member.epoch))
		}}}
	case member.write != nil:
		return []action{{name + " commits", func(w *world) error {
			pending := w.workers[i].write
			w.workers[i].write = nil
			err := w.commit(pending.decision, pending.from, member.epoch)
			if err == nil && pending.begins != nil && !slices.ContainsFunc(pending.decision.Events, pausing) {
				w.workers[i].hands = append(w.workers[i].hands, *pending.begins)
			}
			return w.owned(i, err)
		}}}
	}
	var all []action
	for _, effect := range run.Pending(w.state, w.nowMs) {
		if !w.busy(i, effect.Key()) {
			all = append(all, w.prepare(i, effect)...)
		}
	}
	if w.scope.Strays {
		for _, c := range w.state.Calls {
			if c.Intent == 0 {
				all = append(all, action{name + " reports what nobody did", func(w *world) error {
					return w.owned(i, w.submit(run.ReportCall{Call: c.CallProposed.Call, Outcome: run.OutcomeOK}, member.epoch))
				}})
			}
		}
	}
	if due := run.DueMs(w.state, w.nowMs); due != 0 && due <= w.nowMs {
		all = append(all, action{name + " fires", func(w *world) error {
			return w.owned(i, w.submit(run.Fire{}, member.epoch))
		}})
	}
	return all
}

// pausing reports whether an event means that the effect may not begin.
func pausing(event run.Event) bool {
	switch event.(type) {
	case run.LimitReached, run.CallEnded, run.ApprovalVoided, run.Parked, run.CallJudged:
		return true
	}
	return false
}

func (w *world) busy(i int, key string) bool {
	return slices.ContainsFunc(w.workers[i].hands, func(h hand) bool { return h.Key == key && !h.Reported })
}

// owned takes a fenced worker's lease away; a conflict lets it decide again.
func (w *world) owned(i int, err error) error {
	switch {
	case errors.Is(err, run.ErrFenced):
		w.workers[i].epoch = 0
		return nil
	case errors.Is(err, run.ErrConflict), errors.Is(err, run.ErrGuard):
		return nil
	}
	return err
}

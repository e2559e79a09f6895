package simulate

import (
	"context"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// head reads the row of a run past all faults; false where it was not started.
func (s *simulation) head(id string) (run.Head, bool) {
	head, _, err := s.store.Memory.Load(context.Background(), id, 1<<40)
	return head, err == nil
}

// rested reports whether every run has ended, is parked or waits for people.
func (s *simulation) rested() bool {
	for _, r := range s.runs {
		if s.restless(r.id) != "" {
			return false
		}
	}
	return true
}

// leased reports whether somebody holds a run. A lease that ended while nobody
// could give it back keeps its owner's name.
func (s *simulation) leased(head run.Head) bool { return head.Owner != "" && head.LeaseUntil > s.nowMs }

// restless says why a run is not at rest, or "".
func (s *simulation) restless(id string) string {
	head, started := s.head(id)
	switch {
	case !started:
		return "was not started"
	case s.leased(head):
		return "is owned by " + head.Owner
	case head.Status.Ended() || head.Status == run.StatusParked:
		return ""
	case s.waitsBelow(id) && head.News == head.Heard:
		return "" // what is below it rests, or does not
	case head.Status != run.StatusWaiting && head.Status != run.StatusCancelling && head.Status != run.StatusRunning:
		return "stays " + string(head.Status)
	case !s.someoneIsAsked(id):
		return "is " + string(head.Status) + ", and nobody is asked"
	case head.DueMs != 0 && head.DueMs <= s.nowMs:
		return "is due"
	}
	return ""
}

func (s *simulation) someoneIsAsked(id string) bool {
	for _, who := range []string{"olga", "petra", "carl", "ada"} {
		items, _ := s.store.Inbox(context.Background(), person(who)) // memory never fails
		for _, item := range items {
			if item.Run == id {
				return true
			}
		}
	}
	return false
}

func (s *simulation) over() bool {
	for _, r := range s.runs {
		if head, started := s.head(r.id); !started || !head.Status.Ended() || s.leased(head) || s.someoneIsAsked(r.id) {
			return false
		}
	}
	return true
}

// quiet reports whether nothing is on its way outside any more and every
// worker that was told to stop has stopped.
func (s *simulation) quiet() bool {
	for _, p := range s.living() {
		if p.stopping {
			return false
		}
	}
	return len(s.events) == 0
}

func (s *simulation) checkRest() {
	if s.failed() {
		return
	}
	for _, r := range s.runs {
		if why := s.restless(r.id); why != "" {
			s.violate("%s: %s, long after the faults stopped", r.id, why)
		}
	}
}

func (s *simulation) checkOver() {
	if s.failed() {
		return
	}
	for _, r := range s.runs {
		if head, _ := s.head(r.id); !head.Status.Ended() || s.leased(head) || s.someoneIsAsked(r.id) {
			s.violate("%s: is %s and owned by %q, asks: %t, although people did all that was asked of them", r.id, head.Status, head.Owner,
				s.someoneIsAsked(r.id))
		}
	}
}

// checkAll holds every run against the outside, and the account against the
// runs.
func (s *simulation) checkAll() {
	if s.failed() {
		return
	}
	for _, p := range s.living() {
		if p.stopping {
			s.violate("%s: does not stop", p.name)
		}
	}
	var settled, unknown run.Amount
	for _, r := range s.runs {
		state, err := s.fold(r.id)
		if err != nil {
			s.violate("%s: cannot be read: %v", r.id, err)
			continue
		}
		if broken := s.seen[r.id].tally.Check(state); broken != nil {
			s.violate("%s: %s: %s", r.id, broken.Code, broken.Text)
		}
		s.checkMoney(state)
		s.checkTree(state)
		for i := range state.Calls {
			s.checkCall(state, &state.Calls[i])
		}
		if state.Started.Parent == "" {
			settled, unknown = settled.Plus(state.Budget.Settled), unknown.Plus(state.Budget.Unknown)
		}
	}
	budget, _ := s.store.Budget(context.Background(), account) // it was set
	if budget.Reserved != (run.Amount{}) || budget.Settled != settled || budget.Unknown != unknown {
		s.violate("the account holds %+v, its runs settled %+v and left %+v unknown", budget, settled, unknown)
	}
}

// checkMoney holds what the run says it paid against what models were paid.
func (s *simulation) checkMoney(state *run.State) {
	if s.seen[state.ID].ended != 1 {
		s.violate("%s: has %d ends", state.ID, s.seen[state.ID].ended)
	}
	paid := s.outside.billed[state.ID]
	if held := state.Budget.Settled.Plus(state.Budget.Unknown).Minus(below(state)); paid.Tokens > held.Tokens || paid.MicroUSD > held.MicroUSD {
		s.violate("%s: models were paid %+v, and it accounts for %+v", state.ID, paid, held)
	}
}

// checkCall holds what the journal says of a call against what happened.
func (s *simulation) checkCall(state *run.State, call *run.Call) {
	if call.Child != "" {
		return // its child did it
	}
	ordinal := call.CallProposed.Call
	key := keyOf(state.ID, ordinal)
	acts, begun := s.outside.acts[key], s.outside.begun[key]
	most := 1 + call.Repeats
	switch class := call.Class.OrWorst(); {
	case begun > call.Intent:
		s.violate("%s: %d requests on %d intents", key, begun, call.Intent)
	case class == policy.Keyed && acts > 1:
		s.violate("%s: %d effects under one key", key, acts)
	case (class == policy.Checkable || class == policy.Opaque) && (begun > most+call.Asked || acts > most):
		s.violate("%s (%s): %d requests and %d effects, at most %d allowed", key, class, begun, acts, most)
	}
	told := len(call.Resolutions) > 0
	for _, late := range call.Late {
		told = told || late.Outcome == run.OutcomeOK
	}
	switch {
	case call.Outcome == run.OutcomeOK && acts == 0:
		s.violate("%s: the journal says it was done, and it was not", key)
	case call.Outcome != run.OutcomeOK && call.Outcome != run.OutcomeUnknown && acts > 0 && !told && call.Class != policy.ClassRead:
		s.violate("%s (%s): the journal says %s %s, and it was done", key, call.Class, call.Outcome, call.Code)
	}
}

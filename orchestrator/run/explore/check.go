package explore

import (
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// tally is what the journal adds up to, counted apart from the state.
type tally struct {
	state     run.State
	approvals map[string]run.ApprovalRequested
	granted   map[string]bool
	used      map[string]bool // spent or void
	held      map[int]bool
	results   map[int]int
	keys      map[string]int
	answered  map[string]bool // steers that an answered turn contained
	asked     []string        // steers of the turn in flight
	cost      run.Amount
	cancelled bool
	ended     int
}

// check reads the journal from its beginning and holds every promise against
// it and against what happened outside.
func (w *world) check(cells map[run.Transition]bool) error {
	t := &tally{state: run.State{ID: "run"}, approvals: map[string]run.ApprovalRequested{}, granted: map[string]bool{}, used: map[string]bool{},
		held: map[int]bool{}, results: map[int]int{}, keys: map[string]int{}, answered: map[string]bool{}}
	for _, e := range w.events {
		from := t.state.Status
		if err := run.Apply(&t.state, e.event); err != nil {
			return broken("%v", err)
		}
		cells[run.Transition{From: from, Kind: e.event.Kind(), To: t.state.Status}] = true
		if err := t.note(e); err != nil {
			return err
		}
	}
	if err := w.checkOutside(t); err != nil {
		return err
	}
	return t.checkState()
}

func (t *tally) note(e stamped) error {
	if t.ended > 0 {
		switch e.event.(type) {
		case run.LateOutcome, run.UncertainResolved:
		default:
			return broken("%s after the end", e.event.Kind())
		}
	}
	switch event := e.event.(type) {
	case run.TurnStarted:
		t.asked = event.Steers
		if t.cancelled {
			return broken("turn %d begins after the cancel", event.Turn)
		}
	case run.TurnAnswered:
		t.cost = t.cost.Plus(event.Cost)
		for _, steer := range t.asked {
			t.answered[steer] = true
		}
	case run.CallJudged:
		t.held[event.Call] = event.Verdict.Answer == policy.Hold
	case run.CallIntended:
		return t.noteIntent(event, e)
	case run.CallEnded:
		t.cost = t.cost.Plus(event.Cost)
		if t.results[event.Call]++; t.results[event.Call] > 1 {
			return broken("call %d has two results", event.Call)
		}
	case run.SteerSettled:
		if event.Disposition == run.Absorbed && !t.answered[event.Steer] {
			return broken("steer %s absorbed by no turn", event.Steer)
		}
	case run.CancelAccepted:
		t.cancelled = true
	case run.Ended:
		t.ended++
	default:
		t.noteApproval(e.event)
	}
	return nil
}

func (t *tally) noteApproval(event run.Event) {
	switch event := event.(type) {
	case run.ApprovalRequested:
		t.approvals[event.Approval] = event
	case run.ApprovalDecided:
		t.granted[event.Approval] = event.Granted && event.Complete
	case run.ApprovalVoided:
		t.used[event.Approval] = true
	}
}

func (t *tally) noteIntent(event run.CallIntended, e stamped) error {
	if t.cancelled {
		return broken("call %d begins after the cancel", event.Call)
	}
	if other, known := t.keys[event.Key]; known && other != event.Call {
		return broken("calls %d and %d share a key", other, event.Call)
	}
	t.keys[event.Key] = event.Call
	if !t.held[event.Call] || event.Intent > 1 {
		return nil
	}
	approval, known := t.approvals[event.Approval]
	switch {
	case !known || approval.Call != event.Call || !t.granted[event.Approval]:
		return broken("call %d begins without its approval", event.Call)
	case t.used[event.Approval]:
		return broken("call %d begins on an approval that is spent or void", event.Call)
	case e.atMs >= approval.NotAfterMs:
		return broken("call %d begins on an expired approval", event.Call)
	case e.policy != approval.Policy:
		return broken("call %d begins on an approval under another policy", event.Call)
	}
	t.used[event.Approval] = true
	return nil
}

// checkOutside counts attempts: a call that the other side cannot recognise is
// attempted once, and once more for each time a person asked for it.
func (w *world) checkOutside(t *tally) error {
	for call, attempts := range w.attempts {
		c := t.state.Call(call)
		class := c.Class.OrWorst()
		if class != policy.ClassRead && class != policy.Keyed && attempts > 1+c.Repeats {
			return broken("call %d of class %s acted %d times", call, class, attempts)
		}
	}
	return nil
}

func (t *tally) checkState() error {
	s := &t.state
	for i := range s.Calls {
		if s.Calls[i].CallProposed.Call != i+1 {
			return broken("call %d stands at place %d", s.Calls[i].CallProposed.Call, i+1)
		}
	}
	if !s.Budget.Committed().Within(s.Budget.Limit) {
		return broken("committed %+v above the limit %+v", s.Budget.Committed(), s.Budget.Limit)
	}
	if s.Budget.Settled != t.cost {
		return broken("settled %+v, but the costs are %+v", s.Budget.Settled, t.cost)
	}
	if s.Ended == nil {
		return nil
	}
	return t.checkEnd(s)
}

func (t *tally) checkEnd(s *run.State) error {
	for i := range s.Calls {
		if t.results[i+1] != 1 {
			return broken("call %d has %d results at the end", i+1, t.results[i+1])
		}
	}
	for _, steer := range s.Steers {
		if steer.Disposition == "" {
			return broken("steer %s was lost", steer.Steer)
		}
	}
	if s.Budget.Reserved != (run.Amount{}) || s.Ended.Settled != s.Budget.Settled || s.Ended.Unknown != s.Budget.Unknown {
		return broken("the end leaves %+v and says %+v", s.Budget, *s.Ended)
	}
	return nil
}

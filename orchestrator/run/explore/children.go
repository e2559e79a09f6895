package explore

import (
	"maps"
	"slices"
	"strconv"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// childCarve is the budget of every child, of which it spends a part.
var (
	childCarve = run.Amount{MicroUSD: 20, Tokens: 20}
	childSpent = run.Amount{MicroUSD: 5, Tokens: 5}
	childLost  = run.Amount{MicroUSD: 1}
)

// fate is what has become of a child, whose run is not walked: it ends when it
// likes, and sooner or later it does.
type fate struct {
	Status run.Status // empty while it lives
	Told   bool       // to stop
	Review bool       // it reviews something
	Passed bool       // and found nothing that speaks against it
}

// below makes the walked run a child of another one.
func below(started run.Started) run.Started {
	started.RunKind, started.Root, started.Parent, started.Accounts = run.SubAgent, "root", "root", nil
	started.Lineage = []run.Link{{Run: "root", Agent: "above"}}
	started.Chain = []string{"asker", "above", "agent"}
	started.Task = &run.Task{Call: 1, Lands: run.LandsAsResult, ResultBytes: 1_000}
	return started
}

// spawn is the child that does a call. It never has children.
func (w *world) spawn(call int) *run.Spawn {
	return &run.Spawn{Child: run.ChildOfCall("run", call), RunKind: run.SubAgent, Agent: "child", Revision: "c1", Snapshot: "inputs", Carve: childCarve,
		Authority: policy.Authority{MicroUSD: childCarve.MicroUSD, Tokens: childCarve.Tokens, DeadlineMs: deadlineMs, Turns: 1}}
}

// review is the child that reviews a call or an answer.
func (w *world) review(of string) run.Spawn {
	child := w.spawn(0)
	child.Child, child.RunKind, child.Purpose = run.ChildOfReview("run", of), run.Sidecar, run.ForCheck
	return *child
}

// born starts what an event starts outside.
func (w *world) born(event run.Event) error {
	e, starts := event.(run.ChildStarted)
	if !starts {
		return nil
	}
	if _, twice := w.children[e.Child]; twice {
		return broken("child %s was born twice", e.Child)
	}
	w.children[e.Child] = fate{Review: e.Review != ""}
	return nil
}

// childActions let children end. What they do is none of the walked run's.
func (w *world) childActions() []action {
	var all []action
	for _, id := range slices.Sorted(maps.Keys(w.children)) {
		now := w.children[id]
		if now.Status != "" {
			continue
		}
		statuses := w.scope.Fates
		switch {
		case now.Told:
			statuses = []run.Status{run.StatusCancelled}
		case now.Review && w.left.Wrong < 1:
			statuses = nil
		}
		for _, status := range statuses {
			all = append(all, action{"child ends " + string(status), func(w *world) error {
				if now.Review && !now.Told {
					w.left.Wrong--
				}
				w.children[id] = fate{Status: status, Told: now.Told, Review: now.Review}
				return nil
			}})
		}
		if now.Review && !now.Told {
			all = append(all, action{"review passes", func(w *world) error {
				w.children[id] = fate{Status: run.StatusCompleted, Review: true, Passed: true}
				return nil
			}})
		}
	}
	return all
}

// news counts the ends of children, and those that the run knows of.
func (w *world) news() (news, heard uint64) {
	for _, child := range w.children {
		if child.Status != "" {
			news++
		}
	}
	for i := range w.state.Children {
		if !w.state.Children[i].Live() {
			heard++
		}
	}
	return news, heard
}

// ends are those that the run has not folded yet.
func (w *world) ends() []run.ChildEnd {
	var ends []run.ChildEnd
	for i := range w.state.Children {
		child := &w.state.Children[i]
		now := w.children[child.ChildStarted.Child]
		if !child.Live() || now.Status == "" {
			continue
		}
		end := run.ChildEnd{ChildEnded: run.ChildEnded{Child: child.ChildStarted.Child, Status: now.Status, Reason: run.EndVerified,
			Result: &run.Text{ID: "result"}, Settled: childSpent, Head: "head-" + strconv.Itoa(child.Call), Passed: now.Passed}}
		if now.Status == run.StatusFailed {
			end.Reason, end.Unknown = run.EndLimit, childLost
		}
		ends = append(ends, end)
	}
	return ends
}

// collect asks which children have ended; what it learnt is reported later.
func (w *world) collect(i int, key string) []action {
	ends := w.ends()
	if len(ends) == 0 {
		return nil
	}
	return []action{{"worker " + strconv.Itoa(i) + " collects " + strconv.Itoa(len(ends)), func(w *world) error {
		w.workers[i].hands = append(w.workers[i].hands, hand{Key: key, Ends: ends})
		return nil
	}}}
}

// tell tells a child to stop; that it was told is reported later.
func (w *world) tell(i int, key, child string) []action {
	return []action{{"worker " + strconv.Itoa(i) + " tells " + child, func(w *world) error {
		now := w.children[child]
		now.Told = true
		w.children[child] = now
		w.workers[i].hands = append(w.workers[i].hands, hand{Key: key, Child: child})
		return nil
	}}}
}

// beside begins a sidecar; that it began is reported later.
func (w *world) beside(i int, e run.DispatchSidecar) []action {
	return []action{{"worker " + strconv.Itoa(i) + " begins " + e.Key(), func(w *world) error {
		w.workers[i].hands = append(w.workers[i].hands, hand{Key: e.Key(), Beside: e.Number})
		return nil
	}}}
}

// orDeclines adds that a child turns out not to be possible, as often as the
// scope allows.
func (w *world) orDeclines(starts []action, declines action) []action {
	if w.left.Declines > 0 {
		starts = append(starts, declines)
	}
	return starts
}

func spendDecline(w *world) { w.left.Declines-- }

// bring reports what was learnt of children.
func (w *world) bring(i, h int, held hand) []action {
	var command run.Command = run.ReportChildren{Ends: held.Ends}
	switch {
	case held.Child != "":
		command = run.ReportStopped{Child: held.Child}
	case held.Beside > 0:
		command = run.ReportSidecar{Number: held.Beside, Sidecar: "beside", Agent: "child", Purpose: run.ForMonitor}
	}
	return []action{{"worker " + strconv.Itoa(i) + " brings " + held.Key, func(w *world) error {
		w.workers[i].hands = append(w.workers[i].hands[:h:h], w.workers[i].hands[h+1:]...)
		if w.workers[i].epoch == 0 {
			return nil // another one asks again
		}
		return w.report(i, command)
	}}}
}

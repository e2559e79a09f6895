package simulate

import (
	"context"
	"errors"
	"hash/fnv"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// agentAt is the agent of a run so many levels below the root.
func agentAt(level int) string { return string(rune('a' + level)) }

// delegates reports whether another agent does the calls of a tool.
func delegates(tool string) bool { return tool == "delegate" || tool == "held.delegate" }

// spawn readies a child. What it may have at most is asked of the rules.
func (w performer) spawn(view engine.View, e run.DispatchCall) engine.Prepared {
	s, parent := w.p.sim, view.State
	authority := w.authority(view)
	level := len(parent.Started.Lineage) + 1
	id := run.ChildOfCall(parent.ID, e.Call)
	goal, payload := s.seal(id, "the part")
	limits := s.plan.limits
	limits.OnLimit = run.FailOnLimit
	started := run.Started{Organisation: organisation, RunKind: run.SubAgent, Root: parent.Started.Root, Parent: parent.ID, Subject: parent.Started.Subject,
		Chain: append(append([]string{}, parent.Started.Chain...), "agent:"+agentAt(level)), Contact: "carl", Goal: goal, Authority: authority,
		Checks: []string{"output"}, Limits: limits, Snapshot: s.snapshot(goal),
		Lineage: append(append([]run.Link{}, parent.Started.Lineage...), run.Link{Run: parent.ID, Agent: parent.Started.Agent.Name}),
		Task:    &run.Task{Call: e.Call, Lands: run.LandsAsResult, ResultBytes: 1_000}}
	started.Agent.Name, started.Agent.Owner = agentAt(level), "carl"
	started.SnapshotDigest = started.Snapshot.Digest()
	child := &run.Spawn{Child: id, RunKind: run.SubAgent, Agent: started.Agent.Name, Snapshot: started.SnapshotDigest, Authority: authority,
		Carve: run.Amount{MicroUSD: authority.MicroUSD, Tokens: authority.Tokens}}
	begin := run.BeginCall{Epoch: view.Epoch, Call: e.Call, Inputs: inputs(), Key: keyOf(parent.ID, e.Call), NotAfterMs: authority.DeadlineMs, Child: child}
	return engine.Prepared{Command: begin, Birth: &engine.Birth{Run: id, Started: started, Payloads: []engine.Payload{payload}}}
}

// authority is what a child gets of what its parent has now: money and time as
// it comes.
func (w performer) authority(view engine.View) policy.Authority {
	s, parent := w.p.sim, view.State
	under := parent.Unused(policy.Meet(parent.Authority, view.Rules.Ceiling(parent.Acting(view.NowMs))))
	under.Depth--
	under.RunsAtOnce -= parent.LiveRuns() + 1
	authority := view.Rules.Ceiling(run.Acting{Subject: parent.Started.Subject.ID, Under: &under,
		Links: []run.Link{{Agent: agentAt(len(parent.Started.Lineage) + 1)}}})
	left := parent.Budget.Limit.Minus(parent.Budget.Committed())
	share := max(1, min(left.MicroUSD, left.Tokens)/s.plan.shares)
	authority.MicroUSD, authority.Tokens, authority.Turns = share, share, s.plan.limits.Turns
	authority.RunsAtOnce = min(max(authority.RunsAtOnce, 0), max(authority.Depth, 0)*s.plan.childRuns)
	authority.DeadlineMs = min(authority.DeadlineMs, view.NowMs+s.between(s.plan.childMs/4, s.plan.childMs))
	return authority
}

// collect brings the ends of children that the run does not know of.
func (w performer) collect(ctx context.Context, view engine.View) (engine.Prepared, error) {
	live := map[string]bool{}
	for i := range view.State.Children {
		if child := &view.State.Children[i]; child.Live() {
			live[child.ChildStarted.Child] = true
		}
	}
	news, records, err := w.p.sim.store.EndedChildren(ctx, view.State.ID, func(id string) bool { return !live[id] })
	if err != nil || len(records) == 0 {
		return engine.Prepared{}, err
	}
	report := run.ReportChildren{}
	for _, record := range records {
		event, err := run.Decode(record)
		if err != nil {
			return engine.Prepared{}, err
		}
		ended := event.(run.Ended)
		report.Ends = append(report.Ends, run.ChildEnd{ChildEnded: run.ChildEnded{Child: record.Run, Status: ended.Status, Reason: ended.Reason, Code: ended.Code,
			Result: ended.Result, Settled: ended.Settled, Unknown: ended.Unknown, Head: record.Digest}})
	}
	return engine.Prepared{Command: report, Heard: news}, nil
}

// stop tells a child to end, as a client would.
func (w performer) stop(ctx context.Context, e run.StopChild) (engine.Prepared, error) {
	_, err := w.p.sim.engine.Submit(ctx, engine.Submission{Organisation: organisation, Run: e.Child, Command: run.Cancel{By: run.Identity{Principal: "ada"}}})
	var refusal *run.Refusal
	if err != nil && !errors.As(err, &refusal) {
		return engine.Prepared{}, err
	}
	return engine.Prepared{Command: run.ReportStopped(e)}, nil
}

// EndedChildren is the journal's.
func (s *store) EndedChildren(ctx context.Context, parent string, known func(child string) bool) (uint64, []run.Record, error) {
	if met := s.meets(); met == lost || met == silent {
		return 0, nil, errStore
	}
	return s.Memory.EndedChildren(ctx, parent, known)
}

// born takes up the runs that a write starts beside its own, each of which has
// its edge and its carve there.
func (s *simulation) born(write engine.Write) {
	edges := map[string]run.ChildStarted{}
	for _, record := range write.Records {
		event, err := run.Decode(record)
		if e, starts := event.(run.ChildStarted); err == nil && starts {
			edges[e.Child] = e
		}
	}
	if len(edges) != len(write.Births) {
		s.violate("%s: %d children begin with %d edges", write.Head.Run, len(write.Births), len(edges))
	}
	for _, birth := range write.Births {
		id := birth.Head.Run
		event, err := run.Decode(birth.Records[0])
		started, starts := event.(run.Started)
		if err != nil || !starts || birth.Head.Parent != write.Head.Run {
			s.violate("%s: does not begin as a child", id)
			return
		}
		carve := run.Amount{MicroUSD: started.Authority.MicroUSD, Tokens: started.Authority.Tokens}
		if edge, has := edges[id]; !has || edge.Carve != carve || edge.Call != started.Task.Call {
			s.violate("%s: begins with %+v, and its parent carved %+v", id, carve, edge.Carve)
		}
		s.enrol(id, len(started.Lineage))
		s.witness(*birth)
		s.tell(id)
	}
	if top := write.Head.Run; len(write.Births) > 0 && s.hit(s.rate(s.plan.person/4)) {
		s.spawn(nil, func() {
			s.sleep(s.between(0, 1_000))
			_ = s.command("ada", top, run.Cancel{By: run.Identity{Principal: "ada"}}) // it may have ended
		})
	}
}

// enrol adds a run with a script of its own: the same one, however often the
// run was about to begin.
func (s *simulation) enrol(id string, level int) {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(id)) // a hash never fails
	s.index[id] = len(s.runs)
	s.runs = append(s.runs, subject{id: id, script: s.strained(id, s.scriptOf(level, newChance(s.seed^hash.Sum64())))})
}

// scriptOf is what the model of a run at a level will propose.
func (s *simulation) scriptOf(level int, c chance) [][]string {
	if s.plan.script != nil {
		return s.plan.script(level)
	}
	return drawScript(c, s.plan.family)
}

// above visits a run's witness and those of the runs above it.
func (s *simulation) above(id string, visit func(id string, w *witness)) {
	for id != "" {
		w := s.witnessOf(id)
		visit(id, w)
		id = w.parent
	}
}

// noticeTree watches over what goes on between runs.
func (s *simulation) noticeTree(id string, w *witness, record run.Record, event run.Event) {
	switch e := event.(type) {
	case run.Started:
		w.parent, w.links = e.Parent, e.Lineage
	case run.CallProposed:
		w.tools[e.Call] = e.Tool
	case run.CancelAccepted:
		w.cancelled = true
	case run.TurnStarted:
		s.begins(id, "a turn")
	case run.CallIntended:
		s.begins(id, w.tools[e.Call])
		s.mayStill(id, w, w.tools[e.Call])
	case run.ChildStarted:
		s.begins(id, "a child")
		w.live[e.Child] = true
	case run.ChildEnded:
		if !w.live[e.Child] {
			s.violate("%s: the end of %s is folded again", id, e.Child)
		}
		delete(w.live, e.Child)
		if end := s.witnessOf(e.Child); end.last != e.Head || end.settled != e.Settled || end.unknown != e.Unknown {
			s.violate("%s: the end of %s is folded in other words", id, e.Child)
		}
	case run.Ended:
		w.last, w.settled, w.unknown = record.Digest, e.Settled, e.Unknown
		if len(w.live) > 0 {
			s.violate("%s: ends with live children", id)
		}
	}
}

// begins refuses what begins below a run that was cancelled.
func (s *simulation) begins(id, what string) {
	s.above(id, func(top string, w *witness) {
		if w.cancelled {
			s.violate("%s: begins %s although %s was cancelled", id, what, top)
		}
	})
}

// mayStill refuses a call of a tool that one of those above may not use now.
func (s *simulation) mayStill(id string, w *witness, tool string) {
	switch {
	case tool == served && s.rules.kept:
		s.violate("%s: calls %s, which is kept back", id, tool)
	case tool == wanted && !s.rules.consented(id):
		s.violate("%s: calls %s, which nobody lets it use", id, tool)
	}
	links := append(append([]run.Link{}, w.links...), run.Link{Agent: agentAt(len(w.links))})
	for _, link := range links {
		if s.rules.barred[bar{link.Agent, tool}] {
			s.violate("%s: calls %s, which %s may not any more", id, tool, link.Agent)
		}
	}
}

// waitsBelow reports whether a run has a child that has not ended itself.
func (s *simulation) waitsBelow(id string) bool {
	for child := range s.witnessOf(id).live {
		if head, _ := s.head(child); !head.Status.Ended() {
			return true
		}
	}
	return false
}

// checkTree holds the edges that a run has against the runs that there are.
func (s *simulation) checkTree(state *run.State) {
	if parent := state.Started.Parent; parent != "" {
		above, err := s.fold(parent)
		if err != nil || above.Child(state.ID) == nil {
			s.violate("%s: nobody started it (%v)", state.ID, err)
		}
	}
	for i := range state.Children {
		child := &state.Children[i]
		if _, there := s.index[child.ChildStarted.Child]; !there || child.Live() {
			s.violate("%s: child %s is there: %t, and live: %t", state.ID, child.ChildStarted.Child, there, child.Live())
		}
	}
}

// below is what the children of a run have settled and left unknown.
func below(state *run.State) (held run.Amount) {
	for i := range state.Children {
		if end := state.Children[i].Ended; end != nil {
			held = held.Plus(end.Settled).Plus(end.Unknown)
		}
	}
	return held
}

// bar keeps an agent from a tool.
type bar struct{ agent, tool string }

// barAnother takes a tool from an agent, wherever it stands in a tree.
func (s *simulation) barAnother() {
	barred := map[bar]bool{}
	for known := range s.rules.barred {
		barred[known] = true
	}
	barred[bar{agentAt(s.IntN(3)), pick(s.chance, "keyed", "opaque", "delegate", "read")}] = true
	s.rules.barred = barred
}

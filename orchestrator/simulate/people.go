package simulate

import (
	"context"
	"errors"
	"fmt"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// wish is one command of a person with the id that makes it one: each try has
// its own texts and ids.
type wish struct {
	run  string
	by   string
	make func(try int) (run.Command, []engine.Payload)
}

// submit sends a wish until it is answered, as a client does whose line broke.
// It returns nil where the wish was accepted, now or by an earlier try.
func (s *simulation) submit(w wish) error {
	receipt := engine.Receipt{Organisation: organisation, Caller: w.by, Command: s.ID(), Request: "digest", Run: w.run}
	var err error
	for try := range 20 {
		command, payloads := w.make(try)
		_, err = s.engine.Submit(context.Background(), engine.Submission{Organisation: organisation, Run: w.run, Command: command,
			Payloads: payloads, Receipt: &receipt})
		if errors.Is(err, engine.ErrReplayed) {
			return nil
		}
		var refusal *run.Refusal
		if refused := errors.As(err, &refusal); err == nil || refused {
			s.checkAnswer(receipt, refusal)
			return err
		}
		s.sleep(s.between(1, 50))
	}
	return err
}

// checkAnswer looks whether a command that was refused had been accepted.
func (s *simulation) checkAnswer(receipt engine.Receipt, refusal *run.Refusal) {
	_, err := s.store.Memory.Receipt(context.Background(), receipt.Organisation, receipt.Caller, receipt.Command)
	if refusal != nil && err == nil {
		s.violate("%s: a command of %s was accepted, and they are told %s", receipt.Run, receipt.Caller, refusal.Code)
	}
}

// ask starts a run.
func (s *simulation) ask(id string) {
	s.sleep(s.between(0, s.plan.safetyMs/4))
	goal, payload := s.seal(id, "the goal")
	started := run.Started{Organisation: organisation, RunKind: run.Root, Root: id, Subject: person("ada"), Chain: []string{"ada", "agent:a"},
		Contact: "carl", Goal: goal, Authority: authority(s.plan.money), Checks: []string{"output"}, Limits: s.plan.limits,
		Accounts: []string{account}, Snapshot: s.snapshot(goal)}
	started.Agent.Name, started.Agent.Owner = agentAt(0), "carl"
	started.Authority.Depth, started.Authority.FanOut, started.Authority.RunsAtOnce = s.plan.depth, s.plan.fanOut, s.plan.runsBelow
	started.Authority.Turns = s.plan.limits.Turns
	started.SnapshotDigest = started.Snapshot.Digest()
	for s.submit(wish{run: id, by: "ada", make: func(int) (run.Command, []engine.Payload) {
		asked := started
		ceiling := s.rules.Ceiling(run.Acting{Subject: "ada", Links: []run.Link{{Agent: agentAt(0)}}})
		asked.Authority = policy.Meet(policy.Succeeded(started.Authority, s.rules.Tool), ceiling)
		return run.Start{Started: asked}, []engine.Payload{payload}
	}}) != nil {
		s.sleep(100)
	}
}

// live is what a person does all day.
func (s *simulation) live(id string) {
	for {
		pauseMs := s.between(1, s.plan.patienceMs)
		if s.diligent {
			pauseMs = s.between(1, 500)
		} else if s.calm {
			pauseMs = 1_000
		}
		s.sleep(pauseMs)
		if s.calm && !s.diligent {
			continue
		}
		s.visitInbox(id)
		if s.hit(s.rate(s.plan.person)) && len(s.runs) > 0 {
			s.meddle(id, s.runs[s.IntN(len(s.runs))].id)
		}
	}
}

func (s *simulation) visitInbox(id string) {
	items, _ := s.store.Inbox(context.Background(), person(id)) // memory never fails
	for _, item := range items {
		if !s.diligent && s.hit(0.4) {
			continue // not now
		}
		state, err := s.engine.State(context.Background(), item.Run)
		if err != nil {
			continue
		}
		if s.hit(s.rate(s.plan.person)) {
			s.sleep(s.between(0, 2_000)) // what was read is old by now
		}
		s.handle(id, item, state)
	}
}

func (s *simulation) handle(id string, item engine.InboxItem, state *run.State) {
	by := run.Identity{Principal: id}
	switch item.Kind {
	case engine.InboxApproval:
		s.decide(id, state, state.Approval(item.ID))
	case engine.InboxQuestion:
		_ = s.submit(wish{run: item.Run, by: id, make: func(int) (run.Command, []engine.Payload) {
			text, payload := s.seal(item.Run, "an answer")
			return run.AnswerQuestion{Question: item.ID, By: by, Person: person(id), Answer: text, Action: s.action(state, item.ID)}, []engine.Payload{payload}
		}}) // it may be refused
	case engine.InboxAccess:
		s.consent(id, state, state.Access(item.ID))
	case engine.InboxLimit:
		if state.Reached != nil {
			_ = s.command(id, item.Run, s.raise(id, state)) // it may be refused
		}
	case engine.InboxParked:
		_ = s.command(id, item.Run, run.Resume{By: by, Person: person(id)}) // it may be refused
	case engine.InboxUncertain:
		for i := range state.Calls {
			if engine.CallItem(item.Run, i+1) == item.ID {
				s.find(id, item.Run, i+1)
			}
		}
	}
}

// command submits a command that bears no text.
func (s *simulation) command(by, id string, command run.Command) error {
	return s.submit(wish{run: id, by: by, make: func(int) (run.Command, []engine.Payload) { return command, nil }})
}

func (s *simulation) decide(id string, state *run.State, approval *run.Approval) {
	if approval == nil {
		return
	}
	word := run.DecideApproval{Approval: approval.Approval, Digest: approval.Digest, Granted: s.hit(0.8), By: run.Identity{Principal: id}, Person: person(id)}
	wrong := s.hit(s.rate(s.plan.person))
	if wrong {
		word.Digest = "another"
	}
	if word.Granted && !wrong {
		s.meant(state.ID, approval.Call, id)
	}
	err := s.command(id, state.ID, word)
	if wrong && err == nil {
		s.violate("%s: a word on another digest was accepted", state.ID)
	}
	if s.hit(s.rate(s.plan.person)) && !wrong && s.command(id, state.ID, word) == nil && err == nil {
		s.violate("%s: %s decided an approval twice", state.ID, id)
	}
}

// raise lets a run go on, or ends it, so that no run goes on for ever.
func (s *simulation) raise(id string, state *run.State) run.Resume {
	resume := run.Resume{By: run.Identity{Principal: id}, Person: person(id)}
	switch state.Reached.Limit {
	case run.LimitTurns:
		resume.Turns = 2
	case run.LimitBudget:
		resume.Amount = run.Amount{MicroUSD: 50, Tokens: 50}
	case run.LimitCheck:
		resume.Accept = s.hit(0.5)
	}
	if s.hit(0.1) {
		resume.End, resume.Accept = true, false
	}
	return resume
}

// find looks outside for an effect and says what is there. To have it done once
// more is a person's risk.
func (s *simulation) find(id, runID string, call int) {
	resolution := run.NotHappened
	switch {
	case s.outside.acts[keyOf(runID, call)] > 0:
		resolution = run.Happened
	case s.hit(0.3):
		resolution = run.Repeat
	}
	_ = s.submit(wish{run: runID, by: id, make: func(int) (run.Command, []engine.Payload) {
		text, payload := s.seal(runID, "seen outside")
		return run.ResolveUncertain{Call: call, By: run.Identity{Principal: id}, Person: person(id), Resolution: resolution,
			Override: resolution == run.Repeat, Evidence: text}, []engine.Payload{payload}
	}}) // it may be refused
}

// meddle is what people do without being asked.
func (s *simulation) meddle(id, runID string) {
	by := run.Identity{Principal: id}
	switch id {
	case "ada":
		if s.hit(0.25) {
			if s.command(id, runID, run.Cancel{By: by}) == nil {
				s.cancelled(runID)
			}
			return
		}
		s.steer(id, runID)
	case "carl":
		if s.hit(0.3) {
			s.faults++                                                            // what is in flight in a parked run is lost
			_ = s.command(id, runID, run.Park{Code: "OPERATOR", Detail: "looks"}) // it may be refused
		}
	default:
		s.trespass(id, runID)
	}
}

func (s *simulation) steer(id, runID string) {
	interrupt, void := s.hit(0.4), s.hit(0.4)
	accepted := 0
	var made []string
	err := s.submit(wish{run: runID, by: id, make: func(int) (run.Command, []engine.Payload) {
		text, payload := s.seal(runID, "guidance")
		made = append(made, text.ID)
		return run.Steer{Steer: text.ID, By: run.Identity{Principal: id}, Text: text, Interrupt: interrupt, Void: void}, []engine.Payload{payload}
	}})
	for _, steer := range made {
		if seen := s.seen[runID]; seen != nil && seen.steers[steer] {
			accepted++
		}
	}
	if accepted > 1 || err == nil && accepted == 0 {
		s.violate("%s: a steer was accepted %d times, and its sender was told %v", runID, accepted, err)
	}
}

// trespass tries what its person may not do: it has to be refused.
func (s *simulation) trespass(id, runID string) {
	state, err := s.engine.State(context.Background(), runID)
	if err != nil {
		return
	}
	const stranger = "eve"
	if n := len(state.Approvals); n > 0 {
		a, who := &state.Approvals[s.IntN(n)], pick(s.chance, stranger, "ada")
		word := run.DecideApproval{Approval: a.Approval, Digest: a.Digest, Granted: true, By: run.Identity{Principal: who}, Person: person(who)}
		if s.command(who, runID, word) == nil {
			s.violate("%s: %s approved what they may not", runID, who)
		}
		return
	}
	if s.command(stranger, runID, run.Resume{By: run.Identity{Principal: id}, Person: person(stranger), Turns: 1}) == nil {
		s.violate("%s: a stranger let it go on", runID)
	}
	other := fmt.Sprint("other/", organisation)
	if _, err := s.engine.Submit(context.Background(), engine.Submission{Organisation: other, Run: runID, Command: run.Cancel{}}); err == nil {
		s.violate("%s: another organisation cancelled it", runID)
	}
}

package simulate

import (
	"context"
	"fmt"
	"hash/fnv"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// strain is what a seed makes scarce: models that are out, models that take
// little, tools that runs have to ask for, servers that ask people, a tool that
// is not what people looked at any more.
type strain struct {
	longestOutMs int64 // that no model answers; 0: one always does
	room         int64 // that a prompt may take up; 0: as much as it likes
	wanting      bool
}

// strainSeed keeps what strains a world apart from all else that its seed
// decides, so that worlds without any go as they always went.
const strainSeed = 0x73747261696e

func drawStrain(c chance) strain {
	if c.hit(0.5) {
		return strain{}
	}
	return strain{longestOutMs: pick(c, 0, int64(1_000), 60_000), room: pick(c, int64(0), 10, 16, 24), wanting: c.hit(0.6)}
}

// fates is how many ways there are for a model request to go wrong.
func (t strain) fates() int64 {
	if t.room > 0 {
		return 8
	}
	return 7
}

// The tools of worlds that are wanting.
const (
	wanted  = "wanted"  // no run is admitted with it
	request = "request" // asks for that, or for a budget
	asking  = "asking"  // its server asks a person before it acts
	served  = "served"  // its server changes it
)

// asks reports whether the server of a tool asks people.
func asks(tool string) bool { return tool == asking || tool == asking+".opaque" }

// strained puts into a script what its world is wanting, and turns enough to
// outgrow a model.
func (s *simulation) strained(id string, script [][]string) [][]string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(id)) // a hash never fails
	c := newChance(s.seed ^ strainSeed ^ hash.Sum64())
	for turn := range script {
		for i := range script[turn] {
			if s.plan.wanting && c.hit(0.4) {
				script[turn][i] = pick(c, wanted, wanted, request, request+".budget", asking, asking, asking+".opaque", served, served)
			}
		}
	}
	for range c.IntN(4) {
		if s.plan.room > 0 {
			script = append(script, []string{"read"})
		}
	}
	return script
}

// breakDown lets no model answer for a time, now and then.
func (s *simulation) breakDown() {
	if s.calm {
		return
	}
	s.at(s.nowMs+s.between(1, 10_000), func() {
		s.faults++
		s.outMs = s.nowMs + s.between(1, s.plan.longestOutMs)
		s.at(s.outMs, s.breakDown)
	})
}

func (s *simulation) out() bool { return !s.calm && s.nowMs < s.outMs }

// snapshot is what a run begins with; one that may outgrow its model may be
// shown in brief.
func (s *simulation) snapshot(goal run.Text) run.Snapshot {
	snapshot := run.Snapshot{Goal: goal.ID}
	if s.plan.room > 0 {
		snapshot.Compiler = run.CompactingCompiler
	}
	return snapshot
}

// strains is what a worker does instead of a turn that cannot be taken now: it
// waits for a model that it knows to be out, or makes the prompt shorter.
func (w performer) strains(view engine.View, e run.TakeTurn) run.Command {
	s := w.p.sim
	if s.out() && s.hit(0.5) {
		return run.AwaitModels{Turn: e.Turn, Attempt: e.Attempt, BackMs: pick(s.chance, 0, view.NowMs+s.outMs-s.nowMs)}
	}
	rejected := view.State.Rejected()
	if !rejected && (!s.overflows(view.State) || s.hit(0.5)) {
		return nil // what it cannot know the model says
	}
	command := run.Compact{Turn: e.Turn, Attempt: e.Attempt, Cause: run.CompactedForRoom, Model: "m"}
	room := s.plan.room
	if rejected {
		command.Cause = run.CompactedRejected
		room = min(room, size(view.State, view.State.Brief())-1)
	}
	command.Brief, command.Unfit = shorter(view.State, room)
	return command
}

func (s *simulation) overflows(state *run.State) bool {
	return s.plan.room > 0 && size(state, state.Brief()) > s.plan.room
}

// size is how much of a model a prompt takes up: of each turn its answer and its
// calls, and little of one that is shown in brief.
func size(state *run.State, b run.Brief) int64 {
	all := int64(2)
	for i := range state.Turns[:state.Answered()] {
		if all++; i < b.Through {
			continue
		}
		shown := int64(4)
		if b.Result > 0 {
			shown = b.Result
		}
		if turn := &state.Turns[i]; turn.FirstCall > 0 {
			all += shown * int64(1+turn.LastCall-turn.FirstCall)
		}
	}
	return all
}

// shorter is the first brief form that fits, or says that none does.
func shorter(state *run.State, room int64) (b run.Brief, unfit bool) {
	b = state.Brief()
	for size(state, b) > room {
		switch {
		case b.Through < state.Answered()-1:
			b.Through++
		case b.Result == 0:
			b.Result = 2
		case b.Result == 2:
			b.Result = 1
		default:
			return b, true
		}
	}
	return b, false
}

// given is what a run gets that asks for the wanted tool.
func (r rules) given() policy.Authority {
	facts, _ := r.Tool(wanted)
	return policy.Authority{Tools: map[string]policy.ToolGrant{wanted: {Revision: facts.Revision, Impact: policy.Reversible, Calls: 100}}}
}

// consented reports whether a run was given the wanted tool as it is now.
func (r rules) consented(id string) bool {
	facts, _ := r.Tool(wanted)
	return id != "" && r.consents[id] == facts.Revision
}

// want is what a call of a tool needs that no run is admitted with, and whom it
// is asked for.
func (r rules) want(tool string) (*run.Want, []policy.Approver) {
	owner := []policy.Approver{{Principal: "olga", Why: "tool owner"}}
	switch tool {
	case wanted, request:
		return &run.Want{Thing: run.ThingTool, Name: wanted, Gives: r.given(), Class: policy.Keyed, CostBound: callCost}, owner
	case request + ".budget":
		return &run.Want{Thing: run.ThingBudget, Gives: policy.Authority{MicroUSD: 20, Tokens: 20}}, owner
	}
	return nil, nil
}

// changeHands takes back what runs were given, or lets a server give another
// tool than people looked at, or has them look at it. Who holds a call of it is
// told some time later.
func (s *simulation) changeHands() {
	switch {
	case s.hit(0.3):
		s.rules.consents = nil
	case s.rules.kept:
		s.rules.kept = false
		s.rules.pinned++
	default:
		s.rules.kept = true
		s.met["a tool that was kept back"]++
	}
	s.spawn(nil, func() {
		s.sleep(s.between(0, 500))
		for _, subject := range s.runs {
			state, err := s.engine.State(context.Background(), subject.id)
			if err != nil {
				continue
			}
			for i := range state.Calls {
				if call := &state.Calls[i]; call.Tool == served && call.Phase == run.CallHeld {
					_, _ = s.engine.Submit(context.Background(), engine.Submission{Organisation: organisation, Run: subject.id,
						Command: run.Reconsider{Call: call.CallProposed.Call}}) // it may be refused
				}
			}
		}
	})
}

// consent decides about something that a run wants. A yes is a grant first, and
// only then the run's.
func (s *simulation) consent(id string, state *run.State, access *run.Access) {
	if access == nil {
		return
	}
	word := run.DecideAccess{Access: access.AccessRequested.Access, Digest: access.Digest, Granted: s.hit(0.7), By: run.Identity{Principal: id}, Person: person(id)}
	wrong := s.hit(s.rate(s.plan.person))
	if wrong {
		word.Digest = "another"
	}
	if tool := access.Want.Gives.Tools[wanted]; word.Granted && tool.Revision != "" {
		word.Grant = "grant"
		consents := map[string]string{state.ID: tool.Revision}
		for of, revision := range s.rules.consents {
			if of != state.ID {
				consents[of] = revision
			}
		}
		s.rules.consents = consents
		s.rules.config++
		_ = s.store.SetGate(context.Background(), run.GateChange{Gate: run.ConfigGate(organisation), Value: s.rules.Revision()}) // memory never fails
		if s.hit(s.rate(s.plan.person)) {
			return // cut short: somebody says it again, or nobody does
		}
	}
	err := s.command(id, state.ID, word)
	switch {
	case wrong && err == nil:
		s.violate("%s: a word on another digest gave access", state.ID)
	case err == nil && word.Granted:
		s.met["access that was given"]++
	case err == nil:
		s.met["access that was refused"]++
	}
}

// action is what a person does with what a server asks, and nothing to a question
// of the model. What they said is noted before they say it.
func (s *simulation) action(state *run.State, id string) run.Action {
	question := state.Question(id)
	if question == nil || question.Ask == nil {
		return ""
	}
	place := keyOf(state.ID, question.Call) + "/" + question.Ask.Fingerprint
	if s.outside.said[place] == "" {
		s.outside.said[place] = pick(s.chance, run.Accept, run.Accept, run.Accept, run.Decline, run.Dismiss)
	}
	return s.outside.said[place]
}

// question asks a person, each time something else, or at times the same again.
func (o *outside) question(r demand) string {
	if r.action != "" && o.sim.hit(0.2) {
		return r.answered
	}
	o.asked[r.key]++
	return fmt.Sprint("ask", o.asked[r.key])
}

// told looks whether somebody said what a server is told that they said.
func (o *outside) told(r demand) {
	said := o.said[r.key+"/"+r.answered]
	if r.action == run.Accept && said != run.Accept || r.action == run.Dismiss && said != run.Dismiss {
		o.sim.report("%s: its server is told %s, and a person said %q to %s", r.key, r.action, said, r.answered)
	}
	if r.action != "" {
		o.sim.met["a server that got its answer"]++
	}
}

// asks brings what the server of a call asks, in words that may be shown or not.
func (w performer) asks(r demand, report run.ReportCall, question string) engine.Performed {
	s := w.p.sim
	s.met["a server that asked"]++
	asked := run.Asked{Question: s.ID(), Ask: run.Ask{Origin: "server", Kind: run.AskForm, Fingerprint: question}}
	report.Ask = &asked
	if s.hit(s.rate(0.2)) {
		asked.Declined = "SECRET"
		return engine.Performed{Command: report}
	}
	form, payload := s.seal(r.run, "which one?")
	asked.Form = &form
	return engine.Performed{Command: report, Payloads: []engine.Payload{payload}}
}

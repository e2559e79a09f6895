package simulate

import (
	"context"
	"fmt"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// outside is everything that tools act on and models cost. It keeps its own
// book, from which it is known what really happened.
type outside struct {
	sim    *simulation
	acts   map[string]int        // effects by idempotency key
	begun  map[string]int        // requests by key
	tries  map[string]bool       // requests by run, call and intent
	denied map[string]bool       // keys that a tool which keeps them has refused
	billed map[string]run.Amount // what models were paid, by run
	asked  map[string]int        // what people were asked, by key
	said   map[string]run.Action // what they said to it, by key and what was asked
}

func newOutside(s *simulation) *outside {
	return &outside{sim: s, acts: map[string]int{}, begun: map[string]int{}, tries: map[string]bool{}, denied: map[string]bool{},
		billed: map[string]run.Amount{}, asked: map[string]int{}, said: map[string]run.Action{}}
}

// demand is one call on its way to a tool.
type demand struct {
	run, tool, key string
	call, intent   int
	class          policy.EffectClass

	answered string     // what was asked last; empty before anything was
	action   run.Action // what is said to it
}

// reply is what comes back, if it does.
type reply struct {
	box    *engine.Mailbox
	here   bool
	denied bool
	ask    string // what a person is asked first; empty for nothing
}

// begin looks whether a request may be made at all.
func (o *outside) begin(r demand) {
	try := fmt.Sprint(r.run, "/", r.call, "/", r.intent)
	if o.tries[try] {
		o.sim.report("%s: an attempt was begun twice", try)
	}
	o.tries[try] = true
	o.begun[r.key]++
	o.told(r)
	o.sim.note(uint64(r.call), uint64(r.intent))
	seen := o.sim.seen[r.run]
	if seen == nil || seen.intents[[2]int{r.call, r.intent}] != r.key {
		o.sim.report("%s: an effect began before its intent was recorded", try)
	}
	if held := r.tool == "held" || r.tool == "held.opaque" || r.tool == "pair"; held && (seen == nil || !seen.granted[r.call]) {
		o.sim.report("%s: an effect began that nobody approved", try)
	}
}

// send lets a request arrive after a time and its answer come back after
// another.
func (o *outside) send(r demand, thereMs, backMs int64, denies bool) *reply {
	back := &reply{box: engine.NewMailbox()}
	o.sim.at(o.sim.nowMs+thereMs, func() {
		keeps := r.class == policy.Keyed
		switch {
		case keeps && (o.denied[r.key] || o.acts[r.key] > 0):
			back.denied = o.denied[r.key] // as it answered before
		case asks(r.tool) && r.action != run.Accept && r.action != "":
			back.denied, o.denied[r.key] = true, keeps
		case asks(r.tool) && (r.action == "" || o.sim.hit(o.sim.rate(0.3))):
			back.ask = o.question(r)
		case denies:
			back.denied, o.denied[r.key] = true, keeps
		default:
			o.acts[r.key]++
		}
		o.sim.at(o.sim.nowMs+backMs, func() { back.here = true; back.box.Wake() })
	})
	return back
}

// await waits for a reply until a time, and reports whether it came.
func (s *simulation) await(ctx context.Context, back *reply, untilMs int64) bool {
	for !back.here && ctx.Err() == nil && s.nowMs < untilMs {
		s.wait(ctx, back.box, untilMs)
	}
	return back.here
}

// think lets a model work for a time; it is paid whether or not anybody waits.
func (o *outside) think(id string, forMs int64, cost run.Amount) *reply {
	back := &reply{box: engine.NewMailbox()}
	o.sim.at(o.sim.nowMs+forMs, func() {
		o.billed[id] = o.billed[id].Plus(cost)
		back.here = true
		back.box.Wake()
	})
	return back
}

// Package simulate runs whole worlds on one seed: workers of the engine, the
// people around their runs, models, tools and the outside that these act on,
// all as coroutines of which one at a time runs, under a clock of their own.
// Workers crash and pause, the store fails, wake-ups are lost and outcomes come
// late or twice; then the faults stop, and every run has to come to rest.
//
// The outside keeps its own book of what really happened. What the journal says
// is held against it and against the promises of package promise.
package simulate

import (
	"context"
	"fmt"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

const (
	startMs    = 1_000_000
	restMs     = 600_000   // in which runs have to come to rest once faults stop
	clearMs    = 1_800_000 // in which people who do all that is asked of them bring every run to its end
	violations = 8         // of one seed that are kept
)

// Result is what one seed gave.
type Result struct {
	Seed       uint64
	Steps      int                   // tasks resumed
	Faults     int                   // injected
	Trace      string                // the same for the same order of everything
	Kinds      map[run.EventKind]int // events recorded
	Met        map[string]int        // what befell runs, in words
	Violations []string
}

// simulation is one world.
type simulation struct {
	*scheduler
	seed      uint64
	plan      plan
	store     *store
	engine    *engine.Engine // for people
	outside   *outside
	rules     rules
	processes []*process
	launched  int
	runs      []subject
	index     map[string]int
	seen      map[string]*witness
	calm      bool // no fault happens any more
	diligent  bool // people do all that is asked of them
	faults    int
	ids       int
	kinds     map[run.EventKind]int
	met       map[string]int
	outMs     int64 // until which no model answers
	found     []string
}

// subject is one run to be: what its model will propose.
type subject struct {
	id     string
	script [][]string
}

// Run plays one seed to its end and says what was broken.
func Run(seed uint64) Result { return newSimulation(seed).play() }

func (s *simulation) play() Result {
	s.populate()
	s.scheduler.run(startMs+s.plan.safetyMs, s.failed)
	s.settleDown()
	s.scheduler.run(s.nowMs+restMs, func() bool { return s.failed() || s.rested() })
	s.checkRest()
	s.diligent = true
	s.scheduler.run(s.nowMs+clearMs, func() bool { return s.failed() || s.over() })
	s.checkOver()
	s.scheduler.run(s.nowMs+20*callMs, func() bool { return s.failed() || s.quiet() })
	s.checkAll()
	s.end(nil)
	return Result{Seed: s.seed, Steps: s.steps, Faults: s.faults, Trace: s.hash(), Kinds: s.kinds, Met: s.met, Violations: s.found}
}

func newSimulation(seed uint64) *simulation {
	s := &simulation{seed: seed, scheduler: newScheduler(seed, startMs), index: map[string]int{}, seen: map[string]*witness{},
		kinds: map[run.EventKind]int{}, met: map[string]int{}}
	s.scheduler.report = s.violate
	s.plan = drawPlan(s.chance)
	s.plan.strain = drawStrain(newChance(seed ^ strainSeed))
	memory := journaltest.NewMemory(func() int64 { return s.nowMs })
	s.store = &store{Memory: memory, sim: s, epochs: map[string]uint64{}, owners: map[string]*process{}, barred: map[string]bool{}}
	s.engine = engine.New(s.store, s.rulesNow)
	s.outside = newOutside(s)
	// Memory never fails.
	_ = memory.SetGate(context.Background(), run.GateChange{Gate: run.ConfigGate(organisation), Value: s.rules.Revision()})
	_ = memory.SetBudget(context.Background(), account, run.Amount{MicroUSD: 1 << 52, Tokens: 1 << 52})
	return s
}

func (s *simulation) populate() {
	for i := range s.plan.runs {
		id := fmt.Sprint("r", i+1)
		s.index[id] = i
		s.runs = append(s.runs, subject{id: id, script: s.strained(id, s.scriptOf(0, s.chance))})
		s.spawn(nil, func() { s.ask(id) })
	}
	for range s.plan.workers {
		s.launch()
	}
	for _, id := range []string{"olga", "petra", "carl", "ada", "eve"} {
		s.spawn(nil, func() { s.live(id) })
	}
	s.disturb()
	s.reconfigure()
	if s.plan.longestOutMs > 0 {
		s.breakDown()
	}
}

// settleDown ends the faults and sees to it that a worker lives.
func (s *simulation) settleDown() {
	s.calm = true
	for _, p := range s.processes {
		p.pausedMs = 0
	}
	s.launch()
}

// rate is a probability while faults may happen.
func (s *simulation) rate(p float64) float64 {
	if s.calm {
		return 0
	}
	return p
}

// lag lets time pass on the way of a message.
func (s *simulation) lag() {
	if s.hit(s.rate(s.plan.stall)) {
		s.faults++
		if p := s.running.process; p != nil {
			p.faulty = true
		}
		s.sleep(s.between(0, 2*s.plan.leaseMs))
		return
	}
	s.sleep(s.between(0, s.plan.lagMs))
}

// duration is how long something outside takes: at times longer than a lease.
func (s *simulation) duration() int64 {
	switch {
	case s.hit(0.5):
		return s.between(0, 5)
	case s.hit(0.3):
		return s.between(0, min(3*s.plan.leaseMs, callMs/2-100))
	}
	return s.between(0, 100)
}

func (s *simulation) violate(format string, args ...any) {
	if len(s.found) < violations {
		s.found = append(s.found, fmt.Sprintf(format, args...))
	}
}

func (s *simulation) failed() bool { return len(s.found) > 0 }

// ID gives ids in their order.
func (s *simulation) ID() string { s.ids++; return fmt.Sprint("id", s.ids) }

// Salt is the same for all: nothing is secret here.
func (*simulation) Salt() []byte { return []byte("salt of 16 bytes") }

func (s *simulation) seal(id, text string) (run.Text, engine.Payload) {
	return engine.Seal(s, id, "ada", policy.Marking{}, []byte(text))
}

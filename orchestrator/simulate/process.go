package simulate

import (
	"context"
	"log/slog"

	"gantry.dev/orchestrator/engine"
)

// process is one worker process and the world that its worker sees.
type process struct {
	sim      *simulation
	name     string
	skewMs   int64 // of its local clock
	pausedMs int64 // it does nothing before this time
	faulty   bool  // something kept it from its work at least once
	dead     bool
	stopping bool // it was told to stop
	worker   *engine.Worker
	stop     context.CancelFunc
}

var _ engine.World = (*process)(nil)

// NowMs is the process's own clock, which may be wrong by hours.
func (p *process) NowMs() int64 { return p.sim.nowMs + p.skewMs }

// Await lets everybody else go on before and after the operation; the process
// may die or pause in between.
func (p *process) Await(ctx context.Context, _ string, operation func(context.Context) error) error {
	p.sim.sleep(0)
	err := operation(ctx)
	p.sim.sleep(0)
	return err
}

// Go begins a task of the process.
func (p *process) Go(task func()) { p.sim.spawn(p, task) }

// Wait suspends the running task.
func (p *process) Wait(ctx context.Context, box *engine.Mailbox, untilMs int64) {
	p.sim.wait(ctx, box, untilMs-p.skewMs)
}

// launch starts a worker under a name that none had before.
func (s *simulation) launch() {
	s.launched++
	name := "w" + string(rune('0'+s.launched/10)) + string(rune('0'+s.launched%10))
	p := &process{sim: s, name: name, skewMs: s.between(-s.plan.skewMs, s.plan.skewMs)}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	p.worker = engine.NewWorker(engine.WorkerConfig{Name: name, Journal: s.store, Claims: s.store, Rules: s.rulesNow,
		Performer: performer{p}, World: p, Log: slog.New(slog.DiscardHandler), LeaseMs: s.plan.leaseMs, PollMs: s.plan.pollMs,
		DrainMs: s.plan.drainMs, Runs: s.plan.runsAtOnce})
	s.processes = append(s.processes, p)
	s.spawn(p, func() {
		_ = p.worker.Work(ctx) // always nil
		p.dead = true
	})
}

// living are the processes that have not ended.
func (s *simulation) living() []*process {
	var living []*process
	for _, p := range s.processes {
		if !p.dead {
			living = append(living, p)
		}
	}
	return living
}

// crash ends a process between two of its steps.
func (s *simulation) crash(p *process) {
	p.dead, p.faulty = true, true
	s.end(p)
}

// disturb lets a crash, a pause or a stop happen to a worker every now and
// then, and keeps the number of workers.
func (s *simulation) disturb() {
	if s.calm {
		return
	}
	s.at(s.nowMs+s.between(1, 2*s.plan.disturbMs), s.disturb)
	if living := s.living(); len(living) > 0 {
		s.strike(living[s.IntN(len(living))])
	}
	if len(s.living()) < s.plan.workers && s.hit(0.5) {
		s.launch()
	}
}

// disturbSoon may do so while an effect of the process is in flight.
func (s *simulation) disturbSoon(p *process) {
	if s.hit(s.rate(0.3)) {
		s.at(s.nowMs+s.between(0, 100), func() { s.strike(p) })
	}
}

func (s *simulation) strike(p *process) {
	if p.dead {
		return
	}
	switch {
	case s.hit(s.rate(s.plan.pause)):
		s.faults++
		p.faulty = true
		p.pausedMs = s.nowMs + s.between(1, 10*s.plan.leaseMs)
	case s.hit(s.rate(s.plan.crash)):
		s.faults++
		s.crash(p)
	case s.hit(s.rate(s.plan.drain)):
		p.stopping = true
		p.stop()
	}
}

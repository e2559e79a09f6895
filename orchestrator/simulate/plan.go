package simulate

import "gantry.dev/orchestrator/run"

// plan is what a seed decides before anything happens. Rates are
// probabilities; they count only while faults may happen.
type plan struct {
	workers    int
	runs       int
	runsAtOnce int
	leaseMs    int64
	pollMs     int64
	drainMs    int64
	skewMs     int64
	safetyMs   int64
	disturbMs  int64 // between two disturbances of workers, on average
	ringMs     int64 // that a wake-up takes at most
	lagMs      int64 // that a way to the store takes at most
	patienceMs int64 // that a person leaves their inbox alone at most

	crash, pause, drain float64 // of a worker at each disturbance
	store               float64 // of an operation of the store
	stall               float64 // of a way to the store: it takes up to two leases
	silence             float64 // of a wake-up: it is lost
	model, tool         float64 // of a request
	prepare             float64 // of an effect that cannot be readied
	echo                float64 // of an outcome: it is told again
	person              float64 // of somebody: they do what they should not
	change              float64 // of the policies or a tool, now and then

	limits run.Limits
	money  int64

	depth, fanOut, runsBelow int
	childRuns                int                        // of a child, for each level that may be below it
	shares                   int64                      // how many children what is left would do for
	childMs                  int64                      // that a child may take at most
	family                   bool                       // models hand work on
	script                   func(level int) [][]string // of every run; nil: as it comes

	strain
}

// drawPlan lets the seed choose. One in eight is without any fault: there no
// lease may change hands and nothing may become uncertain.
func drawPlan(c chance) plan {
	p := plan{
		workers: int(c.between(1, 5)), runs: pick(c, 1, 2, 3, 6), runsAtOnce: pick(c, 1, 2, 64),
		leaseMs: pick(c, int64(40), 300, 3_000, 15_000), pollMs: pick(c, int64(50), 200, 500), drainMs: pick(c, int64(50), 2_000),
		skewMs: pick(c, int64(0), 3_600_000), ringMs: pick(c, int64(2), 100), lagMs: pick(c, int64(0), 1, 3), patienceMs: pick(c, int64(200), 1_000, 5_000),
		safetyMs: c.between(1_000, 30_000), disturbMs: pick(c, int64(30), 300, 3_000), limits: drawLimits(c), money: pick(c, int64(6), 40, 500, 500),
	}
	p.depth, p.fanOut, p.runsBelow, p.childRuns = pick(c, 0, 1, 2, 3), pick(c, 1, 3, 20), pick(c, 1, 3, 20), pick(c, 0, 1, 4)
	p.shares, p.childMs, p.family = pick(c, int64(1), 2, 6), pick(c, int64(1_000), 60_000, 60_000), c.hit(0.5)
	if p.family && c.hit(0.7) { // room for a tree that grows
		p.depth, p.fanOut, p.runsBelow, p.childRuns, p.money = pick(c, 2, 3, 4), 20, 20, 4, pick(c, int64(500), 5_000)
	}
	if c.hit(0.125) {
		return p
	}
	rate := func(high float64) float64 { return pick(c, 0, high/10, high/3, high) }
	p.crash, p.pause, p.drain = rate(0.3), rate(0.5), rate(0.1)
	p.store, p.stall, p.silence = rate(0.15), rate(0.02), pick(c, 0, 0.2, 1)
	p.model, p.tool, p.prepare = rate(0.5), rate(0.6), rate(0.1)
	p.echo, p.person, p.change = rate(0.3), rate(0.5), rate(0.3)
	return p
}

func drawLimits(c chance) run.Limits {
	return run.Limits{Turns: pick(c, 2, 10, 10), CallsPerTurn: pick(c, 2, 8), CallsAtOnce: pick(c, 1, 2, 8), TurnAttempts: pick(c, 1, 3),
		CallAttempts: pick(c, 1, 3), NoProgress: pick(c, 2, 9), RepairTurns: pick(c, 0, 2), CheckAttempts: pick(c, 1, 2), Steers: pick(c, 1, 4),
		ApprovalMs: pick(c, int64(400), 60_000), QuestionMs: pick(c, int64(400), 60_000), TurnMs: 12_000,
		OnLimit: pick(c, run.AskOnLimit, run.AskOnLimit, run.FailOnLimit), Approvals: pick(c, 0, 0, 1, 3)}
}

func pick[T any](c chance, from ...T) T { return from[c.IntN(len(from))] }

// drawScript draws the tools that a run's model proposes, turn by turn; then
// it answers with text.
func drawScript(c chance, family bool) [][]string {
	script := make([][]string, c.IntN(4))
	for turn := range script {
		for range c.between(1, 3) {
			if family && c.hit(0.35) {
				script[turn] = append(script[turn], pick(c, "delegate", "delegate", "delegate", "held.delegate"))
				continue
			}
			script[turn] = append(script[turn], pick(c, "read", "keyed", "checkable", "opaque", "held", "held.opaque", "pair", "ask", "unknown"))
		}
	}
	return script
}

package simulate

import (
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// hedge holds a second model ready now and then, where what is left covers both.
func (w performer) hedge(view engine.View, begin *run.BeginTurn) {
	s := w.p.sim
	both := begin.Reserve.Plus(begin.Reserve)
	if s.hit(s.rate(s.plan.model)) && view.State.Budget.Covers(both) {
		begin.Hedge = &run.Hedge{Model: "n", AfterMs: 1 + s.between(0, view.State.Limits.TurnMs), Reserve: begin.Reserve}
		begin.Reserve = both
	}
}

// hedged says of a turn with two models what became of both.
func (w performer) hedged(begin run.BeginTurn, performed engine.Performed) engine.Performed {
	report, is := performed.Command.(run.ReportTurn)
	if !is || begin.Hedge == nil {
		return performed
	}
	switch fate := w.p.sim.between(0, 3); {
	case report.Failure != nil:
		failure := *report.Failure
		failure.Second = []run.Second{run.SecondUnsaid, run.SecondUnasked, run.SecondFailed, run.SecondUnknown}[fate]
		report.Failure = &failure
	case fate > 0:
		report.Hedged = &run.Hedged{By: []string{"", "m", "n", "n"}[fate], Unknown: fate < 3}
	}
	performed.Command = report
	return performed
}

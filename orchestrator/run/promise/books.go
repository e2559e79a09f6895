package promise

import (
	"strconv"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// books count a run's money by what each reservation was made for: the turn,
// an attempt of a call, a child.
type books struct {
	limit    run.Amount
	holds    map[string]run.Amount
	settled  run.Amount
	unknown  run.Amount
	repeated map[int]bool // calls that may be repeated without asking: each attempt has its own hold
	second   string       // model that is asked too for the turn in flight
	final    bool         // a limit ends the run
	closing  bool
}

const (
	turnHold   = "turn"
	secondHold = "turn, second model"
)

func callHold(call int) string { return "call/" + strconv.Itoa(call) }

func childHold(child string) string { return "child/" + child }

func (b *books) committed() run.Amount { return b.reserved().Plus(b.settled).Plus(b.unknown) }

func (b *books) reserved() run.Amount {
	var sum run.Amount
	for _, amount := range b.holds {
		sum = sum.Plus(amount)
	}
	return sum
}

// hold reserves for something, which must fit into what is left.
func (b *books) hold(what string, amount run.Amount) *Broken {
	if !(run.Amount{}).Within(amount) {
		return broken(RunBudget, "%s reserves the negative amount %+v", what, amount)
	}
	b.holds[what] = b.holds[what].Plus(amount)
	if !b.committed().Within(b.limit) {
		return broken(RunBudget, "%s reserves %+v, which makes %+v of %+v", what, amount, b.committed(), b.limit)
	}
	return nil
}

// settle ends a hold with what was paid, and with what nobody knows.
func (b *books) settle(what string, paid, unknown run.Amount) {
	b.settled, b.unknown = b.settled.Plus(paid), b.unknown.Plus(unknown)
	delete(b.holds, what)
}

// note counts what an event says of money.
func (b *books) note(event run.Event) *Broken {
	switch e := event.(type) {
	case run.Started:
		b.limit = run.Amount{MicroUSD: e.Authority.MicroUSD, Tokens: e.Authority.Tokens}
		b.final = e.Limits.OnLimit == run.FailOnLimit
	case run.LimitRaised:
		b.limit = b.limit.Plus(e.Amount)
	case run.LimitReached:
		b.closing = b.closing || b.final
	case run.CancelAccepted:
		b.closing = true
	case run.TurnStarted, run.TurnAnswered, run.TurnFailed:
		return b.noteTurn(event)
	case run.ChildStarted:
		return b.hold(childHold(e.Child), e.Carve)
	case run.ChildEnded:
		b.settle(childHold(e.Child), e.Settled, e.Unknown)
	default:
		return b.noteCall(event)
	}
	return nil
}

func (b *books) noteTurn(event run.Event) *Broken {
	switch e := event.(type) {
	case run.TurnStarted:
		return b.holdTurn(e)
	case run.TurnAnswered:
		other := secondHold
		if e.Hedged != nil && e.Hedged.By == b.second {
			other = turnHold
		}
		var unknown run.Amount
		if e.Hedged != nil && e.Hedged.Unknown {
			unknown = b.holds[other]
		}
		b.settle(turnHold, e.Cost, unknown)
		b.settle(secondHold, run.Amount{}, run.Amount{})
	case run.TurnFailed:
		var first, second run.Amount
		if e.Unknown {
			first = b.holds[turnHold]
		}
		if e.Second == run.SecondUnknown || e.Second == run.SecondUnsaid && e.Unknown {
			second = b.holds[secondHold]
		}
		b.settle(turnHold, run.Amount{}, first)
		b.settle(secondHold, run.Amount{}, second)
	}
	return nil
}

// holdTurn reserves for the one or two requests of a turn.
func (b *books) holdTurn(e run.TurnStarted) *Broken {
	if b.second = ""; e.Hedge == nil {
		return b.hold(turnHold, e.Reserve)
	}
	b.second = e.Hedge.Model
	if broken := b.hold(turnHold, e.Reserve.Minus(e.Hedge.Reserve)); broken != nil {
		return broken
	}
	return b.hold(secondHold, e.Hedge.Reserve)
}

func (b *books) noteCall(event run.Event) *Broken {
	switch e := event.(type) {
	case run.CallProposed:
		class := e.Class.OrWorst()
		b.repeated[e.Call] = class == policy.ClassRead || class == policy.Keyed
	case run.CallIntended:
		return b.hold(callHold(e.Call), e.Reserve)
	case run.QuestionAsked:
		if e.Ask != nil {
			b.settle(callHold(e.Call), run.Amount{}, run.Amount{})
		}
	case run.CallUncertain:
		if b.repeated[e.Call] && !e.Ask && !b.closing {
			b.settle(callHold(e.Call), run.Amount{}, b.holds[callHold(e.Call)])
		}
	case run.UncertainResolved:
		if e.Resolution == run.Repeat {
			b.settle(callHold(e.Call), run.Amount{}, b.holds[callHold(e.Call)])
		}
	case run.CallEnded:
		var unknown run.Amount
		if e.Unknown {
			unknown = b.holds[callHold(e.Call)]
		}
		b.settle(callHold(e.Call), e.Cost, unknown)
	}
	return nil
}

package run

import "slices"

// Hedge is a second model that may be asked for a turn too, once the first one
// has sent nothing for some time.
type Hedge struct {
	Model   string `json:"model"`
	AfterMs int64  `json:"afterMs"`
	Reserve Amount `json:"reserve"` // the part of the intent's that is its own
}

// Second is what became of a turn's second request where the turn got no answer.
type Second string

// What becomes of a second request.
const (
	SecondUnsaid  Second = ""        // there was none, or nobody can say
	SecondUnasked Second = "UNASKED" // it was not made
	SecondFailed  Second = "FAILED"  // it failed, and cost nothing
	SecondUnknown Second = "UNKNOWN" // it failed, and may have been billed
)

// failed reports whether the second model was asked in vain.
func (s Second) failed() bool { return s == SecondFailed || s == SecondUnknown }

// Hedged is what became of the two requests of a turn that was answered. The
// other one is that whose answer was not taken.
type Hedged struct {
	By      string `json:"by"`                // the model that answered
	Unknown bool   `json:"unknown,omitempty"` // the other request may have been billed: what was reserved for it stays held
	Usage   *Usage `json:"usage,omitempty"`   // of the other answer, which came too late; nil: none came
	Cost    Amount `json:"cost"`              // of it, a part of the turn's
}

// Other is the model of the request that gave a turn no answer, "" where only
// one was made.
func (t *Turn) Other() string {
	switch {
	case t.Answer == nil || t.Answer.Hedged == nil || t.Hedge == nil:
		return ""
	case t.Answer.Hedged.By == t.Hedge.Model:
		return t.First
	}
	return t.Hedge.Model
}

// OtherHeld is what stays held for that request.
func (t *Turn) OtherHeld() Amount {
	if t.Answer == nil {
		return Amount{}
	}
	return t.heldByAnswer(*t.Answer)
}

// own is the part of the reservation that is the first model's.
func (t *Turn) own() Amount {
	if t.Hedge == nil {
		return t.Reserve
	}
	return t.Reserve.Minus(t.Hedge.Reserve)
}

// heldByAnswer is what stays held for the other request when one is answered.
func (t *Turn) heldByAnswer(e TurnAnswered) Amount {
	switch {
	case t.Hedge == nil || e.Hedged == nil || !e.Hedged.Unknown:
		return Amount{}
	case e.Hedged.By == t.Hedge.Model:
		return t.own()
	}
	return t.Hedge.Reserve
}

// heldByFailure is what stays held when a turn got no answer. Where nobody can
// say what became of the second request, it is as the first.
func (t *Turn) heldByFailure(e TurnFailed) Amount {
	var held Amount
	if e.Unknown {
		held = t.own()
	}
	if t.Hedge != nil && (e.Second == SecondUnknown || e.Second == SecondUnsaid && e.Unknown) {
		held = held.Plus(t.Hedge.Reserve)
	}
	return held
}

// unready says why a second model cannot be held ready for a turn, nil if it can.
func unready(c BeginTurn) *Refusal {
	switch h := c.Hedge; {
	case h == nil:
		return nil
	case h.Reserve.invalid() || !h.Reserve.Within(c.Reserve):
		return refuse("INVALID_AMOUNT", "What is reserved for the second model is a part of the turn's reservation.")
	case h.AfterMs <= 0 || h.Model == c.Model:
		return refuse("INVALID_HEDGE", "A second model is another one, and is asked after some time.")
	}
	return nil
}

// misreported says why what a report tells of two requests does not fit the
// turn, nil if it does.
func misreported(turn *Turn, c ReportTurn) *Refusal {
	second := c.Failure != nil && c.Failure.Second != SecondUnsaid
	switch {
	case c.Hedged == nil && !second:
		return nil
	case turn.Hedge == nil:
		return refuse("INVALID_HEDGE", "The turn had no second model.")
	case second && !slices.Contains([]Second{SecondUnasked, SecondFailed, SecondUnknown}, c.Failure.Second):
		return refuse("INVALID_HEDGE", "A second request is UNASKED, FAILED or UNKNOWN.")
	case c.Hedged != nil && (c.Failure != nil || c.Hedged.By != turn.Model && c.Hedged.By != turn.Hedge.Model):
		return refuse("INVALID_HEDGE", "One of the turn's two models answered.")
	case c.Hedged != nil && (c.Hedged.Cost.invalid() || !c.Hedged.Cost.Within(c.Cost)):
		return refuse("INVALID_AMOUNT", "What the other answer cost is a part of the turn's cost.")
	}
	return nil
}

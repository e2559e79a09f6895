package account

import (
	"fmt"
	"time"

	"gantry.dev/orchestrator/run"
)

// hedged says what became of the second model that was held ready for a turn.
func hedged(turn run.Turn) []string {
	hedge := turn.Hedge
	if hedge == nil {
		return nil
	}
	after := time.Duration(hedge.AfterMs) * time.Millisecond
	if turn.Answer == nil || turn.Answer.Hedged == nil {
		return []string{fmt.Sprintf("turn %d could also ask %s after %s without a word, for at most %d micro-dollars", turn.Number, hedge.Model, after, hedge.Reserve.MicroUSD)}
	}
	other := turn.Other()
	line := fmt.Sprintf("turn %d with %s, whose answer was taken: %s was asked too after %s without a word; ", turn.Number, turn.Model, hedge.Model, after)
	switch found := turn.Answer.Hedged; {
	case found.Unknown:
		line += fmt.Sprintf("what the request to %s cost is not known, and at most %d micro-dollars stay held", other, turn.OtherHeld().MicroUSD)
	case found.Usage != nil:
		line += fmt.Sprintf("%s answered too late, for %d micro-dollars of them", other, found.Cost.MicroUSD)
	default:
		line += fmt.Sprintf("the request to %s failed and cost nothing", other)
	}
	return []string{line}
}

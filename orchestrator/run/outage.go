package run

import (
	"fmt"
	"hash/fnv"
	"strconv"

	"gantry.dev/orchestrator/policy"
)

// KindModelsOut is the kind of event that says that no model can be asked now.
const KindModelsOut EventKind = "models_out"

// Offer is a model that a turn could have been taken with.
type Offer struct {
	Model    string `json:"model"`
	MicroUSD int64  `json:"microUsd"`          // the turn with it, as far as can be told before
	Worst    int64  `json:"worst"`             // the turn with it at most, micro-dollars
	Refusal  string `json:"refusal,omitempty"` // code; empty: it was right too
}

// ModelsOut says that a turn is not attempted: of the models that would be
// right for it none can be asked now. The run waits, and tries again by itself.
type ModelsOut struct {
	Turn      int     `json:"turn"`
	Wait      int     `json:"wait"`            // from 1, how many in a row
	Cause     string  `json:"cause,omitempty"` // of the attempt that failed last; empty where none was made
	Offers    []Offer `json:"offers,omitempty"`
	RetryAtMs int64   `json:"retryAtMs"`
}

// Kind returns KindModelsOut.
func (ModelsOut) Kind() EventKind { return KindModelsOut }

// Texts returns none.
func (ModelsOut) Texts() []Text { return nil }

// AwaitModels says that no model can be asked for the turn that is due.
type AwaitModels struct {
	Turn, Attempt int
	Offers        []Offer
	BackMs        int64 // when one may be asked again, UTC ms; 0: nobody knows
}

func (AwaitModels) command() {}

// Rest is how long a model that failed in a turn is left alone.
type Rest struct {
	Model   string
	UntilMs int64 // UTC ms
}

// awaitModels waits for a model as long as the run may wait for anything.
func (d *decider) awaitModels(c AwaitModels) *Refusal {
	take := d.turnDue()
	if take == nil || take.Turn != c.Turn || take.Attempt != c.Attempt {
		return refuse("NOT_DUE", "The run does not ask for this turn.")
	}
	ceiling := d.env.Rules.Ceiling(d.s.Acting(d.env.NowMs))
	if !d.barred(take, ceiling) {
		d.wait(ModelsOut{Turn: take.Turn, Offers: c.Offers}, min(c.BackMs, d.env.NowMs+longestWaitMs))
	}
	return nil
}

// barred ends or pauses the run where no turn may begin, whatever it costs.
func (d *decider) barred(take *TakeTurn, ceiling policy.Authority) bool {
	allowed := d.s.turnsAllowed()
	switch {
	case ceiling.Turns == 0 && d.s.Started.RunKind != Root:
		d.reach(LimitAuthority, "The agent, one above it or its subject may not act any more.")
	case ceiling.Turns == 0:
		d.emit(Parked{Code: "AGENT_WITHDRAWN", Detail: "The agent or its subject may not act any more."})
	case take.Turn > allowed:
		d.reach(LimitTurns, "All "+strconv.Itoa(allowed)+" turns are used.")
	case d.attemptsUsed(take):
		d.reach(LimitModel, "The model gave no answer in as many attempts as allowed.")
	case d.env.NowMs >= min(d.s.Authority.DeadlineMs, ceiling.DeadlineMs):
		d.reach(LimitDeadline, "The deadline has passed.")
	default:
		return false
	}
	return true
}

// wait lets a turn wait: until a model may be asked again, at least twice as
// long each time up to some minutes, and not beyond the deadline.
func (d *decider) wait(e ModelsOut, backMs int64) {
	e.Wait = d.s.Outages + 1
	e.RetryAtMs = min(max(d.env.NowMs+outageMs(d.s.ID, e.Wait), backMs), d.authority().DeadlineMs)
	d.emit(e)
}

// outageMs is how long the nth wait in a row takes at least; the spread comes
// from the run's id, so that not all runs come back at once.
func outageMs(id string, nth int) int64 {
	base := int64(1000) << min(nth, 8)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(id + "/out/" + strconv.Itoa(nth)))
	return base + int64(hash.Sum32())%(base/2)
}

func (s *State) foldOutage(e ModelsOut) error {
	turn := s.LastTurn()
	if turn != nil && turn.Phase == TurnInFlight {
		return fmt.Errorf("%w: a turn waits for a model in flight", ErrBroken)
	}
	if turn != nil && turn.Phase == TurnRetry {
		// What the outage took does not count against the attempts that are allowed.
		turn.Forgiven, turn.Retryable, turn.RetryAtMs, turn.Rests = turn.Attempt, true, 0, nil
	}
	s.Outage, s.Outages = &e, e.Wait
	return nil
}

// retryAt is when a turn whose attempt failed is tried again: as soon as one of
// the models that failed in it before may be asked.
func (t *Turn) retryAt(backMs int64, second Second) int64 {
	at := backMs
	for _, rest := range t.Rests {
		if rest.Model != t.Model && (!second.failed() || rest.Model != t.Hedge.Model) {
			at = min(at, rest.UntilMs)
		}
	}
	return at
}

// rest leaves a model alone for the turn until a time.
func (t *Turn) rest(model string, untilMs int64) {
	if untilMs == 0 {
		return
	}
	for i := range t.Rests {
		if t.Rests[i].Model == model {
			rests := append([]Rest(nil), t.Rests...)
			rests[i].UntilMs = untilMs
			t.Rests = rests
			return
		}
	}
	t.Rests = append(t.Rests, Rest{Model: model, UntilMs: untilMs})
}

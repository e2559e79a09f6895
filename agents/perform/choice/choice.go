// Package choice readies the choice of a model for a turn: what the turn needs,
// and what is known of each model that its agent names.
package choice

import (
	"slices"
	"time"

	"gantry.dev/agents"
	"gantry.dev/agents/catalogue"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/health"
	"gantry.dev/agents/route"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Situation is a run that a model is chosen for.
type Situation struct {
	Admitted agents.Organisation // what the run was admitted under: its prices
	InForce  agents.Organisation // whose labels count
	Revision agents.Revision
	Granted  []string // models that the run may use
	Labels   policy.Labels
	Served   func(model string) bool
}

// rules are what the labels in force say of models.
func (s Situation) rules() []route.Rule {
	rules := make([]route.Rule, 0, len(s.Labels))
	for _, label := range s.Labels {
		known, found := s.InForce.Label(label)
		rules = append(rules, route.Rule{Label: label, Unknown: !found, Models: known.Models, Residency: known.Residency})
	}
	return rules
}

func (s Situation) candidates() []route.Candidate {
	list := make([]route.Candidate, 0, len(s.Revision.Models))
	for _, name := range s.Revision.Models {
		entry, known := s.Admitted.Model(name)
		entry.Name = name
		list = append(list, route.Candidate{Model: entry, Granted: slices.Contains(s.Granted, name), Served: known && s.Served(name)})
	}
	return list
}

// Reads reports whether one of the models may read text with the labels.
func (s Situation) Reads() bool {
	need := route.Need{Rules: s.rules()}
	return slices.ContainsFunc(s.candidates(), need.Permits)
}

// Turn is a turn that a model is chosen for.
type Turn struct {
	Situation
	Request   model.Request
	Bytes     int64 // of messages and tools
	State     *run.State
	Authority policy.Authority // in force
	NowMs     int64
	Scores    route.Scores
	Health    *health.Register // nil: every model is asked

	Tokens func(m catalogue.Model, bytes int64) int64 // of a prompt
}

// Choosing is a turn's choice. It holds copies only, so that it may be asked
// again while the run moves on.
type Choosing struct {
	need       route.Need
	candidates []route.Candidate
	health     *health.Register
	who        string
}

// New looks at everything that does not change while the turn is taken.
func New(t Turn) *Choosing {
	terms := t.Revision.Choice
	left := t.State.Budget.Limit.Minus(t.State.Budget.Committed())
	c := &Choosing{health: t.Health, who: t.State.ID, candidates: t.candidates(), need: route.Need{
		Tools: len(t.Request.Tools) > 0, Rules: t.rules(), MicroUSD: left.MicroUSD, Tokens: left.Tokens,
		Scores: t.Scores, Tier: terms.Tier, Prefer: terms.Prefer, Least: float64(terms.Quality) / 100}}
	rests := restsOf(t.State)
	for i := range c.candidates {
		candidate := &c.candidates[i]
		size := t.Bytes
		if candidate.Schema {
			size += int64(len(t.Request.Output))
		}
		media := MediaTokens(candidate.Model, t.Request.Messages...)
		Price(candidate, size+media, t.Tokens(candidate.Model, size)+media, answerTokens(t.State, candidate.MaxOutput))
		candidate.RestMs = rests[candidate.Name]
	}
	c.needMedia(t.Request.Messages)
	return c
}

// Price says what a turn with a candidate would be. A token has at least one
// byte; a token of an image or a file counts as one.
func Price(c *route.Candidate, promptBytes, promptTokens, answerTokens int64) {
	prices := PricesOf(c.Model)
	c.Prompt = promptTokens
	c.MicroUSD = prices.Cost(model.Usage{Input: c.Prompt, Output: answerTokens})
	c.Worst, c.WorstTokens = prices.WorstCase(promptBytes, c.MaxOutput), promptBytes+c.MaxOutput
}

// PricesOf are the prices of an entry as costs are reckoned with.
func PricesOf(m catalogue.Model) model.Prices { return model.Prices(m.Prices) }

// usualAnswer is what an answer has where a run has none yet, in tokens.
const usualAnswer = 500

// answerTokens is what the run's answers had on average.
func answerTokens(s *run.State, most int64) int64 {
	var sum, turns int64
	for i := range s.Turns {
		if answer := s.Turns[i].Answer; answer != nil {
			sum += answer.Usage.Output + answer.Usage.Reasoning
			turns++
		}
	}
	if turns == 0 {
		return min(usualAnswer, most)
	}
	return min(sum/turns, most)
}

// restsOf are the models that failed in the turn that is due, with the times
// until which they are left alone.
func restsOf(s *run.State) map[string]int64 {
	rests := map[string]int64{}
	if turn := s.LastTurn(); turn != nil && turn.Phase == run.TurnRetry {
		for _, rest := range turn.Rests {
			rests[rest.Model] = rest.UntilMs
		}
	}
	return rests
}

// Choose takes a model at a time, UTC ms. Whoever takes one that was left alone
// finds out for all others whether it answers.
func (c *Choosing) Choose(nowMs int64) route.Choice {
	c.look(nowMs)
	for {
		found := route.Choose(c.need, c.candidates, nowMs)
		at := slices.IndexFunc(c.candidates, func(candidate route.Candidate) bool { return candidate.Name == found.Model })
		if at < 0 || c.Claim(c.candidates[at].Model) {
			return found
		}
		c.candidates[at].OutMs = nowMs + 1 + ceilMs(c.health.Rest(health.KeyOf(c.candidates[at].Model), c.who))
	}
}

// Second is the model that may be asked beside the one that is taken, "" for
// none.
func (c *Choosing) Second(taken string, nowMs int64) string {
	return route.Second(c.need, c.candidates, taken, nowMs)
}

// Claim says that a model is about to be asked, and reports whether it may.
func (c *Choosing) Claim(m catalogue.Model) bool {
	return c.health == nil || c.health.Claim(health.KeyOf(m), c.who)
}

// Elsewhere reports whether another model than those that failed could be asked
// at once.
func (c *Choosing) Elsewhere(nowMs int64, failed ...string) bool {
	c.look(nowMs)
	others := slices.DeleteFunc(slices.Clone(c.candidates), func(candidate route.Candidate) bool { return slices.Contains(failed, candidate.Name) })
	return slices.ContainsFunc(others, func(candidate route.Candidate) bool { return c.need.Refuses(candidate, nowMs) == "" })
}

// look asks how the models stand.
func (c *Choosing) look(nowMs int64) {
	if c.health == nil {
		return
	}
	for i := range c.candidates {
		candidate := &c.candidates[i]
		candidate.OutMs = nowMs + ceilMs(c.health.Rest(health.KeyOf(candidate.Model), c.who))
	}
}

func ceilMs(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// Offers are what was found, as a run records it.
func Offers(found []route.Offer) []run.Offer {
	offers := make([]run.Offer, len(found))
	for i, offer := range found {
		offers[i] = run.Offer{Model: offer.Model, MicroUSD: offer.MicroUSD, Worst: offer.Worst, Refusal: string(offer.Refusal)}
	}
	return offers
}

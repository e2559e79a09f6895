// Package route chooses a model for one turn: of those that are right for it,
// the one that costs least, or the one that its agent prefers. It is pure: what
// it knows of the world is in its arguments.
package route

import (
	"cmp"
	"fmt"
	"slices"

	"gantry.dev/agents/catalogue"
	"gantry.dev/orchestrator/policy"
)

// Refusal is why a model is not taken. Refusals are stable.
type Refusal string

// The refusals. What comes first counts first.
const (
	NotGranted Refusal = "NOT_GRANTED" // the run was not given it
	NotServed  Refusal = "NOT_SERVED"  // nobody answers for it here
	Labels     Refusal = "LABELS"      // it may not read what the run has read
	Residency  Refusal = "RESIDENCY"   // it stands where the labels may not go
	Tools      Refusal = "TOOLS"       // it cannot propose calls
	Images     Refusal = "IMAGES"      // it cannot read images
	Files      Refusal = "FILES"       // it cannot read files
	Context    Refusal = "CONTEXT"     // the prompt and an answer do not fit
	Tier       Refusal = "TIER"        // its quality is below what the agent asks for
	Quality    Refusal = "QUALITY"     // it was measured to be not good enough for the agent
	Resting    Refusal = "RESTING"     // it failed in this turn a moment ago
	Out        Refusal = "OUT"         // its provider does not answer at present
	Budget     Refusal = "BUDGET"      // it may cost more than is left
)

// Prefer says which of the right models is taken.
type Prefer string

// The preferences.
const (
	Cheapest Prefer = "cheapest" // the default
	InOrder  Prefer = "order"    // the first one that the agent names
)

// Need is what a turn needs of its model.
type Need struct {
	Tools, Images, Files bool
	Tier                 int    // least quality; 0: that of the first model is preferred, none is demanded
	Prefer               Prefer // empty: Cheapest
	Rules                []Rule // of every label that the turn's text bears
	MicroUSD, Tokens     int64  // what is left of the run's budget
	Scores               Scores // nil: nothing was measured
	Least                float64
}

// Scores are how well models did the agent's kind of task, from 0 to 1 by name.
// What was not measured has none, and is refused for none.
type Scores map[string]float64

// Rule is what a label says of models.
type Rule struct {
	Label     policy.Label
	Unknown   bool     // nobody knows the label any more: no model reads it
	Models    []string // the only ones that may read it; empty: any
	Residency []string // the only places where it may be read; empty: anywhere
}

// Candidate is one of the agent's models, in the agent's order, with what the
// turn would be with it.
type Candidate struct {
	catalogue.Model
	Granted, Served bool
	Prompt          int64 // tokens of the prompt, as far as can be told before
	MicroUSD        int64 // what it would cost, as far as can be told before
	Worst           int64 // micro-dollars at most
	WorstTokens     int64
	RestMs          int64 // until when the run leaves it alone, UTC ms; 0: it does not
	OutMs           int64 // until when its provider is not asked, UTC ms; 0: it is
}

// Offer is what was found about one candidate. Without a refusal it was right.
type Offer struct {
	Model           string
	MicroUSD, Worst int64
	Refusal         Refusal
}

// Choice is the model for a turn, or why there is none.
type Choice struct {
	Model  string // empty: none
	Why    string // one sentence
	Offers []Offer
	BackMs int64 // where none is taken because all right ones are out: when one may be asked again, UTC ms
}

// Outage reports whether nothing but time stands between the turn and a model.
func (c Choice) Outage() bool { return c.Model == "" && c.BackMs > 0 }

// Choose takes a model. Where only what is left of the budget speaks against
// all, one is taken nevertheless: the run's own rules refuse it, and ask. So is
// the one with the most room where no prompt fits, since its size is a guess.
func Choose(need Need, candidates []Candidate, nowMs int64) Choice {
	var choice Choice
	var right, dear, tight []int
	for i, candidate := range candidates {
		refusal := need.Refuses(candidate, nowMs)
		choice.Offers = append(choice.Offers, Offer{Model: candidate.Name, MicroUSD: candidate.MicroUSD, Worst: candidate.Worst, Refusal: refusal})
		switch refusal {
		case "":
			right = append(right, i)
		case Budget:
			dear = append(dear, i)
		case Context:
			tight = append(tight, i)
		case Resting, Out:
			if back := max(candidate.RestMs, candidate.OutMs); choice.BackMs == 0 || back < choice.BackMs {
				choice.BackMs = back
			}
		}
	}
	if len(right) == 0 && choice.BackMs == 0 {
		right = dear
	}
	if len(right) == 0 && choice.BackMs == 0 {
		right = roomiest(candidates, tight)
	}
	if len(right) == 0 {
		choice.Why = "no model is right for the turn: " + reasons(choice.Offers)
		return choice
	}
	taken := slices.MinFunc(right, func(a, b int) int { return need.order(candidates, a, b) })
	choice.Model, choice.BackMs = candidates[taken].Name, 0
	choice.Why = need.why(taken, len(right), choice.Offers)
	return choice
}

// Second takes the model that may be asked beside the one that is taken, "" for
// none: it is as right for the turn, stands at another place, and what is left
// pays for both. Where no tier is stated it is none below the first one's,
// unless the one that is taken is below it too.
func Second(need Need, candidates []Candidate, taken string, nowMs int64) string {
	at := slices.IndexFunc(candidates, func(c Candidate) bool { return c.Name == taken })
	if at < 0 {
		return ""
	}
	first := candidates[at]
	need.MicroUSD, need.Tokens = need.MicroUSD-first.Worst, need.Tokens-first.WorstTokens
	best := -1
	for i, c := range candidates {
		switch {
		case i == at || c.Place() == first.Place() || need.Refuses(c, nowMs) != "":
		case need.below(candidates, i) > need.below(candidates, at):
		case best < 0 || need.order(candidates, i, best) < 0:
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	return candidates[best].Name
}

// Permits reports whether nothing forbids a model, whatever it can do.
func (n Need) Permits(c Candidate) bool {
	return c.Granted && c.Served && n.mayNotRead(c.Model) == ""
}

// Refuses says what speaks against a candidate, "" for nothing. What forbids a
// model comes before what it lacks, and what time mends comes last.
func (n Need) Refuses(c Candidate, nowMs int64) Refusal {
	score, measured := n.Scores[c.Name]
	switch {
	case !c.Granted:
		return NotGranted
	case !c.Served:
		return NotServed
	case n.mayNotRead(c.Model) != "":
		return n.mayNotRead(c.Model)
	case n.Tools && !c.Tools:
		return Tools
	case n.Images && !c.Images:
		return Images
	case n.Files && !c.Files:
		return Files
	case c.Prompt+c.MaxOutput > c.Context:
		return Context
	case c.Tier < n.Tier:
		return Tier
	case measured && score < n.Least:
		return Quality
	case c.RestMs > nowMs:
		return Resting
	case c.OutMs > nowMs:
		return Out
	case c.Worst > n.MicroUSD || c.WorstTokens > n.Tokens:
		return Budget
	}
	return ""
}

func (n Need) mayNotRead(m catalogue.Model) Refusal {
	for _, rule := range n.Rules {
		if refusal := rule.refuses(m); refusal != "" {
			return refusal
		}
	}
	return ""
}

// refuses says why a text with the label may not go to a model, "" if it may.
func (r Rule) refuses(m catalogue.Model) Refusal {
	switch {
	case r.Unknown || m.Plain,
		len(m.Labels) > 0 && !slices.Contains(m.Labels, r.Label),
		len(r.Models) > 0 && !slices.Contains(r.Models, m.Name):
		return Labels
	case len(r.Residency) > 0 && !slices.Contains(r.Residency, m.Residency):
		return Residency
	}
	return ""
}

// order compares two right candidates by their places.
func (n Need) order(candidates []Candidate, a, b int) int {
	if n.Prefer == InOrder {
		return cmp.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(n.below(candidates, a), n.below(candidates, b)), cmp.Compare(candidates[a].MicroUSD, candidates[b].MicroUSD), cmp.Compare(a, b))
}

// below is 1 for a candidate that is worse than the first: whoever names a good
// model first, and no order, wants it as long as it is there.
func (n Need) below(candidates []Candidate, i int) int {
	if n.Prefer != InOrder && n.Tier == 0 && candidates[i].Tier < candidates[0].Tier {
		return 1
	}
	return 0
}

func (n Need) why(taken, right int, offers []Offer) string {
	offer := offers[taken]
	switch {
	case offer.Refusal == Context:
		return "no model takes so long a prompt, and it takes the longest"
	case offer.Refusal == Budget:
		return "what is left may not pay for it, nor for any other that is right"
	case right == 1 && len(offers) == 1:
		return "the agent's only model"
	case right == 1:
		return "the only one that is right for the turn: " + reasons(offers)
	case n.Prefer == InOrder:
		return fmt.Sprintf("the first in the agent's order of %d that are right", right)
	case taken == 0 && !cheaper(offers, taken):
		return fmt.Sprintf("the agent's first choice, and none of %d that are right costs less", right)
	case cheaper(offers, taken):
		return fmt.Sprintf("the cheapest of the %d right ones that are as good as the agent's first choice", right)
	}
	return fmt.Sprintf("the cheapest of %d that are right", right)
}

// roomiest are those of the candidates that take the longest prompts.
func roomiest(candidates []Candidate, of []int) (most []int) {
	for _, i := range of {
		switch {
		case len(most) == 0 || candidates[i].Context > candidates[most[0]].Context:
			most = []int{i}
		case candidates[i].Context == candidates[most[0]].Context:
			most = append(most, i)
		}
	}
	return most
}

// cheaper reports whether a right model costs less than the one that is taken.
func cheaper(offers []Offer, taken int) bool {
	return slices.ContainsFunc(offers, func(o Offer) bool { return o.Refusal == "" && o.MicroUSD < offers[taken].MicroUSD })
}

// reasons lists what speaks against the candidates that are not right.
func reasons(offers []Offer) string {
	text := ""
	for _, offer := range offers {
		if offer.Refusal != "" {
			if text != "" {
				text += ", "
			}
			text += offer.Model + " " + string(offer.Refusal)
		}
	}
	return cmp.Or(text, "the agent names none")
}

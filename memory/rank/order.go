package rank

import (
	"cmp"
	"math"
	"slices"

	"gantry.dev/memory/view"
)

// Plan holds what Rank weighs with. All are shares without unit unless they say
// otherwise.
type Plan struct {
	Dense   float64 // of the vectors' likeness
	Lexical float64 // of the words in common
	// Depth is how many of the best of each part score by it, at most. What the
	// last of them has is background, which all texts have with every question.
	Depth int
	// Beside is how much of the score of a neighbour counts: what was said just
	// before or after belongs to it. It falls by half with each further place.
	Beside float64
	Reach  int // how many places away neighbours count, on each side
	// Recent is how much is added to the score of what was recorded now; it falls
	// by half with every HalfLifeMs.
	Recent float64
	// Dated is how much is added to the score of what is of a time that the
	// question names.
	Dated      float64
	HalfLifeMs int64
	Kinds      map[view.Kind]float64 // how much is added to the score of a kind
}

// DefaultPlan is for the vectors of embed.Static. A word in common says twice as
// much as a likeness of such vectors, which have no knowledge of sentences: for
// finding the definition to an example of WordNet that the table was not learnt
// from, any share of Dense between a fifth and a half does as well. A
// neighbour counts for half and the one after it for a quarter. A question has
// about four words that say something, and a time that it names counts as one
// of them. What was distilled goes a little before what was only heard, and the
// newer before the older, where they answer alike.
//
// For vectors of a model that reads sentences, let Dense and Lexical be alike.
func DefaultPlan() Plan {
	const day = 24 * 60 * 60 * 1000
	return Plan{
		Dense: 1.0 / 3, Lexical: 2.0 / 3, Depth: 100,
		Beside: 0.5, Reach: 2,
		Recent: 0.05, HalfLifeMs: 30 * day, Dated: 0.25,
		Kinds: map[view.Kind]float64{view.Fact: 0.02, view.Preference: 0.02, view.Finding: 0.02, view.Procedure: 0.02},
	}
}

// Place is where a candidate stands in its source.
type Place struct {
	Ref      string
	Position int
}

// Beside returns the places of neighbours that may be among the first limit
// answers, sorted; limit 0 means any. All that the reader sees at them has to
// be a candidate too, and the caller looks up which that is. What was found is
// at least the Depth best of each part, so a neighbour scores by what stands
// beside it alone: most can be told not to be worth looking up.
func Beside(question Question, found []Candidate, plan Plan, limit int) []Place {
	found = once(found)
	scored := scores(question, found, plan)
	own := ownPlaces(found, scored)
	if len(own) == 0 {
		return nil
	}
	enough := 0.0
	if ranked := ordered(question, found, scored, plan); limit > 0 && len(ranked) >= limit {
		enough = ranked[limit-1].Score
	}
	most := 1 + mostPrior(question, plan)
	var places []Place
	for place := range own {
		for position := max(place.Position-plan.Reach, 1); position <= place.Position+plan.Reach; position++ {
			at := Place{Ref: place.Ref, Position: position}
			if score := beside(own, at, plan) * most; score > 0 && score >= enough {
				places = append(places, at)
			}
		}
	}
	slices.SortFunc(places, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Position, b.Position))
	})
	return slices.Compact(places)
}

// ownPlaces returns the best score at each place.
func ownPlaces(candidates []Candidate, own []float64) map[Place]float64 {
	places := make(map[Place]float64, len(candidates))
	for i, c := range candidates {
		if c.Position > 0 && c.Ref != "" && own[i] > 0 {
			places[placeOf(c)] = max(places[placeOf(c)], own[i])
		}
	}
	return places
}

func placeOf(c Candidate) Place { return Place{Ref: c.Ref, Position: c.Position} }

// Rank orders the candidates by how well they answer, the best first, and those
// that answer alike by item. The order of the candidates does not matter. Each
// item is one candidate, as the reader sees it; where it is given again, that
// counts for nothing. Nothing but the arguments moves the order, so it can tell
// nobody of anything that is no candidate.
//
// A reader's candidates are at least the Depth best of each part that the
// reader sees, with those of Beside that the reader sees. The first answers, as
// many as Beside was told, are then exactly those of ranking everything that the
// reader sees, as far as they score anything: what is no candidate scores less.
func Rank(question Question, candidates []Candidate, plan Plan) []Ranked {
	candidates = once(candidates)
	return ordered(question, candidates, scores(question, candidates, plan), plan)
}

// ordered orders candidates by what they score by themselves and what stands
// beside them.
func ordered(question Question, candidates []Candidate, own []float64, plan Plan) []Ranked {
	places := ownPlaces(candidates, own)
	ranked := make([]Ranked, len(candidates))
	for i, c := range candidates {
		score := own[i] + beside(places, placeOf(c), plan)
		ranked[i] = Ranked{Item: c.Item, Score: score * (1 + prior(question, c, plan))}
	}
	slices.SortFunc(ranked, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Item, b.Item))
	})
	return ranked
}

// once keeps one candidate of each item: a neighbour that was found by itself
// too must not count as two.
func once(candidates []Candidate) []Candidate {
	seen := make(map[string]bool, len(candidates))
	kept := make([]Candidate, 0, len(candidates))
	for _, c := range candidates {
		if !seen[c.Item] {
			seen[c.Item] = true
			kept = append(kept, c)
		}
	}
	return kept
}

// scores returns what each candidate scores by itself, at most 1.
func scores(question Question, candidates []Candidate, plan Plan) []float64 {
	dense, lexical := likeness(question, candidates, plan), make([]float64, len(candidates))
	for i, c := range candidates {
		lexical[i] = question.Terms.Dot(c.Terms)
	}
	overBackground(lexical, candidates, plan.Depth)
	own := make([]float64, len(candidates))
	for i := range own {
		own[i] = float64(plan.Dense*dense[i]) + float64(plan.Lexical*lexical[i])
	}
	return own
}

// likeness returns how like the question each candidate is by the vectors. Where
// there are several vector spaces, each has a scale of its own: what counts is
// where a candidate stands between the background and the best of a space, and
// the mean of that over the spaces in which it has a vector.
func likeness(question Question, candidates []Candidate, plan Plan) []float64 {
	mean, share := make([]float64, len(candidates)), make([]float64, len(candidates))
	for space := -1; space < len(question.More); space++ {
		asked := question.Vector
		if space >= 0 {
			asked = question.More[space]
		}
		if asked == nil {
			continue
		}
		scores := make([]float64, len(candidates))
		for i, c := range candidates {
			vector := c.Vector
			if space >= 0 {
				vector = nil
				if space < len(c.More) {
					vector = c.More[space]
				}
			}
			if vector != nil {
				scores[i] = Dot(asked, vector)
				share[i]++
			}
		}
		overBackground(scores, candidates, plan.Depth)
		for i, score := range scores {
			mean[i] += score
		}
	}
	for i := range mean {
		mean[i] /= max(share[i], 1)
	}
	return mean
}

// faint is what the last above nothing score at least: they are worse than all
// others, and still better than what has nothing to do with the question.
const faint = 1e-6

// overBackground makes of scores where they are between the background, which
// is 0, and the best, which is 1. Only the depth best score at all, those alike
// by item, as an index has them: so what is no candidate would not. Where there
// are not so many, nothing says what is background but 0.
func overBackground(scores []float64, candidates []Candidate, depth int) {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(candidates[a].Item, candidates[b].Item))
	})
	best, background, foreground := 0.0, 0.0, len(order)
	if len(order) > 0 {
		best = scores[order[0]]
	}
	if depth > 0 && len(order) >= depth {
		foreground, background = depth, max(scores[order[depth-1]], 0)
	}
	for place, i := range order {
		switch {
		case place >= foreground || scores[i] <= 0:
			scores[i] = 0
		case best <= background:
			scores[i] = 1
		default:
			scores[i] = max((scores[i]-background)/(best-background), faint)
		}
	}
}

// beside is what the neighbours of a place add.
func beside(own map[Place]float64, at Place, plan Plan) float64 {
	if at.Position <= 0 || at.Ref == "" {
		return 0
	}
	sum, weight := 0.0, plan.Beside
	for far := 1; far <= plan.Reach; far++ {
		both := own[Place{at.Ref, at.Position - far}] + own[Place{at.Ref, at.Position + far}]
		sum += float64(weight * both)
		weight /= 2
	}
	return sum
}

// prior is what speaks for a candidate whatever was asked.
func prior(question Question, c Candidate, plan Plan) float64 {
	added := plan.Kinds[c.Kind]
	if plan.HalfLifeMs > 0 {
		age := max(question.NowMs-c.RecordedMs, 0)
		added += float64(plan.Recent * math.Exp2(-float64(age)/float64(plan.HalfLifeMs)))
	}
	for _, span := range question.Spans {
		if span.holds(c.RecordedMs) || c.ValidFromMs != 0 && span.holds(c.ValidFromMs) {
			return added + plan.Dated
		}
	}
	return added
}

// mostPrior is the most that prior can be.
func mostPrior(question Question, plan Plan) float64 {
	most := 0.0
	for _, added := range plan.Kinds {
		most = max(most, added)
	}
	if plan.HalfLifeMs > 0 {
		most += plan.Recent
	}
	if len(question.Spans) > 0 {
		most += plan.Dated
	}
	return most
}

func (s Span) holds(ms int64) bool { return s.FromMs <= ms && ms < s.UntilMs }

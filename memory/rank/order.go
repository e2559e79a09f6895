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
	// Beside is how much of the score of a neighbour counts: what was said just
	// before or after belongs to it. It falls by half with each further place.
	Beside float64
	Reach  int // how many places away neighbours count, on each side
	// Recent is how much is added to the score of what was recorded now; it falls
	// by half with every HalfLifeMs.
	Recent     float64
	HalfLifeMs int64
	Kinds      map[view.Kind]float64 // how much is added to the score of a kind
}

// DefaultPlan weighs words and vectors alike, as nothing is known of either, and
// lets a neighbour count for half. What was distilled goes a little before
// what was only heard, and the newer before the older where they answer alike.
func DefaultPlan() Plan {
	const day = 24 * 60 * 60 * 1000
	return Plan{
		Dense: 0.5, Lexical: 0.5,
		Beside: 0.5, Reach: 1,
		Recent: 0.05, HalfLifeMs: 30 * day,
		Kinds: map[view.Kind]float64{view.Fact: 0.02, view.Preference: 0.02, view.Finding: 0.02, view.Procedure: 0.02},
	}
}

// Place is where a candidate stands in its source.
type Place struct {
	Ref      string
	Position int
}

// Beside returns the places of neighbours that have to be candidates too, so
// that each of the found is ranked as if all that the reader sees were: its
// neighbours, and theirs, without those that are there already. It is sorted.
// The caller looks up which of them the reader sees.
func Beside(found []Candidate, plan Plan) []Place {
	have := make(map[Place]bool, len(found))
	for _, c := range found {
		have[placeOf(c)] = true
	}
	var places []Place
	for _, c := range found {
		if c.Position <= 0 || c.Ref == "" {
			continue
		}
		for far := 1; far <= 2*plan.Reach; far++ {
			for _, position := range [2]int{c.Position - far, c.Position + far} {
				place := Place{Ref: c.Ref, Position: position}
				if position > 0 && !have[place] {
					have[place] = true
					places = append(places, place)
				}
			}
		}
	}
	slices.SortFunc(places, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Position, b.Position))
	})
	return places
}

func placeOf(c Candidate) Place { return Place{Ref: c.Ref, Position: c.Position} }

// Rank orders the candidates by how well they answer, the best first, and those
// that answer alike by item. The order of the candidates does not matter; of
// several with one item, the best counts. Nothing but the arguments moves it,
// so it can tell nobody of anything that is no candidate.
//
// A reader's candidates are the best of each part of the index with the
// places of Beside, all as the reader sees them. What is in the best of a part
// then scores as if everything that the reader sees were ranked, and so
// does what stands within Reach of it.
func Rank(question Question, candidates []Candidate, plan Plan) []Ranked {
	own := scores(question, candidates, plan)
	places := make(map[Place]float64, len(candidates))
	for i, c := range candidates {
		if c.Position > 0 && c.Ref != "" {
			places[placeOf(c)] = max(places[placeOf(c)], own[i])
		}
	}
	ranked := make([]Ranked, len(candidates))
	for i, c := range candidates {
		score := own[i] + beside(places, c, plan)
		ranked[i] = Ranked{Item: c.Item, Score: score * (1 + prior(question, c, plan))}
	}
	slices.SortFunc(ranked, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Item, b.Item))
	})
	return once(ranked)
}

// scores returns what each candidate scores by itself, at most 1: its share of
// the best of each part.
func scores(question Question, candidates []Candidate, plan Plan) []float64 {
	dense, lexical := make([]float64, len(candidates)), make([]float64, len(candidates))
	mostDense, mostLexical := 0.0, 0.0
	for i, c := range candidates {
		dense[i] = max(Dot(question.Vector, c.Vector), 0)
		lexical[i] = question.Terms.Dot(c.Terms)
		mostDense, mostLexical = max(mostDense, dense[i]), max(mostLexical, lexical[i])
	}
	own := make([]float64, len(candidates))
	for i := range own {
		own[i] = float64(plan.Dense*share(dense[i], mostDense)) + float64(plan.Lexical*share(lexical[i], mostLexical))
	}
	return own
}

func share(score, most float64) float64 {
	if most <= 0 {
		return 0
	}
	return score / most
}

// beside is what the neighbours add.
func beside(places map[Place]float64, c Candidate, plan Plan) float64 {
	if c.Position <= 0 || c.Ref == "" {
		return 0
	}
	sum, weight := 0.0, plan.Beside
	for far := 1; far <= plan.Reach; far++ {
		both := places[Place{c.Ref, c.Position - far}] + places[Place{c.Ref, c.Position + far}]
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
	return added
}

// once drops all but the best of each item.
func once(ranked []Ranked) []Ranked {
	seen := make(map[string]bool, len(ranked))
	return slices.DeleteFunc(ranked, func(r Ranked) bool {
		again := seen[r.Item]
		seen[r.Item] = true
		return again
	})
}

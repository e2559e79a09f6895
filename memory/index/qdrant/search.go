package qdrant

import (
	"cmp"
	"context"
	"slices"

	"github.com/qdrant/go-client/qdrant"

	"gantry.dev/memory/index"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
)

// beyond is how many more hits than wanted are asked for, so that the order at the
// cut is seldom in question.
const beyond = 16

// leg is one part of a search.
type leg struct {
	using   string
	query   *qdrant.Query
	ask     int // hits
	settled bool
	hits    []index.Hit
}

// Search asks for both parts in one call. The server does not say which of two
// equal scores comes first; so a part is asked for again, for more, until the
// order at the cut is settled.
func (i *Index) Search(ctx context.Context, query index.Query) (index.Found, error) {
	if err := index.CheckQuery(i.space.Dim, &query); err != nil {
		return index.Found{}, err
	}
	if err := ctx.Err(); err != nil {
		return index.Found{}, unavailable(ctx, "search", err)
	}
	// An empty list is no condition for the server: it would let everything through.
	if query.Organisation == "" || len(query.Spaces) == 0 || len(query.Sets) == 0 {
		return index.Found{}, nil
	}
	ask := min(query.Limit+beyond, mostHits)
	dense, lexical := &leg{using: denseVector, settled: true}, &leg{using: lexicalVector, settled: true}
	if query.Vector != nil {
		dense = &leg{using: denseVector, query: qdrant.NewQueryDense(query.Vector), ask: ask}
	}
	if len(query.Terms) > 0 {
		lexical = &leg{using: lexicalVector, query: qdrant.NewQuerySparse(sparse(query.Terms)), ask: ask}
	}
	filter := visible(&query)
	for {
		var open []*leg
		for _, leg := range []*leg{dense, lexical} {
			if !leg.settled {
				open = append(open, leg)
			}
		}
		if len(open) == 0 {
			return index.Found{Dense: dense.hits, Lexical: lexical.hits}, nil
		}
		if err := i.ask(ctx, open, filter, query.Limit); err != nil {
			return index.Found{}, err
		}
	}
}

// visible is who may see what: every condition of it must hold.
func visible(query *index.Query) *qdrant.Filter {
	return &qdrant.Filter{
		Must: []*qdrant.Condition{
			qdrant.NewMatchKeyword(fieldOrganisation, query.Organisation),
			qdrant.NewMatchKeywords(fieldSpace, names(query.Spaces)...),
			qdrant.NewMatchKeywords(fieldSet, query.Sets...),
			qdrant.NewRange(fieldExpires, &qdrant.Range{Gt: new(float64(query.NowMs))}),
		},
		// Only drops poorer views of what the reader sees in full.
		MustNot: []*qdrant.Condition{qdrant.NewMatchKeywords(fieldOmit, query.Sets...)},
	}
}

func names(spaces []view.Space) []string {
	made := make([]string, len(spaces))
	for i, space := range spaces {
		made[i] = string(space)
	}
	return made
}

func sparse(terms rank.Terms) (hashes []uint32, weights []float32) {
	hashes, weights = make([]uint32, len(terms)), make([]float32, len(terms))
	for i, term := range terms {
		hashes[i], weights[i] = term.Hash, term.Weight
	}
	return hashes, weights
}

// ask makes one call for the legs that are not settled.
func (i *Index) ask(ctx context.Context, legs []*leg, filter *qdrant.Filter, limit int) error {
	request := &qdrant.QueryBatchPoints{CollectionName: i.collection}
	for _, leg := range legs {
		request.QueryPoints = append(request.QueryPoints, &qdrant.QueryPoints{
			CollectionName: i.collection,
			Query:          leg.query,
			Using:          new(leg.using),
			Filter:         filter,
			Params:         &qdrant.SearchParams{Exact: new(true)},
			Limit:          new(uint64(leg.ask)),
			WithPayload:    qdrant.NewWithPayloadInclude(fieldItem, fieldVersion, fieldSet),
			WithVectors:    qdrant.NewWithVectors(false),
		})
	}
	answers, err := call(ctx, i.indexes, "search", func(ctx context.Context) ([]*qdrant.BatchResult, error) {
		return i.indexes.client.QueryBatch(ctx, request)
	})
	if err != nil {
		return err
	}
	if len(answers) != len(legs) {
		return unavailable(ctx, "search", errNotDone)
	}
	for n, leg := range legs {
		leg.take(answers[n].GetResult(), limit)
	}
	return nil
}

// take settles a leg, or asks it for more. Whatever scores above the lowest score
// that came has come whole; of that score itself there may be more.
func (l *leg) take(points []*qdrant.ScoredPoint, limit int) {
	hits := make([]index.Hit, 0, len(points))
	lowest := 0.0
	for n, point := range points {
		score := float64(point.GetScore())
		if n == 0 || score < lowest {
			lowest = score
		}
		if hit := (index.Hit{Ref: refOf(point.GetPayload()), Score: score}); hit.Item != "" {
			hits = append(hits, hit)
		}
	}
	hits = newest(hits)
	slices.SortFunc(hits, index.Compare)
	whole := len(points) < l.ask
	switch {
	case whole, len(hits) >= limit && hits[limit-1].Score > lowest:
		l.settled = true
	case l.ask >= mostHits:
		// More equal scores than are ever asked for: which of them came is chance, and
		// what nobody may see could have a part in it. So none of them counts.
		hits = slices.DeleteFunc(hits, func(hit index.Hit) bool { return hit.Score <= lowest })
		l.settled = true
	default:
		l.ask = min(4*l.ask, mostHits)
		return
	}
	l.hits = hits[:min(limit, len(hits))]
}

// newest keeps one view of each item: while a change is under way two versions may
// be there.
func newest(hits []index.Hit) []index.Hit {
	slices.SortStableFunc(hits, func(a, b index.Hit) int {
		return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(b.Version, a.Version), index.Compare(a, b))
	})
	return slices.CompactFunc(hits, func(a, b index.Hit) bool { return a.Item == b.Item })
}

// refOf reads which view a point is.
func refOf(payload map[string]*qdrant.Value) index.Ref {
	return index.Ref{
		Item:    payload[fieldItem].GetStringValue(),
		Version: uint64(payload[fieldVersion].GetIntegerValue()),
		Set:     payload[fieldSet].GetStringValue(),
	}
}

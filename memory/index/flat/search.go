package flat

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sort"

	"github.com/sourcegraph/conc"

	"gantry.dev/memory/index"
)

// aloneRows is how many rows one goroutine scans before a second one is worth
// starting.
const aloneRows = 4096

// mostScanners bounds the goroutines of one search.
const mostScanners = 4

// Search returns the best views of one reader: all that the reader sees are
// compared.
func (i *Index) Search(ctx context.Context, query index.Query) (index.Found, error) {
	if err := index.CheckQuery(i.dim, &query); err != nil {
		return index.Found{}, err
	}
	if err := ctx.Err(); err != nil {
		return index.Found{}, fmt.Errorf("%w: %w", index.ErrUnavailable, err)
	}
	found := i.held.Load().of(query.Organisation)
	if found == nil || len(query.Spaces) == 0 || len(query.Sets) == 0 {
		return index.Found{}, nil
	}
	found.mu.RLock()
	defer found.mu.RUnlock()
	parts := found.visible(&query)
	var answer index.Found
	if query.Vector != nil {
		answer.Dense = dense(parts, &query)
	}
	if len(query.Terms) > 0 {
		answer.Lexical = i.lexical(parts, &query)
	}
	return answer, nil
}

// stretch is a run of rows of one block.
type stretch struct {
	part       *part
	begin, end int
}

// dense scores every visible vector. Which goroutine scores which is of no
// consequence: the order of hits is total.
func dense(parts []*part, query *index.Query) []index.Hit {
	var stretches []stretch
	rows := 0
	for _, p := range parts {
		if p.dim == 0 {
			continue
		}
		for begin := 0; begin < len(p.rows); begin += blockRows {
			end := min(begin+blockRows, len(p.rows))
			stretches = append(stretches, stretch{p, begin, end})
			rows += end - begin
		}
	}
	scanners := min(mostScanners, runtime.GOMAXPROCS(0), 1+rows/aloneRows, max(1, len(stretches)))
	best := make([]top, scanners)
	scan := func(s int) {
		best[s].limit = query.Limit
		for _, stretch := range stretches[s*len(stretches)/scanners : (s+1)*len(stretches)/scanners] {
			stretch.scan(query, &best[s])
		}
	}
	var group conc.WaitGroup
	for s := 1; s < scanners; s++ {
		group.Go(func() { scan(s) })
	}
	scan(0)
	group.Wait()
	for s := 1; s < scanners; s++ {
		for _, hit := range best[s].hits {
			best[0].offer(hit)
		}
	}
	return best[0].sorted()
}

func (s stretch) scan(query *index.Query, best *top) {
	dim, n := s.part.dim, s.begin
	block := s.part.blocks[s.begin/blockRows][:(s.end-s.begin)*dim]
	for ; n+4 <= s.end; n += 4 {
		scores := dot4(query.Vector, block)
		block = block[4*dim:]
		for i, score := range scores {
			if score := float64(score); !best.full() || score >= best.worst() {
				s.part.offer(n+i, score, query.NowMs, best)
			}
		}
	}
	for ; n < s.end; n++ {
		score := float64(dot(query.Vector, block[:dim]))
		block = block[dim:]
		if !best.full() || score >= best.worst() {
			s.part.offer(n, score, query.NowMs, best)
		}
	}
}

// lexical sums the weights of the query's terms over the lists of the visible
// parts.
func (i *Index) lexical(parts []*part, query *index.Query) []index.Hit {
	sums, ok := i.scratch.Get().(*[]float64)
	if !ok {
		sums = new([]float64)
	}
	defer i.scratch.Put(sums)
	best := top{limit: query.Limit}
	for _, p := range parts {
		*sums = slices.Grow((*sums)[:0], len(p.rows))[:len(p.rows)]
		clear(*sums)
		held := false
		for _, term := range query.Terms {
			for _, posting := range p.postings[term.Hash] {
				(*sums)[posting.row] += float64(term.Weight) * float64(posting.weight)
				held = true
			}
		}
		if !held {
			continue
		}
		for n, score := range *sums {
			if score > 0 && (!best.full() || score >= best.worst()) {
				p.offer(n, score, query.NowMs, &best)
			}
		}
	}
	return best.sorted()
}

func (p *part) offer(n int, score float64, nowMs int64, best *top) {
	if !p.rows[n].expired(nowMs) {
		best.offer(index.Hit{Ref: p.ref(n), Score: score})
	}
}

// top keeps the best hits, the worst of them first.
type top struct {
	limit int
	hits  []index.Hit // a heap
}

func (t *top) full() bool { return len(t.hits) == t.limit }

func (t *top) worst() float64 { return t.hits[0].Score }

func (t *top) offer(hit index.Hit) {
	if !t.full() {
		t.hits = append(t.hits, hit)
		for i := len(t.hits) - 1; i > 0 && index.Better(t.hits[(i-1)/2], t.hits[i]); i = (i - 1) / 2 {
			t.hits[i], t.hits[(i-1)/2] = t.hits[(i-1)/2], t.hits[i]
		}
		return
	}
	if !index.Better(hit, t.hits[0]) {
		return
	}
	t.hits[0] = hit
	for i := 0; ; {
		worst := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t.hits); child++ {
			if index.Better(t.hits[worst], t.hits[child]) {
				worst = child
			}
		}
		if worst == i {
			return
		}
		t.hits[i], t.hits[worst] = t.hits[worst], t.hits[i]
		i = worst
	}
}

func (t *top) sorted() []index.Hit {
	sort.Slice(t.hits, func(i, j int) bool { return index.Better(t.hits[i], t.hits[j]) })
	return t.hits
}

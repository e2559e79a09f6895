package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
)

const (
	defaultHits = 10
	mostHits    = 100
	// bestOfPart is how many views of each part of an index are ranked at least.
	bestOfPart = 64
	// mostOfPart is how many views an index is asked for at most; whoever sees so
	// many that do not fit the question gets those that fit among them.
	mostOfPart = 10_000
	// mostTries is how often something is done again because something else
	// changed between its beginning and its end.
	mostTries = 8
)

// partDense is Recollection.Degraded's name for the comparison of vectors.
const partDense = "DENSE"

// Recall returns what the reader may see that answers the question best.
func (s *Service) Recall(ctx context.Context, reader view.Reader, question Question) (Recollection, error) {
	if question.Limit < 0 || question.Limit > mostHits || question.Tokens < 0 {
		return Recollection{}, refuse("LIMIT", "At most 100 hits can be asked for at once; ask for fewer.")
	}
	if len(question.Text) > MaxText {
		return Recollection{}, refuse("TOO_LARGE", "The question is too long; shorten it.")
	}
	question.Text, question.Limit = Normal(question.Text), cmp.Or(question.Limit, defaultHits)
	var meant meaning
	for try := 1; ; try++ {
		spaces, err := s.follow.current(ctx)
		if err == nil && spaces != meant.spaces {
			meant, err = s.embedQuestion(ctx, reader, spaces, question.Text)
		}
		if err == nil {
			err = s.follow.catchUp(ctx)
		}
		if err != nil {
			return Recollection{}, err
		}
		r := &recalling{asking: &asking{Reader: reader}, service: s, question: question, meant: meant.clone(), fitting: map[index.Ref]*store.Checked{},
			sources: s.refKeys(reader.Organisation, question.Refs)}
		candidates, err := r.gather(ctx)
		if err != nil {
			return Recollection{}, err
		}
		if (r.moved || r.stale && !s.store.Relayed()) && try < mostTries {
			continue
		}
		return s.answer(ctx, r, candidates)
	}
}

// meaning is a question as vectors, one for each vector space that is searched;
// nil where there is none.
type meaning struct {
	spaces   *spaces
	vectors  [][]float32
	askers   []embed.Asker // whose vectors go by what the reader sees; nil for others
	degraded bool
}

func (m meaning) clone() meaning {
	m.vectors = slices.Clone(m.vectors)
	return m
}

// embedQuestion embeds a question with the embedders that may be given it. What
// a run asks may hold what it has read, and detectors look at every question.
func (s *Service) embedQuestion(ctx context.Context, reader view.Reader, spaces *spaces, text string) (meaning, error) {
	rules, err := s.rules(ctx, reader.Organisation)
	if err != nil {
		return meaning{}, err
	}
	labels := reader.Context.Labels
	for _, found := range rules.find(text) {
		labels = labels.Join(found.Labels)
	}
	m := meaning{spaces: spaces, vectors: make([][]float32, len(spaces.active)), askers: make([]embed.Asker, len(spaces.active))}
	for n, part := range spaces.active {
		if !part.may(labels) {
			continue
		}
		if asker, asks := part.embedder.(embed.Asker); asks {
			m.askers[n] = asker
			continue
		}
		vectors, err := embed.Now(ctx, part.embedder, []string{text})
		if err := m.note(n, vectors, err); err != nil {
			return m, err
		}
	}
	return m, nil
}

// weigh embeds the question with those embedders that go by how rare its words
// are among what the reader sees.
func (m *meaning) weigh(ctx context.Context, text string, rarity func(stem string) float64) error {
	for n, asker := range m.askers {
		if asker == nil {
			continue
		}
		vector, err := asker.Ask(ctx, text, rarity)
		if err := m.note(n, [][]float32{vector}, err); err != nil {
			return err
		}
	}
	return nil
}

// note keeps the vector of a vector space; an embedder that cannot be reached
// leaves the others and the words.
func (m *meaning) note(n int, vectors [][]float32, err error) error {
	if errors.Is(err, embed.ErrUnavailable) {
		m.degraded = true
		return nil
	}
	if err == nil {
		m.vectors[n] = vectors[0]
	}
	return err
}

// refKeys are the keys of sources as the store has them; nil for none.
func (s *Service) refKeys(organisation string, refs []string) map[string]bool {
	if len(refs) == 0 {
		return nil
	}
	keys := map[string]bool{}
	for _, ref := range refs {
		keys[s.store.RefKey(organisation, Normal(ref))] = true
	}
	return keys
}

func (s *Service) rules(ctx context.Context, organisation string) (Rules, error) {
	if s.config.Rules == nil {
		return Rules{}, nil
	}
	return s.config.Rules(ctx, organisation)
}

// recalling is one question under way.
type recalling struct {
	*asking
	service  *Service
	question Question
	meant    meaning
	terms    rank.Terms
	stale    bool                         // an index suggested what the store has not, or no longer
	moved    bool                         // other vector spaces are searched now
	fitting  map[index.Ref]*store.Checked // what was looked up; nil for what does not fit
	sources  map[string]bool              // store.RefKeys of Question.Refs; nil for all
}

// gather returns everything that has to be ranked: of each part of each index
// the best views that the store confirms and that fit the question, and what
// stands beside them. Which these are depends on what the reader may see, and on
// nothing else that an index may hold.
func (r *recalling) gather(ctx context.Context) ([]rank.Candidate, error) {
	wanted := max(bestOfPart, r.service.config.Plan.Depth, r.question.Limit)
	for limit := wanted; ; limit = min(2*limit, mostOfPart) {
		legs, err := r.suggested(ctx, limit)
		if err != nil {
			return nil, err
		}
		if err := r.check(ctx, legs); err != nil {
			return nil, err
		}
		best, enough := r.best(legs, wanted, limit)
		if enough {
			return r.withNeighbours(ctx, best)
		}
	}
}

// noSet is no label set's id, which are digests.
const noSet = "none"

// suggested asks the indexes.
func (r *recalling) suggested(ctx context.Context, limit int) (legs [][]index.Hit, err error) {
	s := r.service
	s.follow.mu.RLock()
	defer s.follow.mu.RUnlock()
	r.moved = s.follow.spaces.Load() != r.meant.spaces
	if r.asking, err = s.ask(ctx, r.Reader); err != nil {
		return nil, err
	}
	r.scope.Spaces = r.within(r.question.Spaces)
	r.moment.AsOfMs, r.moment.KnownMs = r.question.AsOfMs, r.question.KnownMs
	if len(r.scope.Spaces) == 0 {
		return nil, nil
	}
	if len(r.scope.Sets) == 0 {
		// The index is asked all the same: whether it answers must not tell whether
		// anybody remembered anything.
		r.scope.Sets = []string{noSet}
	}
	key := s.termsKey(r.Organisation)
	statistics, err := s.store.Statistics(ctx, r.scope, rank.QueryHashes(key, r.question.Text))
	if err != nil {
		return nil, err
	}
	r.terms = rank.QueryTerms(key, r.question.Text, statistics)
	if err := r.meant.weigh(ctx, r.question.Text, rank.Rarity(key, statistics)); err != nil {
		return nil, err
	}
	for n, part := range r.meant.spaces.active {
		query := index.Query{Organisation: r.Organisation, Spaces: r.scope.Spaces, Sets: r.scope.Sets,
			Vector: r.meant.vectors[n], NowMs: r.moment.NowMs, Limit: limit}
		if n == 0 {
			query.Terms = r.terms // the words are the same in each
		}
		if query.Vector == nil && len(query.Terms) == 0 {
			continue
		}
		found, err := part.index.Search(ctx, query)
		if err != nil {
			return nil, err
		}
		legs = append(legs, found.Dense, found.Lexical)
	}
	return legs, nil
}

// check looks up in the store what the indexes suggested and was not looked up
// yet, and notes what fits.
func (r *recalling) check(ctx context.Context, legs [][]index.Hit) error {
	var refs []index.Ref
	for _, leg := range legs {
		for _, hit := range leg {
			if _, known := r.fitting[hit.Ref]; !known {
				r.fitting[hit.Ref] = nil
				refs = append(refs, hit.Ref)
			}
		}
	}
	if len(refs) == 0 {
		return nil
	}
	checked, err := r.service.store.Check(ctx, r.scope, refs)
	if err != nil {
		return err
	}
	r.stale = r.stale || len(checked) < len(refs)
	fitting, err := r.fit(ctx, checked)
	for n := range fitting {
		c := &fitting[n]
		r.fitting[c.Suggestion()] = c
	}
	return err
}

// fit returns what of the checked the question is about and nothing else has
// taken the place of.
func (r *recalling) fit(ctx context.Context, checked []store.Checked) ([]store.Checked, error) {
	ids := make([]string, len(checked))
	for n, c := range checked {
		ids[n] = c.Item
	}
	g, err := r.service.lookAhead(ctx, r.asking, ids)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(checked, func(c store.Checked) bool {
		item := c.Outline()
		return !r.moment.Holds(item) || item.Archived && !r.question.Archived ||
			len(r.question.Kinds) > 0 && !slices.Contains(r.question.Kinds, c.Kind) ||
			r.sources != nil && !r.sources[c.Ref] || g.replaced(item)
	}), nil
}

// best returns the first of each leg that fit, each once. enough is false where
// a leg may have more of them than the index was asked for.
func (r *recalling) best(legs [][]index.Hit, wanted, limit int) (best []store.Checked, enough bool) {
	taken := map[index.Ref]bool{}
	for _, leg := range legs {
		found := 0
		for _, hit := range leg {
			c := r.fitting[hit.Ref]
			if c == nil {
				continue
			}
			if found++; found > wanted {
				break
			}
			if !taken[hit.Ref] {
				taken[hit.Ref] = true
				best = append(best, *c)
			}
		}
		if found < wanted && len(leg) >= limit && limit < mostOfPart {
			return nil, false
		}
	}
	return best, true
}

func (r *recalling) withNeighbours(ctx context.Context, best []store.Checked) ([]rank.Candidate, error) {
	if err := r.fill(ctx, best); err != nil {
		return nil, err
	}
	candidates := r.candidates(best)
	neighbours, err := r.service.store.Beside(ctx, r.scope, rank.Beside(r.asked(), candidates, r.service.config.Plan, r.question.Limit))
	if err != nil {
		return nil, err
	}
	if neighbours, err = r.fit(ctx, neighbours); err != nil {
		return nil, err
	}
	// What is among the best of no part scores nothing by itself.
	return append(candidates, r.candidates(neighbours)...), nil
}

// fill fills in words and vectors: out of the indexes where they are in this
// process, and for the rest out of the store, which has the same.
func (r *recalling) fill(ctx context.Context, checked []store.Checked) error {
	refs := make([]index.Ref, len(checked))
	for n := range checked {
		refs[n] = checked[n].Suggestion()
	}
	held := make([]map[index.Ref]index.Point, len(r.meant.spaces.active))
	for n, part := range r.meant.spaces.active {
		if holder, is := part.index.(index.Holder); is {
			held[n] = holder.Points(r.Organisation, refs)
		}
	}
	var rest []*store.Checked
	for n := range checked {
		if c := &checked[n]; !r.take(c, refs[n], held) {
			rest = append(rest, c)
		}
	}
	there, err := r.service.store.Contents(ctx, r.Organisation, rest)
	r.stale = r.stale || there < len(rest)
	return err
}

// take fills in what every index holds of a view, or says that one does not.
func (r *recalling) take(c *store.Checked, ref index.Ref, held []map[index.Ref]index.Point) bool {
	vectors := map[string][]float32{}
	for n, part := range r.meant.spaces.active {
		point, is := held[n][ref]
		if !is || point.Vector == nil && r.meant.vectors[n] != nil {
			return false
		}
		vectors[part.space.ID], c.Terms = point.Vector, point.Terms
	}
	c.Vectors = vectors
	return true
}

// candidates puts views into the form in which they are ranked, with their vectors
// in each vector space in which they have one.
func (r *recalling) candidates(checked []store.Checked) []rank.Candidate {
	spaces := r.meant.spaces.active
	candidates := make([]rank.Candidate, len(checked))
	for n, c := range checked {
		candidates[n] = rank.Candidate{Item: c.Item, Vector: c.Vectors[spaces[0].space.ID], Terms: c.Terms, Kind: c.Kind,
			RecordedMs: c.RecordedMs, ValidFromMs: c.ValidFromMs, Ref: c.Ref, Position: c.Position}
		for _, part := range spaces[1:] {
			candidates[n].More = append(candidates[n].More, c.Vectors[part.space.ID])
		}
	}
	return candidates
}

// asked is the question as it is ranked by.
func (r *recalling) asked() rank.Question {
	return rank.Question{Vector: r.meant.vectors[0], More: r.meant.vectors[1:], Terms: r.terms,
		Spans: rank.Spans(r.question.Text, r.moment.NowMs), NowMs: r.moment.NowMs}
}

// answer ranks the candidates and renders the best, with their labels of now.
func (s *Service) answer(ctx context.Context, r *recalling, candidates []rank.Candidate) (Recollection, error) {
	ranked := rank.Rank(r.asked(), candidates, s.config.Plan)
	answer := Recollection{Hits: []Hit{}}
	if r.meant.degraded {
		answer.Degraded = []string{partDense}
	}
	tokens := 0
	// What went away after it was looked up leaves room for the next.
	for some := range slices.Chunk(ranked, r.question.Limit) {
		ids := make([]string, len(some))
		for n, one := range some {
			ids[n] = one.Item
		}
		rendered, err := s.render(ctx, r.asking, ids)
		if err != nil {
			return answer, err
		}
		for _, one := range some {
			rendering, sees := rendered[one.Item]
			if !sees || one.Score <= 0 {
				continue // gone, or no answer
			}
			tokens += (len(rendering.Heading) + len(rendering.Text) + 3) / 4
			if r.question.Tokens > 0 && tokens > r.question.Tokens || len(answer.Hits) == r.question.Limit {
				return answer, nil
			}
			answer.Hits = append(answer.Hits, Hit{Rendering: rendering, Score: one.Score})
			answer.Marking = answer.Marking.Join(rendering.Marking)
		}
		if len(answer.Hits) == r.question.Limit {
			break
		}
	}
	return answer, nil
}

package memorytest

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
)

// The sizes of answers.
const (
	usualHits, mostHits = 10, 100
	usualPage, mostPage = 50, 500
)

// Recall answers a question from everything that the reader sees and that was
// in force.
func (b *Brain) Recall(ctx context.Context, reader view.Reader, question memory.Question) (memory.Recollection, error) {
	nowMs, leave, err := b.enter(ctx)
	if err != nil {
		return memory.Recollection{}, err
	}
	defer leave()
	if question.Limit < 0 || question.Limit > mostHits || question.Tokens < 0 {
		return memory.Recollection{}, &memory.Refusal{Code: "LIMIT", Detail: "At most 100 hits can be asked for at once; ask for fewer."}
	}
	if len(question.Text) > memory.MaxText {
		return memory.Recollection{}, &memory.Refusal{Code: "TOO_LARGE", Detail: "The question is too long; shorten it."}
	}
	return b.cached(question, nowMs, func() (memory.Recollection, error) { return b.recall(ctx, reader, question, nowMs) })
}

func (b *Brain) recall(ctx context.Context, reader view.Reader, question memory.Question, nowMs int64) (memory.Recollection, error) {
	ask := rank.Question{NowMs: nowMs}
	var degraded []string
	if b.asks(&reader, question.Text) {
		vectors, err := b.config.Embedder.Embed(ctx, []string{question.Text})
		switch {
		case err == nil:
			ask.Vector = vectors[0]
		case errors.Is(err, embed.ErrUnavailable):
			degraded = []string{"DENSE"}
		default:
			return memory.Recollection{}, err
		}
	}
	ask.Terms = b.queryTerms(&reader, question)
	moment := view.Moment{NowMs: nowMs, AsOfMs: question.AsOfMs, KnownMs: question.KnownMs}
	order := rank.Rank(ask, b.candidates(&reader, question, moment), rank.DefaultPlan())
	answer := b.hits(&reader, question, moment, order)
	answer.Degraded = degraded
	return answer, nil
}

// asks reports whether the embedder may be given a question: a run's may hold
// what it has read, and a person's what detectors find.
func (b *Brain) asks(reader *view.Reader, text string) bool {
	if b.config.Embedder == nil || text == "" {
		return false
	}
	labels := reader.Context.Labels
	if detect := b.config.Rules(reader.Organisation).Detect; detect != nil {
		for _, found := range detect(text) {
			labels = labels.Join(found.Labels)
		}
	}
	return b.config.Embedder.May(labels)
}

// candidates are the views of all items that may answer, as the reader sees
// them.
func (b *Brain) candidates(reader *view.Reader, question memory.Question, moment view.Moment) []rank.Candidate {
	var candidates []rank.Candidate
	allowed, successors := b.allowed(reader), b.successors(reader)
	for id, kept := range b.items {
		if b.config.Wrong != FilterAfterCut && !b.answers(reader, kept.item, question, moment, successors) {
			continue
		}
		for _, v := range kept.views {
			if v.Fits(allowed) || b.config.Wrong == FilterAfterCut {
				candidates = append(candidates, rank.Candidate{
					Item: id, Vector: kept.vectors[v.Set], Terms: b.termsOf(kept.item.Organisation, v.Text),
					Kind: kept.item.Kind, RecordedMs: kept.item.RecordedMs,
					Ref: kept.item.Source.Ref, Position: kept.item.Source.Position,
				})
			}
		}
	}
	return candidates
}

func (b *Brain) answers(reader *view.Reader, item *view.Item, question memory.Question, moment view.Moment, successors func(string) []view.Successor) bool {
	return reader.Sees(item) && moment.Holds(item) && (question.Archived || !item.Archived) &&
		among(question.Spaces, item.Space) && among(question.Kinds, item.Kind) &&
		!view.Hidden(item, moment, successors)
}

// among reports whether a narrowing lets a value through; an empty one lets all.
func among[T comparable](narrowed []T, value T) bool {
	return len(narrowed) == 0 || slices.Contains(narrowed, value)
}

// queryTerms weighs the words of a question by the label sets and spaces that
// are asked.
func (b *Brain) queryTerms(reader *view.Reader, question memory.Question) rank.Terms {
	key := b.config.Key(reader.Organisation, "terms")
	hashes := rank.QueryHashes(key, question.Text)
	statistics := rank.Statistics{Holding: map[uint32]int64{}}
	allowed := b.allowed(reader)
	for _, kept := range b.items {
		item := kept.item
		asked := item.Organisation == reader.Organisation && reader.Reads(item.Space) && among(question.Spaces, item.Space)
		for _, v := range kept.views {
			if counted := asked && allowed(v.Set); !counted && b.config.Wrong != GlobalStatistics {
				continue
			}
			statistics.Documents++
			for _, term := range b.termsOf(item.Organisation, v.Text) {
				if _, found := slices.BinarySearch(hashes, term.Hash); found {
					statistics.Holding[term.Hash]++
				}
			}
		}
	}
	return rank.QueryTerms(key, question.Text, statistics)
}

// hits renders the best.
func (b *Brain) hits(reader *view.Reader, question memory.Question, moment view.Moment, order []rank.Ranked) memory.Recollection {
	limit := question.Limit
	if limit == 0 {
		limit = usualHits
	}
	order = order[:min(len(order), limit)]
	answer := memory.Recollection{Hits: []memory.Hit{}}
	successors, tokens := b.successors(reader), 0
	for _, ranked := range order {
		item := b.items[ranked.Item].item
		if !b.answers(reader, item, question, moment, successors) {
			continue // only where filtering after the cut is planted
		}
		rendering := b.render(reader, item, moment)
		tokens += (len(rendering.Heading) + len(rendering.Text) + 3) / 4
		if question.Tokens > 0 && tokens > question.Tokens {
			break
		}
		answer.Hits = append(answer.Hits, memory.Hit{Rendering: rendering, Score: ranked.Score})
		answer.Marking = answer.Marking.Join(rendering.Marking)
	}
	return answer
}

// Item returns one item; *memory.Refusal NOT_FOUND for one that is not there or
// not for this reader.
func (b *Brain) Item(ctx context.Context, reader view.Reader, id string) (view.Rendering, error) {
	nowMs, leave, err := b.enter(ctx)
	if err != nil {
		return view.Rendering{}, err
	}
	defer leave()
	item, err := b.find(&reader, id)
	if err != nil {
		return view.Rendering{}, err
	}
	return b.render(&reader, item, view.Moment{NowMs: nowMs}), nil
}

// Items returns those of the ids that the reader sees, by id.
func (b *Brain) Items(ctx context.Context, reader view.Reader, ids []string) (map[string]view.Rendering, error) {
	nowMs, leave, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	found := map[string]view.Rendering{}
	for _, id := range ids {
		if item, err := b.find(&reader, id); err == nil {
			found[id] = b.render(&reader, item, view.Moment{NowMs: nowMs})
		}
	}
	return found, nil
}

// List returns a page of what the reader sees and nothing that it sees has
// taken the place of, the newest first.
func (b *Brain) List(ctx context.Context, reader view.Reader, filter memory.Filter, after string, limit int) (memory.Page, error) {
	nowMs, leave, err := b.enter(ctx)
	if err != nil {
		return memory.Page{}, err
	}
	defer leave()
	if limit < 0 || limit > mostPage {
		return memory.Page{}, &memory.Refusal{Code: "LIMIT", Detail: "At most 500 items can be listed at once; ask for fewer."}
	}
	if limit == 0 {
		limit = usualPage
	}
	past, err := placeOf(after)
	if err != nil {
		return memory.Page{}, err
	}
	page := memory.Page{Items: []view.Rendering{}}
	for _, item := range b.listed(&reader, filter, nowMs) {
		if past != nil && newestFirst(item, past) <= 0 {
			continue
		}
		if len(page.Items) == limit {
			page.Next = b.spoilCursor(cursorOf(page.Items[limit-1]))
			break
		}
		page.Items = append(page.Items, b.render(&reader, item, view.Moment{NowMs: nowMs}))
	}
	return page, nil
}

// cursorOf names the place after an item, by what its reader knows of it.
func cursorOf(last view.Rendering) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(last.RecordedMs, 10) + ":" + last.ID))
}

// placeOf returns an item in the place that a cursor names, nil for none.
func placeOf(cursor string) (*view.Item, error) {
	if cursor == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	ms, id, _ := strings.Cut(string(text), ":")
	recorded, failed := strconv.ParseInt(ms, 10, 64)
	if err != nil || failed != nil || id == "" {
		return nil, &memory.Refusal{Code: "CURSOR", Detail: "That is no place in a list; begin without one."}
	}
	return &view.Item{ID: id, RecordedMs: recorded}, nil
}

// listed returns what the reader sees, what a filter lets through and what is
// not out of date for it.
func (b *Brain) listed(reader *view.Reader, filter memory.Filter, nowMs int64) []*view.Item {
	now, successors := view.Moment{NowMs: nowMs}, b.successors(reader)
	return slices.DeleteFunc(b.visible(reader), func(item *view.Item) bool {
		return !matchesFilter(item, filter) || view.Hidden(item, now, successors)
	})
}

func matchesFilter(item *view.Item, filter memory.Filter) bool {
	return among(filter.Spaces, item.Space) && among(filter.Kinds, item.Kind) &&
		(filter.Archived || !item.Archived) &&
		(filter.Subject == "" || strings.TrimSpace(memory.Normal(filter.Subject)) == item.Subject) &&
		(filter.Ref == "" || memory.Normal(filter.Ref) == item.Source.Ref) &&
		(filter.Principal == "" || filter.Principal == item.Source.Principal)
}

// Export writes everything that the reader sees, the newest first.
func (b *Brain) Export(ctx context.Context, reader view.Reader, filter memory.Filter, write func(view.Rendering) error) error {
	nowMs, leave, err := b.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for _, item := range b.listed(&reader, filter, nowMs) {
		if err := write(b.render(&reader, item, view.Moment{NowMs: nowMs})); err != nil {
			return err
		}
	}
	return nil
}

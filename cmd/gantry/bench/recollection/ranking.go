package recollection

import (
	"context"

	"gantry.dev/memory/embed"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
)

// ranking ranks every turn of a conversation, without a store and an index:
// what memory would find if it looked at everything each time.
type ranking struct {
	embedder   embed.Asker
	key        []byte
	candidates []rank.Candidate
	statistics rank.Statistics
	nowMs      int64
}

func newRanking(ctx context.Context, embedder embed.Asker, c conversation) (*ranking, error) {
	r := &ranking{embedder: embedder, key: []byte("measured"), nowMs: c.lastMs()}
	texts := make([]string, len(c.Items))
	for i, one := range c.Items {
		texts[i] = one.Text
	}
	vectors, err := embedder.Embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	r.statistics = rank.Statistics{Documents: int64(len(c.Items)), Holding: map[uint32]int64{}}
	for i, one := range c.Items {
		terms := rank.DocumentTerms(r.key, one.Text)
		for _, term := range terms {
			r.statistics.Holding[term.Hash]++
		}
		r.candidates = append(r.candidates, rank.Candidate{Item: one.ID, Vector: vectors[i], Terms: terms, Kind: view.Episode,
			RecordedMs: one.RecordedMs, ValidFromMs: one.RecordedMs, Ref: one.Ref, Position: one.Position})
	}
	return r, nil
}

func (r *ranking) recall(ctx context.Context, text string, limit int) ([]string, error) {
	vector, err := r.embedder.Ask(ctx, text, rank.Rarity(r.key, r.statistics))
	if err != nil {
		return nil, err
	}
	question := rank.Question{Vector: vector, Terms: rank.QueryTerms(r.key, text, r.statistics), Spans: rank.Spans(text, r.nowMs), NowMs: r.nowMs}
	var found []string
	for _, one := range rank.Rank(question, r.candidates, rank.DefaultPlan()) {
		if len(found) < limit {
			found = append(found, one.Item)
		}
	}
	return found, nil
}

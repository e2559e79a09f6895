package recollection

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"gantry.dev/cmd/gantry/bench/machine"
	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
)

// Each reader's questions go in turns of so many, to memory, to the index alone
// and to the plain table one after the other, so that whatever else the machine
// does slows all of them.
const askedInTurn = 25

// mostHits is how many the index alone and the plain table give.
const mostHits = 10

func (m *measuring) ask(ctx context.Context) error {
	for _, reader := range knownReaders() {
		if err := m.askAs(ctx, reader); err != nil {
			return fmt.Errorf("%s: %w", reader.name, err)
		}
	}
	return nil
}

// times are what the questions of one reader took.
type times struct {
	recall, index, asked, scan []time.Duration
	recallCPU                  time.Duration
}

func (m *measuring) askAs(ctx context.Context, reader knownReader) error {
	questions := make([]string, m.config.Questions)
	texts := newGenerator(4)
	for n := range questions {
		questions[n] = texts.question()
	}
	sets, err := m.running.store.Sets(ctx, measuredOrganisation)
	if err != nil {
		return err
	}
	scope := store.Scope{Organisation: measuredOrganisation, Spaces: reader.Read, Sets: view.Allowed(sets, reader.Clearance), NowMs: time.Now().UnixMilli()}
	var took times
	visible := 0
	for some := range slices.Chunk(questions, askedInTurn) {
		if err := m.recallAll(ctx, reader.Reader, some, &took); err != nil {
			return err
		}
		if visible, err = m.searchAll(ctx, scope, some, &took); err != nil {
			return err
		}
	}
	r := Reading{Reader: reader.name, Visible: machine.Over(float64(visible), float64(m.size.Views)),
		RecallCPU: machine.Over(took.recallCPU.Seconds()*1e3, float64(len(took.recall))),
		Recall:    machine.QuantilesOf(took.recall), Index: machine.QuantilesOf(took.index), Asked: machine.QuantilesOf(took.asked), Scan: machine.QuantilesOf(took.scan)}
	r.Goals = goals(m.size.Items, reader.goalMs, r)
	m.size.Readers = append(m.size.Readers, r)
	return nil
}

// goals are what 100,000 items are to reach.
func goals(items int, indexMs float64, r Reading) []Goal {
	if items != 100_000 {
		return nil
	}
	goal := func(name string, atMost, is float64) Goal {
		return Goal{Name: name, AtMost: atMost, Is: is, Held: is <= atMost}
	}
	return []Goal{
		goal("index alone, median", indexMs, r.Index.P50),
		goal("memory, p99, to twice the index as it asks it and 5 ms", 2*r.Asked.P99+5, r.Recall.P99),
	}
}

func (m *measuring) recallAll(ctx context.Context, reader view.Reader, questions []string, took *times) error {
	used := machine.TreeCPU(os.Getpid())
	for _, question := range questions {
		began := time.Now()
		if _, err := m.running.brain.Recall(ctx, reader, memory.Question{Text: question}); err != nil {
			return err
		}
		took.recall = append(took.recall, time.Since(began))
	}
	took.recallCPU += machine.TreeCPU(os.Getpid()) - used
	return nil
}

// searchAll asks the index alone each question, and the plain table the first.
func (m *measuring) searchAll(ctx context.Context, scope store.Scope, questions []string, took *times) (visible int, err error) {
	embedder, key := embed.NewStatic(), m.running.store.Key(measuredOrganisation, "terms")
	depth := rank.DefaultPlan().Depth
	for n, question := range questions {
		vectors, err := embedder.Embed(ctx, []string{question})
		if err != nil {
			return 0, err
		}
		statistics, err := m.running.store.Statistics(ctx, scope, rank.QueryHashes(key, question))
		if err != nil {
			return 0, err
		}
		query := index.Query{Organisation: scope.Organisation, Spaces: scope.Spaces, Sets: scope.Sets, NowMs: scope.NowMs, Vector: vectors[0], Limit: mostHits}
		began := time.Now()
		found, err := m.running.indexes.index.Search(ctx, query)
		if err != nil {
			return 0, err
		}
		took.index = append(took.index, time.Since(began))
		query.Terms, query.Limit = rank.QueryTerms(key, question, statistics), depth
		began = time.Now()
		if _, err := m.running.indexes.index.Search(ctx, query); err != nil {
			return 0, err
		}
		took.asked = append(took.asked, time.Since(began))
		if n > 0 {
			continue
		}
		began = time.Now()
		best, looked, err := m.plain.scan(ctx, scope, vectors[0])
		if err != nil {
			return 0, err
		}
		took.scan = append(took.scan, time.Since(began))
		visible = looked
		if err := same(found.Dense, best); err != nil {
			return 0, err
		}
	}
	return visible, nil
}

// same makes sure that the index found what the plain table has.
func same(hits []index.Hit, best []scanned) error {
	if len(hits) != len(best) {
		return fmt.Errorf("the index found %d, and the table has %d", len(hits), len(best))
	}
	const near = 1e-4 // what single precision leaves of a product
	for n := range hits {
		if off := hits[n].Score - best[n].score; off > near || off < -near {
			return fmt.Errorf("the index's hit %d scores %g, and the table's %g", n+1, hits[n].Score, best[n].score)
		}
	}
	return nil
}

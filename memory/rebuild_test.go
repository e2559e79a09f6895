package memory_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/index/wire"
)

// An index is made anew while it is asked and written to: what is erased, changed
// and remembered meanwhile is right in the new one.
func TestAnIndexIsRebuiltWhileItIsAskedAndWrittenTo(t *testing.T) { rebuilds(t, sqlite) }

func rebuilds(t *testing.T, where on) {
	bothIndexes(t, func(t *testing.T, tune func(*house)) {
		during := &meanwhile{}
		h := build(t, where, tune, func(h *house) {
			inner := h.index
			h.index = func() index.Indexes { return freshly{inner(), during} }
		})
		bob := person("bob")
		var ids []string
		for n := range 20 {
			ids = append(ids, h.remember(t, bob, fact(fmt.Sprintf("Room %d is free.", n))).ID)
		}
		h.drain(t)
		steps := 0
		during.do = func() {
			steps++
			_, err := h.Forget(t.Context(), bob, memory.Selector{Items: ids[steps : steps+1]})
			require.NoError(t, err)
			h.remember(t, bob, fact(fmt.Sprintf("Hall %d is free.", steps)))
			require.NotContains(t, h.recall(t, bob, fmt.Sprintf("Is room %d free?", steps)), ids[steps])
			if steps == 3 {
				during.do = nil
			}
			h.drain(t)
		}
		items, err := h.Rebuild(t.Context())
		require.NoError(t, err)
		require.Equal(t, 20, items)
		require.Equal(t, 3, steps)
		h.drain(t)
		require.Len(t, h.recall(t, bob, "Which hall is free?"), 10)
		require.Equal(t, h.rebuilt(t), h.held(t, h.index()))
		require.Len(t, h.rebuilt(t), 20)
		require.Zero(t, h.sweep(t).Mended)
	})
}

// meanwhile does something before each step of a rebuild.
type meanwhile struct{ do func() }

type freshly struct {
	index.Indexes
	meanwhile *meanwhile
}

func (f freshly) Fresh(ctx context.Context, space index.VectorSpace) (index.Index, func(context.Context) error, error) {
	next, swap, err := f.Indexes.Fresh(ctx, space)
	return stepping{next, f.meanwhile}, swap, err
}

type stepping struct {
	index.Index
	meanwhile *meanwhile
}

func (s stepping) Apply(ctx context.Context, states []index.State) error {
	if s.meanwhile.do != nil {
		s.meanwhile.do()
	}
	return s.Index.Apply(ctx, states)
}

// second is another model that takes every text.
type second struct{ *embed.Static }

func (second) Model() string { return "second-model" }

func (s second) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, err := s.Static.Embed(ctx, texts)
	for _, vector := range vectors {
		slices.Reverse(vector)
	}
	return vectors, err
}

func (s second) Ask(ctx context.Context, text string, rarity func(string) float64) ([]float32, error) {
	vector, err := s.Static.Ask(ctx, text, rarity)
	slices.Reverse(vector)
	return vector, err
}

// failingAfter is a model whose server goes away.
type failingAfter struct {
	second
	texts int
	each  func()
}

func (f *failingAfter) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if f.texts -= len(texts); f.texts < 0 {
		return nil, errors.New("killed")
	}
	if f.each != nil {
		f.each()
	}
	return f.second.Embed(ctx, texts)
}

// tending is an operator's process, which has an index of its own unless it is a
// server's.
func (h *house) tending(t *testing.T, embedders ...embed.Embedder) *memory.Service {
	t.Helper()
	config := h.tuning
	config.Store, config.Indexes, config.Embedders, config.Tending = h.store, h.index(), embedders, true
	service, err := memory.New(t.Context(), config)
	require.NoError(t, err)
	return service
}

func (h *house) vectors(t *testing.T) map[string]int {
	t.Helper()
	counted := map[string]int{}
	rows, err := h.files.Databases().Read.QueryContext(t.Context(), "SELECT vector_space, count(*) FROM memory_vectors GROUP BY vector_space")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var space string
		var n int
		require.NoError(t, rows.Scan(&space, &n))
		counted[space] = n
	}
	require.NoError(t, rows.Err())
	return counted
}

// Everything is embedded by another model while memory is written to. Killed at
// any step it goes on where it was; then all have the new vectors, none the old,
// and a process that knows only the old model answers nothing wrong: it says so.
func reembedding(t *testing.T, where on, tune func(*house)) {
	h := build(t, where, tune, func(h *house) { h.tuning.Embedders = []embed.Embedder{static} })
	old := h.Service
	ann, bob := person("ann", "hr"), person("bob")
	var ids []string
	for n := range 150 {
		labels := []string{"", "hr"}[n%2]
		draft := fact(fmt.Sprintf("Room %d is free on day %d.", n, n%7))
		if labels != "" {
			draft.Labels = append(draft.Labels, "hr")
		}
		ids = append(ids, h.remember(t, ann, draft).ID)
	}
	h.drain(t)
	n := 0
	write := func() {
		n++
		_, err := old.Forget(t.Context(), ann, memory.Selector{Items: ids[n : n+1]})
		require.NoError(t, err)
		_, err = old.Remember(t.Context(), bob, fact(fmt.Sprintf("Hall %d is free.", n)))
		require.NoError(t, err)
		answer, err := old.Recall(t.Context(), bob, memory.Question{Text: "Which hall is free?"})
		require.NoError(t, err)
		require.NotEmpty(t, answer.Hits)
	}
	filled := 0
	for kill := 1; kill <= 2; kill++ {
		_, err := h.tending(t, &failingAfter{second: second{static}, texts: 70, each: write}).Reembed(t.Context(), memory.Reembedding{Grace: 1})
		require.ErrorContains(t, err, "killed")
		require.Greater(t, h.vectors(t)["second-model-1"], filled, "what was done stays done")
		filled = h.vectors(t)["second-model-1"]
	}
	_, err := memory.New(t.Context(), memory.Config{Store: h.store, Indexes: flat.New(), Embedders: []embed.Embedder{second{static}}})
	require.ErrorIs(t, err, memory.ErrVectorSpace)

	tender := h.tending(t, &failingAfter{second: second{static}, texts: 10_000, each: func() {
		if n < 6 {
			write()
		}
	}})
	done, err := tender.Reembed(t.Context(), memory.Reembedding{Grace: 1, Least: 1.01})
	require.ErrorIs(t, err, memory.ErrDiffers)
	require.InDelta(t, 1, done.Overlap["second-model-1"], 0.02, "the vectors are the same, turned round")
	_, err = old.Recall(t.Context(), bob, memory.Question{Text: "Which hall is free?"})
	require.NoError(t, err, "nothing was switched")
	once := sync.OnceFunc(write) // by who knows the old model only, right before all would be done
	write()
	done, err = tender.Reembed(t.Context(), memory.Reembedding{Grace: 1, Say: func(string, int) { once() }})
	require.NoError(t, err)
	require.Equal(t, []string{"second-model-1"}, done.Active)
	require.Equal(t, []string{"second-model-1"}, slices.Sorted(maps.Keys(h.vectors(t))))
	require.Equal(t, 150, h.vectors(t)["second-model-1"])

	_, err = old.Recall(t.Context(), bob, memory.Question{Text: "Which hall is free?"})
	require.ErrorIs(t, err, memory.ErrVectorSpace)
	_, err = old.Remember(t.Context(), bob, fact("It is late."))
	require.ErrorIs(t, err, memory.ErrVectorSpace)
	h.tuning.Embedders = []embed.Embedder{second{static}}
	h.Service, h.store = h.process(t, h.files)
	require.Len(t, h.recall(t, bob, "Which hall is free?"), 10)
	h.drain(t)
	require.Zero(t, h.sweep(t).Mended, "the index is what the store has")
	again, err := h.tending(t, second{static}).Reembed(t.Context(), memory.Reembedding{})
	require.NoError(t, err)
	require.Zero(t, again.Embedded)
}

func TestEverythingIsEmbeddedAgainWhileItIsWrittenTo(t *testing.T) {
	t.Run("flat", func(t *testing.T) { reembedding(t, sqlite, func(*house) {}) })
	t.Run("qdrant", func(t *testing.T) { reembedding(t, sqlite, remote(t, wire.Start(t))) })
}

// A process that knows both models writes to the vector spaces of both while one
// is built, and changes over by itself.
func TestAProcessThatKnowsBothModelsChangesOver(t *testing.T) {
	bothIndexes(t, func(t *testing.T, tune func(*house)) {
		h := build(t, sqlite, tune)
		bob := person("bob")
		first := h.remember(t, bob, fact("The physician sees patients on Monday."))
		h.drain(t)
		var both *memory.Service
		_, err := h.tending(t, static, &failingAfter{second: second{static}, texts: 0}).Reembed(t.Context(), memory.Reembedding{})
		require.Error(t, err)
		h.tuning.Embedders = []embed.Embedder{static, second{static}}
		both, _ = h.process(t, h.files)
		_, err = both.Remember(t.Context(), bob, fact("The canteen is closed."))
		require.NoError(t, err)
		require.Equal(t, map[string]int{"static-384-1-1": 2, "second-model-1": 1}, h.vectors(t))
		done, err := h.tending(t, static, second{static}).Reembed(t.Context(), memory.Reembedding{})
		require.NoError(t, err)
		require.Equal(t, 1, done.Embedded)
		require.Equal(t, []string{"static-384-1-1", "second-model-1"}, done.Active)
		h.Service = both
		require.Equal(t, []string{first.ID}, h.recall(t, bob, "When does the doctor come?"))
		require.Equal(t, map[string]int{"static-384-1-1": 2, "second-model-1": 2}, h.vectors(t))
	})
}

// hooked lets something happen while a text is embedded. It goes by no rarity.
type hooked struct {
	embed.Embedder
	next func()
}

func (h *hooked) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if next := h.next; next != nil {
		h.next = nil
		next()
	}
	return h.Embedder.Embed(ctx, texts)
}

// Everything changes over to another model while something is embedded by the old
// one: what was being written is not kept with vectors that nobody compares, and
// what was being asked is asked again.
func TestWhoIsAtWorkWhileVectorsChangeOverNoticesIt(t *testing.T) {
	h := build(t, sqlite)
	bob := person("bob")
	kept := h.remember(t, bob, fact("The physician sees patients on Monday."))
	reembed := func(again bool, models ...embed.Embedder) {
		_, err := h.tending(t, models...).Reembed(t.Context(), memory.Reembedding{Grace: 1, Again: again})
		require.NoError(t, err)
	}
	alone := &hooked{Embedder: static, next: func() { reembed(false, second{static}) }}
	h.tuning.Embedders = []embed.Embedder{alone}
	service, _ := h.process(t, h.files)
	_, err := service.Remember(t.Context(), bob, fact("The canteen is closed."))
	require.ErrorIs(t, err, memory.ErrVectorSpace)
	require.Equal(t, map[string]int{"second-model-1": 1}, h.vectors(t))

	reembed(false, static, second{static})
	both := &hooked{Embedder: second{static}}
	h.tuning.Embedders = []embed.Embedder{static, both}
	service, _ = h.process(t, h.files)
	both.next = func() {
		reembed(true, static, second{static})
		_, err := service.Recall(t.Context(), bob, memory.Question{Text: "lunch"})
		require.NoError(t, err)
	}
	answer, err := service.Recall(t.Context(), bob, memory.Question{Text: "When does the doctor come?"})
	require.NoError(t, err)
	require.Equal(t, kept.ID, answer.Hits[0].ID)
}

// The old vectors stay until nobody asks by them any more.
func TestOldVectorsStayUntilNobodyAsksByThem(t *testing.T) {
	h := build(t, sqlite)
	h.remember(t, person("bob"), fact("The roof is new."))
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		said := []string{}
		_, err := h.tending(t, second{static}).Reembed(ctx, memory.Reembedding{Say: func(what string, _ int) { said = append(said, what) }})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Contains(t, said, "waiting until nobody asks by the old vectors")
		require.Len(t, h.vectors(t), 2, "stopped before its end: nothing is lost")
		_, err = h.tending(t, second{static}).Reembed(t.Context(), memory.Reembedding{})
		require.NoError(t, err)
		require.Equal(t, map[string]int{"second-model-1": 1}, h.vectors(t))
	})
}

// Neither an index made anew nor other vectors nor a relay that tells everything
// again bring back what was forgotten.
func TestCase_42_NoRebuildAndNoReembeddingBringsItBack(t *testing.T) {
	bothIndexes(t, func(t *testing.T, tune func(*house)) {
		h := build(t, sqlite, tune)
		bob := person("bob")
		gone := h.remember(t, bob, fact("The vault's number is 4711."))
		stays := h.remember(t, bob, fact("The vault is in the cellar."))
		h.drain(t)
		_, err := h.Forget(t.Context(), bob, memory.Selector{Items: []string{gone.ID}})
		require.NoError(t, err)
		check := func() {
			t.Helper()
			h.drain(t)
			require.Equal(t, []string{stays.ID}, h.recall(t, bob, "What is the vault's number?"))
			for _, ref := range h.held(t, h.index()) {
				require.NotEqual(t, gone.ID, ref.Item)
			}
		}
		check()
		_, err = h.store.Queue(t.Context(), h.clock.Load(), []string{gone.ID, stays.ID})
		require.NoError(t, err)
		check()
		_, err = h.Rebuild(t.Context())
		require.NoError(t, err)
		check()
		_, err = h.tending(t, static).Reembed(t.Context(), memory.Reembedding{Again: true, Grace: 1})
		require.NoError(t, err)
		check()
		require.Zero(t, h.sweep(t).Mended)
	})
}

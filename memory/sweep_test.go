package memory_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/index/wire"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
)

// rebuilt is what an index holds that is made of nothing but the store.
func (h *house) rebuilt(t *testing.T) []index.Ref {
	t.Helper()
	spaces, err := h.store.VectorSpaces(t.Context(), store.Active)
	require.NoError(t, err)
	var all []index.Ref
	for _, space := range spaces {
		fresh, err := flat.New().Open(t.Context(), space)
		require.NoError(t, err)
		refs, _, err := h.store.Refs(t.Context(), "acme", "", 10_000)
		require.NoError(t, err)
		ids := make([]string, len(refs))
		for n, ref := range refs {
			ids[n] = ref.Item
		}
		states, err := h.store.States(t.Context(), space.ID, ids)
		require.NoError(t, err)
		require.NoError(t, fresh.Apply(t.Context(), states))
		held, err := fresh.Held(t.Context(), "acme", "", 10_000)
		require.NoError(t, err)
		all = append(all, held...)
	}
	return all
}

func (h *house) sweep(t *testing.T) memory.Swept {
	t.Helper()
	swept, err := h.Sweep(t.Context())
	require.NoError(t, err)
	return swept
}

// bothIndexes runs a test on the index in the process and on one in a server.
func bothIndexes(t *testing.T, test func(t *testing.T, tune func(*house))) {
	t.Run("flat", func(t *testing.T) {
		kept := flat.New()
		test(t, func(h *house) { h.index = func() index.Indexes { return kept } })
	})
	t.Run("qdrant", func(t *testing.T) { test(t, remote(t, wire.Start(t))) })
}

// Whatever an index lost, kept, or got from elsewhere: a sweep makes it what a
// rebuild from the store would be. The second finds nothing.
func TestASweepMendsAnIndexBothWays(t *testing.T) { sweeps(t, sqlite) }

func sweeps(t *testing.T, where on) {
	bothIndexes(t, func(t *testing.T, tune func(*house)) {
		h := build(t, where, tune, func(h *house) { h.tuning.Page = 3 })
		bob := person("bob")
		var ids []string
		for n := range 12 {
			ids = append(ids, h.remember(t, bob, fact(fmt.Sprintf("Room %d is free.", n))).ID)
		}
		spaces, err := h.store.VectorSpaces(t.Context(), store.Active)
		require.NoError(t, err)
		states, err := h.store.States(t.Context(), spaces[0].ID, ids)
		require.NoError(t, err)
		_, err = h.Forget(t.Context(), bob, memory.Selector{Items: ids[:2]})
		require.NoError(t, err)
		h.drain(t)
		h.recall(t, bob, "Which room is free?")
		require.Zero(t, h.sweep(t).Mended)
		require.Equal(t, h.rebuilt(t), h.held(t, h.index()))

		opened, err := h.index().Open(t.Context(), spaces[0])
		require.NoError(t, err)
		stale, stranger, foreign := states[5], states[6], states[7]
		stale.Version += 7
		stranger.Item, foreign.Organisation = "never-was", "other"
		h.remember(t, of(bob, "other"), fact("Room 99 is free."))
		h.drain(t)
		require.NoError(t, opened.Apply(t.Context(), []index.State{states[0], stale, stranger, foreign,
			{Organisation: "acme", Item: ids[8]}, {Organisation: "acme", Item: ids[9]}}))
		require.NotEqual(t, h.rebuilt(t), h.held(t, h.index()))
		before := h.recall(t, bob, "Which room is free?")
		require.NotContains(t, before, ids[0])
		require.NotContains(t, before, "never-was")
		require.Equal(t, 6, h.sweep(t).Mended)
		h.drain(t)
		require.Equal(t, h.rebuilt(t), h.held(t, h.index()))
		left, err := opened.Held(t.Context(), "other", "", 10)
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.Zero(t, h.sweep(t).Mended)
		require.Len(t, h.recall(t, bob, "Which room is free?"), 10)
	})
}

func of(reader view.Reader, organisation string) view.Reader {
	reader.Organisation = organisation
	return reader
}

// What has expired is erased for good by the same way as what is forgotten, with a
// receipt of the system's own.
func TestASweepErasesWhatHasExpired(t *testing.T) {
	bothIndexes(t, func(t *testing.T, tune func(*house)) {
		h := build(t, sqlite, tune)
		bob := person("bob")
		draft := fact("The code of the day is 4711.")
		draft.ExpiresMs = h.clock.Load() + 1000
		kept := h.remember(t, bob, draft)
		derived := fact("Somebody has a code.")
		derived.DerivedFrom = []string{kept.ID}
		h.remember(t, bob, derived)
		stays := h.remember(t, bob, fact("The code of conduct stays."))
		h.drain(t)
		h.recall(t, bob, "code")
		require.Zero(t, h.sweep(t).Expired)
		h.clock.Add(1000)
		require.Equal(t, 2, h.sweep(t).Expired)
		h.drain(t)
		require.Equal(t, []string{stays.ID}, h.recall(t, bob, "What is the code of the day?"))
		require.Len(t, h.held(t, h.index()), 1)
		left, err := h.store.Left(t.Context(), []string{kept.ID})
		require.NoError(t, err)
		require.Empty(t, left)
		h.clock.Add(30_000)
		h.sweep(t)
		open, err := h.store.Unverified(t.Context(), "", 10)
		require.NoError(t, err)
		require.Empty(t, open)
		require.Contains(t, fmt.Sprint(h.rows(t, "receipts")), "gantry:expiry")
	})
}

// A relay that died over it puts back what was erased, after the receipt said
// that it was gone. After the longest lease it is looked for once more.
func TestFault_K4_WhatIsErasedIsLookedForAgainAfterTheLongestLease(t *testing.T) {
	h := build(t, sqlite, remote(t, wire.Start(t)))
	bob := person("bob")
	kept := h.remember(t, bob, fact("The vault's number is 4711."))
	h.drain(t)
	spaces, err := h.store.VectorSpaces(t.Context(), store.Active)
	require.NoError(t, err)
	states, err := h.store.States(t.Context(), spaces[0].ID, []string{kept.ID})
	require.NoError(t, err)
	receipt, err := h.Forget(t.Context(), bob, memory.Selector{Items: []string{kept.ID}})
	require.NoError(t, err)
	require.Positive(t, receipt.VerifiedMs)
	h.drain(t)
	require.Equal(t, memory.Swept{Open: 1}, h.sweep(t))

	opened, err := h.index().Open(t.Context(), spaces[0])
	require.NoError(t, err)
	require.NoError(t, opened.Apply(t.Context(), states))
	require.Empty(t, h.recall(t, bob, "What is the vault's number?"))
	h.clock.Add(30_000)
	require.Equal(t, memory.Swept{Verified: 1}, h.sweep(t))
	require.Empty(t, h.held(t, h.index()))
	again, err := h.Receipt(t.Context(), bob, receipt.ID)
	require.NoError(t, err)
	require.Equal(t, receipt.VerifiedMs+30_000, again.VerifiedMs)
	require.Equal(t, receipt.Digest, again.Digest)
	require.Equal(t, memory.Swept{}, h.sweep(t))
}

// What was written while the embedder was away is found by its words, and by its
// meaning after a sweep.
func TestASweepEmbedsWhatCouldNotBeEmbedded(t *testing.T) {
	bothIndexes(t, func(t *testing.T, tune func(*house)) {
		e := &outage{Static: static}
		h := build(t, sqlite, tune, func(h *house) { h.tuning.Embedders = []embed.Embedder{e} })
		bob := person("bob")
		e.down = true
		kept := h.remember(t, bob, fact("The physician sees patients on Monday."))
		h.drain(t)
		_, err := h.Sweep(t.Context())
		require.ErrorIs(t, err, embed.ErrUnavailable)
		e.down = false
		require.Empty(t, h.recall(t, bob, "When does the doctor come?"))
		require.Equal(t, 1, h.sweep(t).Embedded)
		h.drain(t)
		require.Equal(t, []string{kept.ID}, h.recall(t, bob, "When does the doctor come?"))
		require.Zero(t, h.sweep(t).Embedded)
		again, err := h.Item(t.Context(), bob, kept.ID)
		require.NoError(t, err)
		require.Equal(t, kept, again)
	})
}

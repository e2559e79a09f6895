package memory_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/index/qdrant"
	"gantry.dev/memory/index/wire"
	"gantry.dev/memory/store"
	"gantry.dev/orchestrator/policy"
)

// remote puts a memory's index behind a relay: in a server's double.
func remote(t *testing.T, server *wire.Server) func(*house) {
	return func(h *house) {
		h.relayed = true
		h.index = func() index.Indexes {
			indexes, err := qdrant.New(qdrant.Config{URL: server.URL(), RestAfter: 1000, Rest: time.Millisecond, Timeout: 10 * time.Second})
			require.NoError(t, err)
			t.Cleanup(func() { _ = indexes.Close() })
			return indexes
		}
	}
}

// shared puts it behind a relay in this process; all processes of a test share
// it, as they would share a server.
func shared(gate *gate) func(*house) {
	gate.Indexes = flat.New()
	return func(h *house) {
		h.relayed = true
		h.index = func() index.Indexes { return gate }
	}
}

// gate stands before an index that is shared.
type gate struct {
	index.Indexes
	mu     sync.Mutex
	before func(states []index.State) error // of what is applied; nil: nothing
}

type gated struct {
	index.Index
	gate *gate
}

func (g *gate) Open(ctx context.Context, space index.VectorSpace) (index.Index, error) {
	inner, err := g.Indexes.Open(ctx, space)
	return gated{inner, g}, err
}

func (g *gate) set(before func([]index.State) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before = before
}

func (g gated) Apply(ctx context.Context, states []index.State) error {
	g.gate.mu.Lock()
	before := g.gate.before
	g.gate.mu.Unlock()
	if before != nil {
		if err := before(states); err != nil {
			return err
		}
	}
	return g.Index.Apply(ctx, states)
}

func (h *house) drain(t *testing.T, relaying ...memory.Relaying) (told int) {
	t.Helper()
	told, err := h.Drain(t.Context(), append(relaying, memory.Relaying{})[0])
	require.NoError(t, err)
	return told
}

func (h *house) waiting(t *testing.T) int {
	t.Helper()
	waiting, err := h.store.Waiting(t.Context())
	require.NoError(t, err)
	return waiting
}

// held is what the indexes hold of the organisation.
func (h *house) held(t *testing.T, indexes index.Indexes) []index.Ref {
	t.Helper()
	spaces, err := h.store.VectorSpaces(t.Context(), store.Active)
	require.NoError(t, err)
	var all []index.Ref
	for _, space := range spaces {
		opened, err := indexes.Open(t.Context(), space)
		require.NoError(t, err)
		refs, err := opened.Held(t.Context(), "acme", "", 10_000)
		require.NoError(t, err)
		all = append(all, refs...)
	}
	return all
}

func relays(t *testing.T, where on) {
	server := wire.Start(t)
	rung := 0
	h := build(t, where, remote(t, server), func(h *house) { h.announced = func() { rung++ } })
	bob, ann := person("bob"), person("ann", "hr")
	lunch := h.remember(t, bob, fact("Lunch is at noon."))
	secret := h.remember(t, ann, fact("The salary round is at noon.", "hr"))
	require.Equal(t, 2, rung)
	require.Empty(t, h.recall(t, bob, "When is lunch?"), "the index has not been told yet")
	require.Equal(t, 2, h.drain(t))
	require.Equal(t, []string{lunch.ID}, h.recall(t, bob, "What is at noon?"))
	require.ElementsMatch(t, []string{lunch.ID, secret.ID}, h.recall(t, ann, "What is at noon?"))
	require.Zero(t, h.drain(t), "nothing is told twice")

	_, err := h.Declassify(t.Context(), person("olga", "hr"), secret.ID, policy.NewLabels("hr"), "it is in the paper")
	require.NoError(t, err)
	require.NotContains(t, h.recall(t, ann, "Which salary round?"), secret.ID, "what the index has of it is stale")
	require.Equal(t, 1, h.drain(t))
	require.Contains(t, h.recall(t, bob, "Which salary round?"), secret.ID)
	_, err = h.Forget(t.Context(), bob, memory.Selector{Items: []string{lunch.ID}})
	require.NoError(t, err)
	require.NotContains(t, h.recall(t, bob, "When is lunch?"), lunch.ID)
	h.drain(t)
	require.Zero(t, h.waiting(t))
	require.Len(t, h.held(t, h.index()), 1)
	server.RequireGuarded(t)
}

func TestARelayTellsTheIndexWhatWasCommitted(t *testing.T) { relays(t, sqlite) }

// While the index is down writes succeed and wait, a question is answered by an
// error, and no attempt counts against an item.
func TestFault_C13_ARelayWaitsForAnIndexThatIsDown(t *testing.T) {
	server := wire.Start(t)
	h := build(t, sqlite, remote(t, server))
	bob := person("bob")
	h.remember(t, bob, fact("The boiler is in the cellar."))
	h.drain(t)
	server.Stop()
	kept := h.remember(t, bob, fact("The garage is behind the boiler."))
	for range store.MostAttempts + 2 {
		_, err := h.Drain(t.Context(), memory.Relaying{})
		require.ErrorIs(t, err, index.ErrUnavailable)
		told, err := h.Drain(t.Context(), memory.Relaying{})
		require.NoError(t, err)
		require.Zero(t, told, "it rests before it is tried again")
		h.clock.Add(1000)
	}
	early, _ := h.process(t, h.files) // a process that starts meanwhile
	for _, service := range []*memory.Service{h.Service, early} {
		_, err := service.Recall(t.Context(), bob, memory.Question{Text: "Where is the garage?"})
		require.ErrorIs(t, err, index.ErrUnavailable)
	}
	seen, err := h.Item(t.Context(), bob, kept.ID)
	require.NoError(t, err)
	require.Equal(t, kept.Text, seen.Text)
	server.Restart(t)
	h.Service, h.store = h.process(t, h.files) // which does not wait before it connects again
	require.Equal(t, 1, h.drain(t))
	require.Contains(t, h.recall(t, bob, "Where is the garage?"), kept.ID)
}

// An item that cannot be told holds up no other. It is tried some times, later
// and later, and then waits for an operator.
func TestAnItemThatCannotBeToldIsParked(t *testing.T) {
	g := &gate{}
	h := build(t, sqlite, shared(g))
	bob := person("bob")
	bad := h.remember(t, bob, fact("The cellar is wet."))
	good := h.remember(t, bob, fact("The cellar is dry."))
	g.set(func(states []index.State) error {
		if slices.ContainsFunc(states, func(s index.State) bool { return s.Item == bad.ID }) {
			return index.ErrMalformed
		}
		return nil
	})
	var reports []error
	relaying := memory.Relaying{Report: func(err error) { reports = append(reports, err) }}
	require.Equal(t, 1, h.drain(t, relaying))
	require.Equal(t, []string{good.ID}, h.recall(t, bob, "How is the cellar?"))
	for attempt := 1; attempt < store.MostAttempts; attempt++ {
		require.Empty(t, reports)
		h.clock.Add(min(int64(1000)<<attempt, 300_000) - 1)
		claimed, err := h.store.Claim(t.Context(), "early", h.clock.Load(), h.clock.Load()+1, 10)
		require.NoError(t, err)
		require.Empty(t, claimed, "attempt %d", attempt)
		h.clock.Add(1)
		require.Zero(t, h.drain(t, relaying))
	}
	require.Len(t, reports, 1)
	require.ErrorIs(t, reports[0], memory.ErrParked)
	h.clock.Add(time.Hour.Milliseconds())
	g.set(nil)
	require.Zero(t, h.drain(t))
	parked, err := h.store.Parked(t.Context(), h.clock.Load(), 10)
	require.NoError(t, err)
	require.Equal(t, bad.ID, parked[0].Item)
	n, err := h.store.Retry(t.Context(), h.clock.Load())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, 1, h.drain(t))
	require.Len(t, h.recall(t, bob, "How is the cellar?"), 2)
}

// A relay stands still between reading an item and telling the index, for longer
// than its lease. Meanwhile the item is erased, and another relay tells that. What
// the first one puts back is no answer, and does not stay.
func zombies(t *testing.T, where on) {
	g := &gate{}
	h := build(t, where, shared(g))
	other, _ := h.process(t, h.files)
	bob := person("bob")
	kept := h.remember(t, bob, fact("The vault's number is 4711."))
	still, goOn := make(chan struct{}), make(chan struct{})
	g.set(func([]index.State) error {
		g.set(nil)
		close(still)
		<-goOn
		return nil
	})
	ended := make(chan error, 1)
	go func() {
		_, err := h.Drain(context.WithoutCancel(t.Context()), memory.Relaying{})
		ended <- err
	}()
	<-still
	h.clock.Add(30_000)
	_, err := other.Forget(t.Context(), bob, memory.Selector{Items: []string{kept.ID}})
	require.NoError(t, err)
	told, err := other.Drain(t.Context(), memory.Relaying{})
	require.NoError(t, err)
	require.Equal(t, 1, told)
	require.Empty(t, h.held(t, g))
	close(goOn)
	require.NoError(t, <-ended)
	require.Empty(t, h.recall(t, bob, "What is the vault's number?"))
	h.clock.Add(30_000)
	_, err = other.Drain(t.Context(), memory.Relaying{})
	require.NoError(t, err)
	require.Empty(t, h.held(t, g))
	require.Zero(t, h.waiting(t))
}

func TestFault_K4_AnotherRelaysLateWordDoesNotStay(t *testing.T) { zombies(t, sqlite) }

// Relays share the work; a ring wakes one at once, and a tick where it was lost.
func TestRelaysAreWokenAndShareTheWork(t *testing.T) {
	g := &gate{}
	h := build(t, sqlite, shared(g))
	other, _ := h.process(t, h.files)
	bob := person("bob")
	ctx, cancel := context.WithCancel(t.Context())
	var wakes [2]struct {
		rung  chan struct{}
		ticks chan time.Time
	}
	var relays sync.WaitGroup
	for n, service := range []*memory.Service{h.Service, other} {
		wakes[n].rung, wakes[n].ticks = make(chan struct{}), make(chan time.Time)
		relays.Go(func() { service.Relay(ctx, memory.Relaying{}, wakes[n].rung, wakes[n].ticks) })
	}
	for n := range 20 {
		h.remember(t, bob, fact(fmt.Sprintf("Room %d is free.", n)))
		wake := wakes[n%2]
		if n%3 == 0 {
			wake.ticks <- time.Time{}
		} else {
			wake.rung <- struct{}{}
		}
		wake.rung <- struct{}{} // taken when what was due before is done
		require.Zero(t, h.waiting(t))
	}
	cancel()
	relays.Wait()
	require.Len(t, h.held(t, g), 20)
}

// A server that does not answer holds up who asks it until the deadline, and
// nobody else. What is forgotten meanwhile is gone for everybody; that it is gone
// from the index, too, is said when it is.
func TestFault_C14_ASlowIndexHoldsUpNothingElse(t *testing.T) {
	server := wire.Start(t)
	h := build(t, sqlite, remote(t, server), func(h *house) {
		h.index = func() index.Indexes {
			indexes, err := qdrant.New(qdrant.Config{URL: server.URL(), RestAfter: 1000, Rest: time.Millisecond, Timeout: 50 * time.Millisecond})
			require.NoError(t, err)
			t.Cleanup(func() { _ = indexes.Close() })
			return indexes
		}
	})
	bob := person("bob")
	gone := h.remember(t, bob, fact("The boiler is in the cellar."))
	h.drain(t)
	server.Inject(wire.Slow("", 0, nil))
	_, err := h.Recall(t.Context(), bob, memory.Question{Text: "Where is the boiler?"})
	require.ErrorIs(t, err, index.ErrUnavailable)
	kept := h.remember(t, bob, fact("The garage is behind the house."))
	receipt, err := h.Forget(t.Context(), bob, memory.Selector{Items: []string{gone.ID}})
	require.NoError(t, err)
	require.Zero(t, receipt.VerifiedMs)
	page, err := h.List(t.Context(), bob, memory.Filter{}, "", 10)
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	_, err = h.Drain(t.Context(), memory.Relaying{})
	require.ErrorIs(t, err, index.ErrUnavailable)
	server.Heal()
	h.clock.Add(30_000)
	require.Equal(t, 2, h.drain(t))
	require.Equal(t, 1, h.sweep(t).Verified)
	require.Equal(t, []string{kept.ID}, h.recall(t, bob, "Where is the garage?"))
	again, err := h.Receipt(t.Context(), bob, receipt.ID)
	require.NoError(t, err)
	require.Positive(t, again.VerifiedMs)
}

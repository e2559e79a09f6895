//go:build unix

package wire_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// tree reads a run and all that it started, as the records have it, and says
// what does not fit: a child without its carve and its edge, or the other way
// round; an end that was folded in other words than it was written in.
func tree(ctx context.Context, store *journal.Store, top *run.State) ([]*run.State, error) {
	states := []*run.State{top}
	known := map[string]bool{top.ID: true}
	for at := 0; at < len(states); at++ {
		above := states[at]
		for i := range above.Children {
			child, err := replayed(ctx, store, above.Children[i].ChildStarted.Child)
			if err != nil {
				return nil, fmt.Errorf("%s has a child that there is not: %w", above.ID, err)
			}
			if err := fits(above, &above.Children[i], child); err != nil {
				return nil, err
			}
			states, known[child.ID] = append(states, child), true
		}
		for _, sidecar := range above.Sidecars {
			beside, err := replayed(ctx, store, sidecar.Sidecar)
			if err != nil || beside.Started.Parent != above.ID {
				return nil, fmt.Errorf("sidecar %s: %w", sidecar.Sidecar, err)
			}
			states, known[beside.ID] = append(states, beside), true
		}
	}
	heads, err := store.Heads(ctx, journal.Filter{Organisation: top.Started.Organisation}, 100)
	for i := range heads {
		if heads[i].Root == top.ID && !known[heads[i].Run] {
			err = errors.Join(err, fmt.Errorf("nobody started %s", heads[i].Run))
		}
	}
	return states, err
}

func fits(above *run.State, edge *run.Child, child *run.State) error {
	a := child.Started.Authority
	switch {
	case child.Started.Parent != above.ID || child.Started.Task == nil || child.Started.Task.Call != edge.Call || len(child.Started.Accounts) > 0:
		return fmt.Errorf("child %s has another edge than its parent", child.ID)
	case edge.Carve != run.Amount{MicroUSD: a.MicroUSD, Tokens: a.Tokens}:
		return fmt.Errorf("child %s has another budget than was carved", child.ID)
	case edge.Live():
		return nil
	case child.Ended == nil || child.Head != edge.Ended.Head || child.Ended.Settled != edge.Ended.Settled || child.Ended.Unknown != edge.Ended.Unknown:
		return fmt.Errorf("child %s ended otherwise than its parent says", child.ID)
	}
	return nil
}

func replayed(ctx context.Context, store *journal.Store, id string) (*run.State, error) {
	_, records, err := store.Load(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	state := &run.State{ID: id}
	return state, run.Replay(state, records)
}

// A child begins in the write of its parent. Wherever a kill cuts that, both are
// there or neither; after the recovery the work is done once, and its parent
// has it once.
func TestFault_A9_AChildIsThereWithItsCarveAndItsEdgeOrNotAtAll(t *testing.T) {
	m := &crashMatrix{crashHouse: newCrashHouse(t, sqliteFiles{})}
	m.spawns(t, append(positions, "lied", "lied, died")...)
}

func (m *crashMatrix) spawns(t *testing.T, where ...string) {
	t.Helper()
	fates, _ := m.record()
	fates = slices.DeleteFunc(fates, func(f fate) bool {
		return !strings.Contains(f.commit, string(run.KindChildStarted)) || !slices.Contains(where, f.where)
	})
	spawned := map[string]bool{}
	for _, f := range fates {
		spawned[f.commit+f.nth] = true
		at := m.copied(m.first[f.way])
		if _, err := m.launch(t.Context(), f.tell(at.told(m.crashHouse))); f.where != "lied" {
			require.ErrorIs(t, err, errKilled, f)
		}
		stands := f.where == stands || strings.HasPrefix(f.where, "lied")
		m.cut(t, at, f, stands)
		require.NoError(t, m.complete(t.Context(), at), f)
	}
	require.Len(t, spawned, 2, "the child of a call, and that of a review: %v", fates)
}

// cut looks at what a kill left, before anybody goes on with it.
func (m *crashMatrix) cut(t *testing.T, at place, f fate, stands bool) {
	t.Helper()
	require.NoError(t, m.look(t.Context(), at, func(store *journal.Store) error {
		heads, err := store.Heads(t.Context(), journal.Filter{Organisation: "northwind"}, 10)
		require.NoError(t, err)
		top := slices.IndexFunc(heads, func(h run.Head) bool { return h.Parent == "" })
		state, err := replayed(t.Context(), store, heads[top].Run)
		require.NoError(t, err)
		states, err := tree(t.Context(), store, state)
		require.NoError(t, err, f)
		isReview := slices.ContainsFunc(states, func(s *run.State) bool { return s.Started.Task != nil && s.Started.Task.Review != "" })
		isChild := len(state.Children) > 0
		if strings.Contains(f.commit, "call_intended") {
			require.Equal(t, stands, isChild, f)
		} else {
			require.True(t, isChild, f)
			require.Equal(t, stands, isReview, f)
		}
		return audit(t.Context(), store)
	}))
}

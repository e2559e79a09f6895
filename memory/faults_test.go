package memory_test

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/policy"
)

// liar is an index that is behind: it keeps what it was told to drop, and
// answers what a test wants first.
type liar struct {
	index.Indexes
	sticky bool
	first  []index.Hit
	down   error
	during func() // once, between an answer and its being looked up
}

type lying struct {
	index.Index
	liar *liar
}

func (l *liar) Open(ctx context.Context, space index.VectorSpace) (index.Index, error) {
	inner, err := l.Indexes.Open(ctx, space)
	return lying{inner, l}, err
}

func (l lying) Apply(ctx context.Context, states []index.State) error {
	if l.liar.sticky {
		states = slices.DeleteFunc(slices.Clone(states), func(s index.State) bool { return len(s.Points) == 0 })
	}
	return l.Index.Apply(ctx, states)
}

func (l lying) Search(ctx context.Context, query index.Query) (index.Found, error) {
	found, err := l.Index.Search(ctx, query)
	if during := l.liar.during; during != nil {
		l.liar.during = nil
		during()
	}
	found.Dense = append(slices.Clone(l.liar.first), found.Dense...)
	found.Lexical = append(slices.Clone(l.liar.first), found.Lexical...)
	return found, errors.Join(err, l.liar.down)
}

func withLiar(l *liar) func(*house) {
	l.Indexes = flat.New()
	return func(h *house) { h.index = func() index.Indexes { return l } }
}

func (h *house) json(t *testing.T, reader view.Reader, question memory.Question) string {
	t.Helper()
	answer, err := h.Recall(t.Context(), reader, question)
	require.NoError(t, err)
	written, err := json.Marshal(answer)
	require.NoError(t, err)
	return string(written)
}

// The index suggests what is deleted, was relabelled, is another organisation's,
// is a view for others, or never was. None of it counts towards the limit or is
// in the answer, which is the same as that of an index that tells the truth.
func staleIndex(t *testing.T, where on) {
	l := &liar{}
	h := build(t, where, withLiar(l))
	bob, ann := person("bob"), person("ann", "hr")
	var kept []view.Rendering
	for n := range 30 {
		kept = append(kept, h.remember(t, bob, fact(fmt.Sprintf("The train number %d leaves from the north platform.", n))))
	}
	secret := h.remember(t, ann, fact("The train for the salary round leaves at night.", "hr"))
	relabelled := h.remember(t, ann, fact("The train of the board leaves at dawn.", "hr"))
	deleted := h.remember(t, bob, fact("The train to the sea leaves at noon."))
	stranger := person("eve")
	stranger.Organisation = "other"
	foreign := h.remember(t, stranger, fact("The train of others leaves soon."))
	olga := person("olga", "hr")
	_, err := h.Declassify(t.Context(), olga, relabelled.ID, policy.NewLabels("hr"), "it is no secret any more")
	require.NoError(t, err)
	_, err = h.Forget(t.Context(), bob, memory.Selector{Items: []string{deleted.ID}})
	require.NoError(t, err)

	question := memory.Question{Text: "When does the train leave?", Limit: 5}
	honest := h.json(t, bob, question)
	open, hr := view.SetID(nil), view.SetID(policy.NewLabels("hr"))
	for _, ref := range []index.Ref{
		{Item: deleted.ID, Version: 1, Set: open}, {Item: secret.ID, Version: 1, Set: hr}, {Item: secret.ID, Version: 1, Set: open},
		{Item: relabelled.ID, Version: 1, Set: hr}, {Item: relabelled.ID, Version: 1, Set: open}, {Item: relabelled.ID, Version: 9, Set: open},
		{Item: foreign.ID, Version: 1, Set: open}, {Item: "never-was", Version: 1, Set: open}, {Item: kept[0].ID, Version: 2, Set: open},
	} {
		for range 100 { // more than any leg asks for
			l.first = append(l.first, index.Hit{Ref: ref, Score: 1})
		}
	}
	require.Equal(t, honest, h.json(t, bob, question))
	require.NotContains(t, honest, secret.ID)
	require.NotContains(t, honest, deleted.ID)
}

func TestFault_C15_WhatAStaleIndexSuggestsDoesNotCount(t *testing.T) { staleIndex(t, sqlite) }

// What was deleted or superseded stays in the index. Nobody is shown it, and the
// receipt says that it is not verified.
func stickyIndex(t *testing.T, where on) {
	l := &liar{sticky: true}
	h := build(t, where, withLiar(l))
	bob, ann := person("bob"), person("ann")
	draft := fact("Ruth sits in room 12.")
	draft.Subject = "ruth room"
	old := h.remember(t, bob, draft)
	draft.Text = "Ruth sits in room 14."
	h.clock.Add(1)
	next, err := h.Supersede(t.Context(), bob, old.ID, draft)
	require.NoError(t, err)
	require.Equal(t, []string{next.Item.ID}, h.recall(t, ann, "Where does Ruth sit?"))
	before, err := h.Recall(t.Context(), ann, memory.Question{Text: "Where does Ruth sit?", KnownMs: old.RecordedMs})
	require.NoError(t, err)
	require.Equal(t, "Ruth sits in room 12.", before.Hits[0].Text)

	receipt, err := h.Forget(t.Context(), bob, memory.Selector{Items: []string{next.Item.ID}})
	require.NoError(t, err)
	require.Equal(t, []string{old.ID, next.Item.ID}, receipt.Items)
	require.Zero(t, receipt.VerifiedMs)
	require.Empty(t, h.recall(t, ann, "Where does Ruth sit?"))
	open, err := h.store.Unverified(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, open, 1)
}

// An item changes after the index has answered, and stays visible all the time:
// it is in the answer.
func TestRecallMissesNothingThatChangesMeanwhile(t *testing.T) {
	l := &liar{}
	h := build(t, sqlite, withLiar(l))
	bob := person("bob")
	doubtful := fact("The roof leaks.")
	doubtful.Integrity = policy.Untrusted
	kept := h.remember(t, bob, doubtful)
	l.during = func() {
		_, err := h.Promote(t.Context(), bob, kept.ID, "I saw it")
		require.NoError(t, err)
	}
	require.Equal(t, []string{kept.ID}, h.recall(t, bob, "Does the roof leak?"))
}

func TestFault_K4_DeletedOrSupersededStillInTheIndexIsNotReturned(t *testing.T) {
	stickyIndex(t, sqlite)
}

// An index that cannot be asked is an error, never an empty answer; an embedder
// that cannot be asked leaves the words, and the answer says so.
func TestFault_C13_AnOutageIsNoEmptyAnswer(t *testing.T) {
	l, e := &liar{}, &outage{Static: static}
	h := build(t, sqlite, withLiar(l), func(h *house) { h.tuning.Embedders = []embed.Embedder{e} })
	bob := person("bob")
	kept := h.remember(t, bob, fact("The boiler is in the cellar."))
	l.down = index.ErrUnavailable
	_, err := h.Recall(t.Context(), bob, memory.Question{Text: "Where is the boiler?"})
	require.ErrorIs(t, err, index.ErrUnavailable)
	l.down, e.down = nil, true
	answer, err := h.Recall(t.Context(), bob, memory.Question{Text: "Where is the boiler?"})
	require.NoError(t, err)
	require.Equal(t, []string{"DENSE"}, answer.Degraded)
	require.Equal(t, kept.ID, answer.Hits[0].ID)
	later := h.remember(t, bob, fact("The garage is beside the boiler."))
	require.Contains(t, h.recall(t, bob, "Where is the boiler?"), later.ID)
}

type outage struct {
	*embed.Static
	down bool
}

func (o *outage) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if o.down {
		return nil, fmt.Errorf("asking: %w", embed.ErrUnavailable)
	}
	return o.Static.Embed(ctx, texts)
}

func (o *outage) Ask(ctx context.Context, text string, rarity func(string) float64) ([]float32, error) {
	if o.down {
		return nil, embed.ErrUnavailable
	}
	return o.Static.Ask(ctx, text, rarity)
}

var errLine = errors.New("the line broke")

// failing lets every statement happen but one.
type failing struct {
	left      atomic.Int64 // statements until the one that fails; below 0: none does
	happened  bool         // the failing statement happens, and its answer is lost
	triggered atomic.Bool
}

func (f *failing) between(c driver.Connector) driver.Connector {
	return journaltest.Between(func(s journaltest.Statement, happen func() error) error {
		counted := strings.Contains(s.Text, "memory_") || s.Verb == journaltest.Commits
		if counted && f.left.Load() >= 0 && f.left.Add(-1) < 0 {
			f.triggered.Store(true)
			if f.happened {
				_ = happen()
			}
			return errLine
		}
		return happen()
	})(c)
}

// Any statement of a write fails: then nothing of it is done, or all of it
// where only the answer to the commit was lost; a repeat does it once.
func halfDone(t *testing.T, where on) {
	ann := person("ann", "hr")
	for name, command := range map[string]func(h *house, n int, ids []string) error{
		"remember": func(h *house, n int, _ []string) error {
			draft := fact(fmt.Sprintf("Omar keeps key %d of the roof.", n), "hr")
			draft.Key = fmt.Sprint("remember ", n)
			_, err := h.Remember(context.Background(), ann, draft)
			return err
		},
		"supersede": func(h *house, n int, ids []string) error {
			draft := fact(fmt.Sprintf("Ruth sits in room 14, on day %d.", n))
			draft.Subject, draft.Key = "ruth room", fmt.Sprint("supersede ", n)
			_, err := h.Supersede(context.Background(), ann, ids[0], draft)
			return err
		},
		"promote": func(h *house, _ int, ids []string) error {
			_, err := h.Promote(context.Background(), ann, ids[1], "I have checked it")
			var refusal *memory.Refusal
			if errors.As(err, &refusal) && refusal.Code == "TRUSTED" {
				return nil // done already
			}
			return err
		},
		"forget": func(h *house, n int, ids []string) error {
			_, err := h.Forget(context.Background(), ann, memory.Selector{Items: ids[:1], Key: fmt.Sprint("forget ", n)})
			return err
		},
	} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, answer lost %v", name, lost), func(t *testing.T) {
				everyStatementFails(t, where, lost, command)
			})
		}
	}
}

func everyStatementFails(t *testing.T, where on, lost bool, command func(h *house, n int, ids []string) error) {
	f := &failing{happened: lost}
	f.left.Store(-1)
	h := build(t, func(t *testing.T) (c journal.Config) {
		c = where(t)
		c.Between = f.between
		return c
	})
	bob := person("bob")
	for n := 0; ; n++ {
		draft := fact(fmt.Sprintf("Ruth sits in room 12, on day %d.", n))
		draft.Subject = "ruth room"
		doubtful := fact(fmt.Sprintf("The roof leaks, says page %d.", n))
		doubtful.Integrity = policy.Untrusted
		ids := []string{h.remember(t, bob, draft).ID, h.remember(t, bob, doubtful).ID}
		before := h.dump(t)
		f.triggered.Store(false)
		f.left.Store(int64(n))
		err := command(h, n, ids)
		f.left.Store(-1)
		if !f.triggered.Load() {
			require.NoError(t, err)
			require.Greater(t, n, 5)
			return
		}
		after := h.dump(t)
		require.NoError(t, command(h, n, ids), "statement %d", n)
		whole := h.dump(t)
		if err != nil {
			require.ErrorIs(t, err, store.ErrFailed)
			require.Contains(t, []string{before, whole}, after, "statement %d: half done", n)
		}
		require.NoError(t, command(h, n, ids))
		require.Equal(t, whole, h.dump(t), "a repeat changes nothing")
	}
}

// dump is a digest of everything that the tables hold.
func (h *house) dump(t *testing.T) string {
	t.Helper()
	all := map[string][]string{}
	for _, table := range []string{"sets", "generations", "items", "keys", "segments", "views", "vectors", "relations", "terms", "outbox", "receipts", "audit", "commands", "quotas"} {
		all[table] = h.rows(t, table)
	}
	written, err := json.Marshal(all)
	require.NoError(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(written))
}

func (h *house) rows(t *testing.T, table string) (all []string) {
	t.Helper()
	rows, err := h.files.Databases().Read.QueryContext(t.Context(), "SELECT * FROM memory_"+table)
	require.NoError(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for n := range values {
			into[n] = &values[n]
		}
		require.NoError(t, rows.Scan(into...))
		all = append(all, fmt.Sprint(values))
	}
	require.NoError(t, rows.Err())
	slices.Sort(all)
	return all
}

func TestFault_A3_AFailingStatementLeavesNothingHalfDone(t *testing.T) { halfDone(t, sqlite) }

package memory_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/policy"
)

// Many say the same at once, by commands of their own and by one command: it is
// kept once, and each is told the same item.
func atOnce(t *testing.T, where on) {
	h := build(t, where)
	answers := make([]memory.Remembered, 12)
	for _, err := range journaltest.AtOnce(len(answers), func(n int) (err error) {
		draft := fact("The roof is new.")
		if n%2 == 0 {
			draft.Key = "same"
		}
		answers[n], err = h.Remember(t.Context(), person("bob"), draft)
		return err
	}) {
		require.NoError(t, err)
	}
	first := 0
	for _, answer := range answers {
		require.Equal(t, answers[0].Item.ID, answer.Item.ID)
		if !answer.Known && !answer.Replayed {
			first++
		}
	}
	require.Equal(t, 1, first)
	page, err := h.List(t.Context(), person("bob"), memory.Filter{}, "", 10)
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
}

// Items are superseded, derived from, relabelled, recalled and forgotten at
// once. What is erased leaves nothing behind, and the counts are those of what
// is left.
func forgettingRaces(t *testing.T, where on) {
	h := build(t, where)
	ann := person("ann", "hr")
	olga := person("olga", "hr")
	for round := range 6 {
		draft := fact(fmt.Sprintf("Ruth sits in room %d.", round), "hr")
		draft.Subject = "ruth room"
		old := h.remember(t, ann, draft)
		next := draft
		next.Text += " Since May."
		derived := fact(fmt.Sprintf("Somebody sits in room %d.", round))
		derived.DerivedFrom = []string{old.ID}
		commands := []func() error{
			func() error { _, err := h.Supersede(t.Context(), ann, old.ID, next); return err },
			func() error { _, err := h.Remember(t.Context(), ann, derived); return err },
			func() error {
				_, err := h.Declassify(t.Context(), olga, old.ID, policy.NewLabels("hr"), "open now")
				return err
			},
			func() error {
				_, err := h.Recall(t.Context(), ann, memory.Question{Text: "Where does Ruth sit?"})
				return err
			},
			func() error {
				_, err := h.Forget(t.Context(), ann, memory.Selector{Items: []string{old.ID}})
				return err
			},
		}
		for n, err := range journaltest.AtOnce(len(commands), func(n int) error { return commands[n]() }) {
			var refusal *memory.Refusal
			if err != nil {
				require.ErrorAs(t, err, &refusal, "command %d", n)
				require.Equal(t, "NOT_FOUND", refusal.Code)
				require.Less(t, n, 3)
			}
		}
		found, err := h.Items(t.Context(), ann, []string{old.ID})
		require.NoError(t, err)
		require.Empty(t, found)
		left, err := h.store.Left(t.Context(), []string{old.ID})
		require.NoError(t, err)
		require.Empty(t, left)
	}
	// What superseded an item before it was forgotten stays, and is all there is.
	page, err := h.List(t.Context(), ann, memory.Filter{}, "", 100)
	require.NoError(t, err)
	ids := []string{}
	for _, item := range page.Items {
		require.Empty(t, item.DerivedFrom, "a derived item goes with its source")
		ids = append(ids, item.ID)
	}
	if len(ids) > 0 {
		_, err = h.Forget(t.Context(), ann, memory.Selector{Items: ids})
		require.NoError(t, err)
	}
	for _, table := range []string{"items", "keys", "segments", "views", "vectors", "relations", "terms"} {
		require.Empty(t, h.rows(t, table), table)
	}
	for _, row := range h.rows(t, "quotas") {
		require.Equal(t, "[acme ann 0]", row)
	}
}

func TestTheSameAtOnceIsKeptOnce(t *testing.T)                  { atOnce(t, sqlite) }
func TestForgettingAtOnceWithEverythingElse(t *testing.T)       { forgettingRaces(t, sqlite) }
func TestWhatHasExpiredIsErased(t *testing.T)                   { expired(t, sqlite) }
func TestWhatNeedsTellingWaitsForWhoTellsTheIndex(t *testing.T) { outbox(t, sqlite) }

func TestAPrincipalHasAQuotaOfItsOwn(t *testing.T) {
	h := build(t, sqlite, func(h *house) { h.tuning.Quota = 2 })
	bob := person("bob")
	h.remember(t, person("ann"), fact("Ann has one."))
	one := h.remember(t, bob, fact("Bob has one."))
	h.remember(t, bob, fact("Bob has two."))
	_, err := h.Remember(t.Context(), bob, fact("Bob has three."))
	refused(t, err, "QUOTA")
	again, err := h.Remember(t.Context(), bob, fact("Bob has two."))
	require.NoError(t, err)
	require.True(t, again.Known)
	_, err = h.Forget(t.Context(), person("ann"), memory.Selector{Items: []string{one.ID}})
	require.NoError(t, err)
	h.remember(t, bob, fact("Bob has three."))
}

func TestACommandsKeyIsForOneCommand(t *testing.T) {
	h := build(t, sqlite)
	bob := person("bob")
	draft := fact("The roof is new.")
	draft.Key = "k"
	first := h.remember(t, bob, draft)
	again, err := h.Remember(t.Context(), bob, draft)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first, again.Item)
	other := h.remember(t, person("ann"), draft)
	require.Equal(t, first.ID, other.ID, "the same, and ann sees it")
	draft.Text = "The roof is old."
	_, err = h.Remember(t.Context(), bob, draft)
	refused(t, err, "COMMAND_REUSED")
	_, err = h.Forget(t.Context(), bob, memory.Selector{Items: []string{first.ID}, Key: "k"})
	refused(t, err, "COMMAND_REUSED")
}

func expired(t *testing.T, where on) {
	h := build(t, where)
	bob := person("bob")
	draft := fact("The canteen is closed this week.")
	draft.ExpiresMs = h.clock.Load() + 1000
	kept := h.remember(t, bob, draft)
	derived := fact("There is no lunch.")
	derived.DerivedFrom = []string{kept.ID}
	h.remember(t, bob, derived)
	stays := h.remember(t, bob, fact("Lunch is at noon."))
	n, err := h.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, n)
	h.clock.Add(1000)
	require.Equal(t, []string{stays.ID}, h.recall(t, bob, "Is there lunch in the canteen?"))
	_, err = h.Item(t.Context(), bob, kept.ID)
	refused(t, err, "NOT_FOUND")
	n, err = h.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	left, err := h.store.Left(t.Context(), []string{kept.ID})
	require.NoError(t, err)
	require.Empty(t, left)
	open, err := h.store.Unverified(t.Context(), "", 10)
	require.NoError(t, err)
	require.Empty(t, open)
}

func TestVectorsOfTwoModelsNeverMeet(t *testing.T) {
	h := build(t, sqlite)
	h.remember(t, person("bob"), fact("The roof is new."))
	h.tuning.Embedders = []embed.Embedder{other{static}}
	config := h.tuning
	config.Store, config.Indexes = h.store, h.index()
	_, err := memory.New(t.Context(), config)
	require.ErrorIs(t, err, memory.ErrVectorSpace)
	require.ErrorContains(t, err, "another-model with 384 dimensions")
	config.Embedders = []embed.Embedder{static, other{static}}
	_, err = memory.New(t.Context(), config)
	require.ErrorIs(t, err, memory.ErrVectorSpace)
	config.Embedders = []embed.Embedder{static}
	_, err = memory.New(t.Context(), config)
	require.NoError(t, err)
}

// other is an embedder outside of this process, which labelled texts stay away
// from.
type other struct{ *embed.Static }

func (other) Model() string                 { return "another-model" }
func (other) May(labels policy.Labels) bool { return len(labels) == 0 }

// Two vector spaces: what may not leave has a vector in one of them, and is
// found beside what has two.
func TestATextGoesToNoModelThatMayNotHaveIt(t *testing.T) {
	h := build(t, sqlite, func(h *house) { h.tuning.Embedders = []embed.Embedder{static, other{static}} })
	ann := person("ann", "hr")
	open := h.remember(t, ann, fact("The salary round is in May."))
	secret := h.remember(t, ann, fact("The salary round is cancelled.", "hr"))
	rows := map[string]int{}
	all, err := h.files.Databases().Read.QueryContext(t.Context(), "SELECT item, vector_space FROM memory_vectors")
	require.NoError(t, err)
	defer all.Close()
	for all.Next() {
		var item, space string
		require.NoError(t, all.Scan(&item, &space))
		rows[item+" "+space]++
	}
	require.NoError(t, all.Err())
	require.Equal(t, map[string]int{open.ID + " static-384-1-1": 1, open.ID + " another-model-1": 1, secret.ID + " static-384-1-1": 1}, rows)
	require.ElementsMatch(t, []string{open.ID, secret.ID}, h.recall(t, ann, "When is the salary round?"))
	ann.Context.Labels = policy.NewLabels("hr")
	require.ElementsMatch(t, []string{open.ID, secret.ID}, h.recall(t, ann, "When is the salary round?"))
}

// Where an index does not follow the store by itself, each change of an item is
// queued, once for each item, and is given to one at a time.
func outbox(t *testing.T, where on) {
	h := build(t, where)
	databases := h.files.Databases()
	relayed, err := store.New(store.Config{Write: databases.Write, Read: databases.Read, Postgres: databases.Postgres,
		MasterKey: masterKey, Now: h.files.Now, NewID: h.newID, Relayed: true})
	require.NoError(t, err)
	config := h.tuning
	config.Store, config.Indexes = relayed, h.index()
	h.Service, err = memory.New(t.Context(), config)
	require.NoError(t, err)
	bob, ctx, now := person("bob"), t.Context(), h.clock.Load()
	kept := []view.Rendering{h.remember(t, bob, fact("One.")), h.remember(t, bob, fact("Two."))}
	first, err := relayed.Claim(ctx, "a", now, now+100, 1)
	require.NoError(t, err)
	require.Len(t, first, 1)
	require.Equal(t, kept[0].ID, first[0].Item)
	second, err := relayed.Claim(ctx, "b", now, now+100, 10)
	require.NoError(t, err)
	require.Len(t, second, 1)
	require.Equal(t, kept[1].ID, second[0].Item)
	_, err = h.Forget(ctx, bob, memory.Selector{Items: []string{kept[1].ID}})
	require.NoError(t, err)
	require.NoError(t, relayed.Done(ctx, "a", now, first))
	require.NoError(t, relayed.Done(ctx, "b", now, second), "it changed meanwhile: it stays")
	third, err := relayed.Claim(ctx, "c", now, now+100, 10)
	require.NoError(t, err)
	require.Len(t, third, 1)
	require.Equal(t, kept[1].ID, third[0].Item)
	late, err := relayed.Claim(ctx, "d", now+100, now+200, 10)
	require.NoError(t, err)
	require.Len(t, late, 1, "the lease has ended")
	require.Equal(t, 2, late[0].Attempts)
	require.NoError(t, relayed.Done(ctx, "c", now+100, third), "too late: it is told once more")
	require.NoError(t, relayed.Later(ctx, "d", now+150, true, late))
	none, err := relayed.Claim(ctx, "e", now+149, now+200, 10)
	require.NoError(t, err)
	require.Empty(t, none)
	again, err := relayed.Claim(ctx, "e", now+150, now+300, 10)
	require.NoError(t, err)
	require.NoError(t, relayed.Done(ctx, "e", now+150, again))
	waiting, err := relayed.Waiting(ctx)
	require.NoError(t, err)
	require.Zero(t, waiting)
}

package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

func TestSQLite(t *testing.T) {
	walk(t, sqlite)
	likeTheOracle(t, sqlite, 40)
}

func walk(t *testing.T, where on) {
	h := build(t, where)
	ann, bob := person("ann", "hr"), person("bob")
	lunch := h.remember(t, bob, fact("Lunch is served at noon in the canteen."))
	draft := fact("The salary of Ruth is 90,000 and her desk is by the window.")
	draft.Marks = []memory.Mark{{Start: 0, End: 28, Labels: policy.NewLabels("hr"), Quote: "The salary of Ruth is 90,000"}}
	ruth := h.remember(t, ann, draft)
	require.Equal(t, draft.Text, ruth.Text)

	require.Equal(t, []string{lunch.ID, ruth.ID}, h.recall(t, bob, "When is lunch served?"))
	require.Equal(t, []string{ruth.ID, lunch.ID}, h.recall(t, ann, "What is the salary of Ruth?"))
	seen, err := h.Item(t.Context(), bob, ruth.ID)
	require.NoError(t, err)
	require.Equal(t, view.Redacted+" and her desk is by the window.", seen.Text)
	require.NotEqual(t, ruth.Etag, seen.Etag)

	_, err = h.Forget(t.Context(), bob, memory.Selector{Items: []string{ruth.ID}})
	refused(t, err, "NOT_WHOLE")
	receipt, err := h.Forget(t.Context(), ann, memory.Selector{Items: []string{ruth.ID}})
	require.NoError(t, err)
	require.Equal(t, []string{ruth.ID}, receipt.Items)
	require.Equal(t, map[string]int{"items": 1, "keys": 1, "segments": 2, "views": 2, "vectors": 2, "index points": 2}, receipt.Stores)
	require.Positive(t, receipt.VerifiedMs)
	require.Equal(t, []string{lunch.ID}, h.recall(t, ann, "What is the salary of Ruth?"))
	_, err = h.Item(t.Context(), ann, ruth.ID)
	refused(t, err, "NOT_FOUND")
	again, err := h.Receipt(t.Context(), ann, receipt.ID)
	require.NoError(t, err)
	require.Equal(t, receipt, again)
	_, err = h.Receipt(t.Context(), bob, receipt.ID)
	refused(t, err, "NOT_FOUND")
}

// What a detector found in somebody's own words is withheld from them, too, and
// does not keep them from taking these back, whole and in every copy.
func TestWhoWroteSomethingMayForgetItThoughTheySeeOnlyAPart(t *testing.T) {
	h := build(t, sqlite)
	bob, cat := person("bob"), person("cat")
	draft := fact("Call me after ten at 5550 1883, please.")
	draft.Marks = []memory.Mark{{Start: 21, End: 30, Labels: policy.NewLabels("hr"), Quote: "5550 1883"}}
	kept := h.remember(t, bob, draft)
	require.Equal(t, "Call me after ten at "+view.Redacted+", please.", kept.Text)

	_, err := h.Forget(t.Context(), cat, memory.Selector{Items: []string{kept.ID}})
	refused(t, err, "NOT_WHOLE")
	receipt, err := h.Forget(t.Context(), bob, memory.Selector{Items: []string{kept.ID}})
	require.NoError(t, err)
	require.Equal(t, []string{kept.ID}, receipt.Items)
	require.Equal(t, 2, receipt.Stores["segments"], "not how much of it was hidden")
	require.Positive(t, receipt.VerifiedMs)
	for _, reader := range []view.Reader{bob, cat, person("ann", "hr")} {
		_, err = h.Item(t.Context(), reader, kept.ID)
		refused(t, err, "NOT_FOUND")
		require.Empty(t, h.recall(t, reader, "Call after ten"))
	}
}

// A question may be asked of some documents alone.
func TestRecallNarrowsToSources(t *testing.T) {
	h := build(t, sqlite)
	bob := person("bob")
	ids := map[string]string{}
	for _, ref := range []string{"a.txt", "b.txt", "c.txt"} {
		draft := fact("The notice of " + ref + " is kept in every copy.")
		draft.Kind, draft.Source = view.Passage, view.Source{Kind: view.FromDocument, Ref: ref, Position: 1}
		ids[ref] = h.remember(t, bob, draft).ID
	}
	for _, row := range [][]string{{"a.txt"}, {"b.txt", "c.txt"}, {"d.txt"}} {
		found, err := h.Recall(t.Context(), bob, memory.Question{Text: "Is the notice kept in every copy?", Refs: row})
		require.NoError(t, err)
		var got []string
		for _, hit := range found.Hits {
			got = append(got, hit.Source.Ref)
		}
		want := row
		if ids[row[0]] == "" {
			want = nil
		}
		require.ElementsMatch(t, want, got)
	}
}

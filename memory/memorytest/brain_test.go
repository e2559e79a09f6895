package memorytest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/memorytest"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// house is a brain with a clock and ids of its own.
type house struct {
	*memorytest.Brain
	nowMs int64
	ids   int
}

func newHouse() *house {
	h := &house{nowMs: 1000}
	h.Brain = memorytest.NewBrain(memorytest.Config{
		NowMs: func() int64 { return h.nowMs },
		NewID: func() string { h.ids++; return fmt.Sprintf("id-%02d", h.ids) },
		Rules: func(string) memory.Rules {
			return memory.Rules{
				Known: func(label policy.Label) bool { return label == "hr" || label == "law" },
				Owns:  func(principal string, label policy.Label) bool { return principal == "chief" && label == "hr" },
			}
		},
		Embedder: memorytest.Letters{},
		Recalled: func(_ string, items []string) []string { return []string{fmt.Sprintf("run-of-%d", len(items))} },
	})
	return h
}

func clerk() view.Reader {
	return view.Reader{Organisation: "acme", Principal: "clerk",
		Read: []view.Space{view.Organisation, "person:clerk"}, Write: []view.Space{view.Organisation, "person:clerk"}}
}

func chief() view.Reader {
	return view.Reader{Organisation: "acme", Principal: "chief", Clearance: policy.NewLabels("hr", "law"),
		Read: []view.Space{"department:board", view.Organisation, "person:chief"}, Write: []view.Space{"department:board", view.Organisation, "person:chief"}}
}

func said(text string, labels ...policy.Label) memory.Draft {
	return memory.Draft{Space: view.Organisation, Kind: view.Fact, Text: text, Labels: policy.NewLabels(labels...)}
}

func about(subject string, draft memory.Draft) memory.Draft {
	draft.Subject = subject
	return draft
}

func (h *house) keep(t *testing.T, reader view.Reader, draft memory.Draft) string {
	t.Helper()
	h.nowMs++
	kept, err := h.Remember(t.Context(), reader, draft)
	require.NoError(t, err)
	return kept.Item.ID
}

func (h *house) recalled(t *testing.T, reader view.Reader, question memory.Question) (texts []string) {
	t.Helper()
	answer, err := h.Recall(t.Context(), reader, question)
	require.NoError(t, err)
	for _, hit := range answer.Hits {
		texts = append(texts, hit.Text)
	}
	return texts
}

func refused(t *testing.T, err error, code string) {
	t.Helper()
	var refusal *memory.Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, code, refusal.Code, refusal.Detail)
}

func TestWhatIsRememberedIsRecalledByWhoMaySeeIt(t *testing.T) {
	h := newHouse()
	open := h.keep(t, clerk(), said("the office opens at nine"))
	h.keep(t, chief(), said("the office closes for good in june", "hr"))
	require.Equal(t, []string{"the office opens at nine"}, h.recalled(t, clerk(), memory.Question{Text: "office"}))
	require.Len(t, h.recalled(t, chief(), memory.Question{Text: "office"}), 2)
	again, err := h.Remember(t.Context(), chief(), said("the office opens at nine"))
	require.NoError(t, err)
	require.True(t, again.Known)
	require.Equal(t, open, again.Item.ID)
}

func TestAWriterMayWriteMoreThanItReads(t *testing.T) {
	h := newHouse()
	kept, err := h.Remember(t.Context(), clerk(), said("for those above", "hr"))
	require.NoError(t, err)
	require.Equal(t, view.Redacted, kept.Item.Text)
	_, err = h.Item(t.Context(), clerk(), kept.Item.ID)
	refused(t, err, "NOT_FOUND")
	twice, err := h.Remember(t.Context(), clerk(), said("for those above", "hr"))
	require.NoError(t, err)
	require.False(t, twice.Known, "it does not see what it wrote")
}

func TestAKeyIsOneCommand(t *testing.T) {
	h, ctx := newHouse(), context.Background()
	draft := said("once")
	draft.Key = "k"
	first, err := h.Remember(ctx, clerk(), draft)
	require.NoError(t, err)
	again, err := h.Remember(ctx, clerk(), draft)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Item, again.Item)
	other := draft
	other.Text = "twice"
	_, err = h.Remember(ctx, clerk(), other)
	refused(t, err, "COMMAND_REUSED")

	selector := memory.Selector{Items: []string{first.Item.ID}, Key: "f"}
	receipt, err := h.Forget(ctx, clerk(), selector)
	require.NoError(t, err)
	replayed, err := h.Forget(ctx, clerk(), selector)
	require.NoError(t, err)
	require.True(t, replayed.Replayed)
	replayed.Replayed = false
	require.Equal(t, receipt, replayed)
	_, err = h.Remember(ctx, clerk(), draft)
	refused(t, err, "NOT_FOUND") // a repeat does not bring back what was forgotten
}

func TestWhatSupersedesHidesOnlyForWhoSeesIt(t *testing.T) {
	h := newHouse()
	old := h.keep(t, clerk(), about("hours", said("open from nine")))
	h.nowMs = 2000
	next, err := h.Supersede(t.Context(), chief(), old, about("hours", said("open from ten", "hr")))
	require.NoError(t, err)
	require.Equal(t, []string{"open from nine"}, h.recalled(t, clerk(), memory.Question{Text: "open"}))
	require.Equal(t, []string{"open from ten"}, h.recalled(t, chief(), memory.Question{Text: "open"}))
	require.Equal(t, []string{"open from nine"}, h.recalled(t, chief(), memory.Question{Text: "open", AsOfMs: 1999}))
	require.Equal(t, []string{"open from nine"}, h.recalled(t, chief(), memory.Question{Text: "open", KnownMs: 1999}))
	seen, err := h.Item(t.Context(), chief(), old)
	require.NoError(t, err)
	require.EqualValues(t, 2000, seen.ValidToMs)
	unseen, err := h.Item(t.Context(), clerk(), old)
	require.NoError(t, err)
	require.Zero(t, unseen.ValidToMs)

	_, err = h.Declassify(t.Context(), chief(), next.Item.ID, policy.NewLabels("hr"), "announced")
	require.NoError(t, err)
	require.Equal(t, []string{"open from ten"}, h.recalled(t, clerk(), memory.Question{Text: "open"}))
	_, err = h.Supersede(t.Context(), chief(), old, about("lunch", said("at noon")))
	refused(t, err, "SUBJECT_DIFFERS")
}

func TestForgettingTakesTheVersionsAndWhatWasDerived(t *testing.T) {
	h, ctx := newHouse(), context.Background()
	old := h.keep(t, clerk(), about("hours", said("open from nine")))
	next, err := h.Supersede(ctx, clerk(), old, about("hours", said("open from ten")))
	require.NoError(t, err)
	derived := said("ten is late", "hr")
	derived.DerivedFrom = []string{old}
	hidden := h.keep(t, chief(), derived)
	stays := h.keep(t, clerk(), said("something else"))

	receipt, err := h.Forget(ctx, clerk(), memory.Selector{Items: []string{next.Item.ID}})
	require.NoError(t, err)
	require.Equal(t, []string{old, next.Item.ID}, receipt.Items)
	require.Equal(t, map[string]int{"items": 2, "segments": 2, "views": 2, "vectors": 2}, receipt.Stores)
	require.Equal(t, []string{"run-of-2"}, receipt.Runs)
	left, err := h.Items(ctx, chief(), []string{old, next.Item.ID, hidden, stays})
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Contains(t, left, stays)
	kept, err := h.Receipt(ctx, clerk(), receipt.ID)
	require.NoError(t, err)
	require.Equal(t, receipt, kept)
	_, err = h.Receipt(ctx, chief(), receipt.ID)
	refused(t, err, "NOT_FOUND")
}

func TestOneTextTakesThePlaceOfSeveral(t *testing.T) {
	h, ctx := newHouse(), context.Background()
	one, two := h.keep(t, clerk(), said("tea is at four")), h.keep(t, clerk(), said("cake is at four"))
	secret := h.keep(t, chief(), said("no cake in june", "hr"))
	_, err := h.Consolidate(ctx, chief(), []string{one, secret}, said("tea and cake"))
	refused(t, err, "GROUP_DIFFERS")
	both, err := h.Consolidate(ctx, clerk(), []string{two, one}, said("tea and cake are at four"))
	require.NoError(t, err)
	require.Equal(t, []string{one, two}, both.Item.DerivedFrom)
	require.Equal(t, []string{"tea and cake are at four"}, h.recalled(t, clerk(), memory.Question{Text: "four"}))
	_, err = h.Forget(ctx, clerk(), memory.Selector{Items: []string{one}})
	require.NoError(t, err)
	require.Equal(t, []string{"cake is at four"}, h.recalled(t, clerk(), memory.Question{Text: "four"}))
}

func TestOnlyAPersonPromotes(t *testing.T) {
	h, ctx := newHouse(), context.Background()
	run := clerk()
	run.Run = "r"
	id := h.keep(t, run, said("the run found out"))
	_, err := h.Promote(ctx, run, id, "sure")
	refused(t, err, "NOT_ENTITLED")
	_, err = h.Promote(ctx, clerk(), id, "")
	refused(t, err, "REASON")
	before, err := h.Item(ctx, chief(), id)
	require.NoError(t, err)
	require.Equal(t, policy.Untrusted, before.Marking.Integrity)
	after, err := h.Promote(ctx, chief(), id, "asked around")
	require.NoError(t, err)
	require.Equal(t, policy.Trusted, after.Marking.Integrity)
	require.NotEqual(t, before.Etag, after.Etag)
	_, err = h.Declassify(ctx, clerk(), id, policy.NewLabels("law"), "why not")
	refused(t, err, "NOT_ENTITLED")
}

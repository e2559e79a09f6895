package journaltest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

func person(id string, roles ...string) policy.Principal {
	return policy.Principal{ID: id, Organisation: organisation, Roles: roles}
}

func item(id string, approvers ...policy.Approver) engine.InboxItem {
	return engine.InboxItem{ID: id, Organisation: organisation, Run: "r1", Kind: engine.InboxApproval, Open: true,
		Approvers: approvers, NotAfterMs: start + 99, SinceMs: start}
}

func (b *bench) waiting(who policy.Principal) []string {
	b.t.Helper()
	items, err := b.Inbox(b.ctx, who)
	require.NoError(b.t, err)
	var ids []string
	for _, i := range items {
		ids = append(ids, i.ID)
	}
	return ids
}

func inboxes(b *bench) {
	w := Write("r1", 0, 1)
	second := item("i2", policy.Approver{Role: "owner"})
	second.SinceMs++
	w.Inbox = []engine.InboxItem{second, item("i1", policy.Approver{Principal: "ann"}, policy.Approver{Role: "owner"})}
	b.must(w)
	require.Equal(b.t, []string{"i1"}, b.waiting(person("ann")))
	require.Equal(b.t, []string{"i1", "i2"}, b.waiting(person("bob", "owner")), "the oldest first")
	require.Empty(b.t, b.waiting(person("eve", "clerk")))
	stranger := person("ann", "owner")
	stranger.Organisation = "other"
	require.Empty(b.t, b.waiting(stranger))
	items, err := b.Inbox(b.ctx, person("ann"))
	require.NoError(b.t, err)
	require.Equal(b.t, w.Inbox[1], items[0])

	changed := Write("r1", 1, 1)
	closed := engine.InboxItem{ID: "i1", Organisation: organisation, Run: "r1", Kind: engine.InboxApproval}
	changed.Inbox = []engine.InboxItem{closed, item("i2", policy.Approver{Principal: "ann"}), closed}
	b.must(changed)
	require.Equal(b.t, []string{"i2"}, b.waiting(person("ann")))
	require.Empty(b.t, b.waiting(person("bob", "owner")), "an item that is set again names its new approvers")
}

func numbers(b *bench) {
	entry := func(i int) engine.Write {
		w := Write(fmt.Sprint("r", i), 0, 1)
		text := &run.Text{ID: fmt.Sprint("t", i), Subject: "ann"}
		w.Entries = []engine.Entry{{Organisation: organisation, Conversation: "talk", Kind: "message", Author: "ann", Run: w.Head.Run, Text: text, AtMs: start},
			{Organisation: organisation, Conversation: "talk", Kind: "run_started", Author: "clerk", Run: w.Head.Run, AtMs: start}}
		return w
	}
	require.ErrorIs(b.t, b.Append(b.ctx, entry(0)), engine.ErrNotFound, "no such conversation")
	require.NoError(b.t, b.Converse(b.ctx, organisation, "talk"))
	for _, err := range AtOnce(10, func(i int) error { return b.Append(b.ctx, entry(i)) }) {
		require.NoError(b.t, err)
	}
	entries, err := b.Entries(b.ctx, organisation, "talk", 0, 100)
	require.NoError(b.t, err)
	require.Len(b.t, entries, 20)
	for i, e := range entries {
		require.EqualValues(b.t, i+1, e.Number)
	}
	require.NotNil(b.t, entries[0].Text)
	require.Nil(b.t, entries[1].Text)
	require.Equal(b.t, entries[0].Run, entries[1].Run, "a write's entries stay together")
	page, err := b.Entries(b.ctx, organisation, "talk", 3, 2)
	require.NoError(b.t, err)
	require.Equal(b.t, entries[3:5], page)
	_, err = b.Entries(b.ctx, "other", "talk", 0, 9)
	require.ErrorIs(b.t, err, engine.ErrNotFound)
}

func gapless(b *bench) {
	for _, err := range AtOnce(25, func(i int) error {
		w := Write(fmt.Sprint("r", i), 0, 1+i%3)
		if i%4 == 0 {
			w.Guards = []run.Guard{{Gate: "g", Value: "never"}}
		}
		return b.Append(b.ctx, w)
	}) {
		if err != nil {
			require.ErrorIs(b.t, err, run.ErrGuard)
		}
	}
	all, err := b.Numbers(b.ctx)
	require.NoError(b.t, err)
	total := 0
	for _, numbers := range all {
		for i, n := range numbers {
			require.EqualValues(b.t, i+1, n)
		}
		total += len(numbers)
	}
	want := 0
	for i := range 25 {
		if i%4 != 0 {
			want += 1 + i%3
		}
	}
	require.Equal(b.t, want, total)
}

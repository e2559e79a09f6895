package journaltest

import (
	"slices"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

type tasks = conc.WaitGroup

func appends(b *bench) {
	_, _, err := b.Load(b.ctx, "r1", 0)
	require.ErrorIs(b.t, err, engine.ErrNotFound)
	first, second := Write("r1", 0, 2), Write("r1", 2, 1)
	b.must(first)
	b.must(second)

	head, records, err := b.Load(b.ctx, "r1", 0)
	require.NoError(b.t, err)
	require.Equal(b.t, append(slices.Clone(first.Records), second.Records...), records)
	want := second.Head
	want.StartedMs = start
	require.Equal(b.t, want, head)

	_, records, err = b.Load(b.ctx, "r1", 2)
	require.NoError(b.t, err)
	require.Equal(b.t, second.Records, records)

	b.clock.Add(5)
	end := Write("r1", 3, 1)
	end.Head.Status, end.Head.DueMs = run.StatusCompleted, 0
	b.must(end)
	b.clock.Add(5)
	late := Write("r1", 4, 1)
	late.Head.Status, late.Head.DueMs = run.StatusCompleted, 0
	b.must(late)
	require.EqualValues(b.t, start+5, b.head("r1").EndedMs, "a late outcome does not move the end")
	require.EqualValues(b.t, start, b.head("r1").StartedMs)
}

func conflicts(b *bench) {
	require.ErrorIs(b.t, b.Append(b.ctx, Write("r1", 3, 1)), run.ErrConflict, "no such run")
	b.must(Write("r1", 0, 2))
	for _, from := range []uint64{0, 1, 3} {
		require.ErrorIs(b.t, b.Append(b.ctx, Write("r1", from, 1)), run.ErrConflict)
	}
	require.EqualValues(b.t, 2, b.head("r1").Version)
}

func oneWins(b *bench) {
	b.must(Write("r1", 0, 1))
	errs := AtOnce(20, func(int) error { return b.Append(b.ctx, Write("r1", 1, 1)) })
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		require.ErrorIs(b.t, err, run.ErrConflict)
	}
	require.Equal(b.t, 1, won)
	_, records, err := b.Load(b.ctx, "r1", 0)
	require.NoError(b.t, err)
	require.Len(b.t, records, 2)
}

func fences(b *bench) {
	b.must(Write("r1", 0, 1))
	old := b.claim("one", 1)[0]
	b.clock.Add(ttl)
	fresh := b.claim("two", 1)[0]
	require.Equal(b.t, old.Epoch+1, fresh.Epoch)

	stale := Write("r1", 1, 1)
	stale.Epoch = old.Epoch
	require.ErrorIs(b.t, b.Append(b.ctx, stale), run.ErrFenced)
	require.EqualValues(b.t, 1, b.head("r1").Version)

	current := Write("r1", 1, 1)
	current.Epoch = fresh.Epoch
	b.must(current)
	head := b.head("r1")
	require.Equal(b.t, "two", head.Owner, "an owner's write keeps its lease")
	require.Equal(b.t, fresh.UntilMs, head.LeaseUntil)
	require.ErrorIs(b.t, b.Append(b.ctx, stale), run.ErrFenced, "fenced before it is a conflict")
}

func outsideKeepsLease(b *bench) {
	b.must(Write("r1", 0, 1))
	lease := b.claim("one", 1)[0]
	outside := Write("r1", 1, 1)
	outside.Head.DueMs = start + 7
	b.must(outside)
	head := b.head("r1")
	require.Equal(b.t, "one", head.Owner)
	require.Equal(b.t, lease.UntilMs, head.LeaseUntil)
	require.Equal(b.t, lease.Epoch, head.Epoch)
	require.EqualValues(b.t, start+7, head.DueMs)
	owned := Write("r1", 1, 1)
	owned.Epoch = lease.Epoch
	require.ErrorIs(b.t, b.Append(b.ctx, owned), run.ErrConflict, "not fenced: it reads on and decides again")
}

func dueSince(b *bench) {
	b.must(Write("r1", 0, 1))
	since := b.head("r1").DueMs
	b.clock.Add(50)
	again := Write("r1", 1, 1)
	again.Head.DueMs = since + 50
	b.must(again)
	require.Equal(b.t, since, b.head("r1").DueMs, "who has waited longest is first")
	later := Write("r1", 2, 1)
	later.Head.DueMs = since + 500
	b.must(later)
	require.Equal(b.t, since+500, b.head("r1").DueMs)
}

func oneClaimWins(b *bench) {
	for _, id := range []string{"r1", "r2", "r3"} {
		b.must(Write(id, 0, 1))
	}
	claimed := make([][]engine.Lease, 12)
	for _, err := range AtOnce(12, func(i int) (err error) {
		claimed[i], err = b.Claim(b.ctx, string(rune('a'+i)), 2, ttl)
		return err
	}) {
		require.NoError(b.t, err)
	}
	seen := map[string]bool{}
	for i, leases := range claimed {
		require.LessOrEqual(b.t, len(leases), 2)
		for _, lease := range leases {
			require.False(b.t, seen[lease.Run], "claimed twice")
			seen[lease.Run] = true
			require.EqualValues(b.t, 1, lease.Epoch)
			require.Equal(b.t, string(rune('a'+i)), b.head(lease.Run).Owner)
		}
	}
	require.Len(b.t, seen, 3)
}

// A run that a person waits for does not stand behind all the children of a
// fan-out, and they do not stand behind all of those either.
func claimsAreShared(b *bench) {
	for n := range 8 {
		child := Write("child"+string(rune('0'+n)), 0, 1)
		child.Head.Parent, child.Head.Root = "r0", "r0"
		b.must(child)
	}
	b.clock.Add(1000)
	for n := range 8 {
		b.must(Write("root"+string(rune('0'+n)), 0, 1))
	}
	kinds := func(leases []engine.Lease) (roots, children int) {
		for _, lease := range leases {
			if b.head(lease.Run).Parent == "" {
				roots++
			} else {
				children++
			}
		}
		return roots, children
	}
	roots, children := kinds(b.claim("one", 4))
	require.Equal(b.t, []int{2, 2}, []int{roots, children})
	of := 0
	for range 4 { // one place at a time, as they get free
		one, _ := kinds(b.claim("one", 1))
		of += one
	}
	require.Equal(b.t, 2, of, "an odd place goes to each in turn")
	roots, children = kinds(b.claim("two", 9))
	require.Equal(b.t, []int{4, 4}, []int{roots, children}, "all that is left")
	require.Empty(b.t, b.claim("two", 9))
}

func expires(b *bench) {
	w := Write("r1", 0, 1)
	w.Head.DueMs = start + 100
	b.must(w)
	require.Empty(b.t, b.claim("one", 9), "not due yet")
	b.clock.Store(start + 100)
	lease := b.claim("one", 9)
	require.Equal(b.t, []engine.Lease{{Run: "r1", Epoch: 1, UntilMs: start + 100 + ttl}}, lease)
	b.clock.Add(ttl - 1)
	require.Empty(b.t, b.claim("two", 9), "the lease holds")
	b.clock.Add(1)
	require.Equal(b.t, []engine.Lease{{Run: "r1", Epoch: 2, UntilMs: start + 100 + 2*ttl}}, b.claim("two", 9))
}

func renews(b *bench) {
	b.must(Write("r1", 0, 1))
	b.must(Write("r2", 0, 1))
	leases := b.claim("one", 2)
	require.Len(b.t, leases, 2)
	b.clock.Add(ttl / 2)
	held, err := b.Renew(b.ctx, "one", append(leases, engine.Lease{Run: "r3", Epoch: 1}), ttl)
	require.NoError(b.t, err)
	require.Len(b.t, held, 2)
	require.EqualValues(b.t, start+ttl/2+ttl, held[0].UntilMs)
	require.Equal(b.t, held[0].UntilMs, b.head(held[0].Run).LeaseUntil)

	require.NoError(b.t, b.Release(b.ctx, "two", held[0]), "not its own: changes nothing")
	require.Equal(b.t, "one", b.head(held[0].Run).Owner)
	require.NoError(b.t, b.Release(b.ctx, "one", held[0]))
	require.EqualValues(b.t, start, b.head(held[0].Run).DueMs)
	again := b.claim("two", 9)
	require.Len(b.t, again, 1)
	require.Equal(b.t, held[0].Run, again[0].Run)

	left, err := b.Renew(b.ctx, "one", held, ttl)
	require.NoError(b.t, err)
	require.Len(b.t, left, 1)
	require.Equal(b.t, held[1].Run, left[0].Run)
	b.clock.Add(2 * ttl)
	left, err = b.Renew(b.ctx, "one", left, ttl)
	require.NoError(b.t, err)
	require.Empty(b.t, left, "a lease that ran out does not hold")
}

func notClaimable(b *bench) {
	for _, status := range []run.Status{run.StatusParked, run.StatusCompleted, run.StatusPartial, run.StatusFailed, run.StatusCancelled} {
		w := Write("of-"+string(status), 0, 1)
		w.Head.Status = status
		b.must(w)
	}
	never := Write("never", 0, 1)
	never.Head.DueMs = 0
	b.must(never)
	require.Empty(b.t, b.claim("one", 9))
}

package journaltest

import (
	"errors"
	"fmt"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

func guardsByGate(b *bench) {
	guarded := func(id, value string) engine.Write {
		w := Write(id, 0, 1)
		w.Guards = []run.Guard{{Gate: "g", Value: value}}
		return w
	}
	b.must(guarded("r1", ""))
	require.ErrorIs(b.t, b.Append(b.ctx, guarded("r2", "closed")), run.ErrGuard)
	closing := guarded("r3", "")
	closing.Gates = []run.GateChange{{Gate: "g", Value: "closed"}}
	b.must(closing)
	value, err := b.Gate(b.ctx, "g")
	require.NoError(b.t, err)
	require.Equal(b.t, "closed", value)
	require.ErrorIs(b.t, b.Append(b.ctx, guarded("r4", "")), run.ErrGuard)
	b.must(guarded("r5", "closed"))
	absent, err := b.Gate(b.ctx, "other")
	require.NoError(b.t, err)
	require.Empty(b.t, absent)
}

func guardsByClock(b *bench) {
	timed := func(id string) engine.Write {
		w := Write(id, 0, 1)
		w.Guards = []run.Guard{{BeforeMs: start + 10}}
		return w
	}
	b.clock.Store(start + 9)
	b.must(timed("r1"))
	b.clock.Store(start + 10)
	require.ErrorIs(b.t, b.Append(b.ctx, timed("r2")), run.ErrGuard)
}

func money(n int64) run.Amount { return run.Amount{MicroUSD: n} }

func reserving(id string, moves ...run.BudgetMove) engine.Write {
	w := Write(id, 0, 1)
	w.Budget = moves
	return w
}

func limits(b *bench) {
	require.ErrorIs(b.t, b.Append(b.ctx, reserving("r0", run.BudgetMove{Node: "n", Reserve: money(1)})), run.ErrBudget, "no such node")
	require.NoError(b.t, b.SetBudget(b.ctx, "n", run.Amount{MicroUSD: 100, Tokens: 10}))
	b.must(reserving("r1", run.BudgetMove{Node: "n", Reserve: run.Amount{MicroUSD: 60, Tokens: 10}}))
	require.ErrorIs(b.t, b.Append(b.ctx, reserving("r2", run.BudgetMove{Node: "n", Reserve: money(41)})), run.ErrBudget)
	require.ErrorIs(b.t, b.Append(b.ctx, reserving("r2", run.BudgetMove{Node: "n", Reserve: run.Amount{Tokens: 1}})), run.ErrBudget)
	b.must(reserving("r2", run.BudgetMove{Node: "n", Reserve: money(40)}))
	// An overrun that a provider reports is recorded, and refuses the next.
	b.must(reserving("r3", run.BudgetMove{Node: "n", Reserve: money(-60), Settle: money(70), Unknown: money(5)}))
	budget, err := b.Budget(b.ctx, "n")
	require.NoError(b.t, err)
	require.Equal(b.t, run.Budget{Limit: run.Amount{MicroUSD: 100, Tokens: 10}, Reserved: run.Amount{MicroUSD: 40, Tokens: 10},
		Settled: money(70), Unknown: money(5)}, budget)
	require.ErrorIs(b.t, b.Append(b.ctx, reserving("r4", run.BudgetMove{Node: "n", Reserve: money(1)})), run.ErrBudget)
	require.NoError(b.t, b.SetBudget(b.ctx, "n", money(116)))
	b.must(reserving("r4", run.BudgetMove{Node: "n", Reserve: money(1)}))
}

func limitsConcurrently(b *bench) {
	require.NoError(b.t, b.SetBudget(b.ctx, "n", money(100)))
	errs := AtOnce(40, func(i int) error {
		return b.Append(b.ctx, reserving(fmt.Sprint("r", i), run.BudgetMove{Node: "n", Reserve: money(7)}))
	})
	granted := 0
	for _, err := range errs {
		if err == nil {
			granted++
			continue
		}
		require.ErrorIs(b.t, err, run.ErrBudget)
	}
	require.Equal(b.t, 14, granted)
	budget, err := b.Budget(b.ctx, "n")
	require.NoError(b.t, err)
	require.Equal(b.t, money(98), budget.Reserved)
}

func limitsWhole(b *bench) {
	require.NoError(b.t, b.SetBudget(b.ctx, "inner", money(100)))
	require.NoError(b.t, b.SetBudget(b.ctx, "outer", money(10)))
	w := reserving("r1", run.BudgetMove{Node: "inner", Reserve: money(11)}, run.BudgetMove{Node: "outer", Reserve: money(11)})
	require.ErrorIs(b.t, b.Append(b.ctx, w), run.ErrBudget)
	twice := reserving("r1", run.BudgetMove{Node: "outer", Reserve: money(6)}, run.BudgetMove{Node: "outer", Reserve: money(6)})
	require.ErrorIs(b.t, b.Append(b.ctx, twice), run.ErrBudget, "the moves of one write count together")
	budget, err := b.Budget(b.ctx, "inner")
	require.NoError(b.t, err)
	require.Zero(b.t, budget.Reserved)
	_, _, err = b.Load(b.ctx, "r1", 0)
	require.ErrorIs(b.t, err, engine.ErrNotFound)
}

func limitsByPeriod(b *bench) {
	november, december := run.PeriodNode("n", "2026-11"), run.PeriodNode("n", "2026-12")
	require.ErrorIs(b.t, b.Append(b.ctx, reserving("r0", run.BudgetMove{Node: november, Reserve: money(1)})), run.ErrBudget, "no such node")
	require.NoError(b.t, b.SetBudget(b.ctx, "n", money(100)))
	b.must(reserving("r1", run.BudgetMove{Node: november, Reserve: money(60)}))
	require.ErrorIs(b.t, b.Append(b.ctx, reserving("r2", run.BudgetMove{Node: november, Reserve: money(41)})), run.ErrBudget)
	b.must(reserving("r2", run.BudgetMove{Node: december, Reserve: money(100)}))
	for node, reserved := range map[string]int64{"n": 0, november: 60, december: 100} {
		budget, err := b.Budget(b.ctx, node)
		require.NoError(b.t, err)
		require.Equal(b.t, run.Budget{Limit: money(100), Reserved: money(reserved)}, budget, node)
	}
}

func received(id, command string) engine.Write {
	w := Write(id, 0, 1)
	w.Receipt = &engine.Receipt{Organisation: organisation, Caller: "ann", Command: command, Request: "digest", Run: id, Answer: []byte(`{"run":"` + id + `"}`)}
	return w
}

func replays(b *bench) {
	_, err := b.Receipt(b.ctx, organisation, "ann", "c1")
	require.ErrorIs(b.t, err, engine.ErrNotFound)
	first := received("r1", "c1")
	b.must(first)
	require.ErrorIs(b.t, b.Append(b.ctx, received("r2", "c1")), engine.ErrReplayed)
	again := received("r1", "c1")
	require.ErrorIs(b.t, b.Append(b.ctx, again), engine.ErrReplayed, "replayed before it is a conflict")
	receipt, err := b.Receipt(b.ctx, organisation, "ann", "c1")
	require.NoError(b.t, err)
	require.Equal(b.t, *first.Receipt, receipt)
	other := received("r3", "c1")
	other.Receipt.Caller = "bob"
	b.must(other)
	refused := received("r1", "c2")
	require.ErrorIs(b.t, b.Append(b.ctx, refused), run.ErrConflict)
	_, err = b.Receipt(b.ctx, organisation, "ann", "c2")
	require.ErrorIs(b.t, err, engine.ErrNotFound, "a refused command is not remembered")
}

func replaysConcurrently(b *bench) {
	accepted := 0
	for _, err := range AtOnce(20, func(i int) error { return b.Append(b.ctx, received(fmt.Sprint("r", i), "c1")) }) {
		if err == nil {
			accepted++
			continue
		}
		require.ErrorIs(b.t, err, engine.ErrReplayed)
	}
	require.Equal(b.t, 1, accepted)
}

func payload(id, subject string, bytes []byte) engine.Payload {
	salt := []byte("0123456789abcdef")
	return engine.Payload{Run: "r1", Salt: salt, Bytes: bytes, Text: run.Text{ID: id, Commitment: run.Commit(salt, bytes),
		Size: len(bytes), Subject: subject, Marking: policy.Marking{Labels: policy.NewLabels("hr")}}}
}

func seals(b *bench) {
	w := Write("r1", 0, 1)
	hostile := payload("p1", "ann", []byte("a\x00b\xff\xfe\xc3("))
	empty := payload("p2", "ann", []byte{})
	w.Payloads = []engine.Payload{hostile, empty}
	b.must(w)
	found, err := b.Payloads(b.ctx, []string{"p1", "p2", "unknown"})
	require.NoError(b.t, err)
	require.Len(b.t, found, 2)
	require.Equal(b.t, hostile, found["p1"])
	require.Empty(b.t, found["p2"].Bytes)
	none, err := b.Payloads(b.ctx, nil)
	require.NoError(b.t, err)
	require.Empty(b.t, none)
}

func erases(b *bench) {
	w := Write("r1", 0, 1)
	w.Payloads = []engine.Payload{payload("p1", "ann", []byte("one")), payload("p2", "bob", []byte("two"))}
	b.must(w)
	require.NoError(b.t, b.EraseSubject(b.ctx, "ann"))
	found, err := b.Payloads(b.ctx, []string{"p1", "p2"})
	require.NoError(b.t, err)
	require.Len(b.t, found, 1)
	require.Equal(b.t, []byte("two"), found["p2"].Bytes)
	_, records, err := b.Load(b.ctx, "r1", 0)
	require.NoError(b.t, err)
	require.Equal(b.t, w.Records, records, "the chain stays")
	later := Write("r1", 1, 1)
	later.Payloads = []engine.Payload{payload("p3", "ann", []byte("three"))}
	b.must(later)
	found, err = b.Payloads(b.ctx, []string{"p1", "p3"})
	require.NoError(b.t, err)
	require.Len(b.t, found, 1)
	require.Equal(b.t, []byte("three"), found["p3"].Bytes)
}

func erasesItems(b *bench) {
	w := Write("r1", 0, 1)
	w.Payloads = []engine.Payload{payload("p1", "ann", []byte("one")), payload("p2", "ann", []byte("two"))}
	w.Links = []engine.Link{{Item: "m1", Text: "p1"}, {Item: "m2", Text: "p1"}, {Item: "m3", Text: "p2"}}
	b.must(w)
	other := Write("r2", 0, 1)
	other.Links = []engine.Link{{Item: "m1"}}
	b.must(other)
	again := Write("r2", 1, 1)
	again.Links = other.Links
	b.must(again) // the same link twice is one
	for wanted, items := range map[int][]string{0: {"m9"}, 1: {"m2", "m1"}} {
		count, runs, err := b.EraseItems(b.ctx, items)
		require.NoError(b.t, err)
		require.Equal(b.t, wanted, count)
		if wanted > 0 {
			require.Equal(b.t, []string{"r1", "r2"}, runs)
		}
	}
	later := Write("r1", 1, 1) // its call was under way
	later.Payloads = []engine.Payload{payload("p3", "ann", []byte("three")), payload("p4", "ann", []byte("four"))}
	later.Links = []engine.Link{{Item: "m1", Text: "p3"}, {Item: "m4", Text: "p4"}}
	b.must(later)
	found, err := b.Payloads(b.ctx, []string{"p1", "p2", "p3", "p4"})
	require.NoError(b.t, err)
	require.Len(b.t, found, 2)
	require.Contains(b.t, found, "p2")
	require.Contains(b.t, found, "p4")
	count, _, err := b.EraseItems(b.ctx, []string{"m1", "m2"})
	require.NoError(b.t, err)
	require.Zero(b.t, count, "erasing again counts nothing")
	_, records, err := b.Load(b.ctx, "r1", 0)
	require.NoError(b.t, err)
	require.Equal(b.t, append(w.Records, later.Records...), records, "the chain stays")
}

func badWriteAlone(b *bench) {
	w := Write("r1", 0, 1)
	w.Payloads = []engine.Payload{payload("p1", "ann", []byte("one"))}
	b.must(w)
	errs := AtOnce(30, func(i int) error {
		w := Write(fmt.Sprint("s", i), 0, 1)
		switch i % 5 {
		case 1:
			w.Payloads = []engine.Payload{payload("p1", "ann", []byte("taken id"))} // the database itself refuses it
		case 2:
			w = Write("r1", 7, 1)
		case 3:
			w.Guards = []run.Guard{{Gate: "g", Value: "never"}}
		}
		return b.Append(b.ctx, w)
	})
	for i, err := range errs {
		switch i % 5 {
		case 1:
			require.Error(b.t, err)
			require.False(b.t, errors.Is(err, run.ErrConflict) || errors.Is(err, run.ErrGuard))
		case 2:
			require.ErrorIs(b.t, err, run.ErrConflict)
		case 3:
			require.ErrorIs(b.t, err, run.ErrGuard)
		default:
			require.NoError(b.t, err)
			require.EqualValues(b.t, 1, b.head(fmt.Sprint("s", i)).Version)
		}
	}
	found, err := b.Payloads(b.ctx, []string{"p1"})
	require.NoError(b.t, err)
	require.Equal(b.t, []byte("one"), found["p1"].Bytes)
}

func refusalWritesNothing(b *bench) {
	require.NoError(b.t, b.SetBudget(b.ctx, "n", money(100)))
	require.NoError(b.t, b.Converse(b.ctx, organisation, "talk"))
	w := received("r1", "c1")
	w.Budget = []run.BudgetMove{{Node: "n", Reserve: money(1)}}
	w.Payloads = []engine.Payload{payload("p1", "ann", []byte("one"))}
	w.Gates = []run.GateChange{{Gate: "g", Value: "closed"}}
	w.Inbox = []engine.InboxItem{item("i1", policy.Approver{Principal: "ann"})}
	w.Entries = []engine.Entry{{Organisation: organisation, Conversation: "talk", Kind: "message", Run: "r1", Author: "ann"}}
	w.Guards = []run.Guard{{Gate: "other", Value: "never"}}
	require.ErrorIs(b.t, b.Append(b.ctx, w), run.ErrGuard)

	_, err := b.Receipt(b.ctx, organisation, "ann", "c1")
	require.ErrorIs(b.t, err, engine.ErrNotFound)
	budget, err := b.Budget(b.ctx, "n")
	require.NoError(b.t, err)
	require.Zero(b.t, budget.Reserved)
	found, err := b.Payloads(b.ctx, []string{"p1"})
	require.NoError(b.t, err)
	require.Empty(b.t, found)
	value, err := b.Gate(b.ctx, "g")
	require.NoError(b.t, err)
	require.Empty(b.t, value)
	require.Empty(b.t, b.waiting(person("ann")))
	entries, err := b.Entries(b.ctx, organisation, "talk", 0, 9)
	require.NoError(b.t, err)
	require.Empty(b.t, entries)
}

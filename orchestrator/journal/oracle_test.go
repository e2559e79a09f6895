package journal_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// rival is a journal that is compared with the oracle, from empty.
type rival struct {
	name string
	journaltest.Journal
}

// contest lets the oracle and its rivals do the same, and compares each answer
// and what they hold afterwards.
type contest struct {
	t       *rapid.T
	clock   *atomic.Int64
	oracle  *journaltest.Memory
	rivals  []rival
	counts  map[string]int
	leases  []engine.Lease
	dueMs   int64 // no two runs are due at the same time: which is first would be left open
	texts   int
	threads int
}

var (
	contestRuns  = []string{"r1", "r2", "r3", "r4"}
	contestNodes = []string{"n", "m", "n", "m", "n", "m", "nowhere"}
	contestGates = []string{"g", "h"}
)

// class says what became of an operation: which refusal, where it is one that
// callers tell apart.
func class(err error) string {
	for name, known := range map[string]error{"conflict": run.ErrConflict, "fenced": run.ErrFenced, "guard": run.ErrGuard, "budget": run.ErrBudget,
		"replayed": engine.ErrReplayed, "not found": engine.ErrNotFound} {
		if errors.Is(err, known) {
			return name
		}
	}
	if err != nil {
		return "failed"
	}
	return "ok"
}

// each does one operation everywhere and compares what it gave.
func (c *contest) each(name string, does func(j journaltest.Journal) (any, error)) {
	want, err := does(c.oracle)
	c.counts[name+": "+class(err)]++
	for _, r := range c.rivals {
		got, rivalErr := does(r.Journal)
		require.Equal(c.t, class(err), class(rivalErr), "%s on %s: %v", name, r.name, rivalErr)
		require.Equal(c.t, want, got, "%s on %s", name, r.name)
	}
}

// furnish makes what most writes need.
func (c *contest) furnish() {
	ctx := context.Background()
	c.each("set budget", func(j journaltest.Journal) (any, error) {
		return nil, errors.Join(j.SetBudget(ctx, "n", run.Amount{MicroUSD: 150, Tokens: 20}), j.SetBudget(ctx, "m", run.Amount{MicroUSD: 80, Tokens: 20}))
	})
	c.each("converse", func(j journaltest.Journal) (any, error) { return nil, j.Converse(ctx, "acme", "talk1") })
	c.threads++
}

func (c *contest) id() string { return rapid.SampledFrom(contestRuns).Draw(c.t, "run") }

// often says yes in so many of eight cases. Drawn numbers would favour the small.
func (c *contest) often(name string, eighths int) bool {
	drawn := 0
	for range 3 {
		drawn *= 2
		if rapid.Bool().Draw(c.t, name) {
			drawn++
		}
	}
	return drawn >= 8-eighths
}

func (c *contest) append() {
	id := c.id()
	head, _, _ := c.oracle.Load(context.Background(), id, 0) // a run that is not there has version 0
	from := head.Version
	if from > 0 && !c.often("right version", 7) {
		from = uint64(rapid.IntRange(0, int(from)+1).Draw(c.t, "from"))
	}
	w := journaltest.Write(id, from, rapid.IntRange(1, 3).Draw(c.t, "records"))
	if head.Version > 0 && c.often("owned", 3) {
		w.Epoch = uint64(max(int(head.Epoch)+rapid.SampledFrom([]int{0, 0, 0, -1, 1}).Draw(c.t, "epoch"), 0))
	}
	c.dueMs++
	w.Head.DueMs = c.dueMs
	w.Head.Status = rapid.SampledFrom([]run.Status{run.StatusRunning, run.StatusRunning, run.StatusWaiting, run.StatusParked, run.StatusCompleted}).Draw(c.t, "status")
	w.Head.Labels = policy.NewLabels(rapid.SampledFrom([]policy.Label{"hr", "finance"}).Draw(c.t, "label"))
	c.condition(&w)
	c.burden(&w)
	c.each("append", func(j journaltest.Journal) (any, error) {
		mine := w
		mine.Entries = slices.Clone(w.Entries)
		return nil, j.Append(context.Background(), mine)
	})
}

// condition gives a write what it depends on.
func (c *contest) condition(w *engine.Write) {
	if c.often("guarded", 1) {
		w.Guards = append(w.Guards, run.Guard{Gate: rapid.SampledFrom(contestGates).Draw(c.t, "gate"), Value: rapid.SampledFrom([]string{"", "a"}).Draw(c.t, "value")})
	}
	if c.often("timed", 1) {
		w.Guards = append(w.Guards, run.Guard{BeforeMs: c.clock.Load() + int64(rapid.IntRange(0, 1).Draw(c.t, "before"))})
	}
	if c.often("received", 2) {
		w.Receipt = &engine.Receipt{Organisation: "acme", Caller: "ann", Command: rapid.SampledFrom([]string{"c1", "c2", "c3", "c4"}).Draw(c.t, "command"),
			Request: "digest", Run: w.Head.Run, Answer: c.bytes()}
	}
	for range rapid.IntRange(0, 2).Draw(c.t, "moves") {
		w.Budget = append(w.Budget, run.BudgetMove{Node: rapid.SampledFrom(contestNodes).Draw(c.t, "node"),
			Reserve: run.Amount{MicroUSD: rapid.Int64Range(-20, 60).Draw(c.t, "reserve"), Tokens: rapid.Int64Range(-5, 5).Draw(c.t, "tokens")},
			Settle:  run.Amount{MicroUSD: rapid.Int64Range(0, 20).Draw(c.t, "settle")}, Unknown: run.Amount{Tokens: rapid.Int64Range(0, 2).Draw(c.t, "unknown")}})
	}
}

// burden gives a write what it carries.
func (c *contest) burden(w *engine.Write) {
	if c.often("moves a gate", 1) {
		w.Gates = []run.GateChange{{Gate: rapid.SampledFrom(contestGates).Draw(c.t, "gate"), Value: rapid.SampledFrom([]string{"a", "b"}).Draw(c.t, "value")}}
	}
	if c.often("says", 3) {
		c.texts++
		id := c.text()
		subject := rapid.SampledFrom([]string{"ann", "bob"}).Draw(c.t, "subject")
		salt, bytes := []byte("0123456789abcdef"), c.bytes()
		w.Payloads = []engine.Payload{{Run: w.Head.Run, Salt: salt, Bytes: bytes,
			Text: run.Text{ID: id, Subject: subject, Commitment: run.Commit(salt, bytes), Size: len(bytes)}}}
	}
	if c.often("asks", 3) {
		item := engine.InboxItem{ID: rapid.SampledFrom([]string{"i1", "i2"}).Draw(c.t, "item"), Organisation: "acme", Run: w.Head.Run, Kind: engine.InboxApproval}
		if item.Open = c.often("open", 6); item.Open {
			item.SinceMs, item.NotAfterMs = c.clock.Load(), c.dueMs
			item.Approvers = []policy.Approver{{Principal: rapid.SampledFrom([]string{"ann", "bob"}).Draw(c.t, "approver"), Why: "asked"}}
		}
		w.Inbox = []engine.InboxItem{item}
	}
	if c.often("talks", 2) {
		entry := engine.Entry{Organisation: "acme", Conversation: c.thread(), Kind: "message", Run: w.Head.Run, Author: "ann", AtMs: c.clock.Load()}
		if c.often("with text", 4) {
			entry.Text = &run.Text{ID: "said", Subject: "ann", Size: 3}
		}
		w.Entries = []engine.Entry{entry, entry}
	}
}

func (c *contest) text() string { return fmt.Sprint("t", rapid.IntRange(1, 40).Draw(c.t, "text")) }

// thread is a conversation that is there, or the next one that is not.
func (c *contest) thread() string {
	return fmt.Sprint("talk", rapid.IntRange(1, c.threads+1).Draw(c.t, "thread"))
}

// bytes are of any kind: no store may look into them.
func (c *contest) bytes() []byte {
	return rapid.SampledFrom([][]byte{{}, []byte("plain"), []byte("a\x00b"), []byte("\xff\xfe\xc3("), []byte("\xed\xa0\x80"), []byte(`"\ud800"`)}).Draw(c.t, "bytes")
}

func (c *contest) load() {
	id, after := c.id(), rapid.Uint64Range(0, 4).Draw(c.t, "after")
	c.each("load", func(j journaltest.Journal) (any, error) {
		head, records, err := j.Load(context.Background(), id, after)
		return []any{head, append([]run.Record{}, records...)}, err
	})
}

func (c *contest) read() {
	command, text, gate := rapid.SampledFrom([]string{"c1", "c2", "c3", "c4", "c5"}).Draw(c.t, "command"), c.text(), rapid.SampledFrom(contestGates).Draw(c.t, "gate")
	ctx := context.Background()
	c.each("receipt", func(j journaltest.Journal) (any, error) {
		r, err := j.Receipt(ctx, "acme", "ann", command)
		if err != nil {
			return nil, err
		}
		r.Answer = append([]byte{}, r.Answer...)
		return r, nil
	})
	c.each("payloads", func(j journaltest.Journal) (any, error) {
		found, err := j.Payloads(ctx, []string{text, "never"})
		for id, p := range found {
			p.Bytes = append([]byte{}, p.Bytes...)
			found[id] = p
		}
		return found, err
	})
	c.each("gate", func(j journaltest.Journal) (any, error) { return j.Gate(ctx, gate) })
	c.each("now", func(j journaltest.Journal) (any, error) { return j.Now(ctx) })
}

func (c *contest) look() {
	node, thread, ctx := rapid.SampledFrom(contestNodes).Draw(c.t, "node"), c.thread(), context.Background()
	who := policy.Principal{ID: rapid.SampledFrom([]string{"ann", "bob"}).Draw(c.t, "person"), Organisation: rapid.SampledFrom([]string{"acme", "acme", "other"}).Draw(c.t, "organisation")}
	after, limit := rapid.Uint64Range(0, 5).Draw(c.t, "after"), rapid.IntRange(1, 3).Draw(c.t, "limit")
	c.each("budget", func(j journaltest.Journal) (any, error) { return j.Budget(ctx, node) })
	c.each("inbox", func(j journaltest.Journal) (any, error) {
		items, err := j.Inbox(ctx, who)
		return append([]engine.InboxItem{}, items...), err
	})
	c.each("entries", func(j journaltest.Journal) (any, error) {
		entries, err := j.Entries(ctx, who.Organisation, thread, after, limit)
		return append([]engine.Entry{}, entries...), err
	})
}

func (c *contest) claim() {
	worker, limit := rapid.SampledFrom([]string{"w1", "w2"}).Draw(c.t, "worker"), rapid.IntRange(1, 3).Draw(c.t, "limit")
	c.each("claim", func(j journaltest.Journal) (any, error) {
		leases, err := j.Claim(context.Background(), worker, limit, 100)
		sorted := slices.SortedFunc(slices.Values(leases), func(a, b engine.Lease) int { return cmp.Compare(a.Run, b.Run) })
		if j == journaltest.Journal(c.oracle) {
			c.leases = append(sorted, c.leases...) // also those that are over are renewed and given back
		}
		return append([]engine.Lease{}, sorted...), err
	})
	c.leases = c.leases[:min(len(c.leases), 8)]
}

func (c *contest) keep() {
	worker := rapid.SampledFrom([]string{"w1", "w2"}).Draw(c.t, "worker")
	leases := append(slices.Clone(c.leases), engine.Lease{Run: "nobody's", Epoch: 1})
	if c.often("release", 3) {
		lease := rapid.SampledFrom(leases).Draw(c.t, "lease")
		c.each("release", func(j journaltest.Journal) (any, error) { return nil, j.Release(context.Background(), worker, lease) })
		return
	}
	c.each("renew", func(j journaltest.Journal) (any, error) {
		held, err := j.Renew(context.Background(), worker, slices.Clone(leases), 100)
		return append([]engine.Lease{}, held...), err
	})
}

func (c *contest) arrange() {
	ctx := context.Background()
	switch rapid.IntRange(0, 3).Draw(c.t, "what") {
	case 0:
		node, limit := rapid.SampledFrom(contestNodes[:2]).Draw(c.t, "node"), run.Amount{MicroUSD: rapid.Int64Range(0, 200).Draw(c.t, "limit"), Tokens: 20}
		c.each("set budget", func(j journaltest.Journal) (any, error) { return nil, j.SetBudget(ctx, node, limit) })
	case 1:
		thread := c.thread()
		c.each("converse", func(j journaltest.Journal) (any, error) { return nil, j.Converse(ctx, "acme", thread) })
		if thread == fmt.Sprint("talk", c.threads+1) {
			c.threads++
		}
	case 2:
		subject := rapid.SampledFrom([]string{"ann", "bob"}).Draw(c.t, "subject")
		c.each("erase", func(j journaltest.Journal) (any, error) { return nil, j.EraseSubject(ctx, subject) })
	default:
		c.clock.Add(rapid.Int64Range(1, 120).Draw(c.t, "passes"))
	}
}

// same compares all that the stores hold.
func (c *contest) same() {
	for _, r := range c.rivals {
		require.Equal(c.t, c.holds(c.oracle), c.holds(r.Journal), r.name)
	}
}

func (c *contest) holds(j journaltest.Journal) map[string]any {
	all, ctx := map[string]any{}, context.Background()
	note := func(what string, value any, err error) { all[what] = []any{value, class(err)} }
	for _, id := range contestRuns {
		head, records, err := j.Load(ctx, id, 0)
		note("run "+id, []any{head, append([]run.Record{}, records...)}, err)
	}
	for _, node := range contestNodes {
		b, err := j.Budget(ctx, node)
		note("node "+node, b, err)
	}
	for _, name := range contestGates {
		value, err := j.Gate(ctx, name)
		note("gate "+name, value, err)
	}
	for _, who := range []string{"ann", "bob"} {
		items, err := j.Inbox(ctx, policy.Principal{ID: who, Organisation: "acme"})
		note("inbox "+who, append([]engine.InboxItem{}, items...), err)
	}
	for i := range c.threads + 1 {
		entries, err := j.Entries(ctx, "acme", fmt.Sprint("talk", i+1), 0, 1000)
		note(fmt.Sprint("talk", i+1), append([]engine.Entry{}, entries...), err)
	}
	return all
}

// succeeds lists what must have happened before a comparison says anything.
var succeeds = []string{"append: ok", "append: conflict", "append: fenced", "append: guard", "append: budget", "append: replayed", "append: not found", "append: failed",
	"load: ok", "load: not found", "receipt: ok", "receipt: not found", "payloads: ok", "gate: ok", "now: ok", "budget: ok", "budget: not found", "inbox: ok",
	"entries: ok", "entries: not found", "claim: ok", "renew: ok", "release: ok", "set budget: ok", "converse: ok", "converse: failed", "erase: ok"}

// compare goes on until everything has happened, at most a few rounds.
func compare(t *testing.T, worlds string, open func(clock func() int64) (rivals []rival, done func())) {
	t.Helper()
	t.Cleanup(checksOf(t, worlds))
	counts := map[string]int{}
	missing := func() []string {
		return slices.DeleteFunc(slices.Clone(succeeds), func(what string) bool { return counts[what] > 0 })
	}
	for round := 0; round == 0 || round < 5 && len(missing()) > 0; round++ {
		rapid.Check(t, func(rt *rapid.T) {
			clock := &atomic.Int64{}
			clock.Store(1_000_000)
			rivals, done := open(clock.Load)
			defer done()
			c := &contest{t: rt, clock: clock, oracle: journaltest.NewMemory(clock.Load), rivals: rivals, counts: counts, dueMs: 1000}
			c.furnish()
			rt.Repeat(map[string]func(*rapid.T){
				"append": func(*rapid.T) { c.append() }, "append more": func(*rapid.T) { c.append() }, "load": func(*rapid.T) { c.load() },
				"read": func(*rapid.T) { c.read() }, "look": func(*rapid.T) { c.look() }, "claim": func(*rapid.T) { c.claim() },
				"keep": func(*rapid.T) { c.keep() }, "arrange": func(*rapid.T) { c.arrange() },
			})
			c.same()
		})
	}
	require.Empty(t, missing(), "it did not happen, so it was not compared")
	compared := 0
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%s: %d", what, counts[what])
		compared += counts[what]
	}
	fmt.Printf("level: L3 compared answers %d\n", compared)
}

// checksOf sets how many worlds one round has, and returns what undoes that.
func checksOf(t *testing.T, n string) (undo func()) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	was := checks.Value.String()
	require.NoError(t, checks.Value.Set(n))
	return func() { require.NoError(t, checks.Value.Set(was)) }
}

func TestFault_C19_SQLiteAnswersAsTheOracleDoes(t *testing.T) {
	compare(t, "150", func(clock func() int64) ([]rival, func()) {
		s, err := journal.Open(context.Background(), journal.Config{DSN: "sqlite:" + freshFile(t), MasterKey: masterKey, Clock: clock, Between: journaltest.Hasty})
		require.NoError(t, err)
		return []rival{{"SQLite", store{s}}}, func() { require.NoError(t, s.Close()) }
	})
}

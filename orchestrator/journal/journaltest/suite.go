package journaltest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Journal is what the suite looks at.
type Journal interface {
	engine.Journal
	engine.Claims
	Budgets
	Threads
	Erasing
	// Numbers lists the numbers of each writer's records, in their order.
	Numbers(ctx context.Context) (map[string][]uint64, error)
}

// Erasing takes texts out for good.
type Erasing interface {
	// EraseSubject deletes the texts of a subject and the key to them.
	EraseSubject(ctx context.Context, subject string) error
	// EraseItems deletes the texts that quote remembered items.
	EraseItems(ctx context.Context, items []string) (count int, runs []string, err error)
}

// Budgets are the limits of money and tokens.
type Budgets interface {
	SetBudget(ctx context.Context, node string, limit run.Amount) error
	Budget(ctx context.Context, node string) (run.Budget, error)
}

// Threads are what people see.
type Threads interface {
	Inbox(ctx context.Context, person policy.Principal) ([]engine.InboxItem, error)
	// Converse makes a conversation.
	Converse(ctx context.Context, organisation, id string) error
	Entries(ctx context.Context, organisation, conversation string, after uint64, limit int) ([]engine.Entry, error)
}

// Open returns an empty journal whose database clock is the given one, UTC ms.
// It is closed with the test.
type Open func(t *testing.T, clock func() int64) Journal

// bench is one test's journal and clock.
type bench struct {
	t     *testing.T
	ctx   context.Context
	clock *atomic.Int64
	Journal
}

const (
	organisation = "acme"
	start        = 1_000_000 // UTC ms of the clock at first
	ttl          = 10_000
)

// Suite checks every promise of a journal.
func Suite(t *testing.T, open Open) {
	for name, check := range map[string]func(*bench){
		"append and load":            appends,
		"version conflict":           conflicts,
		"one of many wins":           oneWins,
		"fencing":                    fences,
		"outside write keeps lease":  outsideKeepsLease,
		"one claim wins":             oneClaimWins,
		"claims are shared":          claimsAreShared,
		"due since":                  dueSince,
		"due and expiry":             expires,
		"renew and release":          renews,
		"not claimable":              notClaimable,
		"gate guards":                guardsByGate,
		"clock guards":               guardsByClock,
		"budget limits":              limits,
		"budget under concurrency":   limitsConcurrently,
		"budget whole or not at all": limitsWhole,
		"budget periods":             limitsByPeriod,
		"receipts":                   replays,
		"receipts concurrently":      replaysConcurrently,
		"payloads":                   seals,
		"erasure":                    erases,
		"erasure by item":            erasesItems,
		"inbox":                      inboxes,
		"entries":                    numbers,
		"bad write alone":            badWriteAlone,
		"gapless numbers":            gapless,
		"refusal writes nothing":     refusalWritesNothing,
	} {
		t.Run(name, func(t *testing.T) {
			clock := &atomic.Int64{}
			clock.Store(start)
			check(&bench{t: t, ctx: t.Context(), clock: clock, Journal: open(t, clock.Load)})
		})
	}
}

// Write makes a write of n plain records to a run from a version.
func Write(id string, from uint64, n int) engine.Write {
	w := engine.Write{From: from, Head: run.Head{
		Run: id, Status: run.StatusRunning, DueMs: start, Organisation: organisation, Root: id, Subject: "ann", Agent: "clerk",
		Department: "finance", Labels: policy.NewLabels("hr"),
	}}
	prev := ""
	if from > 0 {
		prev = digest(id, from)
	}
	for i := range n {
		seq := from + uint64(i) + 1
		w.Records = append(w.Records, run.Record{Run: id, Seq: seq, Kind: run.KindTurnStarted, Version: 1, AtMs: start,
			Body: fmt.Appendf(nil, `{"turn":%d}`, seq), Prev: prev, Digest: digest(id, seq)})
		prev = digest(id, seq)
	}
	w.Head.Version, w.Head.Digest = from+uint64(n), prev
	return w
}

func digest(id string, seq uint64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s#%d", id, seq))
	return hex.EncodeToString(sum[:])
}

func (b *bench) must(w engine.Write) {
	b.t.Helper()
	require.NoError(b.t, b.Append(b.ctx, w))
}

func (b *bench) head(id string) run.Head {
	b.t.Helper()
	head, _, err := b.Load(b.ctx, id, 0)
	require.NoError(b.t, err)
	return head
}

func (b *bench) claim(worker string, limit int) []engine.Lease {
	b.t.Helper()
	leases, err := b.Claim(b.ctx, worker, limit, ttl)
	require.NoError(b.t, err)
	return leases
}

// AtOnce calls attempt n times side by side and returns the errors.
func AtOnce(n int, attempt func(i int) error) []error {
	errs := make([]error, n)
	var tasks tasks
	for i := range n {
		tasks.Go(func() { errs[i] = attempt(i) })
	}
	tasks.Wait()
	return errs
}

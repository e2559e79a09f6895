package journal_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/run"
)

// claimants are workers that ask for the same runs until so many claims were
// made. Every lease is given back at once.
type claimants struct {
	t      *testing.T
	stores []store
	mu     sync.Mutex
	won    map[string]string // by run and epoch
	last   map[string]uint64
	twice  []string
}

// claim asks once and notes what was won.
func (c *claimants) claim(i int) error {
	worker, s := fmt.Sprint("w", i), c.stores[i%len(c.stores)]
	leases, err := s.Claim(c.t.Context(), worker, 4, 1<<40)
	if err != nil {
		return err
	}
	c.mu.Lock()
	for _, lease := range leases {
		key := fmt.Sprint(lease.Run, "@", lease.Epoch)
		if by, taken := c.won[key]; taken {
			c.twice = append(c.twice, fmt.Sprintf("%s went to %s and %s", key, by, worker))
		}
		c.won[key] = worker
		c.last[lease.Run] = max(c.last[lease.Run], lease.Epoch)
	}
	c.mu.Unlock()
	for _, lease := range leases {
		if err := s.Release(c.t.Context(), worker, lease); err != nil {
			return err
		}
	}
	return nil
}

// compete lets the workers claim side by side, each so often.
func (c *claimants) compete(workers, each int) {
	c.won, c.last = map[string]string{}, map[string]uint64{}
	const runs = 8
	for i := range runs {
		require.NoError(c.t, c.stores[0].Append(c.t.Context(), journaltest.Write(fmt.Sprint("r", i), 0, 1)))
	}
	for _, err := range journaltest.AtOnce(workers, func(i int) error {
		for range each {
			if err := c.claim(i); err != nil {
				return err
			}
		}
		return nil
	}) {
		require.NoError(c.t, err)
	}
	require.Empty(c.t, c.twice)
	total := uint64(0)
	for id, epoch := range c.last {
		head, _, err := c.stores[0].Load(c.t.Context(), id, 0)
		require.NoError(c.t, err)
		require.Equal(c.t, epoch, head.Epoch, "no epoch was given out in silence")
		require.Empty(c.t, head.Owner)
		total += epoch
	}
	require.Len(c.t, c.won, int(total), "every epoch of every run has one winner")
	fmt.Printf("level: L3 claims %d\n", workers*each)
}

func TestFault_B6_EveryEpochHasOneWinner(t *testing.T) {
	s, err := journal.Open(t.Context(), journal.Config{DSN: "sqlite:" + freshFile(t), MasterKey: masterKey, Clock: func() int64 { return 1_000_000 }, Between: journaltest.Hasty})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	(&claimants{t: t, stores: []store{{s}}}).compete(8, 1250)
}

// Of many writes under the leases of two workers only those of the last winner
// are accepted: each run is written to under every epoch that anybody ever had.
func TestFault_B6_OnlyTheWinnerWrites(t *testing.T) {
	clock := int64(1_000_000)
	s := open(t, journal.Config{DSN: "sqlite:" + freshFile(t), Clock: func() int64 { return clock }, Between: journaltest.Hasty})
	require.NoError(t, s.Append(t.Context(), journaltest.Write("r1", 0, 1)))
	var leases []engine.Lease
	for i := range 5 {
		won, err := s.Claim(t.Context(), fmt.Sprint("w", i), 1, 10)
		require.NoError(t, err)
		require.Len(t, won, 1)
		leases = append(leases, won...)
		clock += 10
	}
	errs := journaltest.AtOnce(len(leases), func(i int) error {
		w := journaltest.Write("r1", 1, 1)
		w.Epoch = leases[i].Epoch
		return s.Append(t.Context(), w)
	})
	for i, err := range errs {
		if i == len(leases)-1 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, run.ErrFenced)
	}
}

// What an account of a new name or month may spend is that of the node it
// belongs to, also when the first runs that need it come at once.
func firstCalls(t *testing.T, stores ...store) {
	t.Helper()
	require.NoError(t, stores[0].SetBudget(t.Context(), "people", run.Amount{MicroUSD: 100}))
	node := run.PeriodNode("people", "nobody-knows")
	errs := journaltest.AtOnce(60, func(i int) error {
		w := journaltest.Write(fmt.Sprint("r", i), 0, 1)
		w.Budget = []run.BudgetMove{{Node: node, Reserve: run.Amount{MicroUSD: 7}}}
		return stores[i%len(stores)].Append(t.Context(), w)
	})
	granted := 0
	for _, err := range errs {
		if err == nil {
			granted++
			continue
		}
		require.ErrorIs(t, err, run.ErrBudget)
	}
	require.Equal(t, 14, granted)
	b, err := stores[0].Budget(t.Context(), node)
	require.NoError(t, err)
	require.Equal(t, run.Budget{Limit: run.Amount{MicroUSD: 100}, Reserved: run.Amount{MicroUSD: 98}}, b)
}

func TestFault_H2_TheDefaultBudgetHoldsForTheFirstConcurrentRuns(t *testing.T) {
	firstCalls(t, open(t, journal.Config{DSN: "sqlite:" + freshFile(t), Between: journaltest.Hasty}))
}

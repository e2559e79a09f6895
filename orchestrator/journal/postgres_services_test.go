//go:build services

package journal_test

import (
	"context"
	"fmt"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/run"
)

func TestPostgres(t *testing.T) {
	journaltest.Suite(t, func(t *testing.T, clock func() int64) journaltest.Journal {
		return open(t, journal.Config{DSN: journaltest.Schema(t), Clock: clock})
	})
}

// pair spreads its writes over two processes' stores on one database.
type pair struct {
	store
	other store
}

// Append sends every other run, by the last sign of its id, to the other side.
func (p pair) Append(ctx context.Context, write engine.Write) error {
	id := write.Head.Run
	if id[len(id)-1]%2 == 0 {
		return p.other.Append(ctx, write)
	}
	return p.store.Append(ctx, write)
}

func TestPostgresTwoProcesses(t *testing.T) {
	journaltest.Suite(t, func(t *testing.T, clock func() int64) journaltest.Journal {
		dsn := journaltest.Schema(t)
		return pair{open(t, journal.Config{DSN: dsn, Clock: clock}), open(t, journal.Config{DSN: dsn, Clock: clock})}
	})
}

func TestPostgresGatherings(t *testing.T) {
	gatherings(t, open(t, journal.Config{DSN: journaltest.Schema(t)}))
}

func TestPostgresKeepsItsOwnTime(t *testing.T) {
	s := open(t, journal.Config{DSN: journaltest.Schema(t)})
	first, err := s.Now(t.Context())
	require.NoError(t, err)
	second, err := s.Now(t.Context())
	require.NoError(t, err)
	require.Positive(t, first)
	require.GreaterOrEqual(t, second, first)
}

func TestPostgresLimitHoldsAcrossProcesses(t *testing.T) {
	dsn := journaltest.Schema(t)
	stores := []store{open(t, journal.Config{DSN: dsn}), open(t, journal.Config{DSN: dsn})}
	require.NoError(t, stores[0].SetBudget(t.Context(), "n", run.Amount{MicroUSD: 100}))
	errs := journaltest.AtOnce(40, func(i int) error {
		w := journaltest.Write(fmt.Sprint("r", i), 0, 1)
		w.Budget = []run.BudgetMove{{Node: "n", Reserve: run.Amount{MicroUSD: 7}}}
		return stores[i%2].Append(t.Context(), w)
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
}

// A process that has used a key must not use it after another has erased it.
func TestPostgresErasureReachesEveryProcess(t *testing.T) {
	dsn := journaltest.Schema(t)
	one, two := open(t, journal.Config{DSN: dsn}), open(t, journal.Config{DSN: dsn})
	say := func(s store, run, text string) {
		w := journaltest.Write(run, 0, 1)
		w.Payloads = []engine.Payload{secret("of-"+run, []byte(text))}
		require.NoError(t, s.Append(t.Context(), w))
	}
	say(one, "r1", "before")
	require.NoError(t, two.EraseSubject(t.Context(), "ann"))
	say(one, "r2", "after")
	found, err := two.Payloads(t.Context(), []string{"of-r1", "of-r2"})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, []byte("after"), found["of-r2"].Bytes)
}

func TestPostgresTextsOfAnOlderStoreAreRead(t *testing.T) {
	opensOlder(t, journal.Config{DSN: journaltest.Schema(t)})
}

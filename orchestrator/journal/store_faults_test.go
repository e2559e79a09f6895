package journal_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/run"
)

var errLine = errors.New("the line broke")

// meddler calls what is set at the time.
type meddler struct {
	now atomic.Pointer[journaltest.Meddler]
}

func (m *meddler) set(meddle journaltest.Meddler) { m.now.Store(&meddle) }

func (m *meddler) between(c driver.Connector) driver.Connector {
	return journaltest.Between(func(s journaltest.Statement, happen func() error) error {
		if meddle := m.now.Load(); meddle != nil {
			return (*meddle)(s, happen)
		}
		return happen()
	})(c)
}

// A statement of a batch fails: each of its writes is tried alone, and only the
// one that fails again is told so.
func TestFault_A3_ADatabaseErrorOfOneWriteStopsNoOther(t *testing.T) {
	for name, lasting := range map[string]bool{"once": false, "for good": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, begun := &meddler{}, make(chan struct{})
				s := open(t, journal.Config{DSN: "sqlite:" + freshFile(t), Between: m.between})
				failed := 0
				first := sync.OnceFunc(func() { <-begun })
				m.set(func(s journaltest.Statement, happen func() error) error {
					if s.Verb == journaltest.Begins {
						first() // until the others wait behind the first write
					}
					if strings.HasPrefix(s.Text, "INSERT INTO receipts") && (lasting || failed == 0) {
						failed++
						return errLine
					}
					return happen()
				})
				errs := make(chan []error)
				go func() {
					errs <- journaltest.AtOnce(20, func(i int) error {
						w := journaltest.Write(fmt.Sprint("r", i), 0, 1)
						if i == 7 {
							w.Receipt = &engine.Receipt{Organisation: "acme", Caller: "ann", Command: "c1", Run: w.Head.Run, Answer: []byte("{}")}
						}
						return s.Append(context.Background(), w)
					})
				}()
				synctest.Wait()
				close(begun)
				for i, err := range <-errs {
					if i == 7 && lasting {
						require.ErrorIs(t, err, errLine)
						continue
					}
					require.NoError(t, err)
				}
				require.Positive(t, failed)
				numbers, err := s.Numbers(t.Context())
				require.NoError(t, err)
				for i, n := range numbers["local"] {
					require.EqualValues(t, i+1, n)
				}
			})
		})
	}
}

// The one who takes a lease over saw it end; meanwhile its owner renewed it.
func renewedMeanwhile(t *testing.T, dsn string) {
	m, clock := &meddler{}, &atomic.Int64{}
	clock.Store(1_000_000)
	s := open(t, journal.Config{DSN: dsn, Clock: clock.Load, Between: m.between})
	require.NoError(t, s.Append(t.Context(), journaltest.Write("r1", 0, 1)))
	held, err := s.Claim(t.Context(), "owner", 1, 100)
	require.NoError(t, err)
	require.Len(t, held, 1)
	clock.Store(1_000_100)
	renewed := false
	m.set(func(st journaltest.Statement, happen func() error) error {
		err := happen()
		if strings.Contains(st.Text, "count(*) FROM (SELECT 1 FROM heads") && !renewed {
			renewed = true
			clock.Store(1_000_099) // when the owner's renewal was under way
			again, renewErr := s.Renew(context.Background(), "owner", held, 100)
			clock.Store(1_000_100)
			require.NoError(t, renewErr)
			require.Len(t, again, 1)
		}
		return err
	})
	taken, err := s.Claim(t.Context(), "reaper", 1, 100)
	require.NoError(t, err)
	require.True(t, renewed)
	require.Empty(t, taken)
	head, _, err := s.Load(t.Context(), "r1", 0)
	require.NoError(t, err)
	require.Equal(t, "owner", head.Owner)
	require.EqualValues(t, 1, head.Epoch)
}

func TestFault_B9_WhoSawALeaseEndDoesNotTakeWhatWasRenewed(t *testing.T) {
	renewedMeanwhile(t, "sqlite:"+freshFile(t))
}

// commitsLate holds up the commit of one process, lets the other one's go first,
// and reads as a subscriber does, from where it was, at each moment.
func commitsLate(t *testing.T, slow, other store, m *meddler) {
	entered, let := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(entered); <-let })
	m.set(func(s journaltest.Statement, happen func() error) error {
		if s.Verb == journaltest.Commits {
			hold()
		}
		return happen()
	})
	cursors, seen := map[string]uint64{}, map[string]int{}
	read := func() {
		writers, err := other.Writers(t.Context())
		require.NoError(t, err)
		for _, writer := range writers {
			rows, err := other.After(t.Context(), writer, cursors[writer], 100)
			require.NoError(t, err)
			for _, row := range rows {
				require.Equal(t, cursors[writer]+1, row.N, "a number was jumped over")
				cursors[writer] = row.N
				seen[fmt.Sprint(row.Record.Run, "/", row.Record.Seq)]++
			}
		}
	}
	late := make(chan error, 1)
	go func() { late <- slow.Append(context.Background(), journaltest.Write("slow", 0, 2)) }()
	<-entered // its numbers are given out
	if slow.Store != other.Store {
		require.NoError(t, other.Append(t.Context(), journaltest.Write("fast", 0, 3)))
	}
	read()
	require.NotContains(t, seen, "slow/1")
	close(let)
	require.NoError(t, <-late)
	require.NoError(t, other.Append(t.Context(), journaltest.Write("last", 0, 1)))
	read()
	want := map[string]int{"slow/1": 1, "slow/2": 1, "last/1": 1}
	if slow.Store != other.Store {
		want["fast/1"], want["fast/2"], want["fast/3"] = 1, 1, 1
	}
	require.Equal(t, want, seen, "each once")
}

func TestFault_C17_ASubscriberMissesNothingOfALateCommit(t *testing.T) {
	m := &meddler{}
	s := open(t, journal.Config{DSN: "sqlite:" + freshFile(t), Between: m.between})
	commitsLate(t, s, s, m)
}

// readsOnly says what still works when nothing can be written: every read. A
// write is refused after as many tries as it has, and nothing spins.
func readsOnly(t *testing.T, s store, m *meddler, refusal error) {
	ctx := t.Context()
	w := journaltest.Write("r1", 0, 1)
	w.Payloads = []engine.Payload{secret("p1", []byte("one"))}
	require.NoError(t, s.Append(ctx, w))
	held, err := s.Claim(ctx, "w", 1, 1<<40)
	require.NoError(t, err)
	var statements atomic.Int64
	m.set(func(s journaltest.Statement, happen func() error) error {
		statements.Add(1)
		for _, word := range []string{"INSERT", "UPDATE", "DELETE"} {
			if s.Verb != journaltest.Prepares && strings.HasPrefix(s.Text, word) {
				return refusal
			}
		}
		return happen()
	})
	for name, write := range map[string]func() error{
		"append":  func() error { return s.Append(ctx, journaltest.Write("r1", 1, 1)) },
		"renew":   func() error { _, err := s.Renew(ctx, "w", held, 100); return err },
		"release": func() error { return s.Release(ctx, "w", held[0]) },
		"erase":   func() error { return s.EraseSubject(ctx, "ann") },
		"budget":  func() error { return s.SetBudget(ctx, "n", run.Amount{MicroUSD: 1}) },
		"change": func() error {
			return s.ChangeOrganisation(ctx, journal.Change{Organisation: "o", Digest: "d", Body: []byte("{}")})
		},
	} {
		statements.Store(0)
		require.ErrorIs(t, write(), refusal, name)
		require.LessOrEqual(t, statements.Load(), int64(40), "%s spins", name)
	}
	head, records, err := s.Load(ctx, "r1", 0)
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, "w", head.Owner, "nothing was half done")
	found, err := s.Payloads(ctx, []string{"p1"})
	require.NoError(t, err)
	require.Equal(t, []byte("one"), found["p1"].Bytes)
	_, err = s.Heads(ctx, journal.Filter{Organisation: "acme"}, 9)
	require.NoError(t, err)
	snapshot, err := s.Snapshot(ctx)
	require.NoError(t, err)
	require.NoError(t, snapshot.Close())

	m.set(func(_ journaltest.Statement, happen func() error) error { return happen() })
	require.NoError(t, s.Append(ctx, journaltest.Write("r1", 1, 1)), "it goes on by itself")
}

var errReadOnlyDatabase = errors.New("attempt to write a readonly database")

func TestFault_C6_AReadOnlyDatabaseServesReadsAndRefusesWrites(t *testing.T) {
	m := &meddler{}
	readsOnly(t, open(t, journal.Config{DSN: "sqlite:" + freshFile(t), Between: m.between}), m, errReadOnlyDatabase)
}

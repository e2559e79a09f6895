//go:build services && unix

package wire_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/run"
)

// The database takes longer than a lease holds to answer to the write of an
// intent, or to its commit alone. The lease cannot be renewed meanwhile, and the
// write stands in the end. Its effect does not begin any more: it is looked at
// as any other attempt that may or may not have acted.
func TestFault_B7_NoEffectBeginsBehindAWriteThatTookAsLongAsTheLease(t *testing.T) {
	bases := newPostgresDatabases(t)
	for _, slow := range []string{"the write", "the commit"} {
		t.Run(slow, func(t *testing.T) {
			t.Parallel()
			scenario(t)
			direct := bases.fresh(t, "")
			p, database := through(t, direct)
			h := lone(t)
			at := h.empty(wayLost)
			at.database = database
			stalls := &stall{proxy: p, holds: make(chan func(), 1)}
			d := newDying(at.told(h))
			config := d.quiet()
			config.Work, config.Site = true, func(name string) {
				if name == "writes call_intended" {
					stalls.arm(slow == "the commit")
				}
			}
			platform, err := wire.Open(t.Context(), config)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, platform.Close()) })
			o := small(t, wayLost, h.outside.url)
			_, _, err = platform.Kits.Apply(t.Context(), o)
			require.NoError(t, err)

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			l := &life{dying: d, platform: platform, organisation: o}
			over := make(chan error, 1)
			go func() {
				var err error
				l.run, err = l.start(ctx)
				over <- errors.Join(err, l.finish(ctx))
			}()
			var let func()
			select {
			case let = <-stalls.holds:
			case err := <-over:
				require.FailNow(t, "it came to its end", "%v", err)
			}
			leaseEnds(t, direct)
			let()
			require.NoError(t, <-over)
			posts, _ := h.outside.count(at.token)
			require.Zero(t, posts, "it was never begun")
			state, records := h.stateOf(t, at, l.run)
			require.Equal(t, run.StatusCompleted, state.Status)
			require.Equal(t, run.OutcomeFailed, post(t, state).Outcome)
			require.Equal(t, 1, counted(records, run.KindCallUncertain), "it is not hidden")
			require.Equal(t, 1, counted(records, run.KindUncertainResolved), "a person looked")
		})
	}
}

// stall holds the answers to one write of a proxy's client.
type stall struct {
	proxy *proxy
	holds chan func() // what lets them go
	once  sync.Once
}

// arm holds them from now on, or from the next commit on.
func (s *stall) arm(atCommit bool) {
	s.once.Do(func() {
		if !atCommit {
			s.holds <- s.proxy.hold()
			return
		}
		var held sync.Once
		s.proxy.watch(func(_ *pair, sent []byte) (int, bool) {
			if bytes.Contains(sent, statementName("COMMIT")) {
				held.Do(func() { s.holds <- s.proxy.hold() })
			}
			return len(sent), false
		})
	})
}

// leaseEnds waits until every lease of a database is over, by its clock.
func leaseEnds(t *testing.T, database string) {
	t.Helper()
	db, err := sql.Open("pgx", database)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const wait = `SELECT pg_sleep(greatest(0, (SELECT max(lease_until) FROM heads) / 1000.0 - extract(epoch FROM clock_timestamp())::float8 + 0.001))`
	_, err = db.ExecContext(ctx, wait)
	require.NoError(t, errors.Join(err, db.Close()))
}

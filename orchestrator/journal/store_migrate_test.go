package journal_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

// killed is a process that dies at the n-th statement: before it, or after it
// and before its answer. Nothing that it sends later arrives.
type killed struct {
	at     int
	after  bool
	passed int
	dead   bool
	stop   context.CancelFunc // what it would do later, such as to try again
}

func (k *killed) meddle(s journaltest.Statement, happen func() error) error {
	if k.dead {
		s.Break()
		return errLine
	}
	k.passed++
	if k.passed != k.at {
		return happen()
	}
	k.dead = true
	if k.after {
		_ = happen() // nobody hears of it
	}
	s.Break()
	k.stop()
	return errLine
}

// migrates kills the first start of a store at every statement, starts it again,
// and looks whether what came of it is what an undisturbed start makes.
func migrates(t *testing.T, hurry func(driver.Connector) driver.Connector, fresh func() (dsn string, describe func() []string)) {
	t.Helper()
	start := func(dsn string, k *killed) error {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		k.stop = stop
		s, err := journal.Open(ctx, journal.Config{DSN: dsn, MasterKey: masterKey, Between: func(c driver.Connector) driver.Connector { return journaltest.Between(k.meddle)(hurry(c)) }})
		if err != nil {
			return err
		}
		return s.Close()
	}
	dsn, describe := fresh()
	undisturbed := &killed{}
	require.NoError(t, start(dsn, undisturbed))
	want := describe()
	require.Greater(t, len(want), 10)
	cases := 0
	for _, after := range []bool{false, true} {
		for n := 1; n <= undisturbed.passed; n++ {
			dsn, describe := fresh()
			k := &killed{at: n, after: after}
			_ = start(dsn, k) // the last statements may be lost without harm
			if !k.dead {
				continue // it had to ask less often for its turn than the first one
			}
			s, err := journal.Open(t.Context(), journal.Config{DSN: dsn, MasterKey: masterKey, Between: hurry})
			require.NoError(t, err, "killed at statement %d, after it: %t", n, after)
			require.NoError(t, s.Append(t.Context(), journaltest.Write("r1", 0, 2)))
			require.NoError(t, s.Close())
			require.Equal(t, want, describe(), "killed at statement %d, after it: %t", n, after)
			cases++
		}
	}
	require.Greater(t, cases, undisturbed.passed*3/2)
	fmt.Printf("level: L3 killed migrations %d\n", cases)
}

// rowsOf reads rows of text.
func rowsOf(t *testing.T, db *sql.DB, query string, args ...any) (list []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var row string
		require.NoError(t, rows.Scan(&row))
		list = append(list, row)
	}
	require.NoError(t, rows.Err())
	return list
}

// In a bubble, since what migrates waits a while before it tries again.
func TestFault_C20_AMigrationKilledAtAnyStatementGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder, n := t.TempDir(), 0
		migrates(t, journaltest.Hasty, func() (string, func() []string) {
			n++
			path := fmt.Sprintf("%s/%d.db", folder, n)
			return "sqlite:" + path, func() []string {
				db, err := sql.Open("sqlite", path)
				require.NoError(t, err)
				defer func() { require.NoError(t, db.Close()) }()
				return append(rowsOf(t, db, "SELECT coalesce(sql, name) FROM sqlite_master ORDER BY type, name"),
					rowsOf(t, db, "SELECT version_id || ' ' || is_applied FROM goose_db_version ORDER BY id")...)
			}
		})
	})
}

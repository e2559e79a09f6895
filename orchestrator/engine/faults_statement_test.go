package engine_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

// statementFault is how the n-th statement goes wrong.
type statementFault struct {
	name   string
	err    error
	after  bool // it happens, and then the connection is gone
	lasts  bool // for sickMs, on what the fault is about
	about  func(journaltest.Statement) bool
	breaks bool // the connection with it
}

// sickLine is a driver of which one statement goes wrong.
type sickLine struct {
	mu      sync.Mutex
	lane    *lane
	fault   statementFault
	at      int // from 1; 0: none
	armed   bool
	passed  int
	untilMs int64
}

func (l *sickLine) meddle(s journaltest.Statement, happen func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.armed {
		return happen()
	}
	l.passed++
	mine := l.passed == l.at
	if mine {
		l.untilMs = l.lane.nowMs + sickMs
	}
	sick := mine && !l.fault.lasts
	if l.fault.lasts && l.at != 0 && l.passed >= l.at && l.lane.nowMs < l.untilMs {
		sick = l.fault.about(s)
	}
	if !sick {
		return happen()
	}
	var err error
	if l.fault.after {
		err = happen()
	}
	if l.fault.breaks {
		s.Break()
	}
	return errors.Join(l.fault.err, err)
}

// writes reports whether a statement would change something.
func writes(s journaltest.Statement) bool {
	for _, word := range []string{"INSERT", "UPDATE", "DELETE"} {
		if s.Verb != journaltest.Prepares && strings.HasPrefix(s.Text, word) {
			return true
		}
	}
	return false
}

// locks reports whether a statement waits for the one lock that writers share.
func locks(s journaltest.Statement) bool {
	return s.Verb == journaltest.Begins || writes(s) && strings.HasPrefix(s.Text, "UPDATE heads SET") && !strings.HasPrefix(s.Text, "UPDATE heads SET version")
}

// house is how the statements of one kind of database are tried.
type statementHouse struct {
	t    *testing.T
	open func(l *lane, between func(driver.Connector) driver.Connector) *journal.Store // an empty store
	each int                                                                           // 3: every third statement, from another one each day; FAULTS=all is for all
}

// through takes the runs through a store whose n-th statement goes wrong, and
// counts the statements, and how often all waited for time to pass.
func (h statementHouse) through(fault statementFault, n int) (passed, waits int) {
	h.t.Helper()
	l := &lane{nowMs: ordealStartMs}
	sick := &sickLine{lane: l, fault: fault, at: n}
	store := h.open(l, journaltest.Between(sick.meddle))
	o := newOrdeal(h.t, l, store, func(p port) port { return p })
	sick.arm(true)
	o.endure()
	sick.arm(false)
	require.Empty(h.t, o.judge(), "%s of statement %d", fault.name, n)
	require.NoError(h.t, store.Close())
	return sick.passed, l.waits
}

func (l *sickLine) arm(armed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = armed
}

// mostPerWait is how many statements may fall between two moments of time when
// nothing can be written: what polls and what people send, tried a few times.
const mostPerWait = 60

// every lets each statement go wrong in each way.
func (h statementHouse) every(faults ...statementFault) {
	h.t.Helper()
	statements, _ := h.through(statementFault{name: "none"}, 0)
	require.Greater(h.t, statements, 150)
	first, step, cases := 1, 1, 0
	if h.each > 1 && os.Getenv("FAULTS") != "all" {
		first, step = 1+time.Now().YearDay()%h.each, h.each
	}
	h.t.Logf("of %d statements each %d. from %d", statements, step, first)
	for _, fault := range faults {
		for n := first; n <= statements; n += step {
			passed, waits := h.through(fault, n)
			require.GreaterOrEqual(h.t, passed, n, "the passage before the fault is always the same")
			require.Less(h.t, passed, 3*statements+mostPerWait*waits, "%s of statement %d: it spins", fault.name, n)
			cases++
		}
	}
	fmt.Printf("level: L3 failed statements %d\n", cases)
}

func onSQLite(t *testing.T) statementHouse {
	return statementHouse{t: t, open: func(l *lane, between func(driver.Connector) driver.Connector) *journal.Store {
		store, err := journal.Open(t.Context(), journal.Config{DSN: "sqlite:" + freshFile(t), MasterKey: ordealKey, Clock: l.NowMs,
			Between: func(c driver.Connector) driver.Connector { return between(journaltest.Hasty(c)) }})
		require.NoError(t, err)
		return store
	}}
}

func TestFault_A3_EveryStatementMayFailOnce(t *testing.T) {
	t.Parallel()
	onSQLite(t).every(
		statementFault{name: "timeout", err: errStore},
		statementFault{name: "execute and timeout", err: errStore, after: true, breaks: true},
	)
}

func TestFault_A3_EveryStatementMayFindTheDiskFull(t *testing.T) {
	t.Parallel()
	onSQLite(t).every(statementFault{name: "full", err: sqliteError(t, "full"), lasts: true,
		about: func(s journaltest.Statement) bool { return writes(s) || s.Verb == journaltest.Commits }})
}

// Another process holds the file's lock for longer than SQLite waits.
func TestFault_C4_WhatFindsTheDatabaseBusyIsTriedAgainAtItsPace(t *testing.T) {
	t.Parallel()
	onSQLite(t).every(statementFault{name: "busy", err: sqliteError(t, "busy"), lasts: true, about: locks})
}

func TestFault_C6_RunsGoOnAfterADatabaseThatWasReadOnly(t *testing.T) {
	t.Parallel()
	onSQLite(t).every(statementFault{name: "read-only", err: sqliteError(t, "read-only"), lasts: true, about: writes})
}

// sqliteError provokes what SQLite says, so that nothing here is made up.
func sqliteError(t *testing.T, kind string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scratch.db")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	db.SetMaxOpenConns(1)
	do := func(text string) error { _, err := db.ExecContext(t.Context(), text); return err }
	require.NoError(t, do("CREATE TABLE t (b BLOB)"))
	switch kind {
	case "full":
		require.NoError(t, do("PRAGMA max_page_count = 2"))
		err = do("INSERT INTO t VALUES (zeroblob(1 << 20))")
		require.ErrorContains(t, err, "full")
	case "read-only":
		require.NoError(t, do("PRAGMA query_only = 1"))
		err = do("INSERT INTO t VALUES (1)")
		require.ErrorContains(t, err, "readonly")
	case "busy":
		other, openErr := sql.Open("sqlite", path)
		require.NoError(t, openErr)
		defer func() { require.NoError(t, other.Close()) }()
		other.SetMaxOpenConns(1)
		_, openErr = other.ExecContext(t.Context(), "BEGIN IMMEDIATE")
		require.NoError(t, openErr)
		err = do("INSERT INTO t VALUES (1)")
		require.ErrorContains(t, err, "locked")
	}
	return err
}

//go:build unix

package wire_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// alterations of the records of a run in a database, as a bad disk or a hand
// makes them.
var alterations = map[string]string{
	"a bit of a body":          `UPDATE journal SET body = replace(CAST(body AS TEXT), 'INV', 'INW') WHERE seq = 1; UPDATE journal SET body = CAST(replace(CAST(body AS TEXT), '"turn":1', '"turn":3') AS BLOB) WHERE seq = 2`,
	"a torn body":              `UPDATE journal SET body = substr(body, 1, length(body) / 2) WHERE seq = 3`,
	"a torn last body":         `UPDATE journal SET body = substr(body, 1, length(body) - 1) WHERE seq = (SELECT max(seq) FROM journal)`,
	"an empty body":            `UPDATE journal SET body = substr(body, 1, 0) WHERE seq = 2`,
	"the beginning is torn":    `UPDATE journal SET body = substr(body, 1, 10) WHERE seq = 1`,
	"another kind":             `UPDATE journal SET kind = 'turn_answered' WHERE seq = 2`,
	"a kind of a later day":    `UPDATE journal SET kind = 'unheard_of' WHERE seq = 2`,
	"another time":             `UPDATE journal SET at_ms = at_ms + 1 WHERE seq = 2`,
	"another version":          `UPDATE journal SET version = 99 WHERE seq = 2`,
	"an earlier version":       `UPDATE journal SET version = 1 WHERE seq = 2`,
	"another digest":           `UPDATE journal SET digest = prev WHERE seq = 2`,
	"another one before":       `UPDATE journal SET prev = digest WHERE seq = 3`,
	"one is missing":           `DELETE FROM journal WHERE seq = 3`,
	"the beginning is missing": `DELETE FROM journal WHERE seq = 1`,
	"the last is missing":      `DELETE FROM journal WHERE seq = (SELECT max(seq) FROM journal)`,
	"all are missing":          `DELETE FROM journal`,
	"a bit of a frame":         `UPDATE journal SET frame = CAST(substr(frame, 1, length(frame) - 9) || x'41' || substr(frame, -8) AS BLOB) WHERE seq = (SELECT min(seq) FROM journal WHERE seq > 1)`,
	"a torn frame":             `UPDATE journal SET frame = substr(frame, 1, length(frame) / 2) WHERE seq = (SELECT max(seq) FROM journal)`,
	"an empty frame":           `UPDATE journal SET frame = x'' WHERE seq = (SELECT min(seq) FROM journal)`,
	"a frame of a later form":  `UPDATE journal SET frame = CAST(x'63' || substr(frame, 2) AS BLOB) WHERE seq = (SELECT max(seq) FROM journal)`,
	"a frame of fewer":         `UPDATE journal SET count = count - 1, frame = frame WHERE count > 1 AND seq = (SELECT min(seq) FROM journal WHERE count > 1)`,
	"a frame is longer":        `UPDATE journal SET frame = CAST(frame || x'00' AS BLOB) WHERE seq = (SELECT max(seq) FROM journal)`,
	"frames change places":     `UPDATE journal SET frame = (SELECT o.frame FROM journal o WHERE o.seq <> journal.seq ORDER BY o.seq LIMIT 1)`,
	"the head is of another":   `UPDATE heads SET digest = 'x'`,
}

// A record that is not what was written stops its run before anything is done
// on it: whether a worker meets it or a person's command.
func TestFault_A11_AnAlteredRecordParksItsRun(t *testing.T) {
	h := newCrashHouse(t, sqliteFiles{})
	due := h.killed(t, wayApproved, "Append call_ended+turn_started/"+stands+"#1")
	waiting := h.killed(t, wayApproved, "Append turn_answered+call_proposed+call_judged+approval_requested/"+stands+"#1")
	for name, statement := range alterations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for who, from := range map[string]place{"a worker": due, "a person": waiting} {
				at := h.copied(from)
				before := h.head(t, at)
				alter(t, at, statement)
				h.parks(t, at, before, who == "a person")
			}
		})
	}
}

func alter(t *testing.T, at place, statement string) {
	t.Helper()
	name, dsn := "pgx", at.database
	if path, isFile := strings.CutPrefix(at.database, "sqlite:"); isFile {
		name, dsn = "sqlite", path
	}
	db, err := sql.Open(name, dsn)
	require.NoError(t, err)
	if strings.Contains(statement, "frame") { // of the rows as they are, not of records
		_, err = db.ExecContext(t.Context(), statement)
	} else {
		err = journaltest.Alter(t.Context(), db, name == "pgx", func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), statement)
			return err
		})
	}
	require.NoError(t, errors.Join(err, db.Close()))
}

// parks lets a process meet the altered run of a place, and expects it parked.
func (h *crashHouse) parks(t *testing.T, at place, before run.Head, byCommand bool) {
	t.Helper()
	id, log := before.Run, lines{parked: make(chan struct{})}
	config := newDying(at.told(h)).quiet()
	config.Work, config.Log = true, slog.New(slog.NewJSONHandler(&log, nil))
	p, err := wire.Open(t.Context(), config)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	if byCommand {
		l := &life{dying: newDying(at.told(h)), platform: p, run: id}
		l.organisation, err = p.Organisation(t.Context(), "northwind")
		require.NoError(t, err)
		_, by := l.person(asker)
		err = l.submit(t.Context(), "cancel", func(run.Text) run.Command { return run.Cancel{By: by} })
		require.Error(t, err, "nobody is told that it was done")
	} else {
		select {
		case <-log.parked:
		case <-time.After(patience):
			require.Fail(t, "the run was not parked", log.String())
		}
	}
	head, records, err := p.Store.Load(t.Context(), id, before.Version)
	require.NoError(t, err)
	require.Equal(t, run.StatusParked, head.Status)
	require.Len(t, records, 1, "and nothing else is added")
	posts, _ := h.outside.count(at.token)
	require.Zero(t, posts)
	items, err := p.Store.Inbox(t.Context(), policy.Principal{ID: operator, Organisation: "northwind", Roles: []string{policy.RoleOperator}})
	require.NoError(t, err)
	require.True(t, len(items) > 0 && items[len(items)-1].Run == id, "an operator is told")
	require.NotContains(t, log.String(), "INV-1004", "no text of a run is in a log")
	if !byCommand {
		require.Contains(t, log.String(), `"level":"ERROR","msg":"run parked"`)
	}
	require.Error(t, audit(t.Context(), p.Store), "the doctor sees it too")
}

// head is the head of the one run of a place.
func (h *crashHouse) head(t *testing.T, at place) (head run.Head) {
	t.Helper()
	require.NoError(t, h.look(t.Context(), at, func(store *journal.Store) error {
		heads, err := store.Heads(t.Context(), journal.Filter{Organisation: "northwind"}, 2)
		require.Len(t, heads, 1)
		head = heads[0]
		return err
	}))
	return head
}

// lines is a log, and closes parked when it says that a run was.
type lines struct {
	parked chan struct{}
	mu     sync.Mutex
	text   strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.Contains(string(p), "run parked") {
		close(l.parked) // a second time it would panic: it is parked once
	}
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Every connection to a SQLite file waits for the disk, and at the moment when a
// commit is acknowledged a copy of the files holds all that was before.
func TestFault_A13_WhatWasAcknowledgedIsInTheFiles(t *testing.T) {
	h := newCrashHouse(t, sqliteFiles{})
	at := h.copied(h.first[wayApproved])
	d := newDying(at.told(h))
	var pragmas []string
	var mu sync.Mutex
	config := d.config()
	config.Between = func(c driver.Connector) driver.Connector {
		return d.watch.between(settled{c, func(said string) {
			mu.Lock()
			defer mu.Unlock()
			pragmas = append(pragmas, said)
		}})
	}
	type snapshot struct {
		place
		acknowledged int
	}
	var copies []snapshot
	acknowledged := 0 // records
	config.Site = func(name string) {
		d.site(name)
		if strings.HasPrefix(name, "after ") {
			mu.Lock()
			defer mu.Unlock()
			acknowledged++
		}
	}
	pass := d.watch.pass
	d.watch.pass = func(commit, position string) {
		pass(commit, position)
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(commit, "Append ") && position == stands {
			copies = append(copies, snapshot{h.copied(at), acknowledged})
		}
	}
	p, err := wire.Open(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, d.live(t.Context(), p, small(t, wayApproved, h.outside.url)))
	require.NoError(t, p.Close())

	require.GreaterOrEqual(t, len(pragmas), 2, "one that writes, one that reads")
	for _, said := range pragmas {
		require.Equal(t, "wal, synchronous 2, foreign keys 1", said)
	}
	require.GreaterOrEqual(t, len(copies), 8)
	for i, c := range copies {
		require.NoError(t, h.look(t.Context(), c.place, func(store *journal.Store) error {
			_, records, err := store.Load(t.Context(), d.word.Run, 0)
			require.Greater(t, len(records), c.acknowledged, "copy %d: what was acknowledged, and what is about to be", i)
			return errors.Join(err, audit(t.Context(), store))
		}))
	}
}

// settled asks each connection how it is set.
type settled struct {
	driver.Connector
	tell func(string)
}

// Connect connects and asks.
func (s settled) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	var answers [3]any
	for i, pragma := range []string{"journal_mode", "synchronous", "foreign_keys"} {
		rows, err := conn.(driver.QueryerContext).QueryContext(ctx, "PRAGMA "+pragma, nil)
		if err != nil {
			return nil, err
		}
		row := make([]driver.Value, 1)
		if err := rows.Next(row); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		answers[i] = row[0]
		if err := rows.Close(); err != nil {
			return nil, err
		}
	}
	s.tell(fmt.Sprintf("%v, synchronous %v, foreign keys %v", answers[0], answers[1], answers[2]))
	return conn, nil
}

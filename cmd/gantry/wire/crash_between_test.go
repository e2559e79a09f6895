//go:build unix

package wire_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"gantry.dev/orchestrator/journal/frame"
	"gantry.dev/orchestrator/run"
)

// The positions of a commit at which a process can die.
const (
	begins  = "begins"  // before anything of it is sent
	inside  = "inside"  // part of it is sent
	commits = "commits" // all of it is sent, the commit is not
	stands  = "stands"  // it is committed, nobody was told
)

var positions = []string{begins, inside, commits, stands}

var errAnswerLost = errors.New("the answer to the commit was lost")

// watch sees every commit of a store to its database, and lets what is told of
// it stop the process at a position.
type watch struct {
	pass func(commit, position string) // called at each position
	lie  func(commit string) bool      // whether to say that a commit failed, which stands

	mu   sync.Mutex
	next string // name of the write that is on its way to the writer
}

// between stands between a store and its driver.
func (w *watch) between(c driver.Connector) driver.Connector { return watchedConnector{c, w} }

// expect names the write that the journal is given.
func (w *watch) expect(commit string) {
	w.mu.Lock()
	w.next = commit
	w.mu.Unlock()
	w.pass(commit, begins)
}

func (w *watch) expected() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next
}

// finish commits, passes the positions around that, and says what is to be
// heard of it.
func (w *watch) finish(commit string, do func() error) error {
	w.pass(commit, commits)
	if err := do(); err != nil {
		return err
	}
	w.pass(commit, stands)
	if w.lie(commit) {
		return errAnswerLost
	}
	return nil
}

// nameOfAppend names the write of a run by the kinds of its events.
func nameOfAppend(kinds []run.EventKind) string {
	parts := make([]string, 0, len(kinds))
	for _, kind := range slices.Compact(slices.Clone(kinds)) {
		parts = append(parts, string(kind))
	}
	return "Append " + strings.Join(parts, "+")
}

const storeMethod = "gantry.dev/orchestrator/journal.(*Store)."

// writePoint is the method of the store that is at work, "" for a migration or
// for nobody of the store.
func writePoint() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	method := ""
	for more := true; more; {
		var caller runtime.Frame
		caller, more = frames.Next()
		if strings.Contains(caller.Function, "pressly/goose") {
			return ""
		}
		if name, of := strings.CutPrefix(caller.Function, storeMethod); of {
			method, _, _ = strings.Cut(name, ".") // the outermost stays
		}
		if caller.Function == "gantry.dev/orchestrator/journal.Open" {
			method = "Open"
		}
	}
	if method != "" && strings.ToLower(method[:1]) == method[:1] {
		return "Append" // the writer's own goroutine
	}
	return method
}

var writes = regexp.MustCompile(`^\s*(INSERT INTO|UPDATE|DELETE FROM)\s+"?(\w+)`)

// leaseWrite is what a statement of the writer does about leases, "" for nothing.
func leaseWrite(query string) string {
	for start, method := range map[string]string{"epoch = ": "Claim", "lease_until = ": "Renew", "owner = ": "Release"} {
		if strings.HasPrefix(query, "UPDATE heads SET "+start) {
			return method
		}
	}
	return ""
}

type watchedConnector struct {
	driver.Connector
	watch *watch
}

// Connect opens a connection that is watched.
func (c watchedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: inner, watch: c.watch}, nil
}

type watchedConn struct {
	driver.Conn
	watch *watch
	tx    *watchedTx // under way
}

// watchedTx is a transaction; one that writes nothing is no commit.
type watchedTx struct {
	driver.Tx
	conn   *watchedConn
	method string
	name   string
	writes int
	kinds  []run.EventKind
}

// BeginTx begins a transaction.
func (c *watchedConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	c.tx = &watchedTx{Tx: tx, conn: c, method: writePoint()}
	return c.tx, nil
}

// wrote notes a statement that was sent inside the transaction.
func (t *watchedTx) before(query string) (isWrite bool) {
	table := writes.FindStringSubmatch(query)
	if t.method == "" || table == nil {
		return false
	}
	if t.name == "" {
		lease := leaseWrite(query)
		switch {
		case t.method == "Append" && lease != "": // and nothing of a run, which would come first
			t.name = lease
		case t.method == "Append":
			t.name = t.conn.watch.expected()
		case t.method == "Open":
			t.name = "Open " + table[1] + " " + table[2]
		default:
			t.name = t.method
		}
		if t.method != "Append" || lease != "" { // a run's write has begun when it was given to the writer
			t.conn.watch.pass(t.name, begins)
		}
	}
	return true
}

func (t *watchedTx) after(query string, args []driver.NamedValue) {
	if t.writes++; t.writes == 1 {
		t.conn.watch.pass(t.name, inside)
	}
	if table := writes.FindStringSubmatch(query); t.method == "Append" && table[2] == "journal" {
		t.kinds = append(t.kinds, kindsOfRows(args)...)
	}
}

// kindsOfRows are the kinds of the records in rows of the journal. On PostgreSQL
// the rows come as columns, and it gives none.
func kindsOfRows(args []driver.NamedValue) (kinds []run.EventKind) {
	const columns = 7 // seq, n, settled_ms, writer, count, run, frame
	for row := range slices.Chunk(args, columns) {
		packed, isRow := row[columns-1].Value.([]byte)
		if !isRow {
			return nil
		}
		for _, r := range (frame.Row{Seq: uint64(row[0].Value.(int64)), Count: uint64(row[4].Value.(int64)), Frame: packed}).Records() {
			kinds = append(kinds, r.Kind)
		}
	}
	return kinds
}

// eventKinds are all that a run may record.
var eventKinds = func() map[run.EventKind]bool {
	kinds := map[run.EventKind]bool{}
	for _, cell := range run.Transitions() {
		kinds[cell.Kind] = true
	}
	return kinds
}()

// Commit commits.
func (t *watchedTx) Commit() error {
	t.conn.tx = nil
	if t.writes == 0 {
		return t.Tx.Commit()
	}
	if len(t.kinds) > 0 {
		t.name = nameOfAppend(t.kinds)
	}
	return t.conn.watch.finish(t.name, t.Tx.Commit)
}

// Rollback gives the transaction up.
func (t *watchedTx) Rollback() error {
	t.conn.tx = nil
	return t.Tx.Rollback()
}

// alone begins a transaction of its own for a statement that would commit
// itself, so that it has an inside. It returns nil where there is none to begin.
func (c *watchedConn) alone(ctx context.Context, query string) (*watchedTx, error) {
	if c.tx != nil || writes.FindString(query) == "" || writePoint() == "" {
		return nil, nil
	}
	tx, err := c.BeginTx(ctx, driver.TxOptions{})
	if err != nil {
		return nil, err
	}
	return tx.(*watchedTx), nil
}

// ExecContext runs a statement.
func (c *watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.exec(ctx, query, args, func() (driver.Result, error) { return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args) })
}

// exec runs a statement, prepared or not.
func (c *watchedConn) exec(ctx context.Context, query string, args []driver.NamedValue, do func() (driver.Result, error)) (driver.Result, error) {
	own, err := c.alone(ctx, query)
	if err != nil {
		return nil, err
	}
	result, err := watched(c.tx, query, args, do)
	if own == nil {
		return result, err
	}
	if err != nil {
		return nil, errors.Join(err, own.Rollback())
	}
	return result, own.Commit()
}

// QueryContext runs a statement that gives rows.
func (c *watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.ask(ctx, query, args, func() (driver.Rows, error) { return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args) })
}

// ask runs a statement that gives rows, prepared or not.
func (c *watchedConn) ask(ctx context.Context, query string, args []driver.NamedValue, do func() (driver.Rows, error)) (driver.Rows, error) {
	own, err := c.alone(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := watched(c.tx, query, args, do)
	if own == nil {
		return rows, err
	}
	if err != nil {
		return nil, errors.Join(err, own.Rollback())
	}
	return drain(rows, own)
}

// drain reads all rows, so that their transaction can commit before they are
// given out.
func drain(rows driver.Rows, own *watchedTx) (driver.Rows, error) {
	kept := &keptRows{columns: rows.Columns()}
	for {
		row := make([]driver.Value, len(kept.columns))
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.Join(err, rows.Close(), own.Rollback())
		}
		kept.rows = append(kept.rows, row)
	}
	if err := rows.Close(); err != nil {
		return nil, errors.Join(err, own.Rollback())
	}
	return kept, own.Commit()
}

type keptRows struct {
	columns []string
	rows    [][]driver.Value
}

func (r *keptRows) Columns() []string { return r.columns }
func (*keptRows) Close() error        { return nil }
func (r *keptRows) Next(into []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(into, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

// watched runs a statement of a transaction that may be none.
func watched[T any](tx *watchedTx, query string, args []driver.NamedValue, do func() (T, error)) (T, error) {
	isWrite := tx != nil && tx.before(query)
	result, err := do()
	if isWrite && err == nil {
		tx.after(query, args)
	}
	return result, err
}

// PrepareContext prepares a statement.
func (c *watchedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	inner, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	return &watchedStmt{Stmt: inner, conn: c, query: query}, err
}

// CheckNamedValue, ResetSession, IsValid and Ping are the driver's own, where
// it has them.
func (c *watchedConn) CheckNamedValue(value *driver.NamedValue) error {
	if inner, has := c.Conn.(driver.NamedValueChecker); has {
		return inner.CheckNamedValue(value)
	}
	return driver.ErrSkip
}

func (c *watchedConn) ResetSession(ctx context.Context) error {
	if inner, has := c.Conn.(driver.SessionResetter); has {
		return inner.ResetSession(ctx)
	}
	return nil
}

func (c *watchedConn) IsValid() bool {
	inner, has := c.Conn.(driver.Validator)
	return !has || inner.IsValid()
}

func (c *watchedConn) Ping(ctx context.Context) error {
	if inner, has := c.Conn.(driver.Pinger); has {
		return inner.Ping(ctx)
	}
	return nil
}

type watchedStmt struct {
	driver.Stmt
	conn  *watchedConn
	query string
}

// ExecContext runs the statement.
func (s *watchedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.exec(ctx, s.query, args, func() (driver.Result, error) { return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args) })
}

// QueryContext runs the statement.
func (s *watchedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.ask(ctx, s.query, args, func() (driver.Rows, error) { return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}

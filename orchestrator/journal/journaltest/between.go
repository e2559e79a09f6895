package journaltest

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync/atomic"
)

// Verb names what a store asks of its driver.
type Verb string

// The verbs.
const (
	Connects Verb = "connect"
	Prepares Verb = "prepare"
	Executes Verb = "execute"
	Queries  Verb = "query"
	Begins   Verb = "begin"
	Commits  Verb = "commit"
)

// Statement is one thing that a store asks of its driver.
type Statement struct {
	Verb Verb
	Text string // of a statement
	// Break ends the connection, as one does whose other side is gone.
	Break func()
	// Aside executes a statement on the same connection, outside of what the
	// store knows. It cannot be used while connecting.
	Aside func(text string) error
}

// Meddler is called for each statement. It lets it happen by calling happen, and
// gives what the store is told. A statement that happened though its meddler
// gives an error has its result dropped.
type Meddler func(s Statement, happen func() error) error

// Between returns what puts a meddler between a store and its driver.
func Between(meddle Meddler) func(driver.Connector) driver.Connector {
	return func(c driver.Connector) driver.Connector { return connector{c, meddle} }
}

type connector struct {
	driver.Connector
	meddle Meddler
}

// Connect opens a connection that is meddled with.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	var under driver.Conn
	err := c.meddle(Statement{Verb: Connects, Break: func() {}}, func() (err error) {
		under, err = c.Connector.Connect(ctx)
		return err
	})
	if err != nil {
		if under != nil {
			_ = under.Close() // the meddler's error says more
		}
		return nil, err
	}
	return &line{Conn: under, meddle: c.meddle}, nil
}

// line is one connection.
type line struct {
	driver.Conn
	meddle Meddler
	broken atomic.Bool
}

var errNotSupported = errors.New("the driver does not take contexts")

func (l *line) ask(verb Verb, text string, happen func() error) error {
	if l.broken.Load() {
		return driver.ErrBadConn
	}
	err := l.meddle(Statement{Verb: verb, Text: text, Break: func() { l.broken.Store(true) }, Aside: l.aside}, happen)
	if err == nil && l.broken.Load() {
		return driver.ErrBadConn
	}
	return err
}

func (l *line) aside(text string) error {
	execer, ok := l.Conn.(driver.ExecerContext)
	if !ok {
		return errNotSupported
	}
	_, err := execer.ExecContext(context.Background(), text, nil)
	return err
}

// IsValid tells the pool not to keep a connection that is broken.
func (l *line) IsValid() bool {
	v, validates := l.Conn.(driver.Validator)
	return !l.broken.Load() && (!validates || v.IsValid())
}

// ResetSession readies the connection for another use.
func (l *line) ResetSession(ctx context.Context) error {
	if l.broken.Load() {
		return driver.ErrBadConn
	}
	if r, resets := l.Conn.(driver.SessionResetter); resets {
		return r.ResetSession(ctx)
	}
	return nil
}

// CheckNamedValue is the driver's.
func (l *line) CheckNamedValue(v *driver.NamedValue) error {
	if c, checks := l.Conn.(driver.NamedValueChecker); checks {
		return c.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// BeginTx begins a transaction.
func (l *line) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	beginner, ok := l.Conn.(driver.ConnBeginTx)
	if !ok {
		return nil, errNotSupported
	}
	var under driver.Tx
	err := l.ask(Begins, "", func() (err error) {
		under, err = beginner.BeginTx(ctx, options)
		return err
	})
	if err != nil {
		if under != nil {
			_ = under.Rollback() // the store does not know of it
		}
		return nil, err
	}
	return &transaction{Tx: under, line: l}, nil
}

type transaction struct {
	driver.Tx
	line *line
}

// Commit commits the transaction.
func (t *transaction) Commit() error {
	happened := false
	err := t.line.ask(Commits, "", func() error { happened = true; return t.Tx.Commit() })
	if err != nil && !happened {
		_ = t.Tx.Rollback() // what database/sql leaves to the driver after a failed commit
	}
	return err
}

// ExecContext executes a statement.
func (l *line) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (result driver.Result, err error) {
	execer, ok := l.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	err = l.ask(Executes, text, func() (err error) {
		result, err = execer.ExecContext(ctx, text, args)
		return err
	})
	return result, err
}

// QueryContext runs a query.
func (l *line) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	queryer, ok := l.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return l.query(text, func() (driver.Rows, error) { return queryer.QueryContext(ctx, text, args) })
}

func (l *line) query(text string, run func() (driver.Rows, error)) (rows driver.Rows, err error) {
	err = l.ask(Queries, text, func() (err error) {
		rows, err = run()
		return err
	})
	if err != nil && rows != nil {
		exhaust(rows) // what it changed happened
		return nil, err
	}
	return rows, err
}

func exhaust(rows driver.Rows) {
	row := make([]driver.Value, len(rows.Columns()))
	for rows.Next(row) == nil { //nolint:revive // only to its end
	}
	_ = rows.Close() // the meddler's error says more
}

// PrepareContext prepares a statement.
func (l *line) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	preparer, ok := l.Conn.(driver.ConnPrepareContext)
	if !ok {
		return nil, errNotSupported
	}
	var under driver.Stmt
	err := l.ask(Prepares, text, func() (err error) {
		under, err = preparer.PrepareContext(ctx, text)
		return err
	})
	if err != nil {
		if under != nil {
			_ = under.Close() // the meddler's error says more
		}
		return nil, err
	}
	return &prepared{Stmt: under, line: l, text: text}, nil
}

// prepared is a prepared statement.
type prepared struct {
	driver.Stmt
	line *line
	text string
}

// ExecContext executes the statement.
func (p *prepared) ExecContext(ctx context.Context, args []driver.NamedValue) (result driver.Result, err error) {
	execer, ok := p.Stmt.(driver.StmtExecContext)
	if !ok {
		return nil, errNotSupported
	}
	err = p.line.ask(Executes, p.text, func() (err error) {
		result, err = execer.ExecContext(ctx, args)
		return err
	})
	return result, err
}

// QueryContext runs the statement.
func (p *prepared) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	queryer, ok := p.Stmt.(driver.StmtQueryContext)
	if !ok {
		return nil, errNotSupported
	}
	return p.line.query(p.text, func() (driver.Rows, error) { return queryer.QueryContext(ctx, args) })
}

var (
	_ driver.ConnBeginTx        = (*line)(nil)
	_ driver.ConnPrepareContext = (*line)(nil)
	_ driver.ExecerContext      = (*line)(nil)
	_ driver.QueryerContext     = (*line)(nil)
	_ driver.Validator          = (*line)(nil)
	_ driver.SessionResetter    = (*line)(nil)
	_ driver.NamedValueChecker  = (*line)(nil)
)

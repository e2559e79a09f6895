package journal

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
)

// querier is what reading and writing need of a database or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// statements are the writer's, by their text. The query builder would format
// arguments into every statement, which costs a batch more than all the rest.
// Only the writer's goroutine uses them.
type statements struct {
	postgres bool
	known    map[string]*statement
	fresh    []*statement
}

type statement struct {
	text     string
	prepared *sql.Stmt // SQLite only: the driver of PostgreSQL keeps its own
}

func (s *statements) get(query string) *statement {
	one, known := s.known[query]
	if known {
		return one
	}
	one = &statement{text: query}
	if s.postgres {
		one.text = numbered(query)
	} else {
		s.fresh = append(s.fresh, one)
	}
	s.known[query] = one
	return one
}

// prepare readies what the last transaction met first. It runs between
// transactions: inside one, SQLite's only connection for writing is taken.
func (s *statements) prepare(ctx context.Context, db *sql.DB) {
	for _, one := range s.fresh {
		if prepared, err := db.PrepareContext(ctx, one.text); err == nil {
			one.prepared = prepared // without it the text is sent as it is
		}
	}
	s.fresh = nil
}

// numbered writes each ? as PostgreSQL wants it.
func numbered(query string) string {
	var b strings.Builder
	n := 0
	for _, r := range query {
		if r != '?' {
			b.WriteRune(r)
			continue
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
	}
	return b.String()
}

// hotTx is the transaction of a batch.
type hotTx struct {
	tx         *sql.Tx
	statements *statements
}

// ExecContext runs a statement with ? for its arguments.
func (h hotTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	one := h.statements.get(query)
	if one.prepared == nil {
		return h.tx.ExecContext(ctx, one.text, args...)
	}
	return h.tx.StmtContext(ctx, one.prepared).ExecContext(ctx, args...) //nolint:sqlclosecheck // ends with the transaction
}

// QueryRowContext runs a statement with ? for its arguments.
func (h hotTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	one := h.statements.get(query)
	if one.prepared == nil {
		return h.tx.QueryRowContext(ctx, one.text, args...)
	}
	return h.tx.StmtContext(ctx, one.prepared).QueryRowContext(ctx, args...) //nolint:sqlclosecheck // ends with the transaction
}

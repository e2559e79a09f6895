// Package store keeps what is remembered, in SQLite or PostgreSQL: texts sealed
// under a key for each item, their views with vectors and words, the counts that
// ranking needs, and what is still to be told to an index.
package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"gantry.dev/memory/view"
)

// ErrFailed means that the database did not do what was asked.
var ErrFailed = errors.New("the memory's store failed")

// Config says where the tables are.
type Config struct {
	Write     *sql.DB // SQLite: one connection, whose transactions begin by taking the file
	Read      *sql.DB
	Postgres  bool
	MasterKey []byte                                    // 32 bytes: every other key is made from it or wrapped by it
	Now       func(context.Context) (ms int64, _ error) // UTC ms, the database's clock
	NewID     func() string                             // nil: random ids
	Relayed   bool                                      // whether changes are queued for an index that does not follow the store by itself
	Announced func()                                    // hears that something was queued and committed; must not block; nil: nobody does
}

// Store is memory in a database. It is safe for concurrent use.
type Store struct {
	config Config
	keys   keys
	read   conn
}

// New returns the store over tables that are there.
func New(config Config) (*Store, error) {
	if len(config.MasterKey) != keySize {
		return nil, fmt.Errorf("master key: must have %d bytes", keySize)
	}
	if config.NewID == nil {
		config.NewID = func() string { return strings.ToLower(rand.Text()) }
	}
	s := &Store{config: config, keys: keys{master: config.MasterKey}}
	s.read = conn{on: config.Read, postgres: config.Postgres}
	if !config.Postgres {
		s.read.prepared = &statements{db: config.Read, known: map[string]*sql.Stmt{}}
	}
	return s, nil
}

// Now is the database's clock, UTC ms.
func (s *Store) Now(ctx context.Context) (int64, error) {
	nowMs, err := s.config.Now(ctx)
	return nowMs, failed(err)
}

// NewID returns an id that nothing has.
func (s *Store) NewID() string { return s.config.NewID() }

// Relayed reports whether changes are queued for an index.
func (s *Store) Relayed() bool { return s.config.Relayed }

// Scope is what a reader may find: the predicate of every question that the
// store answers.
type Scope struct {
	Organisation string
	Spaces       []view.Space
	Sets         []string // SetIDs within the clearance
	NowMs        int64    // what has expired by then is not there
}

func (s Scope) empty() bool { return len(s.Spaces) == 0 || len(s.Sets) == 0 }

// failed says that the database failed, and leaves it to the cause whether the
// caller gave up.
func failed(err error) error {
	if err == nil || errors.Is(err, ErrFailed) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrFailed, err)
}

// asker is a database or a transaction.
type asker interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// conn asks in one dialect, with ? for arguments.
type conn struct {
	on       asker
	postgres bool
	prepared *statements // of a SQLite database; nil: everything is sent as it is
}

// statements are prepared once, by their text.
type statements struct {
	db    *sql.DB
	mu    sync.Mutex
	known map[string]*sql.Stmt
}

func (s *statements) find(ctx context.Context, text string) *sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, met := s.known[text]; met {
		return known
	}
	made, err := s.db.PrepareContext(ctx, text) //nolint:sqlclosecheck // kept for the next time; it ends with the database
	if err != nil {
		return nil // sent as it is, which says what is wrong
	}
	s.known[text] = made
	return made
}

func (c conn) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if c.postgres {
		return c.on.QueryContext(ctx, numbered(text), args...)
	}
	if c.prepared != nil {
		if statement := c.prepared.find(ctx, text); statement != nil { //nolint:sqlclosecheck // kept for the next time
			return statement.QueryContext(ctx, args...)
		}
	}
	return c.on.QueryContext(ctx, text, args...)
}

// exec changes rows and says how many.
func (c conn) exec(ctx context.Context, text string, args ...any) (int, error) {
	if c.postgres {
		text = numbered(text)
	}
	result, err := c.on.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, failed(err)
	}
	n, err := result.RowsAffected()
	return int(n), failed(err)
}

// among is a condition that a column has one of the values of a list.
func (c conn) among(column string) string {
	if c.postgres {
		return column + " = ANY(?)"
	}
	return column + " IN (SELECT value FROM json_each(?))"
}

// unled is a column for a condition that a query must not begin from: SQLite,
// which does not count rows, would take one organisation for few of them.
func (c conn) unled(column string) string {
	if c.postgres {
		return column
	}
	return "+" + column
}

// list is an argument of among.
func list[T ~string](c conn, values []T) any {
	plain := make([]string, len(values))
	for i, value := range values {
		plain[i] = string(value)
	}
	if c.postgres {
		return plain
	}
	text, _ := json.Marshal(plain) //nolint:errchkjson // strings
	return string(text)
}

// numbers is an argument of among.
func (c conn) numbers(values []int64) any {
	if c.postgres {
		return values
	}
	text, _ := json.Marshal(values) //nolint:errchkjson // numbers
	return string(text)
}

// locking locks the rows that a query found until the transaction ends, on
// PostgreSQL; SQLite has one writer.
func (c conn) locking(how string) string {
	if c.postgres {
		return " FOR " + how
	}
	return ""
}

// numbered writes each ? as PostgreSQL wants it.
func numbered(query string) string {
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		query = after
	}
}

// each scans every row of an answer.
func each(rows *sql.Rows, err error, scan func(scan func(...any) error) error) error {
	if err != nil {
		return failed(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return failed(err)
		}
	}
	return failed(rows.Err())
}

// column reads a column of strings.
func column(rows *sql.Rows, err error) (values []string, _ error) {
	err = each(rows, err, func(scan func(...any) error) error {
		var value string
		err := scan(&value)
		values = append(values, value)
		return err
	})
	return values, err
}

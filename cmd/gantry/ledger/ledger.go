// Package ledger is a small outside ledger with a database and an HTTP API of
// its own. Samples, fault tests and benchmarks run Gantry against it, because
// what an effect really did can only be asked of the other side.
package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the ledger's own database
)

// Config is what a Ledger runs on.
type Config struct {
	Path   string            // file of the SQLite database, made when absent
	Tokens map[string]string // bearer token to the name of the client that holds it
	Clock  func() time.Time  // time.Now when nil

	// BeforeReply, when set, is called after a booking is on disk and before
	// the caller hears of it. Fault tests cut the connection there.
	BeforeReply func(*http.Request)
}

// Ledger keeps adjustments to invoices. An adjustment is booked once per
// client and idempotency key, and never changes.
type Ledger struct {
	db          *sql.DB
	clients     map[[sha256.Size]byte]string // by digest of the token
	clock       func() time.Time
	beforeReply func(*http.Request)
}

const table = `CREATE TABLE IF NOT EXISTS adjustments (
	number       INTEGER PRIMARY KEY AUTOINCREMENT,
	client       TEXT NOT NULL,
	key          TEXT NOT NULL,
	chain        TEXT NOT NULL,
	invoice      TEXT NOT NULL,
	amount_cents INTEGER NOT NULL,
	currency     TEXT NOT NULL,
	reason       TEXT NOT NULL,
	created_ms   INTEGER NOT NULL,
	UNIQUE (client, key)
) STRICT;
CREATE INDEX IF NOT EXISTS adjustments_by_invoice ON adjustments (invoice, number);`

// New opens the ledger.
func New(ctx context.Context, config Config) (*Ledger, error) {
	l := &Ledger{clients: make(map[[sha256.Size]byte]string, len(config.Tokens)), clock: config.Clock, beforeReply: config.BeforeReply}
	for token, client := range config.Tokens {
		if token == "" || client == "" {
			return nil, errors.New("ledger: a token and its client must not be empty")
		}
		l.clients[sha256.Sum256([]byte(token))] = client
	}
	if l.clock == nil {
		l.clock = time.Now
	}
	if config.Path == "" {
		return nil, errors.New("ledger: no path of a database")
	}
	path, err := filepath.Abs(config.Path)
	if err != nil {
		return nil, fmt.Errorf("ledger: path of the database: %w", err)
	}
	address := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"}
	if l.db, err = sql.Open("sqlite", address.String()); err != nil {
		return nil, fmt.Errorf("ledger: open: %w", err)
	}
	l.db.SetMaxOpenConns(1) // one writer; reads are few
	if _, err := l.db.ExecContext(ctx, table); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger: open: %w", err), l.db.Close())
	}
	return l, nil
}

// Close closes the database.
func (l *Ledger) Close() error { return l.db.Close() }

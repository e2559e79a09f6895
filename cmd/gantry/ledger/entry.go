package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Adjustment is what a client asks to book.
type Adjustment struct {
	Invoice     string `json:"invoice"`
	AmountCents int64  `json:"amountCents"` // negative for a refund; not 0
	Currency    string `json:"currency"`    // ISO 4217, for example "EUR"
	Reason      string `json:"reason"`
}

// Actor is who booked: the client that the token belongs to, and the chain of
// those for whom the client says that it acted, subject first.
type Actor struct {
	Client string   `json:"client"`
	Chain  []string `json:"chain"`
}

// Entry is a booked adjustment.
type Entry struct {
	ID string `json:"id"`
	Adjustment
	Actor     Actor     `json:"actor"`
	Key       string    `json:"key"` // idempotency key
	CreatedAt time.Time `json:"createdAt"`
}

var (
	errKeyReused = errors.New("the key was used for another adjustment")
	errNoEntry   = errors.New("no such adjustment")
)

// The bounds of an adjustment.
const (
	maxAmount  = 1_000_000_000_000 // cents
	maxEntries = 1000              // of one answer
)

var (
	invoicePattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	currencyPattern = regexp.MustCompile(`^[A-Z]{3}$`)
	keyPattern      = regexp.MustCompile(`^[\x21-\x7e]{1,200}$`)
)

// faults returns what is wrong with an adjustment, in words for the client.
func (a Adjustment) faults() []string {
	var faults []string
	if !invoicePattern.MatchString(a.Invoice) {
		faults = append(faults, "invoice must be 1 to 64 letters, digits, dots, dashes and underscores")
	}
	if a.AmountCents == 0 || a.AmountCents > maxAmount || a.AmountCents < -maxAmount {
		faults = append(faults, fmt.Sprintf("amountCents must be an integer other than 0 and within ±%d", maxAmount))
	}
	if !currencyPattern.MatchString(a.Currency) {
		faults = append(faults, "currency must be three capital letters")
	}
	if n := utf8.RuneCountInString(strings.TrimSpace(a.Reason)); n == 0 || n > 500 {
		faults = append(faults, "reason must have 1 to 500 characters")
	}
	return faults
}

// book writes an adjustment once per client and key. Booked is false when it
// was there already.
func (l *Ledger) book(ctx context.Context, actor Actor, key string, a Adjustment) (entry Entry, booked bool, err error) {
	chain, err := json.Marshal(actor.Chain)
	if err != nil {
		return Entry{}, false, fmt.Errorf("ledger: book: %w", err)
	}
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return Entry{}, false, fmt.Errorf("ledger: book: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	done, err := tx.ExecContext(ctx, `INSERT INTO adjustments (client, key, chain, invoice, amount_cents, currency, reason, created_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (client, key) DO NOTHING`,
		actor.Client, key, string(chain), a.Invoice, a.AmountCents, a.Currency, a.Reason, l.clock().UnixMilli())
	if err != nil {
		return Entry{}, false, fmt.Errorf("ledger: book: %w", err)
	}
	rows, err := done.RowsAffected()
	if err != nil {
		return Entry{}, false, fmt.Errorf("ledger: book: %w", err)
	}
	found, err := entries(ctx, tx, `client = ? AND key = ?`, actor.Client, key)
	if err != nil {
		return Entry{}, false, err
	}
	if err := tx.Commit(); err != nil {
		return Entry{}, false, fmt.Errorf("ledger: book: %w", err)
	}
	if len(found) != 1 || found[0].Adjustment != a {
		return Entry{}, false, errKeyReused
	}
	return found[0], rows == 1, nil
}

func (l *Ledger) byID(ctx context.Context, id string) (Entry, error) {
	number, err := strconv.ParseInt(strings.TrimPrefix(id, "adj-"), 10, 64)
	if err != nil || idOf(number) != id {
		return Entry{}, errNoEntry
	}
	found, err := entries(ctx, l.db, `number = ?`, number)
	if err == nil && len(found) == 0 {
		err = errNoEntry
	}
	if err != nil {
		return Entry{}, err
	}
	return found[0], nil
}

func (l *Ledger) byKey(ctx context.Context, client, key string) ([]Entry, error) {
	return entries(ctx, l.db, `client = ? AND key = ?`, client, key)
}

func (l *Ledger) byInvoice(ctx context.Context, invoice string) ([]Entry, error) {
	return entries(ctx, l.db, `invoice = ?`, invoice)
}

func (l *Ledger) count(ctx context.Context) (n int64, err error) {
	err = l.db.QueryRowContext(ctx, `SELECT count(*) FROM adjustments`).Scan(&n)
	return n, err
}

type querier interface {
	QueryContext(ctx context.Context, query string, arguments ...any) (*sql.Rows, error)
}

// entries returns the entries that meet a condition of this package, oldest
// first.
func entries(ctx context.Context, db querier, condition string, arguments ...any) ([]Entry, error) {
	rows, err := db.QueryContext(ctx, `SELECT number, client, key, chain, invoice, amount_cents, currency, reason, created_ms
		FROM adjustments WHERE `+condition+` ORDER BY number LIMIT `+strconv.Itoa(maxEntries), arguments...)
	if err != nil {
		return nil, fmt.Errorf("ledger: read: %w", err)
	}
	defer func() { _ = rows.Close() }()
	found := []Entry{}
	for rows.Next() {
		var e Entry
		var number, createdMs int64
		var chain string
		if err := rows.Scan(&number, &e.Actor.Client, &e.Key, &chain, &e.Invoice, &e.AmountCents, &e.Currency, &e.Reason, &createdMs); err != nil {
			return nil, fmt.Errorf("ledger: read: %w", err)
		}
		if err := json.Unmarshal([]byte(chain), &e.Actor.Chain); err != nil {
			return nil, fmt.Errorf("ledger: read: %w", err)
		}
		e.ID, e.CreatedAt = idOf(number), time.UnixMilli(createdMs).UTC()
		found = append(found, e)
	}
	return found, rows.Err()
}

func idOf(number int64) string { return fmt.Sprintf("adj-%06d", number) }

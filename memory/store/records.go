package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
)

// Command is a command that was done, or is.
type Command struct {
	Organisation, Principal, ID string
	Request                     string // keyed digest of what was asked; empty where its item was erased
	Item                        string
	Known                       bool // the item was there already
}

// Command returns the command with the same id that was done before, and false
// where none was, or it has no id.
func (s *Store) Command(ctx context.Context, c Command) (Command, bool, error) {
	return commandOf(ctx, s.read, c)
}

func commandOf(ctx context.Context, on conn, c Command) (Command, bool, error) {
	if c.ID == "" {
		return c, false, nil
	}
	var known int
	err := each1(ctx, on, "SELECT request, item, known FROM memory_commands WHERE organisation = ? AND principal = ? AND command = ?",
		[]any{c.Organisation, c.Principal, c.ID}, &c.Request, &c.Item, &known)
	c.Known = known != 0
	if errors.Is(err, errNoRow) {
		return c, false, nil
	}
	return c, err == nil, err
}

// Begin is the same within the transaction. Who sends the same command at the
// same time waits until it ends.
func (t *Tx) Begin(ctx context.Context, c Command) (Command, bool, error) {
	if c.ID == "" {
		return c, false, nil
	}
	if err := t.Alone(ctx, t.store.Digest(c.Organisation, "command id", c.Principal, c.ID)); err != nil {
		return c, false, err
	}
	return commandOf(ctx, t.conn, c)
}

// Keep keeps a command that is done, where it has an id.
func (t *Tx) Keep(ctx context.Context, c Command) error {
	if c.ID == "" {
		return nil
	}
	_, err := t.exec(ctx, "INSERT INTO memory_commands (organisation, principal, command, request, item, known) VALUES (?, ?, ?, ?, ?, ?)",
		c.Organisation, c.Principal, c.ID, c.Request, c.Item, truth(c.Known))
	return err
}

// Audit says who did what to which items. It holds no text.
type Audit struct {
	Organisation, Principal, Run string
	Act                          string
	Items                        []string
	Digest                       string // of what was done, for example of the etags before and after
}

// Note keeps an audit entry.
func (t *Tx) Note(ctx context.Context, a Audit) error {
	items, err := json.Marshal(a.Items)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, "INSERT INTO memory_audit (id, organisation, at_ms, principal, run, act, items, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		strings.ToLower(rand.Text()), a.Organisation, t.nowMs, a.Principal, a.Run, a.Act, string(items), a.Digest)
	return err
}

// Receipt is a receipt as it is kept.
type Receipt struct {
	ID, Organisation, Principal string
	Items                       []string // everything that was erased
	VerifiedMs                  int64    // when nothing was found that could come back any more; 0: not yet
	Body                        []byte   // as its principal gets it
}

// File keeps a receipt.
func (t *Tx) File(ctx context.Context, r Receipt) error {
	items, err := json.Marshal(r.Items)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, "INSERT INTO memory_receipts (id, organisation, principal, items, verified_ms, body) VALUES (?, ?, ?, ?, ?, ?)",
		r.ID, r.Organisation, r.Principal, string(items), r.VerifiedMs, string(r.Body))
	return err
}

// Refile keeps what a receipt says now, and when it was verified.
func (s *Store) Refile(ctx context.Context, r Receipt) error {
	return s.Write(ctx, 0, func(ctx context.Context, tx *Tx) error {
		_, err := tx.exec(ctx, "UPDATE memory_receipts SET verified_ms = ?, body = ? WHERE id = ?", r.VerifiedMs, string(r.Body), r.ID)
		return err
	})
}

const receiptColumns = "id, organisation, principal, items, verified_ms, body"

// Receipt returns a receipt of an organisation, and false where there is none.
func (s *Store) Receipt(ctx context.Context, organisation, id string) (Receipt, bool, error) {
	found, err := s.receipts(ctx, "SELECT "+receiptColumns+" FROM memory_receipts WHERE organisation = ? AND id = ?", organisation, id)
	if err != nil || len(found) == 0 {
		return Receipt{}, false, err
	}
	return found[0], true, nil
}

// Unverified returns receipts, after an id, of what was not yet found to be gone
// everywhere for good.
func (s *Store) Unverified(ctx context.Context, after string, limit int) ([]Receipt, error) {
	return s.receipts(ctx, "SELECT "+receiptColumns+" FROM memory_receipts WHERE verified_ms = 0 AND id > ? ORDER BY id LIMIT ?", after, limit)
}

func (s *Store) receipts(ctx context.Context, query string, args ...any) (found []Receipt, _ error) {
	rows, err := s.read.query(ctx, query, args...)
	err = each(rows, err, func(scan func(...any) error) error {
		var r Receipt
		var items, body string
		if err := scan(&r.ID, &r.Organisation, &r.Principal, &items, &r.VerifiedMs, &body); err != nil {
			return err
		}
		r.Body = []byte(body)
		found = append(found, r)
		return json.Unmarshal([]byte(items), &found[len(found)-1].Items)
	})
	return found, err
}

// Package office is a small outside office: a mail box, a calendar and files,
// with a database of its own, served over the Model Context Protocol. Samples
// and tests run Gantry against it, because what an effect really did can only
// be asked of the other side. It knows nothing of Gantry but the key that a
// client may send with a request.
package office

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the office's own database
)

// Config is what an Office runs on.
type Config struct {
	Path  string           // file of the SQLite database, made when absent
	Own   string           // address of the mail box
	Clock func() time.Time // time.Now when nil
	Mail  []Mail           // what lies in a mail box that is made, oldest first
	Files []File           // what lies in a folder that is made

	// BeforeReply, when set, is called after something was done and before the
	// caller hears of it. Fault tests break the connection there.
	BeforeReply func(tool string)
}

// Office keeps what was sent, entered and written.
type Office struct {
	db          *sql.DB
	own         string
	clock       func() time.Time
	beforeReply func(string)
}

// The boxes of mail.
const (
	Inbox  = "INBOX"
	Drafts = "DRAFTS"
	Sent   = "SENT"
)

// Mail is one message.
type Mail struct {
	ID      int64  `json:"id"`
	Box     string `json:"box"`
	From    string `json:"from"`
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text,omitempty"`
	Key     string `json:"-"`
}

// Event is one entry of the calendar.
type Event struct {
	ID        int64  `json:"id"`
	Title     string `json:"title"`
	Starts    string `json:"starts"` // RFC 3339
	Ends      string `json:"ends"`
	Attendees string `json:"attendees"` // addresses, joined by ", "
	Key       string `json:"-"`
}

// File is one file.
type File struct {
	Path   string `json:"path"`
	Text   string `json:"text,omitempty"`
	SHA256 string `json:"sha256"`
	Key    string `json:"key,omitempty"` // of the request that wrote it last
}

const tables = `
CREATE TABLE IF NOT EXISTS mail (
	id INTEGER PRIMARY KEY AUTOINCREMENT, box TEXT NOT NULL, sender TEXT NOT NULL, recipient TEXT NOT NULL,
	subject TEXT NOT NULL, text TEXT NOT NULL, key TEXT NOT NULL, at_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS drafts_by_key ON mail (key) WHERE key <> '' AND box = 'DRAFTS';
CREATE TABLE IF NOT EXISTS events (
	id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, starts TEXT NOT NULL, ends TEXT NOT NULL,
	attendees TEXT NOT NULL, key TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS events_by_key ON events (key) WHERE key <> '';
CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, text TEXT NOT NULL, key TEXT NOT NULL, writes INTEGER NOT NULL) STRICT;`

// Open opens the office, and fills it where it is new.
func Open(ctx context.Context, config Config) (*Office, error) {
	if config.Path == "" || config.Own == "" {
		return nil, errors.New("office: it needs a path of a database and an address of its own")
	}
	if config.Clock == nil {
		config.Clock = time.Now
	}
	if config.BeforeReply == nil {
		config.BeforeReply = func(string) {}
	}
	path, err := filepath.Abs(config.Path)
	if err != nil {
		return nil, fmt.Errorf("office: path of the database: %w", err)
	}
	address := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"}
	db, err := sql.Open("sqlite", address.String())
	if err != nil {
		return nil, fmt.Errorf("office: open: %w", err)
	}
	db.SetMaxOpenConns(1)
	o := &Office{db: db, own: config.Own, clock: config.Clock, beforeReply: config.BeforeReply}
	if _, err := db.ExecContext(ctx, tables); err != nil {
		return nil, errors.Join(fmt.Errorf("office: open: %w", err), db.Close())
	}
	if err := o.fill(ctx, config); err != nil {
		return nil, errors.Join(fmt.Errorf("office: fill: %w", err), db.Close())
	}
	return o, nil
}

// Close closes the database.
func (o *Office) Close() error { return o.db.Close() }

func (o *Office) fill(ctx context.Context, config Config) error {
	var there int
	if err := o.db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM mail) + (SELECT count(*) FROM files)`).Scan(&there); err != nil || there > 0 {
		return err
	}
	for _, mail := range config.Mail {
		if mail.To == "" {
			mail.To = o.own
		}
		if _, err := o.keep(ctx, mail); err != nil {
			return err
		}
	}
	for _, file := range config.Files {
		if _, err := o.Write(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// Find lists the messages of a box in which a word stands, without their
// texts, latest first, 50 at most.
func (o *Office) Find(ctx context.Context, box, word string) ([]Mail, error) {
	like := "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(word) + "%"
	rows, err := o.db.QueryContext(ctx, `SELECT id, box, sender, recipient, subject FROM mail
		WHERE box = ? AND (subject LIKE ? ESCAPE '\' OR text LIKE ? ESCAPE '\' OR sender LIKE ? ESCAPE '\') ORDER BY id DESC LIMIT 50`, box, like, like, like)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	found := []Mail{}
	for rows.Next() {
		var m Mail
		if err := rows.Scan(&m.ID, &m.Box, &m.From, &m.To, &m.Subject); err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	return found, rows.Err()
}

// Letter returns one message with its text. Errors: sql.ErrNoRows.
func (o *Office) Letter(ctx context.Context, id int64) (m Mail, err error) {
	err = o.db.QueryRowContext(ctx, `SELECT id, box, sender, recipient, subject, text FROM mail WHERE id = ?`, id).
		Scan(&m.ID, &m.Box, &m.From, &m.To, &m.Subject, &m.Text)
	return m, err
}

// Draft keeps a message that is not sent, once for its key.
func (o *Office) Draft(ctx context.Context, m Mail) (Mail, error) {
	m.Box, m.From = Drafts, o.own
	if m.Key != "" {
		err := o.db.QueryRowContext(ctx, `SELECT id, recipient, subject, text FROM mail WHERE box = ? AND key = ?`, Drafts, m.Key).Scan(&m.ID, &m.To, &m.Subject, &m.Text)
		if !errors.Is(err, sql.ErrNoRows) {
			return m, err
		}
	}
	return o.keep(ctx, m)
}

// Send sends a message, each time that it is asked to: mail knows no key.
func (o *Office) Send(ctx context.Context, m Mail) (Mail, error) {
	m.Box, m.From = Sent, o.own
	return o.keep(ctx, m)
}

func (o *Office) keep(ctx context.Context, m Mail) (Mail, error) {
	if m.Box == "" {
		m.Box = Inbox
	}
	result, err := o.db.ExecContext(ctx, `INSERT INTO mail (box, sender, recipient, subject, text, key, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		m.Box, m.From, m.To, m.Subject, m.Text, m.Key, o.clock().UnixMilli())
	if err != nil {
		return m, err
	}
	m.ID, err = result.LastInsertId()
	return m, err
}

// Enter puts an event into the calendar, once for its key.
func (o *Office) Enter(ctx context.Context, e Event) (Event, error) {
	if _, err := o.db.ExecContext(ctx, `INSERT INTO events (title, starts, ends, attendees, key) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		e.Title, e.Starts, e.Ends, e.Attendees, e.Key); err != nil {
		return e, err
	}
	err := o.db.QueryRowContext(ctx, `SELECT id, title, starts, ends, attendees FROM events WHERE key = ? ORDER BY id DESC LIMIT 1`, e.Key).
		Scan(&e.ID, &e.Title, &e.Starts, &e.Ends, &e.Attendees)
	return e, err
}

// Events lists what begins in a span of time, RFC 3339, in order.
func (o *Office) Events(ctx context.Context, from, until string) ([]Event, error) {
	rows, err := o.db.QueryContext(ctx, `SELECT id, title, starts, ends, attendees FROM events WHERE starts >= ? AND starts < ? ORDER BY starts, id LIMIT 200`, from, until)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	found := []Event{}
	for rows.Next() {
		var e Event
		if err := rows.Scan(&e.ID, &e.Title, &e.Starts, &e.Ends, &e.Attendees); err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	return found, rows.Err()
}

// Write writes a file whole.
func (o *Office) Write(ctx context.Context, f File) (File, error) {
	_, err := o.db.ExecContext(ctx, `INSERT INTO files (path, text, key, writes) VALUES (?, ?, ?, 1)
		ON CONFLICT (path) DO UPDATE SET text = excluded.text, key = excluded.key, writes = writes + 1`, f.Path, f.Text, f.Key)
	f.SHA256 = digest(f.Text)
	return f, err
}

// File returns one file. Errors: sql.ErrNoRows.
func (o *Office) File(ctx context.Context, path string) (f File, err error) {
	err = o.db.QueryRowContext(ctx, `SELECT path, text, key FROM files WHERE path = ?`, path).Scan(&f.Path, &f.Text, &f.Key)
	f.SHA256 = digest(f.Text)
	return f, err
}

// Files lists the files under a prefix without their texts, 200 at most.
func (o *Office) Files(ctx context.Context, prefix string) ([]File, error) {
	rows, err := o.db.QueryContext(ctx, `SELECT path, text, key FROM files WHERE substr(path, 1, length(?)) = ? ORDER BY path LIMIT 200`, prefix, prefix)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	found := []File{}
	for rows.Next() {
		var f File
		if err := rows.Scan(&f.Path, &f.Text, &f.Key); err != nil {
			return nil, err
		}
		f.SHA256, f.Text = digest(f.Text), ""
		found = append(found, f)
	}
	return found, rows.Err()
}

// Done counts what was done, by tool: sent messages, drafts, events, and every
// write of a file.
func (o *Office) Done(ctx context.Context) (map[string]int, error) {
	counts := map[string]int{}
	var sent, drafts, events, writes int
	err := o.db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM mail WHERE box = 'SENT'), (SELECT count(*) FROM mail WHERE box = 'DRAFTS'),
		(SELECT count(*) FROM events), (SELECT coalesce(sum(writes), 0) FROM files WHERE key <> '')`).Scan(&sent, &drafts, &events, &writes)
	counts[toolSend], counts[toolDraft], counts[toolEnter], counts[toolWrite] = sent, drafts, events, writes
	return counts, err
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

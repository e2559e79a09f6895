package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	"gantry.dev/migrations"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal/frame"
	"gantry.dev/orchestrator/journal/upgrade"
	"gantry.dev/orchestrator/run"
)

// Errors of a store that is only to be looked at.
var (
	ErrNoStore = errors.New("there is no store")
	ErrVersion = errors.New("the store is of another version")
)

// openToRead opens what is there and changes nothing: a process that writes may
// be at work, and the right to read is enough.
func (s *Store) openToRead(ctx context.Context, path string, isSQLite bool) (err error) {
	place, folder := path, "sqlite"
	if isSQLite {
		err = s.openFileToRead(path)
	} else {
		folder = "postgres"
		place, err = s.connect()
	}
	if err != nil {
		return err
	}
	return s.checkVersion(ctx, place, folder)
}

func (s *Store) openFileToRead(path string) error {
	s.useMachineClock()
	switch file, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !file.Mode().IsRegular():
		return fmt.Errorf("%w at %s", ErrNoStore, path)
	case err != nil:
		return fmt.Errorf("store: %w", err)
	}
	reader, err := s.openFile(fileURL(path, "mode=ro&_pragma=query_only(1)&_pragma=busy_timeout(10000)"))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	s.write = bun.NewDB(reader, sqlitedialect.New()) // refuses to
	s.read = newDatabase(s.write, false)
	return nil
}

// noDatabase is PostgreSQL's code for a database that is not there.
const noDatabase = "3D000"

// checkVersion refuses what is no store, and a store that this program does not
// know or that lacks what it knows.
func (s *Store) checkVersion(ctx context.Context, place, folder string) error {
	known, err := newestMigration(folder)
	if err != nil {
		return err
	}
	query := "SELECT count(*) FROM sqlite_master WHERE name = 'goose_db_version'"
	if s.postgres {
		query = "SELECT count(to_regclass('goose_db_version'))"
	}
	var tables int
	err = s.write.QueryRowContext(ctx, query).Scan(&tables)
	var refused *pgconn.PgError
	absent := errors.As(err, &refused) && refused.Code == noDatabase
	if err != nil && !absent {
		return fmt.Errorf("store: %w", err)
	}
	if tables == 0 {
		return fmt.Errorf("%w at %s", ErrNoStore, place)
	}
	var version int64
	if err := s.write.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&version); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	switch {
	case version < known:
		return fmt.Errorf("%w: %s has version %d, this program needs %d; bring it up to date with: gantry migrate", ErrVersion, place, version, known)
	case version > known:
		return fmt.Errorf("%w: %s has version %d, this program knows none above %d; use a newer program", ErrVersion, place, version, known)
	}
	return nil
}

// newestMigration is the version that a store of this program has.
func newestMigration(folder string) (int64, error) {
	files, err := migrations.Files.ReadDir(folder) // sorted by name
	if err != nil {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	newest, err := goose.NumericComponent(files[len(files)-1].Name())
	return max(newest, upgrade.FramesVersion), err
}

// Snapshot is the whole store as it stood at one moment, to be looked through
// piece by piece. It is for one goroutine and must be closed.
type Snapshot struct {
	tx    bun.Tx
	vault *vault
	met   fresh
}

// Snapshot begins one that no later write changes.
func (s *Store) Snapshot(ctx context.Context) (*Snapshot, error) {
	options := &sql.TxOptions{ReadOnly: true}
	if s.postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	tx, err := s.read.bun.BeginTx(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if s.postgres { // it locks nothing: whoever looks through it may take their time
		if _, err := tx.ExecContext(ctx, "SET LOCAL "+idleInTransaction+" = 0"); err != nil {
			return nil, fmt.Errorf("snapshot: %w", errors.Join(err, tx.Rollback()))
		}
	}
	// What only reads may hold no erasure up.
	return &Snapshot{tx: tx, vault: &vault{master: s.vault.master}, met: fresh{}}, nil
}

// Close ends the snapshot.
func (s *Snapshot) Close() error { return s.tx.Rollback() }

// Heads lists up to limit heads of all organisations by run id, after one.
func (s *Snapshot) Heads(ctx context.Context, after string, limit int) ([]run.Head, error) {
	return listed(ctx, s.tx, scanHead, "SELECT "+headColumns+" FROM heads WHERE run > ? ORDER BY run LIMIT ?", after, limit)
}

// Head returns one head; engine.ErrNotFound for an unknown run.
func (s *Snapshot) Head(ctx context.Context, id string) (run.Head, error) {
	head, err := scanHead(s.tx.QueryRowContext(ctx, "SELECT "+headColumns+" FROM heads WHERE run = ?", id))
	return head, notFound(err)
}

// Records lists up to limit records of a run after a number, whatever its head
// says of their number. A row that says of its records what they do not say
// gives records that break the chain.
func (s *Snapshot) Records(ctx context.Context, id string, after uint64, limit int) ([]run.Record, error) {
	rows, err := s.tx.QueryContext(ctx, "SELECT "+rowColumns+", j.settled_ms FROM journal j WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?", id, after, limit)
	if err != nil {
		return nil, err
	}
	return recordsOf(rows, scanHeld, after, limit)
}

// scanHeld takes rowColumns and when the row says that it settled, which it
// holds against the records.
func scanHeld(row scanner) ([]run.Record, error) {
	var settledMs int64
	r, err := scanRow(row, &settledMs)
	records := r.Records()
	if settledMs != frame.SettledMs(records) {
		r.Frame = nil
		records = r.Records()
	}
	return records, err
}

// Inbox lists everything that waits for people in a run.
func (s *Snapshot) Inbox(ctx context.Context, id string) ([]engine.InboxItem, error) {
	return listed(ctx, s.tx, scanItem, "SELECT id, organisation, run, kind, approvers, not_after_ms, since_ms FROM inbox WHERE run = ? ORDER BY id", id)
}

// Gate returns the value of a gate, "" for an absent one.
func (s *Snapshot) Gate(ctx context.Context, name string) (string, error) {
	return gate(ctx, s.tx, name)
}

// Opened is a text of the store, or why it does not open.
type Opened struct {
	engine.Payload
	Fault string // a sentence; empty when the text opened
}

// Texts opens those of the texts that are there.
func (s *Snapshot) Texts(ctx context.Context, ids []string) (map[string]Opened, error) {
	found := make(map[string]Opened, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := listed(ctx, s.tx, scanSealed, "SELECT "+payloadColumns+" FROM payloads WHERE id IN (?)", bun.List(ids))
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		var opened Opened
		form, err := s.vault.open(ctx, s.tx, s.met, row.subject, row.id, row.sealed)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, sql.ErrNoRows):
			opened.Fault = "It is still there, but the key of its subject is gone."
		case err != nil:
			opened.Fault = "It does not open under the key of its subject."
		default:
			if opened.Payload, err = row.payload(form); err != nil {
				opened.Fault = "Its marking cannot be read."
			}
		}
		found[row.id] = opened
	}
	return found, nil
}

// Erased reports whether a text that is absent may have been erased: with a
// remembered item that it quoted, of which a link is the witness, or with its
// subject. Erasing a subject takes all the texts that it has then, so a text
// that is newer than one that is left was not erased. Ids sort by time.
func (s *Snapshot) Erased(ctx context.Context, text run.Text) (bool, error) {
	var links int
	err := s.tx.QueryRowContext(ctx, "SELECT count(*) FROM text_items t JOIN erased_items e ON e.item = t.item WHERE t.text = ?", text.ID).Scan(&links)
	if err != nil || links > 0 {
		return links > 0, err
	}
	var older int
	err = s.tx.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM payloads WHERE subject = ? AND id < ? LIMIT 1) AS older", text.Subject, text.ID).Scan(&older)
	return older == 0, err
}

// Budgets lists up to limit nodes after one, by name.
func (s *Snapshot) Budgets(ctx context.Context, after string, limit int) ([]Budget, error) {
	return listed(ctx, s.tx, scanBudget, "SELECT "+budgetColumns+" FROM budgets WHERE node > ? ORDER BY node LIMIT ?", after, limit)
}

// Conversations lists up to limit conversations of all organisations after one,
// by id.
func (s *Snapshot) Conversations(ctx context.Context, after string, limit int) ([]Conversation, error) {
	return listed(ctx, s.tx, scanConversation, "SELECT "+conversationColumns+" FROM conversations WHERE id > ? ORDER BY id LIMIT ?", after, limit)
}

// Entries lists up to limit entries of a conversation after a number.
func (s *Snapshot) Entries(ctx context.Context, conversation string, after uint64, limit int) ([]engine.Entry, error) {
	return listed(ctx, s.tx, func(row scanner) (engine.Entry, error) {
		var e engine.Entry
		var text string
		if err := row.Scan(&e.Conversation, &e.Number, &e.Kind, &e.Run, &e.Author, &text, &e.AtMs); err != nil {
			return e, err
		}
		return e, json.Unmarshal([]byte(text), &e.Text)
	}, "SELECT conversation, number, kind, run, author, text, at_ms FROM conversation_entries WHERE conversation = ? AND number > ? ORDER BY number LIMIT ?",
		conversation, after, limit)
}

// Numbering is what a writer's numbers come to; without gaps Count is Last.
type Numbering struct {
	Writer      string
	Count, Last uint64
}

// Numberings lists every writer.
func (s *Snapshot) Numberings(ctx context.Context) ([]Numbering, error) {
	return listed(ctx, s.tx, func(row scanner) (n Numbering, err error) { return n, row.Scan(&n.Writer, &n.Count, &n.Last) },
		"SELECT coalesce(w.id, ''), sum(j.count), max(j.n) FROM journal j LEFT JOIN writers w ON w.number = j.writer GROUP BY w.id ORDER BY w.id")
}

// Receipts counts the answers to commands.
func (s *Snapshot) Receipts(ctx context.Context) (count uint64, err error) {
	err = s.tx.QueryRowContext(ctx, "SELECT count(*) FROM receipts").Scan(&count)
	return count, err
}

// Stray is a row that speaks of something that is not there.
type Stray struct{ Table, ID, Missing string }

// strayQueries each find the rows of one table whose run, or conversation, is
// not there.
var strayQueries = []struct{ table, query string }{
	{"journal", "SELECT DISTINCT run, run FROM journal t WHERE NOT EXISTS (SELECT 1 FROM heads h WHERE h.run = t.run)"},
	{"inbox", "SELECT id, run FROM inbox t WHERE NOT EXISTS (SELECT 1 FROM heads h WHERE h.run = t.run)"},
	{"receipts", "SELECT command, run FROM receipts t WHERE run <> '' AND NOT EXISTS (SELECT 1 FROM heads h WHERE h.run = t.run)"},
	{"payloads", "SELECT id, run FROM payloads t WHERE NOT EXISTS (SELECT 1 FROM heads h WHERE h.run = t.run) AND NOT EXISTS (SELECT 1 FROM conversations c WHERE c.id = t.run) " +
		"AND NOT EXISTS (SELECT 1 FROM schedules s WHERE s.id = t.run)"},
	{"text_items", "SELECT item, run FROM text_items t WHERE NOT EXISTS (SELECT 1 FROM heads h WHERE h.run = t.run)"},
	{"conversation_entries", "SELECT conversation, run FROM conversation_entries t WHERE run <> '' AND NOT EXISTS (SELECT 1 FROM heads h WHERE h.run = t.run)"},
	{"conversation_entries", "SELECT conversation, conversation FROM conversation_entries t WHERE NOT EXISTS (SELECT 1 FROM conversations c WHERE c.id = t.conversation)"},
}

// Strays lists up to limit rows of each kind.
func (s *Snapshot) Strays(ctx context.Context, limit int) ([]Stray, error) {
	var found []Stray
	for _, kind := range strayQueries {
		rows, err := listed(ctx, s.tx, func(row scanner) (Stray, error) {
			stray := Stray{Table: kind.table}
			return stray, row.Scan(&stray.ID, &stray.Missing)
		}, kind.query+" LIMIT ?", limit)
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	return found, nil
}

// listed reads all rows of a query.
func listed[T any](ctx context.Context, db bun.IConn, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scan)
}

package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal/frame"
	"gantry.dev/orchestrator/run"
)

const headColumns = "run, version, digest, epoch, owner, lease_until, status, due_ms, organisation, root, parent, conversation, subject, agent, department, labels, started_ms, ended_ms, news, heard"

type scanner interface{ Scan(into ...any) error }

func scanHead(row scanner) (run.Head, error) {
	var h run.Head
	var labels string
	err := row.Scan(&h.Run, &h.Version, &h.Digest, &h.Epoch, &h.Owner, &h.LeaseUntil, (*string)(&h.Status), &h.DueMs, &h.Organisation, &h.Root,
		&h.Parent, &h.Conversation, &h.Subject, &h.Agent, &h.Department, &labels, &h.StartedMs, &h.EndedMs, &h.News, &h.Heard)
	if err != nil {
		return h, err
	}
	return h, json.Unmarshal([]byte(labels), &h.Labels)
}

func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return engine.ErrNotFound
	}
	return err
}

// EndedChildren returns how much news of children a run has (see run.Head), and
// the records of the ends of those children that ended by then at least and are
// not known.
func (s *Store) EndedChildren(ctx context.Context, parent string, known func(child string) bool) (news uint64, ends []run.Record, err error) {
	if err := s.read.QueryRowContext(ctx, "SELECT news FROM heads WHERE run = ?", parent).Scan(&news); err != nil {
		return 0, nil, notFound(err)
	}
	rows, err := s.read.QueryContext(ctx, "SELECT run FROM heads WHERE parent = ? AND parent <> '' AND ended_ms > 0 ORDER BY run", parent)
	if err != nil {
		return 0, nil, err
	}
	children, err := collect(rows, func(row scanner) (id string, err error) { return id, row.Scan(&id) })
	if err != nil {
		return 0, nil, err
	}
	for _, child := range children {
		if known(child) {
			continue
		}
		end, err := s.end(ctx, child)
		if err != nil {
			return 0, nil, err
		}
		ends = append(ends, end...)
	}
	return news, ends, nil
}

// end finds the record of a run's end, row by row from its last: only late words
// come after it.
func (s *Store) end(ctx context.Context, id string) ([]run.Record, error) {
	for before := int64(math.MaxInt64); ; {
		row, err := scanRow(s.read.QueryRowContext(ctx, "SELECT "+rowColumns+" FROM journal j WHERE run = ? AND seq < ? ORDER BY seq DESC LIMIT 1", id, before))
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		records := row.Records()
		if at := slices.IndexFunc(records, func(r run.Record) bool { return r.Kind == run.KindEnded }); at >= 0 {
			return records[at : at+1], nil
		}
		before = number(row.Seq)
	}
}

// Load returns the head of a run and its records after a version.
func (s *Store) Load(ctx context.Context, id string, after uint64) (run.Head, []run.Record, error) {
	head, err := scanHead(s.read.QueryRowContext(ctx, "SELECT "+headColumns+" FROM heads WHERE run = ?", id))
	if err != nil {
		return head, nil, notFound(err)
	}
	if after >= head.Version {
		return head, nil, nil
	}
	rows, err := s.read.QueryContext(ctx, "SELECT "+rowColumns+" FROM journal j WHERE run = ? AND seq > ? AND seq - count < ? ORDER BY seq", id, number(after), number(head.Version))
	if err != nil {
		return head, nil, err
	}
	records, err := recordsOf(rows, scanRecords, after, int(head.Version))
	for len(records) > 0 && records[len(records)-1].Seq > head.Version {
		records = records[:len(records)-1]
	}
	return head, records, err
}

// rowColumns are those of a row of the journal, "journal j", as scanRow takes them.
const rowColumns = "j.run, j.seq, j.count, j.frame"

// scanRow takes numbers that no count can be for 0, so that a row that somebody
// spoiled breaks the chain of its run and stops nobody who reads others.
func scanRow(row scanner, more ...any) (r frame.Row, err error) {
	var seq, count int64
	err = row.Scan(append([]any{&r.Run, &seq, &count, &r.Frame}, more...)...)
	r.Seq, r.Count = uint64(max(0, seq)), uint64(max(0, count))
	return r, err
}

// scanRecords takes rowColumns for the records that they hold.
func scanRecords(row scanner) ([]run.Record, error) {
	r, err := scanRow(row)
	return r.Records(), err
}

// recordsOf reads up to limit records after a number from rows of one run, and
// closes them.
func recordsOf(rows *sql.Rows, scan func(scanner) ([]run.Record, error), after uint64, limit int) (records []run.Record, err error) {
	defer func() { _ = rows.Close() }() // the error of reading says more
	for len(records) < limit && rows.Next() {
		held, err := scan(rows)
		if err != nil {
			return nil, err
		}
		records = append(records, beyond(held, after, limit-len(records))...)
	}
	return records, rows.Err()
}

// beyond are up to limit of the records that stand after a number.
func beyond(records []run.Record, after uint64, limit int) []run.Record {
	first := 0
	for first < len(records) && records[first].Seq <= after {
		first++
	}
	return records[first:min(len(records), first+limit)]
}

// Numbered is a record with its place among all that its writer committed.
type Numbered struct {
	N            uint64 // of the writer, from 1, without gaps
	Organisation string
	Record       run.Record
}

// Writers lists the ids of all writers that ever opened the store.
func (s *Store) Writers(ctx context.Context) ([]string, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT id FROM writers ORDER BY opened_ms, id")
	if err != nil {
		return nil, err
	}
	return collect(rows, func(row scanner) (id string, err error) { return id, row.Scan(&id) })
}

// After returns up to limit records of a writer after its number n, in order
// and without gaps.
func (s *Store) After(ctx context.Context, writer string, n uint64, limit int) ([]Numbered, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT "+rowColumns+`, j.n, h.organisation FROM journal AS j JOIN heads AS h ON h.run = j.run
		WHERE j.writer = (SELECT number FROM writers WHERE id = ?) AND j.n > ? ORDER BY j.n LIMIT ?`, writer, number(n), limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // the error of reading says more
	var list []Numbered
	for len(list) < limit && rows.Next() {
		var last uint64
		var organisation string
		row, err := scanRow(rows, &last, &organisation)
		if err != nil {
			return nil, err
		}
		records := row.Records()
		for i, r := range records {
			if at := last - uint64(len(records)-1-i); at > n && len(list) < limit {
				list = append(list, Numbered{N: at, Organisation: organisation, Record: r})
			}
		}
	}
	return list, rows.Err()
}

// collect reads all rows and closes them.
func collect[T any](rows *sql.Rows, scan func(scanner) (T, error)) ([]T, error) {
	defer func() { _ = rows.Close() }() // the error of reading says more
	var list []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, rows.Err()
}

// Receipt finds the answer to an earlier command.
func (s *Store) Receipt(ctx context.Context, organisation, caller, command string) (engine.Receipt, error) {
	r := engine.Receipt{Organisation: organisation, Caller: caller, Command: command}
	err := s.read.QueryRowContext(ctx, "SELECT request, run, answer FROM receipts WHERE organisation = ? AND caller = ? AND command = ?",
		organisation, caller, command).Scan(&r.Request, &r.Run, &r.Answer)
	return r, notFound(err)
}

// Payloads opens texts by id; erased and unknown ones are absent.
func (s *Store) Payloads(ctx context.Context, ids []string) (map[string]engine.Payload, error) {
	found := make(map[string]engine.Payload, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := s.payloadRows(ctx, ids)
	if err != nil {
		return nil, err
	}
	list, err := collect(rows, scanSealed)
	if err != nil {
		return nil, err
	}
	met := fresh{}
	for _, r := range list {
		form, err := s.vault.open(ctx, s.read, met, r.subject, r.id, r.sealed)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if found[r.id], err = r.payload(form); err != nil {
			return nil, fmt.Errorf("payload: %w", err)
		}
	}
	return found, nil
}

func (s *Store) payloadRows(ctx context.Context, ids []string) (*sql.Rows, error) {
	return s.among(ctx, "SELECT "+payloadColumns+" FROM payloads WHERE id ", ids)
}

// among asks for the rows whose last named column is one of the ids.
func (s *Store) among(ctx context.Context, query string, ids []string) (*sql.Rows, error) {
	if s.postgres {
		return s.read.QueryContext(ctx, query+"= ANY(?)", ids)
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	return s.read.QueryContext(ctx, query+"IN (SELECT value FROM json_each(?))", string(list))
}

// Quoted returns the ids of the remembered items that texts quote, by text.
func (s *Store) Quoted(ctx context.Context, texts []string) (map[string][]string, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	rows, err := s.among(ctx, "SELECT text, item FROM text_items WHERE text ", texts)
	if err != nil {
		return nil, err
	}
	pairs, err := collect(rows, func(row scanner) (pair [2]string, err error) {
		err = row.Scan(&pair[0], &pair[1])
		return pair, err
	})
	if err != nil {
		return nil, err
	}
	quoted := map[string][]string{}
	for _, pair := range pairs {
		quoted[pair[0]] = append(quoted[pair[0]], pair[1])
	}
	return quoted, nil
}

// EraseSubject deletes the key and the texts of a subject. The chain stays.
func (s *Store) EraseSubject(ctx context.Context, subject string) error {
	return s.write.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		// The key first: it waits for writes that are sealing under it.
		if _, err := tx.ExecContext(ctx, "DELETE FROM subject_keys WHERE subject = ?", subject); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM payloads WHERE subject = ?", subject)
		return err
	})
}

// EraseItems deletes the texts that quote remembered items, and lets none that
// is still to come stay. It is whole when it returns without an error, and may
// be repeated: then it counts nothing. What links texts to items stays as the
// witness of why they are gone. runs are those that had recalled any of the
// items, by id.
func (s *Store) EraseItems(ctx context.Context, items []string) (count int, runs []string, err error) {
	if len(items) == 0 {
		return 0, nil, nil
	}
	if !s.postgres { // what is freed is written over
		if _, err := s.write.ExecContext(ctx, "PRAGMA secure_delete = ON"); err != nil {
			return 0, nil, fmt.Errorf("store: %w", err)
		}
	}
	err = s.write.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		count, runs, err = s.eraseItems(ctx, tx, items)
		return err
	})
	if err == nil {
		err = s.scrubTexts(ctx)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("store: %w", err)
	}
	return count, runs, nil
}

func (s *Store) eraseItems(ctx context.Context, tx bun.Tx, items []string) (count int, runs []string, err error) {
	if s.postgres { // waits for writes that link texts, and those that come later find what is erased
		if _, err := tx.ExecContext(ctx, "LOCK TABLE text_items IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return 0, nil, err
		}
	}
	for _, item := range items {
		if _, err := tx.ExecContext(ctx, "INSERT INTO erased_items (item) VALUES (?) ON CONFLICT (item) DO NOTHING", item); err != nil {
			return 0, nil, err
		}
	}
	runs, err = listed(ctx, tx, func(row scanner) (id string, err error) { return id, row.Scan(&id) },
		"SELECT DISTINCT run FROM text_items WHERE item IN (?) ORDER BY run", bun.List(items))
	if err != nil {
		return 0, nil, err
	}
	result, err := tx.ExecContext(ctx, "DELETE FROM payloads WHERE id IN (SELECT text FROM text_items WHERE item IN (?))", bun.List(items))
	if err != nil {
		return 0, nil, err
	}
	deleted, err := result.RowsAffected()
	return int(deleted), runs, err
}

// scrubTexts makes the database's files forget what was deleted.
func (s *Store) scrubTexts(ctx context.Context) error {
	if s.postgres {
		_, err := s.write.ExecContext(ctx, "VACUUM payloads")
		return err
	}
	var busy, log, done int
	if err := s.write.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &done); err != nil {
		return err
	}
	if busy != 0 {
		return errors.New("somebody reads what was there before; erase again")
	}
	return nil
}

// Gate returns the value of a gate, "" for an absent one.
func (s *Store) Gate(ctx context.Context, name string) (string, error) {
	return gate(ctx, s.read, name)
}

func gate(ctx context.Context, db querier, name string) (value string, err error) {
	err = db.QueryRowContext(ctx, "SELECT value FROM gates WHERE name = ?", name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, err
}

func setGate(ctx context.Context, db changer, change run.GateChange) error {
	_, err := db.ExecContext(ctx, "INSERT INTO gates (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		change.Gate, change.Value)
	return err
}

// Filter selects runs; empty fields select all.
type Filter struct {
	Organisation string // required
	Subject      string
	Agent        string
	Department   string
	Conversation string
	Status       run.Status
	Root, Parent string // run ids
	Roots        bool   // only runs that no other started
	Before       string // run id: only runs that started earlier
}

// Tree lists the runs of a root's tree as they stand at one moment, those that
// started first first.
func (s *Store) Tree(ctx context.Context, root string) ([]run.Head, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT "+headColumns+" FROM heads WHERE root = ? ORDER BY started_ms, run", root)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanHead)
}

// Heads lists runs, the newest first.
func (s *Store) Heads(ctx context.Context, f Filter, limit int) ([]run.Head, error) {
	where, args := []string{"organisation = ?"}, []any{f.Organisation}
	for column, value := range map[string]string{"subject": f.Subject, "agent": f.Agent, "department": f.Department,
		"conversation": f.Conversation, "status": string(f.Status), "root": f.Root, "parent": f.Parent} {
		if value != "" {
			where, args = append(where, column+" = ?"), append(args, value)
		}
	}
	if f.Roots {
		where = append(where, "parent = ''")
	}
	if f.Before != "" {
		where, args = append(where, "run < ?"), append(args, f.Before)
	}
	rows, err := s.read.QueryContext(ctx, "SELECT "+headColumns+" FROM heads WHERE "+strings.Join(where, " AND ")+" ORDER BY run DESC LIMIT ?", append(args, limit)...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanHead)
}

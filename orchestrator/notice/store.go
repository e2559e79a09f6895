package notice

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
)

// Store keeps notices beside the journal.
type Store struct{ db journal.Databases }

// NewStore returns the store over tables that are there.
func NewStore(db journal.Databases) *Store { return &Store{db: db} }

// text writes a query's question marks as the database wants them.
func (s *Store) text(query string) string {
	if !s.db.Postgres {
		return query
	}
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

func rowsOf[T any](ctx context.Context, s *Store, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := s.db.Read.QueryContext(ctx, s.text(query), args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // what was wrong is in rows.Err
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

// change reports how many rows a statement changed.
func (s *Store) change(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := s.db.Write.ExecContext(ctx, s.text(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

const openQuery = `SELECT i.id, i.organisation, i.run, i.kind, i.approvers, i.not_after_ms, i.since_ms, h.agent
	FROM inbox i JOIN heads h ON h.run = i.run`

// Open returns everything that waits, by organisation, oldest first.
func (s *Store) Open(ctx context.Context) ([]Item, error) {
	return rowsOf(ctx, s, scanItem, openQuery+" ORDER BY i.organisation, i.since_ms, i.id")
}

func scanItem(rows *sql.Rows) (Item, error) {
	item := Item{InboxItem: engine.InboxItem{Open: true}}
	var approvers string
	err := rows.Scan(&item.ID, &item.Organisation, &item.Run, (*string)(&item.Kind), &approvers, &item.NotAfterMs, &item.SinceMs, &item.Agent)
	if err != nil {
		return item, err
	}
	return item, json.Unmarshal([]byte(approvers), &item.Approvers)
}

type stepRow struct {
	key  ItemKey
	step Step
	atMs int64
}

// Steps returns when each step of what is open was recorded, UTC ms.
func (s *Store) Steps(ctx context.Context, organisation string) (map[ItemKey]map[Step]int64, error) {
	rows, err := rowsOf(ctx, s, func(rows *sql.Rows) (row stepRow, err error) {
		err = rows.Scan(&row.key.Item, &row.key.SinceMs, &row.step, &row.atMs)
		return row, err
	}, "SELECT n.item, n.since_ms, n.step, n.at_ms FROM notice_steps n WHERE n.organisation = ? AND "+openItem, organisation)
	steps := map[ItemKey]map[Step]int64{}
	for _, row := range rows {
		if steps[row.key] == nil {
			steps[row.key] = map[Step]int64{}
		}
		steps[row.key][row.step] = row.atMs
	}
	return steps, err
}

// record writes steps, and the notices of those that nobody wrote before, in
// one transaction.
func (s *Store) record(ctx context.Context, item Item, steps map[Step][]Recipient, nowMs int64) (err error) {
	tx, err := s.db.Write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreDone(tx.Rollback()))
		}
	}()
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		result, err := tx.ExecContext(ctx, s.text(`INSERT INTO notice_steps (organisation, item, since_ms, step, at_ms)
			VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`), item.Organisation, item.ID, item.SinceMs, string(step), nowMs)
		if err != nil {
			return err
		}
		if fresh, err := result.RowsAffected(); err != nil || fresh == 0 {
			if err != nil {
				return err
			}
			continue
		}
		for _, recipient := range steps[step] {
			if err := s.add(ctx, tx, item, step, recipient, nowMs); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

func (s *Store) add(ctx context.Context, tx *sql.Tx, item Item, step Step, to Recipient, nowMs int64) error {
	channels, state := to.Channels, Waiting
	if len(channels) == 0 {
		channels, state = []Channel{{}}, Shown
	}
	for _, channel := range channels {
		body, err := json.Marshal(channel) //nolint:gosec // Secret is a reference, never the secret
		if err != nil {
			return fmt.Errorf("channel: %w", err)
		}
		since := strconv.FormatInt(item.SinceMs, 10)
		route := idOf(item.Organisation, channel.Kind, channel.Target)
		_, err = tx.ExecContext(ctx, s.text(`INSERT INTO notices (id, organisation, item, since_ms, step, person, run, kind, agent, until_ms, channel, route, created_ms, state)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`),
			idOf(item.Organisation, item.ID, since, string(step), to.Person, string(body)), item.Organisation, item.ID, item.SinceMs, string(step),
			to.Person, item.Run, string(item.Kind), item.Agent, item.NotAfterMs, string(body), route, nowMs, string(state))
		if err != nil {
			return err
		}
	}
	return nil
}

// openItem is whether the item of a notice n still waits.
const openItem = "EXISTS (SELECT 1 FROM inbox i WHERE i.organisation = n.organisation AND i.id = n.item AND i.since_ms = n.since_ms)"

// prune drops what waits no more and began before a moment.
func (s *Store) prune(ctx context.Context, beforeMs int64) error {
	_, err := s.change(ctx, "DELETE FROM notices AS n WHERE n.created_ms < ? AND NOT "+openItem, beforeMs)
	if err != nil {
		return err
	}
	_, err = s.change(ctx, "DELETE FROM notice_steps AS n WHERE n.at_ms < ? AND NOT "+openItem, beforeMs)
	return err
}

const noticeColumns = "n.id, n.organisation, n.item, n.since_ms, n.step, n.person, n.run, n.kind, n.agent, n.until_ms, n.channel, n.created_ms, n.state, n.attempts, n.next_ms, n.code, n.settled_ms"

func scanNotice(rows *sql.Rows) (n Notice, err error) {
	var channel string
	if err = rows.Scan(&n.ID, &n.Organisation, &n.Item, &n.SinceMs, (*string)(&n.Step), &n.Person, &n.Run, (*string)(&n.Kind), &n.Agent, &n.UntilMs,
		&channel, &n.CreatedMs, (*string)(&n.State), &n.Attempts, &n.NextMs, &n.Code, &n.SettledMs); err != nil {
		return n, err
	}
	return n, json.Unmarshal([]byte(channel), &n.Channel)
}

// Of returns a person's notices, the newest first, at most so many.
func (s *Store) Of(ctx context.Context, organisation, person string, most int) ([]Notice, error) {
	return rowsOf(ctx, s, scanNotice, "SELECT "+noticeColumns+" FROM notices n WHERE n.organisation = ? AND n.person = ? ORDER BY n.created_ms DESC, n.id LIMIT ?",
		organisation, person, most)
}

// Undelivered returns the notices of an organisation that were given up, the
// newest first, at most so many.
func (s *Store) Undelivered(ctx context.Context, organisation string, most int) ([]Notice, error) {
	return rowsOf(ctx, s, scanNotice, "SELECT "+noticeColumns+" FROM notices n WHERE n.organisation = ? AND n.state = ? ORDER BY n.created_ms DESC, n.id LIMIT ?",
		organisation, string(Dead), most)
}

// EscalatedTo returns what is open and was escalated to a person, oldest first.
func (s *Store) EscalatedTo(ctx context.Context, organisation, person string) ([]Item, error) {
	return rowsOf(ctx, s, scanItem, openQuery+` WHERE i.organisation = ? AND EXISTS (SELECT 1 FROM notices n WHERE n.organisation = i.organisation
		AND n.item = i.id AND n.since_ms = i.since_ms AND n.person = ? AND n.step = ?) ORDER BY i.since_ms, i.id`, organisation, person, string(Escalated))
}

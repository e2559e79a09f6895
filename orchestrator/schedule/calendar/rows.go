package calendar

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/schedule"
)

// asker is a database or a transaction.
type asker interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// rows asks in one dialect, with ? for arguments.
type rows struct {
	on       asker
	postgres bool
}

func (r rows) exec(ctx context.Context, text string, args ...any) (changed int64, err error) {
	result, err := r.on.ExecContext(ctx, r.numbered(text), args...)
	if err != nil {
		return 0, fmt.Errorf("schedules: %w", err)
	}
	return result.RowsAffected()
}

// numbered writes each ? as the database wants it.
func (r rows) numbered(text string) string {
	if !r.postgres {
		return text
	}
	parts := strings.Split(text, "?")
	var b strings.Builder
	b.WriteString(parts[0])
	for i, part := range parts[1:] {
		b.WriteString("$" + strconv.Itoa(i+1) + part)
	}
	return b.String()
}

type scan func(into ...any) error

// list reads every row of an answer.
func list[T any](ctx context.Context, r rows, read func(scan) (T, error), text string, args ...any) (all []T, err error) {
	answer, err := r.on.QueryContext(ctx, r.numbered(text), args...)
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	defer func() { err = errors.Join(err, answer.Close()) }()
	for answer.Next() {
		one, err := read(answer.Scan)
		if err != nil {
			return nil, fmt.Errorf("schedules: %w", err)
		}
		all = append(all, one)
	}
	return all, answer.Err()
}

// one reads the only row of an answer. Errors: engine.ErrNotFound.
func one[T any](ctx context.Context, r rows, read func(scan) (T, error), text string, args ...any) (T, error) {
	all, err := list(ctx, r, read, text, args...)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("schedule: %w", engine.ErrNotFound)
	}
	if err != nil {
		var none T
		return none, err
	}
	return all[0], nil
}

func number(scan scan) (n int, err error) { return n, scan(&n) }

const scheduleColumns = "id, organisation, name, made_by, agent, goal, subject, conversation, cron, zone, overlap, catch_up, " +
	"from_ms, until_ms, micro_usd, created_ms, next_ms, paused, refusals"

func readSchedule(scan scan) (s schedule.Schedule, err error) {
	var goal string
	if err := scan(&s.ID, &s.Organisation, &s.Name, &s.MadeBy, &s.Agent, &goal, &s.Subject, &s.Conversation, &s.Cron, &s.Zone,
		(*string)(&s.Overlap), (*string)(&s.CatchUp), &s.FromMs, &s.UntilMs, &s.MicroUSD, &s.CreatedMs, &s.NextMs, &s.Paused, &s.Refusals); err != nil {
		return s, err
	}
	return s, json.Unmarshal([]byte(goal), &s.Goal)
}

func (r rows) insert(ctx context.Context, s schedule.Schedule) (stored int64, err error) {
	goal, err := json.Marshal(s.Goal)
	if err != nil {
		return 0, err
	}
	return r.exec(ctx, "INSERT INTO schedules ("+scheduleColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		s.ID, s.Organisation, s.Name, s.MadeBy, s.Agent, string(goal), s.Subject, s.Conversation, s.Cron, s.Zone,
		string(s.Overlap), string(s.CatchUp), s.FromMs, s.UntilMs, s.MicroUSD, s.CreatedMs, s.NextMs, s.Paused, s.Refusals)
}

const firingColumns = "schedule, planned_ms, last_ms, count, outcome, code, run, held_ms, at_ms"

// firing is a firing with who settles it.
type firing struct {
	schedule.Firing
	heldMs int64 // until when nobody else settles it
}

func readFiring(scan scan) (f firing, err error) {
	return f, scan(&f.Schedule, &f.PlannedMs, &f.LastMs, &f.Count, (*string)(&f.Outcome), &f.Code, &f.Run, &f.heldMs, &f.AtMs)
}

func (r rows) insertFiring(ctx context.Context, f schedule.Firing) error {
	open := 0
	if f.Outcome == schedule.Planned {
		open = 1
	}
	_, err := r.exec(ctx, "INSERT INTO schedule_firings ("+firingColumns+", open) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?) ON CONFLICT (schedule, planned_ms) DO NOTHING",
		f.Schedule, f.PlannedMs, f.LastMs, f.Count, string(f.Outcome), f.Code, f.Run, f.AtMs, open)
	return err
}

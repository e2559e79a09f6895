// Package calendar keeps schedules in the journal's database and begins their
// runs when they are due. Any number of processes may do so at once: a time that
// has passed is taken from a schedule once, and its run is admitted under a
// command id of its own, so that whoever goes on after a crash begins none twice.
package calendar

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
	_ "time/tzdata" // zones are known also where the machine has none

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/schedule"
)

// MaxSchedules is how many schedules one person may have.
const MaxSchedules = 100

// Calendar is the schedules in a journal's database. It is safe for concurrent
// use.
type Calendar struct {
	journal *journal.Store
	start   Start
	read    rows
}

// New returns the calendar over a journal. Start admits the runs; nil where
// none is ever begun, as where Tick is not called.
func New(store *journal.Store, start Start) *Calendar {
	databases := store.Databases()
	return &Calendar{journal: store, start: start, read: rows{on: databases.Read, postgres: databases.Postgres}}
}

// ErrZone means that a name is none of the IANA time zone database.
var ErrZone = errors.New("not a time zone of the IANA database")

// Times reads a schedule's cron expression in its zone. Errors: ErrZone,
// schedule.ErrCron.
func Times(expression, zone string) (schedule.Times, error) {
	if zone == "" || strings.EqualFold(zone, "local") {
		return schedule.Times{}, ErrZone // the machine's own is nobody's wish
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return schedule.Times{}, errors.Join(ErrZone, err)
	}
	return schedule.Compile(expression, location)
}

// write runs one transaction.
func (c *Calendar) write(ctx context.Context, with journal.Beside, do func(ctx context.Context, r rows) error) error {
	return c.journal.Beside(ctx, with, func(ctx context.Context, tx *sql.Tx) error {
		return do(ctx, rows{on: tx, postgres: c.read.postgres})
	})
}

// Create stores a schedule with the text of its goal. Errors:
// engine.ErrReplayed for a receipt's command that was accepted before;
// *run.Refusal for a name that its maker gave another one, and for too many.
func (c *Calendar) Create(ctx context.Context, s schedule.Schedule, goal engine.Payload, receipt *engine.Receipt) error {
	return c.write(ctx, journal.Beside{Texts: []engine.Payload{goal}, Receipt: receipt}, func(ctx context.Context, r rows) error {
		count, err := one(ctx, r, number, "SELECT count(*) FROM schedules WHERE organisation = ? AND made_by = ?", s.Organisation, s.MadeBy)
		if err != nil {
			return err
		}
		if count >= MaxSchedules {
			return &run.Refusal{Code: "TOO_MANY_SCHEDULES", Detail: "You have as many schedules as one person may have; delete one first."}
		}
		stored, err := r.insert(ctx, s)
		if err == nil && stored == 0 {
			return &run.Refusal{Code: "NAME_TAKEN", Detail: "You have a schedule of this name; choose another name."}
		}
		return err
	})
}

// Get returns one schedule. Errors: engine.ErrNotFound.
func (c *Calendar) Get(ctx context.Context, organisation, id string) (schedule.Schedule, error) {
	return one(ctx, c.read, readSchedule, "SELECT "+scheduleColumns+" FROM schedules WHERE organisation = ? AND id = ?", organisation, id)
}

// List returns up to limit schedules of an organisation that a person made or
// that are for one of some subjects, the newest first, after an id.
func (c *Calendar) List(ctx context.Context, organisation, madeBy string, subjects []string, after string, limit int) ([]schedule.Schedule, error) {
	query, args := "SELECT "+scheduleColumns+" FROM schedules WHERE organisation = ? AND (made_by = ?", []any{organisation, madeBy}
	if len(subjects) > 0 {
		query += " OR subject IN (?" + strings.Repeat(", ?", len(subjects)-1) + ")"
		for _, subject := range subjects {
			args = append(args, subject)
		}
	}
	query += ")"
	if after != "" {
		query, args = query+" AND id < ?", append(args, after)
	}
	return list(ctx, c.read, readSchedule, query+" ORDER BY id DESC LIMIT ?", append(args, limit)...)
}

// Firings returns up to limit firings of a schedule whose time is before one,
// the latest first; 0 for all times.
func (c *Calendar) Firings(ctx context.Context, id string, beforeMs int64, limit int) ([]schedule.Firing, error) {
	query, args := "SELECT "+firingColumns+" FROM schedule_firings WHERE schedule = ?", []any{id}
	if beforeMs != 0 {
		query, args = query+" AND planned_ms < ?", append(args, beforeMs)
	}
	return list(ctx, c.read, func(scan scan) (schedule.Firing, error) {
		f, err := readFiring(scan)
		return f.Firing, err
	}, query+" ORDER BY planned_ms DESC LIMIT ?", append(args, limit)...)
}

// Pause stops further firings; runs that began go on. One that is paused stays
// as it is. Errors: engine.ErrNotFound, engine.ErrReplayed.
func (c *Calendar) Pause(ctx context.Context, organisation, id string, receipt *engine.Receipt) error {
	return c.change(ctx, organisation, id, journal.Beside{Receipt: receipt}, func(ctx context.Context, r rows) error {
		_, err := r.exec(ctx, "UPDATE schedules SET paused = ? WHERE id = ? AND paused = ''", schedule.PausedByPerson, id)
		return err
	})
}

// Resume lets a paused schedule go on with its first time after now; one that is
// not paused stays as it is. Errors: engine.ErrNotFound, engine.ErrReplayed,
// ErrZone and schedule.ErrCron for what is not known any more.
func (c *Calendar) Resume(ctx context.Context, organisation, id string, receipt *engine.Receipt) error {
	s, err := c.Get(ctx, organisation, id)
	if err != nil {
		return err
	}
	times, err := Times(s.Cron, s.Zone)
	if err != nil {
		return err
	}
	nowMs, err := c.journal.Now(ctx)
	if err != nil {
		return err
	}
	return c.change(ctx, organisation, id, journal.Beside{Receipt: receipt}, func(ctx context.Context, r rows) error {
		// What waited when it was paused does not happen, also where nobody has
		// looked at it since.
		if _, err := r.exec(ctx, "UPDATE schedule_firings SET code = ? WHERE schedule = ? AND outcome = ? AND EXISTS (SELECT 1 FROM schedules WHERE id = ? AND paused <> '')",
			schedule.CodePaused, id, string(schedule.Planned), id); err != nil {
			return err
		}
		_, err := r.exec(ctx, "UPDATE schedules SET paused = '', refusals = 0, next_ms = ? WHERE id = ? AND paused <> ''", s.First(times, nowMs), id)
		return err
	})
}

// Delete removes a schedule with its goal and its history; runs that began go
// on. Errors: engine.ErrNotFound, engine.ErrReplayed.
func (c *Calendar) Delete(ctx context.Context, s schedule.Schedule, receipt *engine.Receipt) error {
	return c.change(ctx, s.Organisation, s.ID, journal.Beside{Receipt: receipt, Erased: []string{s.Goal.ID}}, func(ctx context.Context, r rows) error {
		if _, err := r.exec(ctx, "DELETE FROM schedules WHERE id = ?", s.ID); err != nil {
			return err
		}
		_, err := r.exec(ctx, "DELETE FROM schedule_firings WHERE schedule = ?", s.ID)
		return err
	})
}

// change writes to a schedule that is there, holding it.
func (c *Calendar) change(ctx context.Context, organisation, id string, with journal.Beside, do func(ctx context.Context, r rows) error) error {
	return c.write(ctx, with, func(ctx context.Context, r rows) error {
		held := ""
		if r.postgres {
			held = " FOR UPDATE"
		}
		if _, err := one(ctx, r, readSchedule, "SELECT "+scheduleColumns+" FROM schedules WHERE organisation = ? AND id = ?"+held, organisation, id); err != nil {
			return err
		}
		return do(ctx, r)
	})
}

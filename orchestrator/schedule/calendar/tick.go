package calendar

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sourcegraph/conc/pool"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/schedule"
)

// Start admits a run of a schedule with its goal, under the rights that its
// subject has now. A repeated command gives the run that it began. Errors:
// *run.Refusal where no run may begin; any other is tried again.
type Start func(ctx context.Context, s schedule.Schedule, command, goal string) (runID string, err error)

const (
	// MaxHistory is how many firings of a schedule are kept.
	MaxHistory = 1000

	holdMs    = 60_000 // how long one process settles a firing before another one may
	waitMs    = 5_000  // how soon one that waits is looked at again
	pageRows  = 100
	startedAt = 8 // schedules whose firings are settled at once
)

// Tick takes from the schedules what is due, and settles what was planned: once
// per process every second or so. What fails is left for the next time; the
// errors are joined.
func (c *Calendar) Tick(ctx context.Context) error {
	return errors.Join(c.pass(ctx), c.settle(ctx))
}

// pass takes the times that have passed from their schedules.
func (c *Calendar) pass(ctx context.Context) error {
	var faults []error
	for len(faults) == 0 {
		nowMs, err := c.journal.Now(ctx)
		if err != nil {
			return err
		}
		due, err := list(ctx, c.read, readSchedule, "SELECT "+scheduleColumns+
			" FROM schedules WHERE paused = '' AND next_ms > 0 AND next_ms <= ? ORDER BY next_ms, id LIMIT ?", nowMs, pageRows)
		if err != nil {
			return err
		}
		for _, s := range due {
			if err := c.take(ctx, s, nowMs); err != nil {
				faults = append(faults, err)
			}
		}
		if len(due) < pageRows {
			break
		}
	}
	return errors.Join(faults...)
}

// take takes what has passed from one schedule, unless somebody else did.
func (c *Calendar) take(ctx context.Context, s schedule.Schedule, nowMs int64) error {
	times, err := Times(s.Cron, s.Zone)
	if errors.Is(err, ErrZone) || errors.Is(err, schedule.ErrCron) { // they were known when it was made
		return c.write(ctx, journal.Beside{}, func(ctx context.Context, r rows) error {
			_, err := r.exec(ctx, "UPDATE schedules SET paused = ? WHERE id = ? AND paused = ''", schedule.PausedByTimes, s.ID)
			return err
		})
	}
	due := s.Pass(times, nowMs)
	return c.write(ctx, journal.Beside{}, func(ctx context.Context, r rows) error {
		taken, err := r.exec(ctx, "UPDATE schedules SET next_ms = ? WHERE id = ? AND next_ms = ? AND paused = ''", due.NextMs, s.ID, s.NextMs)
		if err != nil || taken == 0 {
			return err
		}
		for _, f := range due.Firings {
			if err := r.insertFiring(ctx, f); err != nil {
				return err
			}
		}
		_, err = r.exec(ctx, "DELETE FROM schedule_firings WHERE schedule = ? AND open = 0 AND planned_ms <= "+
			"(SELECT planned_ms FROM schedule_firings WHERE schedule = ? ORDER BY planned_ms DESC LIMIT 1 OFFSET ?)", s.ID, s.ID, MaxHistory)
		return err
	})
}

// settle begins the runs of planned firings, and says of the others why not.
// Those of one schedule come one after the other.
func (c *Calendar) settle(ctx context.Context) error {
	nowMs, err := c.journal.Now(ctx)
	if err != nil {
		return err
	}
	planned, err := list(ctx, c.read, readFiring, "SELECT "+firingColumns+
		" FROM schedule_firings WHERE outcome = ? AND held_ms <= ? ORDER BY planned_ms, schedule LIMIT ?", string(schedule.Planned), nowMs, 10*pageRows)
	if err != nil {
		return err
	}
	var order []string
	of := map[string][]firing{}
	for _, f := range planned {
		if of[f.Schedule] == nil {
			order = append(order, f.Schedule)
		}
		of[f.Schedule] = append(of[f.Schedule], f)
	}
	tasks := pool.New().WithErrors().WithMaxGoroutines(startedAt)
	for _, id := range order {
		tasks.Go(func() error {
			for _, f := range of[id] {
				if err := c.settleOne(ctx, f); err != nil {
					return fmt.Errorf("schedule %s: %w", id, err)
				}
			}
			return nil
		})
	}
	return tasks.Wait()
}

// settleOne settles a firing, unless another process does.
func (c *Calendar) settleOne(ctx context.Context, f firing) error {
	nowMs, err := c.journal.Now(ctx)
	if err != nil {
		return err
	}
	held := int64(0)
	if err := c.write(ctx, journal.Beside{}, func(ctx context.Context, r rows) (err error) {
		held, err = r.exec(ctx, "UPDATE schedule_firings SET held_ms = ? WHERE schedule = ? AND planned_ms = ? AND outcome = ? AND held_ms = ?",
			nowMs+holdMs, f.Schedule, f.PlannedMs, string(schedule.Planned), f.heldMs)
		return err
	}); err != nil || held == 0 {
		return err
	}
	// Whoever settles it after the hold has ended meets no one who still does.
	bounded, cancel := context.WithTimeout(ctx, holdMs/2*time.Millisecond)
	defer cancel()
	s, err := one(bounded, c.read, readSchedule, "SELECT "+scheduleColumns+" FROM schedules WHERE id = ?", f.Schedule)
	if errors.Is(err, engine.ErrNotFound) { // it was deleted
		return nil
	}
	if err != nil {
		return err
	}
	settled, err := c.decide(bounded, s, f.Firing)
	if err != nil {
		return err
	}
	return c.record(ctx, settled)
}

// Command is the id of the command that begins the run of a firing.
func Command(scheduleID string, plannedMs int64) string {
	return fmt.Sprintf("schedule:%s:%d", scheduleID, plannedMs)
}

// decide begins the run of a firing, if it is its turn.
func (c *Calendar) decide(ctx context.Context, s schedule.Schedule, f schedule.Firing) (schedule.Firing, error) {
	command := Command(s.ID, f.PlannedMs)
	begun, err := c.journal.Receipt(ctx, s.Organisation, s.Subject, command)
	if err == nil && begun.Run != "" { // by a process that did not come to record it
		f.Outcome, f.Code, f.Run = schedule.Started, "", begun.Run
		return f, nil
	}
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return f, err
	}
	before, err := c.before(ctx, f)
	if err != nil {
		return f, err
	}
	if f.Code != schedule.CodePaused {
		f.Outcome, f.Code = s.Turn(before)
	} else {
		f.Outcome = schedule.Skipped
	}
	if f.Outcome != schedule.Started {
		return f, nil
	}
	goal, err := c.goal(ctx, s)
	if err == nil {
		f.Run, err = c.start(ctx, s, command, goal)
	}
	if refusal, refused := errors.AsType[*run.Refusal](err); refused {
		f.Outcome, f.Code = schedule.Refused, refusal.Code
		return f, nil
	}
	return f, err
}

// goal opens a schedule's goal.
func (c *Calendar) goal(ctx context.Context, s schedule.Schedule) (string, error) {
	texts, err := c.journal.Payloads(ctx, []string{s.Goal.ID})
	if err != nil {
		return "", err
	}
	text, there := texts[s.Goal.ID]
	if !there {
		return "", &run.Refusal{Code: "GOAL_ERASED", Detail: "The schedule's goal was erased; make another schedule."}
	}
	return string(text.Bytes), nil
}

// before counts the firings before one that have not come to their end, and
// notes of those that have.
func (c *Calendar) before(ctx context.Context, f schedule.Firing) (count int, err error) {
	open, err := list(ctx, c.read, readFiring, "SELECT "+firingColumns+" FROM schedule_firings WHERE schedule = ? AND open = 1 AND planned_ms < ?", f.Schedule, f.PlannedMs)
	if err != nil {
		return 0, err
	}
	for _, earlier := range open {
		ended, err := c.ended(ctx, earlier.Firing)
		if err != nil {
			return 0, err
		}
		if !ended {
			count++
			continue
		}
		if err := c.write(ctx, journal.Beside{}, func(ctx context.Context, r rows) error {
			_, err := r.exec(ctx, "UPDATE schedule_firings SET open = 0 WHERE schedule = ? AND planned_ms = ? AND run = ?", earlier.Schedule, earlier.PlannedMs, earlier.Run)
			return err
		}); err != nil {
			return 0, err
		}
	}
	return count, nil
}

func (c *Calendar) ended(ctx context.Context, f schedule.Firing) (bool, error) {
	if f.Run == "" {
		return false, nil
	}
	head, _, err := c.journal.Load(ctx, f.Run, math.MaxInt64)
	return head.EndedMs != 0, err
}

// record notes what became of a firing that is still planned.
func (c *Calendar) record(ctx context.Context, f schedule.Firing) error {
	nowMs, err := c.journal.Now(ctx)
	if err != nil {
		return err
	}
	return c.write(ctx, journal.Beside{}, func(ctx context.Context, r rows) error {
		const where = " WHERE schedule = ? AND planned_ms = ? AND outcome = ?"
		if f.Outcome == schedule.Planned {
			_, err := r.exec(ctx, "UPDATE schedule_firings SET held_ms = ?"+where, nowMs+waitMs, f.Schedule, f.PlannedMs, string(schedule.Planned))
			return err
		}
		open := 0
		if f.Outcome == schedule.Started {
			open = 1
		}
		changed, err := r.exec(ctx, "UPDATE schedule_firings SET outcome = ?, code = ?, run = ?, open = ?, at_ms = ?"+where,
			string(f.Outcome), f.Code, f.Run, open, nowMs, f.Schedule, f.PlannedMs, string(schedule.Planned))
		if err != nil || changed == 0 {
			return err
		}
		switch f.Outcome {
		case schedule.Started:
			_, err = r.exec(ctx, "UPDATE schedules SET refusals = 0 WHERE id = ?", f.Schedule)
		case schedule.Refused:
			_, err = r.exec(ctx, "UPDATE schedules SET refusals = refusals + 1, paused = CASE WHEN paused = '' AND refusals + 1 >= ? THEN ? ELSE paused END WHERE id = ?",
				schedule.MaxRefusals, schedule.PausedByRefusals, f.Schedule)
		}
		return err
	})
}

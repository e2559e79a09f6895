package graph

import (
	"context"
	"errors"
	"strconv"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/opaque"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/schedule"
)

// ScheduleInput asks for a schedule. Its id, its maker and its first time are
// not asked for.
type ScheduleInput struct {
	schedule.Schedule
	Goal      string
	CommandID string
}

// Schedules are the schedules that the caller made, that are for the caller or
// for a service whose manager the caller is; others are engine.ErrNotFound. A
// command that is not accepted is a *run.Refusal.
type Schedules interface {
	// Create makes a schedule; Replayed for a repeated command.
	Create(ctx context.Context, caller Caller, in ScheduleInput) (schedule.Schedule, Outcome, error)
	// Get returns one.
	Get(ctx context.Context, caller Caller, id string) (schedule.Schedule, error)
	// List returns up to first schedules after a cursor, and the next page's cursor, "" for none.
	List(ctx context.Context, caller Caller, after string, first int) (list []schedule.Schedule, next string, err error)
	// Firings returns up to first firings whose time is before one (UTC ms; 0 for all), the latest first.
	Firings(ctx context.Context, caller Caller, id string, beforeMs int64, first int) ([]schedule.Firing, error)
	// SetPaused stops further firings, or lets it fire again.
	SetPaused(ctx context.Context, caller Caller, commandID, id string, paused bool) (Outcome, error)
	// Delete removes it with its history.
	Delete(ctx context.Context, caller Caller, commandID, id string) (Outcome, error)
}

type schedules struct{ root }

// Schedule answers the edges of a schedule.
func (r root) Schedule() generated.ScheduleResolver { return schedules{r} }

// timetable is who answers for schedules. Errors: engine.ErrNotFound where there
// are none.
func (r root) timetable(ctx context.Context) (Caller, Schedules, error) {
	caller, err := edge.CallerOf(ctx)
	if err == nil && r.config.Schedules == nil {
		err = engine.ErrNotFound
	}
	return caller, r.config.Schedules, err
}

// Schedule returns one schedule.
func (r queries) Schedule(ctx context.Context, id string) (*generated.Schedule, error) {
	caller, known, err := r.timetable(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := opaque.ReadID(id, caller.Principal.Organisation, opaque.Schedule, 1)
	if err != nil {
		return nil, err
	}
	found, err := known.Get(ctx, caller, parts[0])
	if err != nil {
		return nil, err
	}
	return r.schedule(ctx, caller, found)
}

func (r root) schedule(ctx context.Context, caller Caller, s schedule.Schedule) (*generated.Schedule, error) {
	v, err := newViewer(ctx, r.config, caller, []run.Text{s.Goal})
	if err != nil {
		return nil, err
	}
	return v.schedule(s), nil
}

func (v *viewer) schedule(s schedule.Schedule) *generated.Schedule {
	out := &generated.Schedule{ID: v.id(opaque.Schedule, s.ID), Name: s.Name, Agent: s.Agent, Goal: v.text(s.Goal), Subject: v.actor(s.Subject), MadeBy: v.actor(s.MadeBy),
		Cron: s.Cron, Zone: s.Zone, Overlap: generated.ScheduleOverlap(s.Overlap), CatchUp: generated.ScheduleCatchUp(s.CatchUp),
		From: maybeAt(s.FromMs), Until: maybeAt(s.UntilMs), CreatedAt: at(s.CreatedMs), Refusals: s.Refusals}
	if s.Conversation != "" {
		id := v.id(opaque.Conversation, s.Conversation)
		out.Conversation = &id
	}
	if s.MicroUSD != 0 {
		out.Money = &s.MicroUSD
	}
	if s.Paused != "" {
		why := generated.SchedulePause(s.Paused)
		out.Paused = &why
	} else {
		out.Next = maybeAt(s.NextMs)
	}
	return out
}

// Schedules lists schedules.
func (r queries) Schedules(ctx context.Context, first int, after *string) (*generated.ScheduleConnection, error) {
	caller, known, err := r.timetable(ctx)
	if err != nil {
		return nil, err
	}
	list, err := opaque.ReadList("schedules", first, after, func(after string, first int) ([]schedule.Schedule, string, error) {
		return known.List(ctx, caller, after, first)
	})
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, caller, each(list.Items, func(s schedule.Schedule) run.Text { return s.Goal }))
	if err != nil {
		return nil, err
	}
	out := &generated.ScheduleConnection{Edges: []*generated.ScheduleEdge{}, PageInfo: pageInfo(list.Cursors, list.More)}
	for i, item := range list.Items {
		out.Edges = append(out.Edges, &generated.ScheduleEdge{Cursor: list.Cursors[i], Node: v.schedule(item)})
	}
	return out, nil
}

// Firings lists what became of a schedule's times, the latest first.
func (r schedules) Firings(ctx context.Context, obj *generated.Schedule, first int, after *string) (*generated.ScheduleFiringConnection, error) {
	caller, known, err := r.timetable(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := opaque.ReadID(obj.ID, caller.Principal.Organisation, opaque.Schedule, 1)
	if err != nil {
		return nil, err
	}
	list, err := opaque.ReadList("firings", first, after, func(after string, first int) ([]schedule.Firing, string, error) {
		beforeMs := int64(0)
		if after != "" {
			var err error
			if beforeMs, err = strconv.ParseInt(after, 10, 64); err != nil || beforeMs <= 0 {
				return nil, "", opaque.ErrCursor
			}
		}
		page, err := known.Firings(ctx, caller, parts[0], beforeMs, first+1)
		if err != nil || len(page) <= first {
			return page, "", err
		}
		page = page[:first]
		return page, strconv.FormatInt(page[first-1].PlannedMs, 10), nil
	})
	if err != nil {
		return nil, err
	}
	out := &generated.ScheduleFiringConnection{Edges: []*generated.ScheduleFiringEdge{}, PageInfo: pageInfo(list.Cursors, list.More)}
	for i, f := range list.Items {
		node := &generated.ScheduleFiring{PlannedAt: at(f.PlannedMs), LastAt: at(f.LastMs), Count: f.Count, Outcome: generated.FiringOutcome(f.Outcome), Code: maybe(f.Code), At: at(f.AtMs)}
		if f.Run != "" {
			id := opaque.ID(caller.Principal.Organisation, opaque.Run, f.Run)
			node.Run = &id
		}
		out.Edges = append(out.Edges, &generated.ScheduleFiringEdge{Cursor: list.Cursors[i], Node: node})
	}
	return out, nil
}

// CreateSchedule makes a schedule.
func (r mutations) CreateSchedule(ctx context.Context, in generated.CreateScheduleInput) (*generated.SchedulePayload, error) {
	made, outcome, err := r.createSchedule(ctx, in)
	caller, refusals, err := accepted(ctx, err)
	if err != nil {
		return nil, err
	}
	payload := &generated.SchedulePayload{UserErrors: refusals, ClientMutationID: in.ClientMutationID}
	if len(refusals) > 0 {
		return payload, nil
	}
	payload.Outcome = mutationOutcome(outcome.Replayed)
	payload.Schedule, err = r.schedule(ctx, caller, made)
	return payload, err
}

func (r mutations) createSchedule(ctx context.Context, in generated.CreateScheduleInput) (made schedule.Schedule, outcome Outcome, err error) {
	c, err := r.command(ctx, in.CommandID)
	if err != nil {
		return made, outcome, err
	}
	_, known, err := r.timetable(ctx)
	if err != nil {
		return made, outcome, err
	}
	if err := checkText("goal", in.Goal, maxText); err != nil {
		return made, outcome, err
	}
	wanted := ScheduleInput{Goal: in.Goal, CommandID: c.id, Schedule: schedule.Schedule{Name: in.Name, Agent: in.Agent, Subject: c.caller.Principal.ID, Cron: in.Cron, Zone: in.Zone,
		Overlap: schedule.Overlap(in.Overlap), CatchUp: schedule.CatchUp(in.CatchUp)}}
	if in.Subject != nil {
		wanted.Subject = *in.Subject
	}
	if in.Conversation != nil {
		parts, err := opaque.ReadID(*in.Conversation, c.caller.Principal.Organisation, opaque.Conversation, 1)
		if err != nil {
			return made, outcome, err
		}
		wanted.Conversation = parts[0]
	}
	if in.From != nil {
		wanted.FromMs = in.From.UnixMilli()
	}
	if in.Until != nil {
		wanted.UntilMs = in.Until.UnixMilli()
	}
	if in.Money != nil {
		if *in.Money <= 0 {
			return made, outcome, &inputError{"INVALID", "money", "A run without money could do nothing; give it some, or leave it out for the agent's limit."}
		}
		wanted.MicroUSD = *in.Money
	}
	return known.Create(ctx, c.caller, wanted)
}

// PauseSchedule stops further firings.
func (r mutations) PauseSchedule(ctx context.Context, in generated.ChangeScheduleInput) (*generated.SchedulePayload, error) {
	return r.changeSchedule(ctx, in, pausing(true))
}

// ResumeSchedule lets a schedule fire again.
func (r mutations) ResumeSchedule(ctx context.Context, in generated.ChangeScheduleInput) (*generated.SchedulePayload, error) {
	return r.changeSchedule(ctx, in, pausing(false))
}

func pausing(paused bool) func(s Schedules, ctx context.Context, caller Caller, commandID, id string) (Outcome, error) {
	return func(s Schedules, ctx context.Context, caller Caller, commandID, id string) (Outcome, error) {
		return s.SetPaused(ctx, caller, commandID, id, paused)
	}
}

// DeleteSchedule removes a schedule.
func (r mutations) DeleteSchedule(ctx context.Context, in generated.ChangeScheduleInput) (*generated.SchedulePayload, error) {
	return r.changeSchedule(ctx, in, Schedules.Delete)
}

// changeSchedule changes a schedule, and shows what is there afterwards.
func (r mutations) changeSchedule(ctx context.Context, in generated.ChangeScheduleInput,
	change func(s Schedules, ctx context.Context, caller Caller, commandID, id string) (Outcome, error)) (*generated.SchedulePayload, error) {
	id, outcome, err := func() (string, Outcome, error) {
		c, err := r.command(ctx, in.CommandID)
		if err != nil {
			return "", Outcome{}, err
		}
		_, known, err := r.timetable(ctx)
		if err != nil {
			return "", Outcome{}, err
		}
		parts, err := opaque.ReadID(in.Schedule, c.caller.Principal.Organisation, opaque.Schedule, 1)
		if err != nil {
			return "", Outcome{}, err
		}
		outcome, err := change(known, ctx, c.caller, c.id, parts[0])
		return parts[0], outcome, err
	}()
	caller, refusals, err := accepted(ctx, err)
	if err != nil {
		return nil, err
	}
	payload := &generated.SchedulePayload{UserErrors: refusals, ClientMutationID: in.ClientMutationID}
	if len(refusals) > 0 {
		return payload, nil
	}
	payload.Outcome = mutationOutcome(outcome.Replayed)
	found, err := r.config.Schedules.Get(ctx, caller, id)
	if errors.Is(err, engine.ErrNotFound) { // it was deleted
		return payload, nil
	}
	if err == nil {
		payload.Schedule, err = r.schedule(ctx, caller, found)
	}
	return payload, err
}

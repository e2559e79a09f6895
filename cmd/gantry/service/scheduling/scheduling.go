// Package scheduling answers the port of schedules, and begins their runs: who
// may have runs begin by themselves and for whom, when they are made and again
// each time one begins.
package scheduling

import (
	"context"
	"errors"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/service"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/schedule"
	"gantry.dev/orchestrator/schedule/calendar"
)

// Schedules answers for schedules.
type Schedules struct {
	*service.Service
	Calendar *calendar.Calendar
}

var _ graph.Schedules = Schedules{}

// made is what a repeated making is answered with.
type made struct {
	Schedule string `json:"schedule"`
}

var (
	errSubject = &run.Refusal{Code: "UNKNOWN_SUBJECT", Detail: "Runs are scheduled for oneself, or for a service whose manager one is; choose one of those."}
	errAgent   = &run.Refusal{Code: "NOT_FOUND", Detail: "There is no agent of this name for whom the runs are."}
	errCron    = &run.Refusal{Code: "INVALID_CRON", Detail: "The times are five fields, minute, hour, day of the month, month, day of the week, that come at some time; for example 30 8 * * 1-5."}
	errZone    = &run.Refusal{Code: "UNKNOWN_ZONE", Detail: "The zone is a name of the IANA time zone database; for example Europe/Copenhagen."}
)

// mayFor reports whether a person may have runs begin for somebody: themselves,
// or a service whose manager they are.
func mayFor(person, subject policy.Principal) bool {
	return person.Kind == policy.Person && (subject.ID == person.ID || subject.Kind == policy.Service && subject.Manager == person.ID)
}

// Create makes a schedule of the caller.
func (s Schedules) Create(ctx context.Context, caller graph.Caller, in graph.ScheduleInput) (schedule.Schedule, graph.Outcome, error) {
	var none schedule.Schedule
	o, person, err := s.Fresh(ctx, caller)
	if err != nil {
		return none, graph.Outcome{}, err
	}
	wanted := in.Schedule
	wanted.ID, wanted.Organisation, wanted.MadeBy = s.Source.ID(), person.Organisation, person.ID
	remembered, err := service.Receipt(caller, in.CommandID, "", made{wanted.ID}, "schedule", in.Name, in.Agent, in.Goal, in.Subject, in.Conversation, in.Cron, in.Zone,
		string(in.Overlap), string(in.CatchUp), in.FromMs, in.UntilMs, in.MicroUSD)
	if err != nil {
		return none, graph.Outcome{}, err
	}
	var first made
	if again, err := s.Replayed(ctx, remembered, &first); again || err != nil {
		return s.again(ctx, caller, first, err)
	}
	if wanted.CreatedMs, err = s.Store.Now(ctx); err != nil {
		return none, graph.Outcome{}, err
	}
	if err := s.check(ctx, caller, o, person, wanted); err != nil {
		return none, graph.Outcome{}, err
	}
	times, err := timesOf(wanted)
	if err != nil {
		return none, graph.Outcome{}, err
	}
	wanted.NextMs = wanted.First(times, wanted.CreatedMs)
	var goal engine.Payload
	// The words are their maker's, whoever the runs are for.
	wanted.Goal, goal = engine.Seal(s.Source, wanted.ID, person.ID, policy.Marking{Integrity: policy.Trusted}, []byte(in.Goal))
	err = s.Calendar.Create(ctx, wanted, goal, &remembered)
	if errors.Is(err, engine.ErrReplayed) {
		err = s.Replay(ctx, remembered, &first)
		return s.again(ctx, caller, first, err)
	}
	return wanted, graph.Outcome{}, err
}

// again answers a repeated making.
func (s Schedules) again(ctx context.Context, caller graph.Caller, first made, err error) (schedule.Schedule, graph.Outcome, error) {
	if err != nil {
		return schedule.Schedule{}, graph.Outcome{}, err
	}
	found, err := s.Get(ctx, caller, first.Schedule)
	return found, graph.Outcome{Replayed: true}, err
}

// check says whether a person may make a schedule now.
func (s Schedules) check(ctx context.Context, caller graph.Caller, o agents.Organisation, person policy.Principal, wanted schedule.Schedule) error {
	if person.Kind != policy.Person {
		return agents.ErrNotAPerson
	}
	subject, known := o.Principal(wanted.Subject)
	if !known || !mayFor(person, subject) {
		return errSubject
	}
	if _, _, serves := o.Serves(wanted.Agent, subject, wanted.CreatedMs); !serves {
		return errAgent
	}
	if wanted.Conversation != "" {
		talks := service.Conversations{Service: s.Service}
		_, here := talks.Get(ctx, caller, wanted.Conversation)
		_, there := talks.Get(ctx, graph.Caller{Principal: subject}, wanted.Conversation)
		if err := errors.Join(here, there); err != nil {
			return err
		}
	}
	if refusal := wanted.Check(wanted.CreatedMs); refusal != nil {
		return refusal
	}
	return nil
}

// timesOf reads a schedule's times, and says to a person what is wrong.
func timesOf(s schedule.Schedule) (schedule.Times, error) {
	times, err := calendar.Times(s.Cron, s.Zone)
	if errors.Is(err, calendar.ErrZone) {
		return times, errZone
	}
	if errors.Is(err, schedule.ErrCron) {
		return times, errCron
	}
	return times, err
}

// Get returns a schedule that the caller may know of: who made it, for whom the
// runs are, and who is that one's manager.
func (s Schedules) Get(ctx context.Context, caller graph.Caller, id string) (schedule.Schedule, error) {
	o, person, err := s.Fresh(ctx, caller)
	if err != nil {
		return schedule.Schedule{}, err
	}
	found, err := s.Calendar.Get(ctx, person.Organisation, id)
	if err != nil {
		return schedule.Schedule{}, err
	}
	subject, _ := o.Principal(found.Subject)
	if found.MadeBy != person.ID && found.Subject != person.ID && !mayFor(person, subject) {
		return schedule.Schedule{}, engine.ErrNotFound
	}
	return found, nil
}

// List pages through the schedules that the caller may know of, the latest
// first.
func (s Schedules) List(ctx context.Context, caller graph.Caller, after string, first int) ([]schedule.Schedule, string, error) {
	o, person, err := s.Fresh(ctx, caller)
	if err != nil {
		return nil, "", err
	}
	subjects := []string{person.ID}
	for _, p := range o.Principals {
		if p.ID != person.ID && mayFor(person, p) {
			subjects = append(subjects, p.ID)
		}
	}
	page, err := s.Calendar.List(ctx, person.Organisation, person.ID, subjects, after, first+1)
	if err != nil || len(page) <= first {
		return page, "", err
	}
	return page[:first], page[first-1].ID, nil
}

// Firings returns what became of the times of a schedule that the caller may
// know of.
func (s Schedules) Firings(ctx context.Context, caller graph.Caller, id string, beforeMs int64, first int) ([]schedule.Firing, error) {
	if _, err := s.Get(ctx, caller, id); err != nil {
		return nil, err
	}
	return s.Calendar.Firings(ctx, id, beforeMs, first)
}

// SetPaused stops further firings of a schedule, or lets it fire again.
func (s Schedules) SetPaused(ctx context.Context, caller graph.Caller, commandID, id string, paused bool) (graph.Outcome, error) {
	if paused {
		return s.change(ctx, caller, commandID, "pause", id, func(found schedule.Schedule, receipt *engine.Receipt) error {
			return s.Calendar.Pause(ctx, found.Organisation, found.ID, receipt)
		})
	}
	return s.change(ctx, caller, commandID, "resume", id, func(found schedule.Schedule, receipt *engine.Receipt) error {
		if _, err := timesOf(found); err != nil {
			return err
		}
		return s.Calendar.Resume(ctx, found.Organisation, found.ID, receipt)
	})
}

// Delete removes a schedule with its history.
func (s Schedules) Delete(ctx context.Context, caller graph.Caller, commandID, id string) (graph.Outcome, error) {
	return s.change(ctx, caller, commandID, "delete", id, func(found schedule.Schedule, receipt *engine.Receipt) error {
		return s.Calendar.Delete(ctx, found, receipt)
	})
}

// change changes a schedule that the caller may know of, once per command.
func (s Schedules) change(ctx context.Context, caller graph.Caller, commandID, how, id string, do func(schedule.Schedule, *engine.Receipt) error) (graph.Outcome, error) {
	remembered, err := service.Receipt(caller, commandID, "", made{id}, how+" schedule", id)
	if err != nil {
		return graph.Outcome{}, err
	}
	var first made
	if again, err := s.Replayed(ctx, remembered, &first); again || err != nil {
		return graph.Outcome{Replayed: again}, err
	}
	found, err := s.Get(ctx, caller, id)
	if err != nil {
		return graph.Outcome{}, err
	}
	err = do(found, &remembered)
	if errors.Is(err, engine.ErrReplayed) {
		return graph.Outcome{Replayed: true}, s.Replay(ctx, remembered, &first)
	}
	return graph.Outcome{}, err
}

// Begin admits a run of a schedule, as calendar.Start does: for its subject, with
// what that one may do now, and on the word of who made it, as long as they may
// give it.
func (s Schedules) Begin(ctx context.Context, planned schedule.Schedule, command, goal string) (string, error) {
	o, err := s.Organisation(ctx, planned.Organisation)
	if errors.Is(err, engine.ErrNotFound) {
		return "", errSubject
	}
	if err != nil {
		return "", err
	}
	maker, there := o.Principal(planned.MadeBy)
	subject, known := o.Principal(planned.Subject)
	if !known || !there || !mayFor(maker, subject) {
		return "", errSubject
	}
	in := graph.StartInput{Agent: planned.Agent, Goal: goal, Conversation: planned.Conversation, CommandID: command}
	if planned.MicroUSD != 0 {
		in.MicroUSD = &planned.MicroUSD
	}
	caller := graph.Caller{Principal: subject, Identity: run.Identity{Principal: maker.ID, Issuer: schedule.Issuer, TokenID: planned.ID}}
	outcome, err := service.Runs{Service: s.Service}.Start(ctx, caller, in)
	if errors.Is(err, engine.ErrNotFound) && planned.Conversation != "" {
		return "", &run.Refusal{Code: "CONVERSATION", Detail: "For whom the runs are does not take part in their conversation any more."}
	}
	if errors.Is(err, engine.ErrNotFound) {
		return "", errSubject
	}
	return outcome.Run, err
}

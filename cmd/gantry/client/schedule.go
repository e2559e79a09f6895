package client

import (
	"context"
	"fmt"
	"time"
)

// Schedule says at which times runs begin by themselves.
type Schedule struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Agent    string     `json:"agent"`
	Goal     Text       `json:"goal"`
	Subject  Actor      `json:"subject"`
	MadeBy   Actor      `json:"madeBy"`
	Cron     string     `json:"cron"`
	Zone     string     `json:"zone"`
	Overlap  string     `json:"overlap"`
	CatchUp  string     `json:"catchUp"`
	Until    *time.Time `json:"until,omitempty"`
	Next     *time.Time `json:"next,omitempty"` // nil: none comes
	Paused   string     `json:"paused"`         // why; empty: it is not
	Refusals int        `json:"refusals"`       // in a row
}

// Firing is what became of a schedule's time, or of several that were missed.
type Firing struct {
	PlannedAt time.Time `json:"plannedAt"`
	LastAt    time.Time `json:"lastAt"`
	Count     string    `json:"count"`
	Outcome   string    `json:"outcome"`
	Code      string    `json:"code,omitempty"`
	Run       string    `json:"run,omitempty"`
}

// ScheduleOrder asks for a schedule. What is empty is the server's choice.
type ScheduleOrder struct {
	Name, Agent, Goal, Cron, Zone string
	Overlap, CatchUp              string
	Subject                       string // principal id; empty for oneself
	Conversation                  string // global id
	From, Until                   *time.Time
	MicroUSD                      int64 // of each run
}

const (
	scheduleFields    = `{id name agent goal{value display} subject{principal name} madeBy{principal name} cron zone overlap catchUp until next paused refusals}`
	schedulesDocument = `query($after:Cursor){schedules(first:100,after:$after){edges{node` + scheduleFields + `} pageInfo{hasNextPage endCursor}}}`
	firingsDocument   = `query($id:ID!,$first:Int!){schedule(id:$id){firings(first:$first){edges{node{plannedAt lastAt count outcome code run}}}}}`
	createSchedule    = `mutation($input:CreateScheduleInput!){done:createSchedule(input:$input){schedule` + scheduleFields + ` userErrors{code message field}}}`
	pauseSchedule     = `mutation($input:ChangeScheduleInput!){done:pauseSchedule(input:$input){schedule` + scheduleFields + ` userErrors{code message field}}}`
	resumeSchedule    = `mutation($input:ChangeScheduleInput!){done:resumeSchedule(input:$input){schedule` + scheduleFields + ` userErrors{code message field}}}`
	deleteSchedule    = `mutation($input:ChangeScheduleInput!){done:deleteSchedule(input:$input){userErrors{code message field}}}`
)

// Schedules lists the schedules that the caller may know of, the latest first.
// Errors: *Error.
func (c *Client) Schedules(ctx context.Context) (list []Schedule, err error) {
	variables := map[string]any{}
	for {
		var got struct {
			Schedules struct {
				Edges    []struct{ Node Schedule }
				PageInfo struct {
					HasNextPage bool
					EndCursor   string
				}
			}
		}
		if err := c.Ask(ctx, schedulesDocument, variables, &got); err != nil {
			return nil, err
		}
		for _, edge := range got.Schedules.Edges {
			list = append(list, edge.Node)
		}
		if !got.Schedules.PageInfo.HasNextPage {
			return list, nil
		}
		variables["after"] = got.Schedules.PageInfo.EndCursor
	}
}

// ScheduleNamed finds a schedule by its name, or by any id of it that was
// printed. Errors: *Error; one for a name that several have, or none.
func (c *Client) ScheduleNamed(ctx context.Context, named string) (Schedule, error) {
	list, err := c.Schedules(ctx)
	if err != nil {
		return Schedule{}, err
	}
	var found []Schedule
	for _, s := range list {
		if s.ID == named || ShortID(s.ID) == named {
			return s, nil
		}
		if s.Name == named {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return Schedule{}, fmt.Errorf("there is no schedule %q, or none that you may know of; list them", named)
	case 1:
		return found[0], nil
	}
	return Schedule{}, fmt.Errorf("several people have a schedule %q; name it by its id", named)
}

// Firings lists what became of a schedule's times, the latest first, 100 at most.
// Errors: *Error.
func (c *Client) Firings(ctx context.Context, id string, most int) ([]Firing, error) {
	var got struct {
		Schedule struct {
			Firings struct{ Edges []struct{ Node Firing } }
		}
	}
	err := c.Ask(ctx, firingsDocument, map[string]any{"id": id, "first": most}, &got)
	list := make([]Firing, 0, len(got.Schedule.Firings.Edges))
	for _, edge := range got.Schedule.Firings.Edges {
		list = append(list, edge.Node)
	}
	return list, err
}

type schedulePayload struct{ Schedule Schedule }

// CreateSchedule makes a schedule. Errors: *Error.
func (c *Client) CreateSchedule(ctx context.Context, order ScheduleOrder) (Schedule, error) {
	input := map[string]any{"name": order.Name, "agent": order.Agent, "goal": order.Goal, "cron": order.Cron, "zone": order.Zone}
	for name, value := range map[string]string{"overlap": order.Overlap, "catchUp": order.CatchUp, "subject": order.Subject, "conversation": order.Conversation} {
		if value != "" {
			input[name] = value
		}
	}
	for name, value := range map[string]*time.Time{"from": order.From, "until": order.Until} {
		if value != nil {
			input[name] = value.Format(time.RFC3339)
		}
	}
	if order.MicroUSD != 0 {
		input["money"] = fmt.Sprint(order.MicroUSD)
	}
	got, err := change[schedulePayload](ctx, c, createSchedule, input)
	return got.Schedule, err
}

// PauseSchedule stops a schedule's further runs. Errors: *Error.
func (c *Client) PauseSchedule(ctx context.Context, id string) (Schedule, error) {
	got, err := change[schedulePayload](ctx, c, pauseSchedule, map[string]any{"schedule": id})
	return got.Schedule, err
}

// ResumeSchedule lets a schedule go on. Errors: *Error.
func (c *Client) ResumeSchedule(ctx context.Context, id string) (Schedule, error) {
	got, err := change[schedulePayload](ctx, c, resumeSchedule, map[string]any{"schedule": id})
	return got.Schedule, err
}

// DeleteSchedule removes a schedule with its history. Errors: *Error.
func (c *Client) DeleteSchedule(ctx context.Context, id string) error {
	_, err := change[struct{}](ctx, c, deleteSchedule, map[string]any{"schedule": id})
	return err
}

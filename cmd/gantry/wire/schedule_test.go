package wire_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/orchestrator/run"
)

// scheduled makes a schedule, whose runs begin once a year at the earliest, and
// returns its id.
func (p *person) scheduled(change map[string]any) string {
	input := map[string]any{"name": "yearly", "agent": reconciler, "goal": "Reconcile INV-1004.", "cron": "0 0 29 2 *", "zone": "Europe/Copenhagen"}
	for name, value := range change {
		input[name] = value
	}
	var got struct {
		Done struct {
			Schedule   struct{ ID string }
			UserErrors []struct{ Code string }
		}
	}
	p.ask(`mutation($input:CreateScheduleInput!){done:createSchedule(input:$input){schedule{id} userErrors{code}}}`, map[string]any{"input": input}, &got)
	require.Empty(p.t, got.Done.UserErrors)
	require.NotEmpty(p.t, got.Done.Schedule.ID)
	return got.Done.Schedule.ID
}

// firings are what became of a schedule's times, the latest first.
func (p *person) firings(schedule string) (list []firing, paused string) {
	var got struct {
		Schedule struct {
			Paused  string
			Firings struct{ Edges []struct{ Node firing } }
		}
	}
	p.ask(`query($id:ID!){schedule(id:$id){paused firings{edges{node{outcome code run}}}}}`, map[string]any{"id": schedule}, &got)
	for _, edge := range got.Schedule.Firings.Edges {
		list = append(list, edge.Node)
	}
	return list, got.Schedule.Paused
}

type firing struct{ Outcome, Code, Run string }

// settled waits until something became of the latest of a schedule's times.
func (p *person) settled(schedule string) []firing {
	for {
		list, _ := p.firings(schedule)
		if len(list) > 0 && list[0].Outcome != "PLANNED" {
			return list
		}
	}
}

// passed lets the time of every schedule pass while no process runs, and starts
// one.
func (h *house) passed() {
	h.t.Helper()
	h.close()
	db, err := sql.Open("sqlite", filepath.Join(h.folder, "gantry.db"))
	require.NoError(h.t, err)
	_, err = db.ExecContext(h.t.Context(), "UPDATE schedules SET next_ms = 1709161200000") // the 29th of February 2024 there
	require.NoError(h.t, err)
	require.NoError(h.t, db.Close())
	h.open()
}

// The rights are those of the moment at which a run would begin: what was lost
// since is a refusal that its owner sees.
func TestAScheduleWhoseRightsAreLostIsRefused(t *testing.T) {
	t.Parallel()
	for code, lose := range map[string]func(h *house, o *agents.Organisation){
		"AGENT_STOPPED": func(h *house, _ *agents.Organisation) {
			require.Empty(h.t, h.as(operator).mutate("kill", map[string]any{"scope": "AGENT", "name": reconciler, "reason": "odd"}).UserErrors)
		},
		"NOT_FOUND": func(_ *house, o *agents.Organisation) {
			revised(reconciler, func(r *agents.Revision) { r.Audience = []string{"sales"} })(o)
		},
		"BUDGET": func(h *house, o *agents.Organisation) {
			r, _ := o.Agent(reconciler)
			require.NoError(h.t, h.platform.Store.SetBudget(h.t.Context(), o.Accounts(r.Department, "", time.Now().UnixMilli())[0], run.Amount{}))
		},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			h := openHouse(t, plan{})
			id := h.as(asker).scheduled(nil)
			lose(h, &h.organisation)
			h.apply(h.organisation)
			h.passed()
			list := h.as(asker).settled(id)
			require.Equal(t, "REFUSED", list[0].Outcome)
			require.Equal(t, code, list[0].Code)
			require.Empty(t, list[0].Run)
		})
	}
}

// Only people make schedules, for themselves or for a service whose manager they
// are; nobody else learns of them.
func TestWhoMaySchedule(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	create := func(who string, change map[string]any) string {
		input := map[string]any{"name": "weekly", "agent": reconciler, "goal": "Reconcile INV-1004.", "cron": "0 9 * * 1", "zone": "Europe/Copenhagen"}
		for name, value := range change {
			input[name] = value
		}
		var got struct {
			Done struct{ UserErrors []struct{ Code string } }
		}
		h.as(who).ask(`mutation($input:CreateScheduleInput!){done:createSchedule(input:$input){userErrors{code}}}`, map[string]any{"input": input}, &got)
		if len(got.Done.UserErrors) == 0 {
			return ""
		}
		return got.Done.UserErrors[0].Code
	}
	require.Equal(t, "NOT_A_PERSON", create(service, nil))
	require.Equal(t, "UNKNOWN_SUBJECT", create(asker, map[string]any{"subject": service}))
	require.Equal(t, "UNKNOWN_SUBJECT", create(asker, map[string]any{"subject": controller}))
	require.Equal(t, "UNKNOWN_SUBJECT", create(asker, map[string]any{"subject": "nobody"}))
	require.Equal(t, "INVALID_CRON", create(asker, map[string]any{"cron": "0 9 30 2 *"}))
	require.Equal(t, "UNKNOWN_ZONE", create(asker, map[string]any{"zone": "Local"}))
	require.Equal(t, "INVALID_NAME", create(asker, map[string]any{"name": "Not a name"}))
	require.Equal(t, "NOT_FOUND", create(asker, map[string]any{"agent": "nobody"}))
	require.Empty(t, create(controller, map[string]any{"subject": service}), "its manager")
	require.Empty(t, create(asker, nil))
	require.Equal(t, "NAME_TAKEN", create(asker, nil))
	seen := func(who string) int {
		list, err := h.as(who).Schedules(t.Context())
		require.NoError(t, err)
		return len(list)
	}
	require.Equal(t, []int{1, 1, 1, 0}, []int{seen(asker), seen(controller), seen(service), seen(operator)})
	ours, err := h.as(asker).ScheduleNamed(t.Context(), "weekly")
	require.NoError(t, err)
	_, err = h.as(operator).PauseSchedule(t.Context(), ours.ID)
	require.True(t, client.IsCode(err, "NOT_FOUND"), err)
	paused, err := h.as(asker).PauseSchedule(t.Context(), ours.ID)
	require.NoError(t, err)
	require.Equal(t, "PERSON", paused.Paused)
	resumed, err := h.as(asker).ResumeSchedule(t.Context(), ours.ID)
	require.NoError(t, err)
	require.NotNil(t, resumed.Next)
	require.NoError(t, h.as(asker).DeleteSchedule(t.Context(), ours.ID))
	require.Zero(t, seen(asker))
}

// A time that passed while no process ran begins a run once one does, which says
// by which schedule it began.
func TestAScheduleBeginsARunByItself(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	id := h.as(asker).scheduled(map[string]any{"catchUp": "LAST"})
	h.passed()
	amara := h.as(asker)
	list := amara.settled(id)
	require.Equal(t, "STARTED", list[0].Outcome)
	h.as(controller).held(list[0].Run) // it works as one that was asked for
	var told struct {
		Run struct {
			Explanation struct{ Asked struct{ Lines []string } }
		}
	}
	amara.ask(`query($id:ID!){run(id:$id){explanation{asked{lines}}}}`, map[string]any{"id": list[0].Run}, &told)
	require.Contains(t, strings.Join(told.Run.Explanation.Asked.Lines, "\n"), "begun by schedule "+inner(t, id)+" of "+asker)
}

package wire_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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

// A time that passed while no process ran begins a run once one does, which says
// by which schedule it began.
func TestAScheduleBeginsARunByItself(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	id := h.as(asker).scheduled(map[string]any{"catchUp": "LAST"})
	h.close()
	db, err := sql.Open("sqlite", filepath.Join(h.folder, "gantry.db"))
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "UPDATE schedules SET next_ms = 1709161200000") // the 29th of February 2024 there
	require.NoError(t, err)
	require.NoError(t, db.Close())
	h.open()
	amara := h.as(asker)
	list, _ := amara.firings(id)
	for len(list) == 0 || list[0].Outcome == "PLANNED" {
		list, _ = amara.firings(id)
	}
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

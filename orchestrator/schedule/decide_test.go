package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/schedule"
)

func shown(due schedule.Due) (list []string) {
	for _, f := range due.Firings {
		at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format("02T15:04") }
		list = append(list, fmt.Sprintf("%s %s-%s x%d", f.Outcome, at(f.PlannedMs), at(f.LastMs), f.Count))
	}
	return list
}

// Three days without a process, and what each way of catching up makes of them.
func TestCatchUpAfterThreeDays(t *testing.T) {
	times, err := schedule.Compile("0 9 * * *", zone(t, "Europe/Copenhagen"))
	require.NoError(t, err)
	s := schedule.Schedule{ID: "s", NextMs: utc(t, "2026-12-01 08:00")}
	for way, c := range map[schedule.CatchUp]struct{ late, onTime []string }{
		schedule.CatchUpNone: {[]string{"MISSED 01T08:00-03T08:00 x3"}, []string{"MISSED 01T08:00-02T08:00 x2", "PLANNED 03T08:00-03T08:00 x1"}},
		schedule.CatchUpLast: {[]string{"MISSED 01T08:00-02T08:00 x2", "PLANNED 03T08:00-03T08:00 x1"}, []string{"MISSED 01T08:00-02T08:00 x2", "PLANNED 03T08:00-03T08:00 x1"}},
		schedule.CatchUpAll: {[]string{"PLANNED 01T08:00-01T08:00 x1", "PLANNED 02T08:00-02T08:00 x1", "PLANNED 03T08:00-03T08:00 x1"},
			[]string{"PLANNED 01T08:00-01T08:00 x1", "PLANNED 02T08:00-02T08:00 x1", "PLANNED 03T08:00-03T08:00 x1"}},
	} {
		s.CatchUp = way
		late := s.Pass(times, utc(t, "2026-12-03 20:00"))
		require.Equal(t, c.late, shown(late), way)
		require.Equal(t, utc(t, "2026-12-04 08:00"), late.NextMs)
		require.Equal(t, c.onTime, shown(s.Pass(times, utc(t, "2026-12-03 08:00"))), way)
	}
}

// Catching up is bounded, whatever passed meanwhile.
func TestCatchUpIsBounded(t *testing.T) {
	times, err := schedule.Compile("* * * * *", time.UTC)
	require.NoError(t, err)
	s := schedule.Schedule{CatchUp: schedule.CatchUpAll, NextMs: utc(t, "2026-01-01 00:00")}
	due := s.Pass(times, utc(t, "2026-12-31 23:59"))
	require.Len(t, due.Firings, schedule.MaxCatchUp+1)
	require.Equal(t, int64(365*24*60-schedule.MaxCatchUp), due.Firings[0].Count)
	require.Equal(t, due.Firings[0].LastMs+60_000, due.Firings[1].PlannedMs)
}

func TestAScheduleBeginsAndEnds(t *testing.T) {
	times, err := schedule.Compile("0 9 * * *", time.UTC)
	require.NoError(t, err)
	s := schedule.Schedule{FromMs: utc(t, "2026-12-05 09:00"), UntilMs: utc(t, "2026-12-06 09:00"), CatchUp: schedule.CatchUpAll}
	s.NextMs = s.First(times, utc(t, "2026-12-01 00:00"))
	require.Equal(t, s.FromMs, s.NextMs, "its beginning is of it")
	due := s.Pass(times, utc(t, "2026-12-30 00:00"))
	require.Equal(t, []string{"PLANNED 05T09:00-05T09:00 x1"}, shown(due), "its end is not")
	require.Zero(t, due.NextMs)
	require.Zero(t, s.First(times, s.NextMs))
}

// Before its time nothing fires, as when a clock goes back.
func TestNothingFiresBeforeItsTime(t *testing.T) {
	times, err := schedule.Compile("0 9 * * *", time.UTC)
	require.NoError(t, err)
	s := schedule.Schedule{NextMs: utc(t, "2026-12-05 09:00")}
	require.Equal(t, schedule.Due{NextMs: s.NextMs}, s.Pass(times, s.NextMs-1))
}

func TestTurns(t *testing.T) {
	for _, c := range []struct {
		overlap schedule.Overlap
		paused  string
		before  int
		want    schedule.Outcome
		code    string
	}{
		{schedule.Skip, "", 0, schedule.Started, ""},
		{schedule.Skip, "", 1, schedule.Skipped, schedule.CodeOverlap},
		{schedule.Queue, "", 0, schedule.Started, ""},
		{schedule.Queue, "", 1, schedule.Planned, ""},
		{schedule.Queue, "", schedule.MaxCatchUp, schedule.Planned, ""},
		{schedule.Queue, "", schedule.MaxCatchUp + 1, schedule.Skipped, schedule.CodeQueueFull},
		{schedule.Allow, "", 7, schedule.Started, ""},
		{schedule.Allow, schedule.PausedByPerson, 0, schedule.Skipped, schedule.CodePaused},
	} {
		outcome, code := schedule.Schedule{Overlap: c.overlap, Paused: c.paused}.Turn(c.before)
		require.Equal(t, c.want, outcome, c)
		require.Equal(t, c.code, code, c)
	}
}

func TestCheckRefusesWithACode(t *testing.T) {
	good := schedule.Schedule{Name: "weekly-report", Overlap: schedule.Skip, CatchUp: schedule.CatchUpLast}
	require.Nil(t, good.Check(1000))
	for code, spoil := range map[string]func(*schedule.Schedule){
		"INVALID_NAME":     func(s *schedule.Schedule) { s.Name = "Weekly report" },
		"INVALID_OVERLAP":  func(s *schedule.Schedule) { s.Overlap = "" },
		"INVALID_CATCH_UP": func(s *schedule.Schedule) { s.CatchUp = "SOME" },
		"BUDGET":           func(s *schedule.Schedule) { s.MicroUSD = -1 },
		"INVALID_PERIOD":   func(s *schedule.Schedule) { s.UntilMs = 1000 },
	} {
		bad := good
		spoil(&bad)
		require.Equal(t, code, bad.Check(1000).Code)
	}
	good.Name = strings.Repeat("a", 64)
	require.NotNil(t, good.Check(1000))
}

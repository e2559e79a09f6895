package calendar_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/schedule"
	"gantry.dev/orchestrator/schedule/calendar"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var masterKey = []byte("0123456789abcdef0123456789abcdef")

// world is a database under a clock, with processes that share it. Runs are
// admitted as perform does: their receipt commits with their first record.
type world struct {
	t      *testing.T
	nowMs  atomic.Int64
	source engine.RandomSource
	stores []*journal.Store

	mu     sync.Mutex
	refuse *run.Refusal
	fail   error // once a run is admitted, before anybody hears of it
	begun  []string
	asked  int // how often a run was to be admitted
	goals  map[string]bool
}

func at(t *testing.T, text string) int64 {
	moment, err := time.Parse("2006-01-02 15:04", text)
	require.NoError(t, err)
	return moment.UnixMilli()
}

func newWorld(t *testing.T, processes int, dsn string) *world {
	w := &world{t: t, goals: map[string]bool{}}
	w.nowMs.Store(at(t, "2026-11-30 00:00"))
	for range processes {
		store, err := journal.Open(t.Context(), journal.Config{DSN: dsn, MasterKey: masterKey, Clock: w.nowMs.Load})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		w.stores = append(w.stores, store)
	}
	return w
}

func onFile(t *testing.T) *world {
	return newWorld(t, 1, "sqlite:"+filepath.Join(t.TempDir(), "gantry.db"))
}

func (w *world) calendar(process int) *calendar.Calendar {
	store := w.stores[process]
	return calendar.New(store, func(ctx context.Context, s schedule.Schedule, command, goal string) (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asked++
		if w.refuse != nil {
			return "", w.refuse
		}
		id := w.source.ID()
		write := journaltest.Write(id, 0, 1)
		write.Receipt = &engine.Receipt{Organisation: s.Organisation, Caller: s.Subject, Command: command, Run: id, Answer: []byte("{}")}
		err := store.Append(ctx, write)
		if errors.Is(err, engine.ErrReplayed) {
			first, err := store.Receipt(ctx, s.Organisation, s.Subject, command)
			return first.Run, err
		}
		if err == nil {
			w.begun, w.goals[goal] = append(w.begun, command), true
		}
		return id, errors.Join(err, w.fail)
	})
}

// make makes a schedule.
func (w *world) make(cron string, overlap schedule.Overlap, catchUp schedule.CatchUp) schedule.Schedule {
	s := schedule.Schedule{ID: w.source.ID(), Organisation: "org", Name: "report", MadeBy: "ann", Subject: "ann", Agent: "writer", Cron: cron, Zone: "Europe/Copenhagen",
		Overlap: overlap, CatchUp: catchUp, CreatedMs: w.nowMs.Load()}
	times, err := calendar.Times(s.Cron, s.Zone)
	require.NoError(w.t, err)
	s.NextMs = s.First(times, s.CreatedMs)
	var goal engine.Payload
	s.Goal, goal = engine.Seal(w.source, s.ID, "ann", policy.Marking{Integrity: policy.Trusted}, []byte("Write the report."))
	require.NoError(w.t, w.calendar(0).Create(w.t.Context(), s, goal, nil))
	return s
}

func (w *world) tick(moment string) {
	w.nowMs.Store(at(w.t, moment))
	require.NoError(w.t, w.calendar(0).Tick(w.t.Context()))
}

// end lets a run come to its end.
func (w *world) end(runID string) {
	write := journaltest.Write(runID, 1, 1)
	write.Head.Status, write.Head.DueMs = run.StatusCompleted, 0
	require.NoError(w.t, w.stores[0].Append(w.t.Context(), write))
}

func (w *world) firings(s schedule.Schedule) (shown []string, list []schedule.Firing) {
	list, err := w.calendar(0).Firings(w.t.Context(), s.ID, 0, 1000)
	require.NoError(w.t, err)
	for _, f := range list {
		text := fmt.Sprintf("%s %s", time.UnixMilli(f.PlannedMs).UTC().Format("02T15:04"), f.Outcome)
		if f.Count > 1 {
			text += fmt.Sprintf(" x%d", f.Count)
		}
		if f.Code != "" {
			text += " " + f.Code
		}
		shown = append(shown, text)
	}
	return shown, list
}

func (w *world) get(s schedule.Schedule) schedule.Schedule {
	found, err := w.calendar(0).Get(w.t.Context(), s.Organisation, s.ID)
	require.NoError(w.t, err)
	return found
}

func TestARunBeginsAtItsTimeAndOnce(t *testing.T) {
	w := onFile(t)
	s := w.make("0 9 * * *", schedule.Skip, schedule.CatchUpNone)
	require.Equal(t, s, w.get(s), "what is stored comes back")
	w.tick("2026-11-30 07:59")
	require.Empty(t, w.begun)
	for range 3 {
		w.tick("2026-11-30 08:00")
	}
	require.Equal(t, []string{calendar.Command(s.ID, at(t, "2026-11-30 08:00"))}, w.begun)
	require.True(t, w.goals["Write the report."])
	shown, list := w.firings(s)
	require.Equal(t, []string{"30T08:00 STARTED"}, shown)
	require.NotEmpty(t, list[0].Run)
	require.Equal(t, at(t, "2026-12-01 08:00"), w.get(s).NextMs)
}

func TestOverlapSkips(t *testing.T) {
	w := onFile(t)
	s := w.make("*/10 * * * *", schedule.Skip, schedule.CatchUpNone)
	w.tick("2026-11-30 08:00")
	w.tick("2026-11-30 08:10")
	_, list := w.firings(s)
	w.end(list[len(list)-2].Run)
	w.tick("2026-11-30 08:20")
	shown, _ := w.firings(s)
	require.Equal(t, []string{"30T08:20 STARTED", "30T08:10 SKIPPED OVERLAP", "30T08:00 STARTED", "30T00:10 MISSED x47"}, shown)
}

func TestOverlapQueues(t *testing.T) {
	w := onFile(t)
	s := w.make("*/10 * * * *", schedule.Queue, schedule.CatchUpLast)
	w.tick("2026-11-30 00:10")
	w.tick("2026-11-30 00:20")
	w.tick("2026-11-30 00:30")
	shown, list := w.firings(s)
	require.Equal(t, []string{"30T00:30 PLANNED", "30T00:20 PLANNED", "30T00:10 STARTED"}, shown)
	w.end(list[2].Run)
	w.tick("2026-11-30 00:31")
	shown, list = w.firings(s)
	require.Equal(t, []string{"30T00:30 PLANNED", "30T00:20 STARTED", "30T00:10 STARTED"}, shown, "one after the other")
	w.end(list[1].Run)
	w.tick("2026-11-30 00:32")
	shown, _ = w.firings(s)
	require.Equal(t, "30T00:30 STARTED", shown[0])
}

func TestOverlapAllows(t *testing.T) {
	w := onFile(t)
	w.make("*/10 * * * *", schedule.Allow, schedule.CatchUpLast)
	w.tick("2026-11-30 00:10")
	w.tick("2026-11-30 00:20")
	require.Len(t, w.begun, 2)
}

func TestCatchesUpAfterThreeDaysDown(t *testing.T) {
	for way, want := range map[schedule.CatchUp][]string{
		schedule.CatchUpNone: {"30T08:00 MISSED x3"},
		schedule.CatchUpLast: {"02T08:00 STARTED", "30T08:00 MISSED x2"},
		schedule.CatchUpAll:  {"02T08:00 STARTED", "01T08:00 STARTED", "30T08:00 STARTED"},
	} {
		w := onFile(t)
		s := w.make("0 9 * * *", schedule.Allow, way)
		w.tick("2026-12-02 20:00")
		shown, _ := w.firings(s)
		require.Equal(t, want, shown, way)
		require.Equal(t, at(t, "2026-12-03 08:00"), w.get(s).NextMs)
	}
}

// Between the claim and the admission, and between that and its record, a
// process dies: the next one goes on, and no run begins twice.
func TestWhoDiesBeginsNoRunTwice(t *testing.T) {
	t.Run("before the run was admitted", func(t *testing.T) {
		w := onFile(t)
		s := w.make("0 9 * * *", schedule.Skip, schedule.CatchUpNone)
		w.nowMs.Store(at(t, "2026-11-30 08:00"))
		dead := calendar.New(w.stores[0], func(context.Context, schedule.Schedule, string, string) (string, error) {
			return "", errors.New("died")
		})
		require.Error(t, dead.Tick(t.Context()))
		shown, _ := w.firings(s)
		require.Equal(t, []string{"30T08:00 PLANNED"}, shown)
		w.tick("2026-11-30 08:00")
		require.Empty(t, w.begun, "who died may still be at it")
		w.tick("2026-11-30 08:01")
		require.Len(t, w.begun, 1)
	})
	t.Run("before it was noted", func(t *testing.T) {
		w := onFile(t)
		s := w.make("0 9 * * *", schedule.Skip, schedule.CatchUpNone)
		w.nowMs.Store(at(t, "2026-11-30 08:00"))
		w.fail = errors.New("died")
		require.Error(t, w.calendar(0).Tick(t.Context()))
		require.Len(t, w.begun, 1)
		w.fail, w.refuse = nil, &run.Refusal{Code: "NOT_FOUND"} // what has changed since changes nothing
		w.tick("2026-11-30 08:01")
		shown, list := w.firings(s)
		require.Equal(t, []string{"30T08:00 STARTED"}, shown)
		require.NotEmpty(t, list[0].Run)
		require.Len(t, w.begun, 1)
	})
}

// firesOnce lets several processes tick at once over an hour of minutes.
func firesOnce(t *testing.T, w *world, sides int) {
	const minutes = 20
	s := w.make("* * * * *", schedule.Allow, schedule.CatchUpAll)
	for minute := range minutes {
		w.nowMs.Store(at(t, "2026-11-30 00:00") + int64(minute+1)*60_000)
		var tasks conc.WaitGroup
		for side := range sides {
			tasks.Go(func() { require.NoError(t, w.calendar(side%len(w.stores)).Tick(t.Context())) })
		}
		tasks.Wait()
	}
	require.Len(t, w.begun, minutes)
	require.Equal(t, minutes, w.asked, "one process asks for each")
	shown, _ := w.firings(s)
	require.Len(t, shown, minutes)
	for _, line := range shown {
		require.Contains(t, line, "STARTED")
	}
	fmt.Printf("level: L3 firings of several processes %d\n", minutes)
}

func TestSeveralLoopsFireOnce(t *testing.T) { firesOnce(t, onFile(t), 4) }

func TestRefusalsAreVisibleAndPause(t *testing.T) {
	w := onFile(t)
	s := w.make("*/10 * * * *", schedule.Skip, schedule.CatchUpNone)
	w.refuse = &run.Refusal{Code: "BUDGET"}
	for minute := 10; minute < 50; minute += 10 {
		w.tick(fmt.Sprintf("2026-11-30 00:%02d", minute))
	}
	require.Equal(t, 4, w.get(s).Refusals)
	w.refuse = nil
	w.tick("2026-11-30 00:50")
	require.Zero(t, w.get(s).Refusals, "one that starts ends the row")
	_, list := w.firings(s)
	w.end(list[0].Run)
	w.refuse = &run.Refusal{Code: "NOT_FOUND"}
	for range schedule.MaxRefusals + 2 {
		w.nowMs.Add(600_000)
		require.NoError(t, w.calendar(0).Tick(t.Context()))
	}
	require.Equal(t, schedule.PausedByRefusals, w.get(s).Paused)
	shown, _ := w.firings(s)
	require.Len(t, shown, schedule.MaxRefusals+5, "a paused schedule fires no more")
	require.Equal(t, "30T01:40 REFUSED NOT_FOUND", shown[0])
	require.Equal(t, "30T00:10 REFUSED BUDGET", shown[len(shown)-1])
	w.refuse = nil
	require.NoError(t, w.calendar(0).Resume(t.Context(), s.Organisation, s.ID, nil))
	require.Equal(t, at(t, "2026-11-30 02:10"), w.get(s).NextMs)
	require.Zero(t, w.get(s).Refusals)
}

func TestAPauseLetsTheRunGoOnAndCatchesNothingUp(t *testing.T) {
	w := onFile(t)
	ctx := t.Context()
	s := w.make("*/10 * * * *", schedule.Queue, schedule.CatchUpAll)
	w.tick("2026-11-30 00:10")
	w.tick("2026-11-30 00:20")
	require.NoError(t, w.calendar(0).Pause(ctx, s.Organisation, s.ID, nil))
	require.Equal(t, schedule.PausedByPerson, w.get(s).Paused)
	w.tick("2026-11-30 05:00")
	shown, list := w.firings(s)
	require.Equal(t, []string{"30T00:20 SKIPPED PAUSED", "30T00:10 STARTED"}, shown)
	head, _, err := w.stores[0].Load(ctx, list[1].Run, 0)
	require.NoError(t, err)
	require.Zero(t, head.EndedMs, "the run goes on")
	require.NoError(t, w.calendar(0).Resume(ctx, s.Organisation, s.ID, nil))
	require.Equal(t, at(t, "2026-11-30 05:10"), w.get(s).NextMs)
	w.end(list[1].Run)
	w.tick("2026-11-30 05:10")
	shown, _ = w.firings(s)
	require.Equal(t, []string{"30T05:10 STARTED", "30T00:20 SKIPPED PAUSED", "30T00:10 STARTED"}, shown)
}

// What waited is not begun by a resumption that comes before anybody looked.
func TestWhatWaitedAtThePauseDoesNotHappen(t *testing.T) {
	w := onFile(t)
	s := w.make("*/10 * * * *", schedule.Queue, schedule.CatchUpAll)
	w.tick("2026-11-30 00:10")
	w.tick("2026-11-30 00:20")
	require.NoError(t, w.calendar(0).Pause(t.Context(), s.Organisation, s.ID, nil))
	require.NoError(t, w.calendar(0).Resume(t.Context(), s.Organisation, s.ID, nil))
	_, list := w.firings(s)
	w.end(list[1].Run)
	w.tick("2026-11-30 00:21")
	shown, _ := w.firings(s)
	require.Equal(t, []string{"30T00:20 SKIPPED PAUSED", "30T00:10 STARTED"}, shown)
}

func TestAnErasedGoalIsRefused(t *testing.T) {
	w := onFile(t)
	s := w.make("*/10 * * * *", schedule.Queue, schedule.CatchUpAll)
	require.NoError(t, w.stores[0].EraseSubject(t.Context(), "ann"))
	w.tick("2026-11-30 00:10")
	shown, _ := w.firings(s)
	require.Equal(t, []string{"30T00:10 REFUSED GOAL_ERASED"}, shown)
	require.Empty(t, w.begun)
}

func TestDeleteTakesTheGoalAndTheHistory(t *testing.T) {
	w := onFile(t)
	ctx := t.Context()
	s := w.make("*/10 * * * *", schedule.Queue, schedule.CatchUpAll)
	w.tick("2026-11-30 00:10")
	require.NoError(t, w.calendar(0).Delete(ctx, s, nil))
	_, err := w.calendar(0).Get(ctx, s.Organisation, s.ID)
	require.ErrorIs(t, err, engine.ErrNotFound)
	require.ErrorIs(t, w.calendar(0).Delete(ctx, s, nil), engine.ErrNotFound)
	texts, err := w.stores[0].Payloads(ctx, []string{s.Goal.ID})
	require.NoError(t, err)
	require.Empty(t, texts)
	shown, _ := w.firings(s)
	require.Empty(t, shown)
}

func TestNamesAndNumbersAreBounded(t *testing.T) {
	w := onFile(t)
	s := w.make("0 9 * * *", schedule.Skip, schedule.CatchUpNone)
	create := func(id, name string) error {
		again := s
		var goal engine.Payload
		again.ID, again.Name = id, name
		again.Goal, goal = engine.Seal(w.source, id, "ann", policy.Marking{}, []byte("Write."))
		return w.calendar(0).Create(t.Context(), again, goal, nil)
	}
	var refusal *run.Refusal
	require.ErrorAs(t, create("x", s.Name), &refusal)
	require.Equal(t, "NAME_TAKEN", refusal.Code)
	for n := range calendar.MaxSchedules - 1 {
		require.NoError(t, create(fmt.Sprint(n), fmt.Sprint(n)))
	}
	require.ErrorAs(t, create("y", "y"), &refusal)
	require.Equal(t, "TOO_MANY_SCHEDULES", refusal.Code)
	list, err := w.calendar(0).List(t.Context(), "org", "bob", []string{"ann"}, "", 5)
	require.NoError(t, err)
	require.Len(t, list, 5, "for its subject")
	list, err = w.calendar(0).List(t.Context(), "other", "ann", nil, "", 5)
	require.NoError(t, err)
	require.Empty(t, list, "of another organisation")
}

func TestZones(t *testing.T) {
	for _, zone := range []string{"", "Local", "local", "Mars/Base", "../etc/passwd"} {
		_, err := calendar.Times("0 9 * * *", zone)
		require.ErrorIs(t, err, calendar.ErrZone, zone)
	}
	t.Setenv("ZONEINFO", filepath.Join(t.TempDir(), "none"))
	_, err := calendar.Times("0 9 * * *", "Australia/Lord_Howe")
	require.NoError(t, err)
}

// History is bounded: what is open stays in it.
func TestHistoryIsBounded(t *testing.T) {
	w := onFile(t)
	s := w.make("* * * * *", schedule.Skip, schedule.CatchUpNone)
	w.tick("2026-11-30 00:01") // its run goes on
	w.nowMs.Store(at(t, "2026-11-30 00:01"))
	for range calendar.MaxHistory + 5 {
		w.nowMs.Add(60_000)
		require.NoError(t, w.calendar(0).Tick(t.Context()))
	}
	_, list := w.firings(s)
	require.LessOrEqual(t, len(list), calendar.MaxHistory+1)
	all, err := w.calendar(0).Firings(t.Context(), s.ID, at(t, "2026-11-30 00:02"), 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

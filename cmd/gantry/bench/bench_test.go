package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The process that is killed is this test binary again.
func TestMain(m *testing.M) {
	child, err := Child(context.Background(), os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if child {
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// tiny measures as little as still shows that everything is measured.
func tiny(t *testing.T) Config {
	return Config{Folder: t.TempDir(), Concurrency: []int{1, 2}, Rounds: 2, Repeat: 1, For: time.Millisecond, Limit: time.Millisecond}
}

// figure finds one that was measured.
func figure(t *testing.T, report *Report, id, name string) Figure {
	t.Helper()
	for _, f := range report.Figures {
		if f.ID == id && bytes.HasPrefix([]byte(f.Name), []byte(name)) {
			return f
		}
	}
	require.Failf(t, "not measured", "%s %s among %v", id, name, report.Figures)
	return Figure{}
}

func TestTheReferenceWorkIsMeasuredBesideTheLimitsAndLeavesNothing(t *testing.T) {
	config := tiny(t)
	config.HeldShare = 0.5
	report, err := Run(t.Context(), config)
	require.NoError(t, err)
	require.Zero(t, report.Violations)
	require.Len(t, report.Samples, 2)
	load := report.Samples[1].Load
	require.Equal(t, load.Runs*2, load.Rounds, "two rounds a run; the answer counts as none")
	require.Positive(t, load.Held)
	require.Less(t, load.Held, load.Runs)
	require.GreaterOrEqual(t, load.Records, load.Runs*(2+2*(2+2*4)), "each turn and call has its records")
	for _, id := range []string{"rounds", "cpu", "round-p50", "batch", "P6", "P7", "bare"} {
		require.Positive(t, figure(t, report, id, "").Median, id)
	}
	left, err := os.ReadDir(config.Folder)
	require.NoError(t, err)
	require.Empty(t, left)
	var table bytes.Buffer
	require.NoError(t, report.Table(&table))
	require.Contains(t, table.String(), "median round in bare commits")
}

func TestPausedLongAndKilledRunsAreMeasured(t *testing.T) {
	config := tiny(t)
	config.Concurrency, config.Paused, config.Long, config.Killed = []int{2}, 30, 20, 5
	report, err := Run(t.Context(), config)
	require.NoError(t, err)
	require.Zero(t, report.Violations)
	require.Positive(t, figure(t, report, "P10", "rounds").Median)
	require.LessOrEqual(t, figure(t, report, "paused", "goroutines").Median, 10.0, "a paused run keeps none")
	require.Positive(t, figure(t, report, "P11", "").Median)
	require.Contains(t, figure(t, report, "P12", "median").Name, "of 20 (20 asked for)")
	require.Positive(t, figure(t, report, "P12", "CPU").Median)
	require.Positive(t, figure(t, report, "P13", "resume").Median)
	require.Contains(t, figure(t, report, "P14", "").Name, "5 runs")
	for _, id := range []string{"P10", "P11", "P14"} {
		require.Equal(t, "too few to tell", figure(t, report, id, "").Verdict, id)
	}
	left, err := os.ReadDir(config.Folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestEventsAreHeardInsideTheProcessAndOverWebsockets(t *testing.T) {
	listening := Listening{Config: tiny(t), Subscribers: 9, Rate: 100_000}
	report, err := Events(t.Context(), listening)
	require.NoError(t, err)
	for _, id := range []string{"P8", "P16", "P17", "bare"} {
		require.Positive(t, figure(t, report, id, "").Median, id)
	}
	require.Positive(t, figure(t, report, "events", "told inside the process").Median)
	require.Positive(t, figure(t, report, "events", "told over websockets").Median)
	listening.Rate = 0
	_, err = Events(t.Context(), listening)
	require.ErrorContains(t, err, "rate")
}

func TestASoakLooksAgainAndAgainAndLeavesNothingOpen(t *testing.T) {
	soaking := Soaking{Config: tiny(t), Every: 10 * time.Millisecond}
	soaking.For = 400 * time.Millisecond
	report, _, err := Soak(t.Context(), soaking)
	require.NoError(t, err)
	require.Zero(t, report.Violations)
	require.Positive(t, figure(t, report, "soak", "goroutines").Max)
	for _, name := range []string{"leases", "records", "parked"} {
		require.Equal(t, "held", figure(t, report, "flat", name).Verdict, name)
	}
}

func TestASoakLooksInWholeSecondsUnlessItIsShort(t *testing.T) {
	for long, each := range map[time.Duration]time.Duration{10 * time.Minute: 10 * time.Second, 100 * time.Second: 2 * time.Second,
		30 * time.Second: time.Second, 3 * time.Second: 50 * time.Millisecond, time.Millisecond: 10 * time.Millisecond} {
		soaking := Soaking{}
		soaking.For = long
		require.Equal(t, each, soaking.every(), long)
	}
}

func TestASoakIsFlatUnlessItsSecondHalfGrows(t *testing.T) {
	grows := func(of func(i int, s *sighting)) bool {
		seen := make([]sighting, 20)
		for i := range seen {
			seen[i] = sighting{at: time.Duration(i) * time.Second, resident: 100e6, heap: 50e6, goroutines: 40}
			of(i, &seen[i])
		}
		return !newReport().level("SQLite", seen, sighting{})
	}
	require.False(t, grows(func(int, *sighting) {}))
	require.False(t, grows(func(i int, s *sighting) {
		if i < 10 {
			s.resident = float64(i) * 1e7 // it fills first
		}
	}))
	require.True(t, grows(func(i int, s *sighting) { s.resident += float64(i) * 3e6 }))
	require.True(t, grows(func(i int, s *sighting) { s.heap += float64(i) * 3e6 }))
	require.True(t, grows(func(i int, s *sighting) { s.goroutines += float64(2 * i) }))
	require.False(t, newReport().level("SQLite", make([]sighting, 4), sighting{leases: 1}))
	require.False(t, newReport().level("SQLite", make([]sighting, 4), sighting{parked: 1}))
	require.False(t, newReport().level("SQLite", make([]sighting, 4), sighting{lag: 1}))
}

func TestAProgramBesideIsToldWhatToDoAndComparedWith(t *testing.T) {
	config := tiny(t)
	config.Concurrency = []int{1}
	config.Beside.SQLite = `test ! -e {file} && echo BEGIN && echo 'END {"rounds": '{conc}00{rounds}', "secs": 2, "p50_ms": 1}'`
	report, err := Run(t.Context(), config)
	require.NoError(t, err)
	beside := report.Samples[0].Beside
	require.Equal(t, 1002, beside.Rounds)
	require.InDelta(t, report.Samples[0].Load.RoundsPerSecond()/501, figure(t, report, "P2", "rounds").Median, 1e-9)
	config.Beside.SQLite = "echo BEGIN"
	_, err = Run(t.Context(), config)
	require.ErrorContains(t, err, "no END")
	config.Beside.SQLite = "exit 3"
	_, err = Run(t.Context(), config)
	require.ErrorContains(t, err, "exit status 3")
}

func TestAVerdictIsOfTheFloorAndTheMedian(t *testing.T) {
	report := newReport()
	report.add(Figure{ID: "P4", Goal: atLeast(0.5, 0.8)}, 0.9, 0.1, 0.6)
	report.add(Figure{ID: "P7", Goal: atMost(5, 3.5)}, 4, 9, 6)
	report.add(Figure{ID: "P8"}, 1)
	report.add(Figure{ID: "P14", Goal: atMost(2, 1), few: true}, 9)
	require.Equal(t, []string{"held", "missed", "", "too few to tell"},
		[]string{report.Figures[0].Verdict, report.Figures[1].Verdict, report.Figures[2].Verdict, report.Figures[3].Verdict})
	require.Equal(t, []string{"P7"}, report.Missed())
	require.InDelta(t, 0.6, report.Figures[0].Median, 0)
}

func TestTheShareOfHeldRunsIsSpreadEvenly(t *testing.T) {
	for share, want := range map[float64]int{0: 0, 0.1: 10, 0.25: 25, 1: 100} {
		held := 0
		for number := int64(1); number <= 100; number++ {
			if holds(share, number) {
				held++
			}
		}
		require.Equal(t, want, held)
	}
}

func TestAnOrderTravelsInItsGoal(t *testing.T) {
	for _, want := range []order{{rounds: 10}, {rounds: 5000, held: true}, {rounds: 1, think: 50 * time.Millisecond}} {
		got, err := readOrder(want.goal())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := readOrder("Something else.")
	require.Error(t, err)
}

func TestWrongKnobsAreNamed(t *testing.T) {
	require.NoError(t, tiny(t).Validate())
	for fault, spoil := range map[string]func(*Config){
		"conc": func(c *Config) { c.Concurrency = []int{0} }, "rounds": func(c *Config) { c.Rounds = 0 }, "repeat": func(c *Config) { c.Repeat = 0 },
		"held-share": func(c *Config) { c.HeldShare = 2 }, "limit": func(c *Config) { c.Limit = 0 }, "paused": func(c *Config) { c.Paused = -1 },
		"sqlite or postgres": func(c *Config) { c.Only = "mysql" }, "--postgres": func(c *Config) { c.Only = "postgres" },
	} {
		config := tiny(t)
		spoil(&config)
		require.ErrorContains(t, config.Validate(), fault, fmt.Sprint(config))
	}
}

func TestAFanOutIsMeasuredFromItsOrderToItsEnd(t *testing.T) {
	config := tiny(t)
	config.Rounds = 1
	report, err := Fanout(t.Context(), Spreading{Config: config, Children: 7})
	require.NoError(t, err)
	require.Zero(t, report.Violations)
	require.Positive(t, figure(t, report, "P15", "from the order").Median)
	require.Equal(t, "too few to tell", figure(t, report, "P15", "from the order").Verdict)
	require.Positive(t, figure(t, report, "fanout", "children begun").Median)
	_, err = Fanout(t.Context(), Spreading{Config: config, Children: 10_001})
	require.ErrorContains(t, err, "children")
}

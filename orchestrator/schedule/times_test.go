package schedule_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/schedule"
)

func zone(t require.TestingT, name string) *time.Location {
	found, err := time.LoadLocation(name)
	require.NoError(t, err)
	return found
}

func utc(t *testing.T, text string) int64 {
	at, err := time.Parse("2006-01-02 15:04", text)
	require.NoError(t, err)
	return at.UnixMilli()
}

// What is stated about the change of clocks, at the changes themselves.
func TestTimesWhereTheClockIsChanged(t *testing.T) {
	for name, c := range map[string]struct {
		cron, zone, after string // after: UTC
		want              []string
	}{
		"Copenhagen skips 02:30": {"30 2 * * *", "Europe/Copenhagen", "2026-03-28 00:00",
			[]string{"2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"}},
		"Copenhagen skips an hour of quarters": {"*/15 2,3 * * *", "Europe/Copenhagen", "2026-03-29 00:59",
			[]string{"2026-03-29 01:00", "2026-03-29 01:15", "2026-03-29 01:30", "2026-03-29 01:45", "2026-03-30 00:00"}},
		"Copenhagen has 02:30 twice": {"30 2 * * *", "Europe/Copenhagen", "2026-10-24 00:00",
			[]string{"2026-10-24 00:30", "2026-10-25 00:30", "2026-10-26 01:30"}},
		"Copenhagen has an hour of halves twice": {"*/30 * * * *", "Europe/Copenhagen", "2026-10-24 23:59",
			[]string{"2026-10-25 00:00", "2026-10-25 00:30", "2026-10-25 02:00", "2026-10-25 02:30"}},
		"New York skips 02:30": {"30 2 * * *", "America/New_York", "2026-03-07 12:00",
			[]string{"2026-03-08 07:00", "2026-03-09 06:30"}},
		"New York has 01:30 twice": {"30 1 * * *", "America/New_York", "2026-10-31 12:00",
			[]string{"2026-11-01 05:30", "2026-11-02 06:30"}},
		"Lord Howe skips half an hour": {"15 2 * * *", "Australia/Lord_Howe", "2026-10-03 00:00",
			[]string{"2026-10-03 15:30", "2026-10-04 15:15"}},
		"Lord Howe has half an hour twice": {"45 1 * * *", "Australia/Lord_Howe", "2026-04-04 00:00",
			[]string{"2026-04-04 14:45", "2026-04-05 15:15"}},
		"Kathmandu never changes": {"0 9 * * 1-5", "Asia/Kathmandu", "2026-03-27 04:00",
			[]string{"2026-03-30 03:15", "2026-03-31 03:15"}},
		"Apia skipped a whole day": {"0 9 * * *", "Pacific/Apia", "2011-12-29 12:00",
			[]string{"2011-12-29 19:00", "2011-12-30 10:00", "2011-12-30 19:00"}},
		"a leap day across a century without one": {"0 0 29 2 *", "UTC", "2096-03-01 00:00", []string{"2104-02-29 00:00"}},
		"either day":  {"0 0 13 * 5", "UTC", "2026-11-01 00:00", []string{"2026-11-06 00:00", "2026-11-13 00:00", "2026-11-20 00:00", "2026-11-27 00:00", "2026-12-04 00:00", "2026-12-11 00:00", "2026-12-13 00:00"}},
		"7 is Sunday": {"0 0 * * 7", "UTC", "2026-11-30 00:00", []string{"2026-12-06 00:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			times, err := schedule.Compile(c.cron, zone(t, c.zone))
			require.NoError(t, err)
			var got []string
			for ms := range times.After(utc(t, c.after)) {
				if got = append(got, time.UnixMilli(ms).UTC().Format("2006-01-02 15:04")); len(got) == len(c.want) {
					break
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, expression := range []string{"", "* * * *", "* * * * * *", "60 * * * *", "0 0 30 2 *", "@daily", "@every 1m",
		"TZ=Asia/Tokyo 0 9 * * *", "CRON_TZ=UTC 0 9 * * *", "H * * * *", "0 0 L * *", "0 0 * * 5#2", strings.Repeat("1,", 200) + "1 * * * *"} {
		_, err := schedule.Compile(expression, time.UTC)
		require.ErrorIs(t, err, schedule.ErrCron, expression)
	}
}

// named is a slow and plain reading of one field of the kinds that oracle draws.
func named(field string, value int) bool {
	if field == "*" {
		return true
	}
	if step, steps := strings.CutPrefix(field, "*/"); steps {
		n, _ := strconv.Atoi(step)
		return value%n == 0
	}
	return slices.Contains(strings.Split(field, ","), strconv.Itoa(value))
}

func wants(expression string, local time.Time) bool {
	f := strings.Fields(expression)
	day, weekday := named(f[2], local.Day()), named(f[4], int(local.Weekday()))
	onDay := day && weekday
	if f[2][0] != '*' && f[4][0] != '*' {
		onDay = day || weekday
	}
	return onDay && named(f[0], local.Minute()) && named(f[1], local.Hour()) && named(f[3], int(local.Month()))
}

// oracle walks minute by minute, sees each local minute once, and makes up at
// once for those that the clock was put over.
func oracle(expression string, zone *time.Location, from, to int64) (moments []int64) {
	const minute = 60_000
	wall := func(ms int64) time.Time {
		local := time.UnixMilli(ms).In(zone)
		return time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
	}
	latest := wall(from - 25*60*minute)
	for ms := from - 25*60*minute; ms <= to; ms += minute {
		fires := false
		for local := wall(ms); latest.Before(local); {
			latest = latest.Add(time.Minute)
			fires = fires || wants(expression, latest)
		}
		if fires && ms > from {
			moments = append(moments, ms)
		}
	}
	return moments
}

var zones = []string{"Europe/Copenhagen", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca", "America/Caracas",
	"Pacific/Apia", "America/St_Johns", "Antarctica/Troll", "Asia/Pyongyang", "Europe/Istanbul", "UTC"}

// Whatever the expression, zone and year: the moments are those of the oracle.
func TestTimesAreThoseOfTheOracle(t *testing.T) {
	field := func(limit, from int) *rapid.Generator[string] {
		return rapid.OneOf(rapid.Just("*"), rapid.Map(rapid.IntRange(from, limit), strconv.Itoa),
			rapid.Map(rapid.SliceOfNDistinct(rapid.IntRange(from, limit), 2, 3, rapid.ID), func(list []int) string {
				return strings.Join(texts(list), ",")
			}))
	}
	step := rapid.SampledFrom([]string{"*/5", "*/15", "*/7", "0", "30", "45"})
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		minute := rapid.OneOf(step, field(59, 0)).Draw(t, "minute")
		hour := rapid.OneOf(rapid.SampledFrom([]string{"0", "1", "2", "3", "*/6"}), field(23, 0)).Draw(t, "hour")
		expression := strings.Join([]string{minute, hour, field(28, 1).Draw(t, "day"), rapid.OneOf(rapid.Just("*"), field(12, 1)).Draw(t, "month"), field(6, 0).Draw(t, "weekday")}, " ")
		name := rapid.SampledFrom(zones).Draw(t, "zone")
		year := rapid.IntRange(2005, 2040).Draw(t, "year")
		from := time.Date(year, time.Month(rapid.IntRange(1, 12).Draw(t, "month of the beginning")), rapid.IntRange(1, 28).Draw(t, "day"), 0, rapid.IntRange(0, 59).Draw(t, "minute"), 0, 0, time.UTC).UnixMilli()
		to := from + 20*24*3_600_000
		times, err := schedule.Compile(expression, zone(t, name))
		require.NoError(t, err)
		var got []int64
		for ms := range times.After(from) {
			if ms > to {
				break
			}
			got = append(got, ms)
		}
		require.Equal(t, oracle(expression, zone(t, name), from, to), got, "%s in %s", expression, name)
		compared += len(got)
	})
	fmt.Printf("level: L0 times of schedules %d\n", compared)
}

func texts(list []int) (all []string) {
	for _, n := range list {
		all = append(all, strconv.Itoa(n))
	}
	return all
}

// Each change of clocks from 2000 to 2037, with times around it.
func TestEveryChangeOfClocksAgainstTheOracle(t *testing.T) {
	changes := 0
	for _, name := range zones {
		at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).In(zone(t, name))
		for at.Year() < 2037 {
			_, end := at.ZoneBounds()
			if end.IsZero() {
				break
			}
			at = end
			changes++
			for _, expression := range []string{"*/15 * * * *", "30 2 * * *", "0 0 * * *", "59 23 * * *", "10,50 1-3 * * *"} {
				times, err := schedule.Compile(expression, at.Location())
				require.NoError(t, err)
				from, to := end.UnixMilli()/60_000*60_000-30*3_600_000, end.UnixMilli()/60_000*60_000+30*3_600_000
				want := oracle(strings.ReplaceAll(expression, "1-3", "1,2,3"), at.Location(), from, to)
				var got []int64
				for ms := range times.After(from) {
					if ms > to {
						break
					}
					got = append(got, ms)
				}
				require.Equal(t, want, got, "%s in %s at %s", expression, name, end)
			}
		}
	}
	require.Greater(t, changes, 400)
	fmt.Printf("level: L0 changes of clocks %d\n", changes)
}

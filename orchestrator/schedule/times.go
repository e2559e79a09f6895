package schedule

import (
	"errors"
	"iter"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// Times are the moments that a cron expression names in a time zone.
//
// An expression has five fields: minute, hour, day of the month, month, day of
// the week (0 and 7 are Sunday). Where both days are restricted, either one
// suffices. It names times of the local clock. A local time that does not exist,
// since the clock was put forward over it, comes at the first moment after the
// gap; one that occurs twice, since the clock was put back, comes once, at the
// first. Times that fall on the same moment are one.
type Times struct {
	minute, hour, day, month, weekday uint64 // bit n: n is named
	either                            bool   // the day of the month or that of the week
	zone                              *time.Location
}

// ErrCron means that a text is no cron expression of five fields, or one whose
// time never comes.
var ErrCron = errors.New("not a cron expression of five fields whose time ever comes")

// everyBit is set in a field that was written as "*".
const everyBit = 1 << 63

// maxCron bounds an expression's bytes.
const maxCron = 200

// parser reads five fields, without seconds, descriptors and zones of their own.
var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// Compile reads a cron expression whose times are of a zone. Errors: ErrCron.
func Compile(expression string, zone *time.Location) (Times, error) {
	// The library reads a zone within the expression; the schedule has its own.
	if len(expression) > maxCron || strings.Contains(expression, "=") {
		return Times{}, ErrCron
	}
	parsed, err := parser.Parse(expression)
	if err != nil {
		return Times{}, errors.Join(ErrCron, err)
	}
	spec, plain := parsed.(*cron.SpecSchedule)
	if !plain {
		return Times{}, ErrCron
	}
	t := Times{minute: spec.Minute, hour: spec.Hour, day: spec.Dom, month: spec.Month, weekday: cron.NormalizeDOW(spec.Dow), zone: zone}
	t.either = t.day&everyBit == 0 && t.weekday&everyBit == 0
	if _, comes := t.Next(0); !comes {
		return Times{}, ErrCron
	}
	return t, nil
}

// searchDays is how far Next looks: the 29th of February is eight years away at
// most, around the turn of a century.
const searchDays = 8*366 + 2

// Next returns the first moment after one, in UTC ms; false where none comes
// within eight years.
func (t Times) Next(afterMs int64) (ms int64, comes bool) {
	for ms := range t.After(afterMs) {
		return ms, true
	}
	return 0, false
}

const dayMs = int64(24 * time.Hour / time.Millisecond)

// After gives the moments after one, in order, in UTC ms. It ends where none
// comes within eight years.
func (t Times) After(afterMs int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		// No zone is further than a day from UTC, and none was ever put forward
		// by more than a day: what comes after began at most three days before.
		day := afterMs/dayMs - 3
		last := afterMs
		for until := day + searchDays; day <= until; day++ {
			if !t.onDay(day) {
				continue
			}
			for ms := range t.moments(day) {
				if ms <= last {
					continue
				}
				if last, until = ms, day+searchDays; !yield(ms) {
					return
				}
			}
		}
	}
}

// onDay reports whether any time of a local day is named. Days count from the
// first of 1970.
func (t Times) onDay(day int64) bool {
	date := time.UnixMilli(day * dayMs).UTC()
	if t.month>>int(date.Month())&1 == 0 {
		return false
	}
	ofMonth, ofWeek := t.day>>date.Day()&1 == 1, t.weekday>>int(date.Weekday())&1 == 1
	if t.either {
		return ofMonth || ofWeek
	}
	return ofMonth && ofWeek
}

// moments gives the moments of a local day's times; they never go back.
func (t Times) moments(day int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		spans := spansAround(day*dayMs, t.zone)
		for hour := range each(t.hour, 24) {
			for minute := range each(t.minute, 60) {
				local := day*dayMs + (hour*60+minute)*60_000
				if !yield(moment(local, spans)) {
					return
				}
			}
		}
	}
}

// each gives the numbers below a bound whose bits are set.
func each(set uint64, bound int) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for left := set & (1<<bound - 1); left != 0; left &= left - 1 {
			if !yield(int64(bits.TrailingZeros64(left))) {
				return
			}
		}
	}
}

// span is a time during which a zone keeps one distance from UTC, in ms. Its end
// is not of it.
type span struct{ fromMs, toMs, offsetMs int64 }

// spansAround are those of a zone that a local day may lie in, in order.
func spansAround(localMs int64, zone *time.Location) []span {
	at := time.UnixMilli(localMs - 2*dayMs).In(zone)
	end := localMs + 3*dayMs
	var spans []span
	for {
		_, offset := at.Zone()
		from, to := at.ZoneBounds()
		s := span{fromMs: at.UnixMilli(), toMs: end, offsetMs: int64(offset) * 1000}
		if !from.IsZero() {
			s.fromMs = from.UnixMilli()
		}
		if !to.IsZero() {
			s.toMs = to.UnixMilli()
		}
		spans = append(spans, s)
		if to.IsZero() || s.toMs >= end {
			return spans
		}
		at = to
	}
}

// moment is when a local time is for the first time; where it never is, the
// first moment whose local time is later.
func moment(localMs int64, spans []span) int64 {
	at := slices.IndexFunc(spans, func(s span) bool { return localMs < s.toMs+s.offsetMs })
	if at < 0 {
		at = len(spans) - 1 // no zone is that far from UTC
	}
	return max(localMs-spans[at].offsetMs, spans[at].fromMs)
}

// Package schedule says when runs begin by themselves: which moments a schedule
// names, which of those that have passed are still kept, and what becomes of one
// while an earlier run goes on. It is pure: what the time is, it is told.
package schedule

import (
	"regexp"
	"slices"

	"gantry.dev/orchestrator/run"
)

// Overlap says what becomes of a firing while an earlier one of the same
// schedule has not come to its end.
type Overlap string

// The ways of an overlap.
const (
	Skip  Overlap = "SKIP"  // the firing does not happen
	Queue Overlap = "QUEUE" // it waits until those before it have ended
	Allow Overlap = "ALLOW" // it starts beside them
)

// CatchUp says which of the firings that were missed, since no process was
// there, still happen.
type CatchUp string

// The ways of catching up.
const (
	CatchUpNone CatchUp = "NONE" // none: only one that is due now, or was within Grace
	CatchUpLast CatchUp = "LAST" // the last one
	CatchUpAll  CatchUp = "ALL"  // the last MaxCatchUp
)

const (
	// Grace is how late a firing may be and still is on time, in ms.
	Grace = 60_000
	// MaxCatchUp is how many missed firings happen at most.
	MaxCatchUp = 100
	// MaxRefusals is how many firings in a row are refused before a schedule
	// pauses by itself.
	MaxRefusals = 5
)

// Why a schedule is paused.
const (
	PausedByPerson   = "PERSON"
	PausedByRefusals = "REFUSALS" // MaxRefusals in a row
	PausedByTimes    = "TIMES"    // its zone or expression is not known any more
)

// Issuer is who answers for the identity under which a schedule's runs begin: it
// names who made the schedule, and as the id of its token the schedule.
const Issuer = "schedule"

// Schedule says at which times runs begin, of which agent, for whom.
type Schedule struct {
	ID, Organisation string
	Name             string // of its maker's schedules
	MadeBy           string // principal id of a person
	Agent            string
	Goal             run.Text
	Subject          string // principal id of whom the runs are for: its maker, or a service whose manager the maker is
	Conversation     string // id; empty for none
	Cron             string // see Times
	Zone             string // of the IANA database
	Overlap          Overlap
	CatchUp          CatchUp
	FromMs           int64 // UTC ms; 0: as soon as it is made
	UntilMs          int64 // UTC ms, not itself; 0: without an end
	MicroUSD         int64 // of each run, in micro-dollars; 0: the agent's limit
	CreatedMs        int64 // UTC ms

	NextMs   int64  // UTC ms of the next firing; 0: none comes
	Paused   string // why; empty: it is not
	Refusals int    // firings refused in a row
}

// maxName bounds a name's characters.
const maxName = 63

var named = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// Check says what is wrong with what people chose freely; nil: nothing. The cron
// expression is Compile's to check, the zone whoever knows zones.
func (s Schedule) Check(nowMs int64) *run.Refusal {
	switch {
	case len(s.Name) > maxName || !named.MatchString(s.Name):
		return &run.Refusal{Code: "INVALID_NAME", Detail: "A schedule's name has 1 to 63 small letters, digits and hyphens; choose another."}
	case !slices.Contains([]Overlap{Skip, Queue, Allow}, s.Overlap):
		return &run.Refusal{Code: "INVALID_OVERLAP", Detail: "Say of overlapping runs SKIP, QUEUE or ALLOW."}
	case !slices.Contains([]CatchUp{CatchUpNone, CatchUpLast, CatchUpAll}, s.CatchUp):
		return &run.Refusal{Code: "INVALID_CATCH_UP", Detail: "Say of missed times NONE, LAST or ALL."}
	case s.MicroUSD < 0:
		return &run.Refusal{Code: "BUDGET", Detail: "A budget is not negative; leave it out for the agent's limit."}
	case s.FromMs < 0 || s.UntilMs < 0 || s.UntilMs != 0 && (s.UntilMs <= s.FromMs || s.UntilMs <= nowMs):
		return &run.Refusal{Code: "INVALID_PERIOD", Detail: "The schedule's end must be in the future and after its beginning."}
	}
	return nil
}

// First returns the first firing after a moment, 0 where none comes. A schedule
// begins with it when it is made and when it is resumed: what passes while it is
// paused is not caught up.
func (s Schedule) First(times Times, afterMs int64) int64 {
	next, comes := times.Next(max(afterMs, s.FromMs-1))
	if !comes || s.UntilMs != 0 && next >= s.UntilMs {
		return 0
	}
	return next
}

package schedule

// Outcome says what became of a firing.
type Outcome string

// The outcomes of a firing.
const (
	Planned Outcome = "PLANNED" // it is to start, or waits for those before it
	Started Outcome = "STARTED" // its run began
	Refused Outcome = "REFUSED" // no run was admitted; the code says why
	Skipped Outcome = "SKIPPED" // an earlier one had not ended, or the schedule was paused
	Missed  Outcome = "MISSED"  // nobody was there at its time, and it is not caught up
)

// Firing is one time of a schedule, and what became of it.
type Firing struct {
	Schedule  string
	PlannedMs int64 // UTC ms
	LastMs    int64 // UTC ms of the last of the times that one record of missed ones stands for; else PlannedMs
	Count     int64 // how many times it stands for
	Outcome   Outcome
	Code      string // stable; of a refused or skipped one
	Run       string // id; of a started one
	AtMs      int64  // UTC ms when that was recorded
}

// Due is what a schedule comes to when its next firing has passed.
type Due struct {
	Firings []Firing // in the order of their times
	NextMs  int64    // UTC ms; 0: none comes any more
}

// Pass decides on every time of a schedule from NextMs until now. Times that are
// not caught up are one record together.
func (s Schedule) Pass(times Times, nowMs int64) Due {
	var due Due
	kept := s.kept()
	missed := Firing{Schedule: s.ID, Outcome: Missed, AtMs: nowMs}
	late := make([]int64, 0, kept+1)
	for ms := range times.After(s.NextMs - 1) {
		if s.UntilMs != 0 && ms >= s.UntilMs {
			break
		}
		if ms > nowMs {
			due.NextMs = ms
			break
		}
		if late = append(late, ms); len(late) > kept {
			missed.add(late[0])
			late = append(late[:0], late[1:]...)
		}
	}
	if s.CatchUp == CatchUpNone && len(late) == 1 && nowMs-late[0] > Grace {
		missed.add(late[0])
		late = nil
	}
	if missed.Count > 0 {
		due.Firings = append(due.Firings, missed)
	}
	for _, ms := range late {
		due.Firings = append(due.Firings, Firing{Schedule: s.ID, PlannedMs: ms, LastMs: ms, Count: 1, Outcome: Planned, AtMs: nowMs})
	}
	return due
}

// kept is how many of the times that have passed happen at most.
func (s Schedule) kept() int {
	if s.CatchUp == CatchUpAll {
		return MaxCatchUp
	}
	return 1
}

func (f *Firing) add(ms int64) {
	if f.Count == 0 {
		f.PlannedMs = ms
	}
	f.LastMs, f.Count = ms, f.Count+1
}

// The codes of a skipped firing.
const (
	CodeOverlap   = "OVERLAP"    // an earlier one had not ended
	CodeQueueFull = "QUEUE_FULL" // so many wait already
	CodePaused    = "PAUSED"     // it waited when the schedule was paused
)

// Turn says what a planned firing comes to, given how many firings of the same
// schedule before it have not come to their end: it starts (Started), does not
// happen (Skipped, with why), or goes on waiting (Planned).
func (s Schedule) Turn(before int) (outcome Outcome, code string) {
	switch {
	case s.Paused != "":
		return Skipped, CodePaused
	case before == 0 || s.Overlap == Allow:
		return Started, ""
	case s.Overlap != Queue:
		return Skipped, CodeOverlap
	case before > MaxCatchUp:
		return Skipped, CodeQueueFull
	}
	return Planned, ""
}

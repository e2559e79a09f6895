package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sourcegraph/conc"

	"gantry.dev/cmd/gantry/bench/machine"
)

// Soaking is what a long bounded load is.
type Soaking struct {
	Config
	Every time.Duration // how often it is looked; 0: a sixtieth of the whole, in whole seconds where that is longer than one
}

// leastLooks is how often a soak has to look before its second half says
// anything.
const leastLooks = 4

// every is how often it is looked.
func (s Soaking) every() time.Duration {
	if s.Every > 0 {
		return s.Every
	}
	each := max(s.For/60, 10*time.Millisecond)
	if s.For >= leastLooks*time.Second {
		each = max(each.Round(time.Second), time.Second)
	}
	return each
}

// Validate joins everything that is wrong.
func (s Soaking) Validate() error {
	var fault error
	switch {
	case s.Every < 0:
		fault = errors.New("every: must not be negative")
	case s.For > 0 && s.For < leastLooks*s.every():
		fault = fmt.Errorf("for: must be at least %s, to look %d times", leastLooks*s.every(), leastLooks)
	}
	return errors.Join(s.Config.Validate(), fault)
}

// sighting is what the process kept at one moment.
type sighting struct {
	at         time.Duration
	resident   float64
	heap       float64
	goroutines float64
	leases     float64
	lag        float64 // records that were not told to the bus yet
	parked     float64
}

// bounded is how many runs a soak has under way. They think, so that the cores
// are not what is measured.
const (
	bounded    = 16
	soakRounds = 5
	soakThink  = 20 * time.Millisecond
)

// Soak keeps a bounded load up and looks whether anything grows. It reports
// whether all stayed flat.
func Soak(ctx context.Context, s Soaking) (report *Report, flat bool, err error) {
	if err := s.Validate(); err != nil {
		return nil, false, err
	}
	report, flat = newReport(), true
	for _, dsn := range s.stores() {
		h, err := build(ctx, s.Folder, dsn, nil)
		if err != nil {
			return report, false, err
		}
		level, err := s.on(ctx, h, report)
		if err := errors.Join(err, h.raze()); err != nil {
			return report, false, err
		}
		flat = flat && level
	}
	return report, flat && report.Violations == 0, nil
}

func (s Soaking) on(ctx context.Context, h *house, report *Report) (flat bool, err error) {
	db, err := h.database.Connect(false)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ended := make(chan struct{})
	var load Load
	var driven error
	var tasks conc.WaitGroup
	tasks.Go(func() {
		defer close(ended)
		load, driven = h.drive(ctx, work{concurrency: bounded, order: order{rounds: soakRounds, think: soakThink}, duration: s.For})
	})
	seen, err := s.watch(ctx, h, db, ended)
	tasks.Wait()
	if err := errors.Join(err, driven); err != nil {
		return false, err
	}
	if len(seen) < 2 {
		return false, fmt.Errorf("soak: looked only %d times: it says nothing", len(seen))
	}
	still, err := settled(ctx, db)
	if err != nil {
		return false, err
	}
	limits, err := machine.Measure(ctx, h.database, h.folder, machine.Like{RowsPerCommit: 8, RowBytes: load.RecordBytes, For: s.Limit})
	if err != nil {
		return false, err
	}
	report.soaked(h.database.Name(), load, limits, seen)
	found, err := h.violations(ctx)
	report.Violations += found
	flat = report.level(h.database.Name(), seen, still)
	return flat, err
}

// watch looks until the load has ended.
func (s Soaking) watch(ctx context.Context, h *house, db *sql.DB, ended <-chan struct{}) (seen []sighting, err error) {
	ticker := time.NewTicker(s.every())
	defer ticker.Stop()
	begin := time.Now()
	for {
		select {
		case <-ctx.Done():
			return seen, ctx.Err()
		case <-ended:
			return seen, nil
		case <-ticker.C:
		}
		at := time.Since(begin)
		now, err := look(ctx, db)
		if err != nil {
			return seen, err
		}
		now.at = at
		seen = append(seen, now)
		s.say(fmt.Sprintf("%s after %s: %.1f MB resident, %.1f MB heap, %.0f goroutines, %.0f leases, %.0f to tell, %.0f parked",
			h.database.Name(), now.at.Round(min(100*time.Millisecond, s.every()/10)), now.resident/1e6, now.heap/1e6, now.goroutines, now.leases, now.lag, now.parked))
	}
}

// untold counts what the relay's cursors, which are kept at every poll, are
// behind the writers.
const untold = `SELECT coalesce(sum(coalesce((SELECT max(j.n) FROM journal j WHERE j.writer = w.number), 0)
	- coalesce((SELECT c.n FROM cursors c WHERE c.name = 'relay' AND c.writer = w.id), 0)), 0) FROM writers w`

func look(ctx context.Context, db *sql.DB) (s sighting, err error) {
	heap, resident, goroutines := weigh()
	s.heap, s.resident, s.goroutines = float64(heap), float64(resident), float64(goroutines)
	for query, into := range map[string]*float64{
		"SELECT count(*) FROM heads WHERE owner <> ''":       &s.leases,
		"SELECT count(*) FROM heads WHERE status = 'PARKED'": &s.parked,
		untold: &s.lag,
	} {
		if err := db.QueryRowContext(ctx, query).Scan(into); err != nil {
			return s, fmt.Errorf("soak: %w", err)
		}
	}
	return s, nil
}

// patience is how long what is left open after a load may take to close.
const patience = 10 * time.Second

// settled waits until nothing is owned and everything is told, and returns what
// is left when that does not come.
func settled(ctx context.Context, db *sql.DB) (last sighting, err error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = until(waiting, 50*time.Millisecond, func() (bool, error) {
		last, err = look(ctx, db)
		return last.leases == 0 && last.lag <= 0, err
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return last, err
}

func (r *Report) soaked(store string, load Load, limits machine.Limits, seen []sighting) {
	tell := func(name, unit string, values ...float64) {
		r.add(Figure{ID: "soak", Store: store, Name: name, Unit: unit}, values...)
	}
	column := func(value func(s sighting) float64) (values []float64) {
		for _, s := range seen {
			values = append(values, value(s))
		}
		return values
	}
	tell("seconds", "s", load.Seconds)
	tell("rounds a second", "1/s", load.RoundsPerSecond())
	tell("bare commits side by side", "1/s", limits.ParallelCommitsPerSecond)
	tell("resident memory", "MB", column(func(s sighting) float64 { return s.resident / 1e6 })...)
	tell("heap", "MB", column(func(s sighting) float64 { return s.heap / 1e6 })...)
	tell("goroutines", "", column(func(s sighting) float64 { return s.goroutines })...)
	tell("open leases", "", column(func(s sighting) float64 { return s.leases })...)
	tell("records to tell", "", column(func(s sighting) float64 { return s.lag })...)
}

// What still counts as flat, over the second half of a soak.
const (
	flatShare      = 0.1     // of the mean
	flatBytes      = 8 << 20 // where that is less
	flatGoroutines = 16
)

// level judges the second half: by then everything that is kept for good is
// there.
func (r *Report) level(store string, seen []sighting, still sighting) bool {
	half := seen[len(seen)/2:]
	verdict := true
	judge := func(name, unit string, value, most float64) {
		r.add(Figure{ID: "flat", Store: store, Name: name, Unit: unit, Goal: atMost(most, most)}, value)
		verdict = verdict && value <= most
	}
	growth := func(value func(s sighting) float64) (grown, mean float64) {
		slope, mean := line(half, value)
		if len(half) < 2 {
			return 0, mean
		}
		return slope * (half[len(half)-1].at - half[0].at).Seconds(), mean
	}
	resident, mean := growth(func(s sighting) float64 { return s.resident })
	judge("growth of resident memory in the second half", "MB", resident/1e6, max(flatShare*mean, flatBytes)/1e6)
	heap, mean := growth(func(s sighting) float64 { return s.heap })
	judge("growth of the heap in the second half", "MB", heap/1e6, max(flatShare*mean, flatBytes)/1e6)
	goroutines, _ := growth(func(s sighting) float64 { return s.goroutines })
	judge("growth of goroutines in the second half", "", goroutines, flatGoroutines)
	judge("leases that stayed open", "", still.leases, 0)
	judge("records that stayed untold", "", still.lag, 0)
	judge("parked runs", "", still.parked, 0)
	return verdict
}

// line is the straight line that fits best: its slope a second, and the mean.
func line(seen []sighting, value func(s sighting) float64) (slope, mean float64) {
	var x, y, xx, xy float64
	n := float64(max(1, len(seen)))
	for _, s := range seen {
		at, v := s.at.Seconds(), value(s)
		x, y, xx, xy = x+at, y+v, xx+at*at, xy+at*v
	}
	return machine.Over(n*xy-x*y, n*xx-x*x), y / n
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gantry.dev/cmd/gantry/bench/machine"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/run"
)

// longest is how long a long run may take; it is judged by the rounds that it
// made until then.
const longest = time.Minute

// long measures what length costs: P12 and P13.
func long(ctx context.Context, c Config, report *Report) error {
	if c.Long == 0 {
		return nil
	}
	for _, dsn := range c.stores() {
		if err := c.longOn(ctx, dsn, report); err != nil {
			return fmt.Errorf("long: %w", err)
		}
	}
	return nil
}

func (c Config) longOn(ctx context.Context, dsn string, report *Report) (err error) {
	h, err := build(ctx, c.Folder, dsn, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.raze()) }()
	store := h.database.Name()
	c.say(fmt.Sprintf("%s, a run of %d rounds", store, c.Long))
	if err := c.lengths(ctx, h, report); err != nil { // while nothing else is under way
		return err
	}
	shortID, _, err := h.lengthy(ctx, max(1, c.Long/10))
	if err != nil {
		return err
	}
	longID, times, err := h.lengthy(ctx, c.Long)
	if err != nil {
		return err
	}
	decile := max(1, len(times)/10)
	first, last := machine.QuantilesOf(times[:decile]), machine.QuantilesOf(times[len(times)-decile:])
	report.add(Figure{ID: "P12", Store: store, Name: fmt.Sprintf("median round, last tenth of %d (%d asked for) to the first", len(times), c.Long), Goal: atMost(1.2, 1.1)}, machine.Over(last.P50, first.P50))
	report.add(Figure{ID: "long", Store: store, Name: "median round of the first tenth", Unit: "ms"}, first.P50)
	report.add(Figure{ID: "long", Store: store, Name: "median round of the last tenth", Unit: "ms"}, last.P50)
	h.config = func(c *wire.Config) { c.Work = false } // a run that got no further lies still
	if err := h.reopen(ctx); err != nil {
		return err
	}
	return c.resumes(ctx, h, []string{shortID, longID}, report)
}

// lengthy drives one run and returns how long each round took after the first.
func (h *house) lengthy(ctx context.Context, rounds int) (id string, times []time.Duration, err error) {
	if id, err = h.start(ctx, order{rounds: rounds}); err != nil {
		return id, nil, err
	}
	begin, turn := time.Now(), time.Time{}
	err = h.follow(ctx, id, func(record run.Record) (bool, error) {
		if record.Kind != run.KindTurnStarted {
			return record.Kind != run.KindEnded, nil
		}
		now := time.Now()
		if !turn.IsZero() {
			times = append(times, now.Sub(turn))
		}
		turn = now
		return now.Sub(begin) < longest, nil
	})
	if err == nil && len(times) == 0 {
		err = fmt.Errorf("run %s made no round", id)
	}
	return id, times, err
}

// The two lengths whose rounds are compared.
const (
	shortRounds = 10
	longRounds  = 200
)

// lengths compares what a round costs in runs of different lengths.
func (c Config) lengths(ctx context.Context, h *house, report *Report) error {
	var ratios []float64
	for range c.Repeat {
		var cpu [2]float64
		for i, rounds := range []int{shortRounds, min(longRounds, c.Long)} {
			load, err := h.drive(ctx, work{concurrency: 1, order: order{rounds: rounds}, duration: c.For})
			if err != nil {
				return err
			}
			cpu[i] = load.CPUMs + load.DatabaseCPUMs
		}
		ratios = append(ratios, machine.Over(cpu[1], cpu[0]))
	}
	report.add(Figure{ID: "P12", Store: h.database.Name(), Name: fmt.Sprintf("CPU for a round in runs of %d rounds to %d", min(longRounds, c.Long), shortRounds), Goal: atMost(1.2, 1.1)}, ratios...)
	return nil
}

// resumes measures how long it takes to read a run and fold it.
func (c Config) resumes(ctx context.Context, h *house, ids []string, report *Report) error {
	perRound := make([][]float64, len(ids))
	for range max(3, c.Repeat) {
		for i, id := range ids {
			begin := time.Now()
			state, err := h.platform.Engine.State(ctx, id)
			if err != nil {
				return err
			}
			took := time.Since(begin)
			perRound[i] = append(perRound[i], float64(took.Microseconds())/float64(max(1, len(state.Turns))))
		}
	}
	short, longer := machine.SpreadOf(perRound[0]).Median, perRound[1]
	report.add(Figure{ID: "P13", Store: h.database.Name(), Name: "resume for a round of the long run", Unit: "us", Goal: atMost(30, 15)}, longer...)
	report.add(Figure{ID: "P13", Store: h.database.Name(), Name: "the same to a run of a tenth of its length; 1 is linear", Goal: atMost(1.3, 1.1)}, machine.Over(machine.SpreadOf(longer).Median, short))
	return nil
}

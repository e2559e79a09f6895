package bench

import (
	"context"
	"errors"
	"fmt"

	"gantry.dev/cmd/gantry/bench/machine"
)

// Sample is one load with the limits that were measured right before it.
type Sample struct {
	Store      string         `json:"store"`
	Repetition int            `json:"repetition"`
	Load       Load           `json:"load"`
	Limits     machine.Limits `json:"limits"`
	Beside     *Peer          `json:"beside,omitempty"`
}

// reference measures the reference work at each number of runs at once: on all
// stores, alternately, and again for each repetition.
func reference(ctx context.Context, c Config, report *Report) (err error) {
	var houses []*house
	defer func() {
		for _, h := range houses {
			err = errors.Join(err, h.raze())
		}
	}()
	for _, dsn := range c.stores() {
		h, err := build(ctx, c.Folder, dsn, nil)
		if err != nil {
			return err
		}
		houses = append(houses, h)
	}
	for repetition := range c.Repeat {
		for _, concurrency := range c.Concurrency {
			for _, h := range houses {
				c.say(fmt.Sprintf("%s, %d at once, repetition %d", h.database.Name(), concurrency, repetition+1))
				sample, err := c.sample(ctx, h, concurrency)
				if err != nil {
					return fmt.Errorf("%s, %d at once: %w", h.database.Name(), concurrency, err)
				}
				sample.Repetition = repetition + 1
				report.Samples = append(report.Samples, sample)
			}
		}
	}
	for _, h := range houses {
		found, err := h.violations(ctx)
		if err != nil {
			return err
		}
		report.Violations += found
		report.judge(h.database.Name(), c)
	}
	return nil
}

// sample measures a load, the program beside it, and then what is bare with
// transactions like the load's.
func (c Config) sample(ctx context.Context, h *house, concurrency int) (sample Sample, err error) {
	sample.Store = h.database.Name()
	load := work{concurrency: concurrency, order: order{rounds: c.Rounds}, heldShare: c.HeldShare, duration: c.For}
	if sample.Load, err = h.sample(ctx, load); err != nil {
		return sample, err
	}
	if sample.Beside, err = c.beside(ctx, h, concurrency); err != nil {
		return sample, err
	}
	sample.Limits, err = machine.Measure(ctx, h.database, h.folder,
		machine.Like{RowsPerCommit: sample.Load.RecordsPerCommit, RowBytes: sample.Load.RecordBytes, For: c.Limit})
	return sample, err
}

// of are the samples of a store with so many runs at once.
func (r *Report) of(store string, concurrency int) (found []Sample) {
	for _, s := range r.Samples {
		if s.Store == store && s.Load.Concurrency == concurrency {
			found = append(found, s)
		}
	}
	return found
}

func each(samples []Sample, value func(s Sample) float64) (values []float64) {
	for _, s := range samples {
		values = append(values, value(s))
	}
	return values
}

// judge turns a store's samples into figures.
func (r *Report) judge(store string, c Config) {
	for _, concurrency := range c.Concurrency {
		samples := r.of(store, concurrency)
		figure := func(id, name, unit string, goal *Goal, value func(s Sample) float64) {
			r.add(Figure{ID: id, Store: store, Name: fmt.Sprintf("%s, %d at once", name, concurrency), Unit: unit, Goal: goal}, each(samples, value)...)
		}
		figure("rounds", "rounds a second", "1/s", nil, func(s Sample) float64 { return s.Load.RoundsPerSecond() })
		figure("cpu", "CPU of this process for a round", "ms", nil, func(s Sample) float64 { return s.Load.CPUMs })
		if store == "PostgreSQL" {
			figure("cpu-db", "CPU of the server for a round", "ms", nil, func(s Sample) float64 { return s.Load.DatabaseCPUMs })
		}
		figure("round-p50", "median round", "ms", nil, func(s Sample) float64 { return s.Load.RoundMs.P50 })
		figure("round-p99", "slow round (p99)", "ms", nil, func(s Sample) float64 { return s.Load.RoundMs.P99 })
		figure("batch", "records in a commit", "", nil, func(s Sample) float64 { return s.Load.RecordsPerCommit })
		figure("foreign", "cores that others had", "", nil, func(s Sample) float64 { return s.Load.Foreign })
		r.judgePeer(store, concurrency, samples)
		r.judgeGoals(store, concurrency, figure)
	}
	r.judgeLimits(store, c.Concurrency[len(c.Concurrency)-1])
}

type figuring func(id, name, unit string, goal *Goal, value func(s Sample) float64)

// The goals are for one run at once and for 64; other numbers are only told.
func (r *Report) judgeGoals(store string, concurrency int, figure figuring) {
	var rows, rounds, syncs, bytes, latency *Goal
	switch concurrency {
	case 1:
		syncs, latency = atMost(3.2, 2.6), atMost(5, 3.5)
	case 64:
		rows, rounds, syncs, bytes = atLeast(0.5, 0.8), atLeast(0.35, 0.6), atMost(0.2, 0.1), atMost(3.5, 2.5)
	}
	if rows != nil {
		figure("P4", "records a second to rows of a bare group commit", "", rows, func(s Sample) float64 {
			return machine.Over(s.Load.RecordsPerSecond(), s.Limits.RowsPerSecond)
		})
		figure("P5", "rounds to bare commits side by side", "", rounds, func(s Sample) float64 {
			return machine.Over(s.Load.RoundsPerSecond(), s.Limits.ParallelCommitsPerSecond)
		})
	}
	figure("P6", "syncs of the log for a round", "", syncs, func(s Sample) float64 { return s.Load.SyncsPerRound })
	if store == "PostgreSQL" {
		figure("P6", "bytes of the log for a round", "KB", bytes, func(s Sample) float64 { return s.Load.LogBytesPerRound / 1000 })
	} else {
		figure("written", "bytes written for a round, with checkpoints", "KB", nil, func(s Sample) float64 { return s.Load.WrittenBytesPerRound / 1000 })
	}
	if latency != nil {
		figure("P7", "median round in bare commits", "", latency, func(s Sample) float64 {
			return machine.Over(s.Load.RoundMs.P50, s.Limits.CommitMs.P50)
		})
	}
}

func (r *Report) judgeLimits(store string, concurrency int) {
	samples := r.of(store, concurrency)
	bare := func(name, unit string, value func(l machine.Limits) float64) {
		r.add(Figure{ID: "bare", Store: store, Name: name, Unit: unit}, each(samples, func(s Sample) float64 { return value(s.Limits) })...)
	}
	bare("appends that are synced", "1/s", func(l machine.Limits) float64 { return l.FsyncsPerSecond })
	bare("median commit of one row", "ms", func(l machine.Limits) float64 { return l.CommitMs.P50 })
	bare("commits side by side", "1/s", func(l machine.Limits) float64 { return l.ParallelCommitsPerSecond })
	bare("rows in transactions like the load's", "1/s", func(l machine.Limits) float64 { return l.RowsPerSecond })
}

// bare measures the limits of the machine alone.
func bare(ctx context.Context, c Config, report *Report) error {
	for _, dsn := range c.stores() {
		h, err := build(ctx, c.Folder, dsn, nil)
		if err != nil {
			return err
		}
		limits, err := machine.Measure(ctx, h.database, h.folder, machine.Like{RowsPerCommit: 64, RowBytes: 400, For: c.Limit})
		if err := errors.Join(err, h.raze()); err != nil {
			return err
		}
		report.Samples = append(report.Samples, Sample{Store: h.database.Name(), Limits: limits})
		report.judgeLimits(h.database.Name(), 0)
	}
	return nil
}

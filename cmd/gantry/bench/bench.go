// Package bench measures the platform beside the limits of its machine. It
// drives whole runs through the same wiring as every process: admission,
// policy, budgets, labels, hash chain, leases and the telling of what was
// committed. The model answers at once and the tools read small files, so what
// is measured is what the platform adds.
//
// Rates move with whatever else the machine does; compare the ratios, whose
// two sides were measured in one execution, and what a round costs.
package bench

import (
	"context"
	"errors"
	"io"
	"time"
)

// Config says what to run.
type Config struct {
	Postgres    string        // "postgres://…" of a server to measure too; empty: SQLite only
	Only        string        // "sqlite" or "postgres": one store alone; empty: both
	Folder      string        // where temporary folders are made: the disk that is measured; empty: the system's
	Concurrency []int         // runs at once, each measured apart
	Rounds      int           // of one run
	HeldShare   float64       // share of the runs that wait for one approval, 0 to 1
	For         time.Duration // how long each load runs
	Limit       time.Duration // how long each bare limit is measured
	Repeat      int           // repetitions, interleaved
	Paused      int           // runs that wait for a person, for P10 and P11; 0 leaves them out
	Long        int           // rounds of one long run, for P12 and P13; 0 leaves them out
	Killed      int           // runs in flight when their process is killed, for P14; 0 leaves it out
	Beside      Beside        // programs that do the same work, for P1 to P3
	Progress    io.Writer     // hears what is being measured; nil for nobody
}

// Beside are programs that do the same work on the same stores.
type Beside struct {
	Postgres string // a command; empty for none
	SQLite   string
}

// Validate joins everything that is wrong.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, fault string) {
		if !ok {
			faults = append(faults, errors.New(fault))
		}
	}
	check(len(c.Concurrency) > 0, "conc: name at least one number of runs at once")
	for _, concurrency := range c.Concurrency {
		check(concurrency > 0, "conc: must be above 0")
	}
	check(c.Rounds > 0, "rounds: must be above 0")
	check(c.Repeat > 0, "repeat: must be above 0")
	check(c.HeldShare >= 0 && c.HeldShare <= 1, "held-share: must be from 0 to 1")
	check(c.For > 0 && c.Limit > 0, "for, limit: must be above 0")
	check(c.Paused >= 0 && c.Long >= 0 && c.Killed >= 0, "paused, long, killed: must not be negative")
	check(c.Only == "" || c.Only == sqlite || c.Only == postgres, "store: must be sqlite or postgres")
	check(c.Only != postgres || c.Postgres != "", "store: name the server with --postgres")
	check(c.Beside.Postgres == "" || c.measures(postgres), "beside: its work is on PostgreSQL, which is not measured; name the server with --postgres")
	check(c.Beside.SQLite == "" || c.measures(sqlite), "beside-sqlite: its work is on SQLite, which --store leaves out")
	return errors.Join(faults...)
}

// The stores by the names of the command line.
const (
	sqlite   = "sqlite"
	postgres = "postgres"
)

// measures reports whether a store is one of those that are measured.
func (c Config) measures(store string) bool {
	return (c.Only == "" || c.Only == store) && (store == sqlite || c.Postgres != "")
}

// stores are the data sources that are measured, each for a fresh database.
func (c Config) stores() (dsns []string) {
	if c.measures(sqlite) {
		dsns = append(dsns, "")
	}
	if c.measures(postgres) {
		dsns = append(dsns, c.Postgres)
	}
	return dsns
}

func (c Config) say(what string) {
	if c.Progress != nil {
		_, _ = io.WriteString(c.Progress, what+"\n")
	}
}

// Run measures everything that was asked for and leaves nothing behind.
func Run(ctx context.Context, config Config) (*Report, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	report := newReport()
	for _, part := range []func(context.Context, Config, *Report) error{reference, paused, long, killed} {
		if err := part(ctx, config, report); err != nil {
			return report, err
		}
	}
	return report, nil
}

// Part measures only what paused, long and killed runs cost, and the bare
// limits of the machine beside them.
func Part(ctx context.Context, config Config) (*Report, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Paused+config.Long+config.Killed == 0 {
		return nil, errors.New("nothing would be measured: the number of runs must be above 0")
	}
	report := newReport()
	for _, part := range []func(context.Context, Config, *Report) error{paused, long, killed, bare} {
		if err := part(ctx, config, report); err != nil {
			return report, err
		}
	}
	return report, nil
}

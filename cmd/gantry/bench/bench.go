// Package bench measures the platform beside the limits of its machine. It
// drives whole runs through the same wiring as every process: admission,
// policy, budgets, labels, hash chain, leases and the telling of what was
// committed. The model is a script and the tools read small files, so what is
// measured is what the platform adds.
//
// Rates move with whatever else the machine does; compare the ratios, whose
// two sides were measured in one execution.
package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/invariant"
	"gantry.dev/orchestrator/policy"
)

// Config says what to run.
type Config struct {
	Runs        int           // measured runs; each has five turns and eight calls
	Concurrency int           // runs under way at once; a worker advances 64 side by side
	Held        float64       // share of the runs that wait for one approval, 0 to 1
	Paused      int           // runs that wait for an approval while others are measured; 0 leaves that part out
	Database    string        // "sqlite:PATH" of a file that is not there, or "postgres://…"; empty: SQLite in Folder
	Folder      string        // where a temporary folder is made; empty: the system's
	Limit       time.Duration // how long each limit of the machine is measured, twice
}

// Validate joins everything that is wrong.
func (c Config) Validate() error {
	var faults []error
	if c.Runs < 1 || c.Concurrency < 1 || c.Paused < 0 {
		faults = append(faults, errors.New("runs, concurrency: must be above 0; paused: must not be negative"))
	}
	if c.Held < 0 || c.Held > 1 {
		faults = append(faults, errors.New("held: must be from 0 to 1"))
	}
	if c.Limit <= 0 {
		faults = append(faults, errors.New("limit: must be above 0"))
	}
	return errors.Join(faults...)
}

// Result is everything that was measured. Times are milliseconds.
type Result struct {
	Machine  Machine `json:"machine"`
	Database string  `json:"database"` // "SQLite" or "PostgreSQL"
	Load     Load    `json:"load"`
	Limits   Limits  `json:"limits"`
	Ratios   Ratios  `json:"ratios"`
	Paused   *Paused `json:"paused,omitempty"`
	// Violations is what the doctor found afterwards; anything but 0 makes the
	// figures worthless.
	Violations int `json:"violations"`
}

// Machine is what the figures were measured on.
type Machine struct {
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"`
}

// Ratios set the load against the limits measured in the same execution.
type Ratios struct {
	// Records is records per second over those of bare transactions that
	// insert as many rows of the same size.
	Records float64 `json:"records"`
	// Commits is commits per second over bare one-row commits of one
	// connection.
	Commits float64 `json:"commits"`
	// Rounds is rounds per second over bare one-row commits of as many
	// connections as there are runs at once; one for SQLite.
	Rounds float64 `json:"rounds"`
	// Step is the median step in units of one bare commit.
	Step float64 `json:"step"`
}

// bench is one execution.
type bench struct {
	config       Config
	folder       string
	store        database
	organisation agents.Organisation
	platform     *wire.Platform
	people       struct{ asker, approver policy.Principal }
}

// Run measures and leaves nothing behind.
func Run(ctx context.Context, config Config) (result Result, err error) {
	if err := config.Validate(); err != nil {
		return result, err
	}
	b := &bench{config: config}
	if b.folder, err = os.MkdirTemp(config.Folder, "gantry-bench-"); err != nil {
		return result, fmt.Errorf("bench: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.folder)) }()
	if b.store, err = openDatabase(ctx, config.Database, b.folder); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, b.store.close()) }()
	if err := b.open(ctx); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, b.platform.Close()) }()
	return b.measure(ctx)
}

func (b *bench) open(ctx context.Context) (err error) {
	if b.organisation, err = loadOrganisation(); err != nil {
		return err
	}
	b.people.asker, _ = b.organisation.Principal(asker)
	b.people.approver, _ = b.organisation.Principal(approver)
	root, err := layFiles(b.folder)
	if err != nil {
		return err
	}
	b.platform, err = wire.Open(ctx, wire.Config{Folder: filepath.Join(b.folder, "keys"), Database: b.store.dsn(), Files: root, Work: true, Dev: true,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, _, err = b.platform.Kits.Apply(ctx, b.organisation); err != nil {
		return errors.Join(err, b.platform.Close())
	}
	return nil
}

func (b *bench) measure(ctx context.Context) (Result, error) {
	result := Result{Database: b.store.name(), Machine: Machine{Cores: runtime.GOMAXPROCS(0), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}}
	if _, err := b.load(ctx, min(b.config.Runs, b.config.Concurrency)); err != nil { // warm
		return result, err
	}
	var err error
	if b.config.Paused > 0 {
		if result.Paused, err = b.pause(ctx); err != nil {
			return result, err
		}
	}
	before, err := b.limits(ctx, Load{RecordsPerCommit: 8, RecordBytes: 500})
	if err != nil {
		return result, err
	}
	if result.Load, err = b.load(ctx, b.config.Runs); err != nil {
		return result, err
	}
	after, err := b.limits(ctx, result.Load)
	if err != nil {
		return result, err
	}
	result.Limits = before.with(after)
	result.Ratios = ratios(result.Load, result.Limits)
	result.Violations, err = b.violations(ctx)
	return result, err
}

func ratios(load Load, limits Limits) Ratios {
	return Ratios{
		Records: over(load.RecordsPerSecond, limits.RecordsPerSecond), Commits: over(load.CommitsPerSecond, limits.CommitsPerSecond),
		Rounds: over(load.RoundsPerSecond, limits.ParallelCommitsPerSecond), Step: load.StepMs.P50 / 1000 * limits.CommitsPerSecond,
	}
}

func over(value, limit float64) float64 {
	if limit == 0 {
		return 0
	}
	return value / limit
}

func (b *bench) violations(ctx context.Context) (count int, err error) {
	snapshot, err := b.platform.Store.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	report, err := invariant.NewAudit(snapshot, func(invariant.Violation) error { return nil }).Store(ctx)
	return report.Violations(), err
}

package bench

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc/pool"
)

// Limits are what the machine does bare, without Gantry. Each was measured
// before and after the load; the figure is the mean of the two.
type Limits struct {
	// FsyncsPerSecond is appends of 4 KiB to a file of the benchmark's folder,
	// each followed by an fsync.
	FsyncsPerSecond float64 `json:"fsyncsPerSecond"`
	// CommitsPerSecond is transactions of one connection that insert one row.
	CommitsPerSecond float64 `json:"commitsPerSecond"`
	// ParallelCommitsPerSecond is the same from as many connections as there
	// are runs at once, 64 at most; one connection for SQLite.
	ParallelCommitsPerSecond float64 `json:"parallelCommitsPerSecond"`
	// RecordsPerSecond is rows inserted by transactions of one connection that
	// each insert as many rows of the size that the load had.
	RecordsPerSecond float64 `json:"recordsPerSecond"`
}

func (l Limits) with(other Limits) Limits {
	mean := func(a, b float64) float64 { return (a + b) / 2 }
	return Limits{
		FsyncsPerSecond: mean(l.FsyncsPerSecond, other.FsyncsPerSecond), CommitsPerSecond: mean(l.CommitsPerSecond, other.CommitsPerSecond),
		ParallelCommitsPerSecond: mean(l.ParallelCommitsPerSecond, other.ParallelCommitsPerSecond),
		// The size of the load's transactions is known only afterwards.
		RecordsPerSecond: other.RecordsPerSecond,
	}
}

func (b *bench) limits(ctx context.Context, like Load) (limits Limits, err error) {
	db, err := b.store.bare()
	if err != nil {
		return limits, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS bare (n BIGINT PRIMARY KEY, name TEXT NOT NULL, body "+b.blob()+" NOT NULL)"); err != nil {
		return limits, err
	}
	var next atomic.Int64
	if err := db.QueryRowContext(ctx, "SELECT coalesce(max(n), 0) FROM bare").Scan((*sqlInt)(&next)); err != nil {
		return limits, err
	}
	rows := max(1, int(math.Round(like.RecordsPerCommit)))
	body := bytes.Repeat([]byte("x"), like.RecordBytes)
	if limits.FsyncsPerSecond, err = b.fsyncs(); err != nil {
		return limits, err
	}
	if limits.CommitsPerSecond, err = b.rate(ctx, 1, inserting(db, &next, 1, body)); err != nil {
		return limits, err
	}
	limits.ParallelCommitsPerSecond = limits.CommitsPerSecond
	if connections := min(db.Stats().MaxOpenConnections, b.config.Concurrency); connections > 1 {
		if limits.ParallelCommitsPerSecond, err = b.rate(ctx, connections, inserting(db, &next, 1, body)); err != nil {
			return limits, err
		}
	}
	grouped, err := b.rate(ctx, 1, inserting(db, &next, rows, body))
	limits.RecordsPerSecond = grouped * float64(rows)
	return limits, err
}

// sqlInt lets a row be scanned into a counter.
type sqlInt atomic.Int64

// Scan stores the number.
func (i *sqlInt) Scan(value any) error {
	number, ok := value.(int64)
	if !ok {
		return fmt.Errorf("a number was expected, not %T", value)
	}
	(*atomic.Int64)(i).Store(number)
	return nil
}

func (b *bench) blob() string {
	if b.store.name() == "SQLite" {
		return "BLOB"
	}
	return "BYTEA"
}

// inserting returns a transaction that inserts rows with fresh keys.
func inserting(db *sql.DB, next *atomic.Int64, rows int, body []byte) func(context.Context) error {
	values := make([]string, rows)
	for i := range values {
		values[i] = fmt.Sprintf("($%d, $%d, $%d)", 3*i+1, 3*i+2, 3*i+3)
	}
	statement := "INSERT INTO bare (n, name, body) VALUES " + strings.Join(values, ", ") //nolint:gosec // values are placeholders
	return func(ctx context.Context) error {
		arguments := make([]any, 0, 3*rows)
		for range rows {
			arguments = append(arguments, next.Add(1), "a name of the usual length, 36 bytes", body)
		}
		_, err := db.ExecContext(ctx, statement, arguments...)
		return err
	}
}

// rate does something again and again from several goroutines and returns how
// often a second it was done.
func (b *bench) rate(ctx context.Context, goroutines int, once func(context.Context) error) (float64, error) {
	if err := once(ctx); err != nil { // connect first
		return 0, err
	}
	var done atomic.Int64
	begin := time.Now()
	workers := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError()
	for range goroutines {
		workers.Go(func(ctx context.Context) error {
			for time.Since(begin) < b.config.Limit {
				if err := once(ctx); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err := workers.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds(), err
}

func (b *bench) fsyncs() (rate float64, err error) {
	file, err := os.Create(filepath.Join(b.folder, "bare"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	block := bytes.Repeat([]byte("x"), 4096)
	begin, done := time.Now(), 0
	for time.Since(begin) < b.config.Limit {
		if _, err := file.Write(block); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
		done++
	}
	return float64(done) / time.Since(begin).Seconds(), nil
}

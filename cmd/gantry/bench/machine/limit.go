package machine

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc/pool"
)

// Limits are what the machine does bare, without Gantry.
type Limits struct {
	// FsyncsPerSecond is appends of 4 KiB to a file of the benchmark's folder,
	// each followed by an fsync.
	FsyncsPerSecond float64 `json:"fsyncsPerSecond"`
	// CommitMs is how long a transaction of one connection takes that inserts
	// one row.
	CommitMs Quantiles `json:"commitMs"`
	// ParallelCommitsPerSecond is the same transactions from 64 connections;
	// from one for SQLite, which has one writer.
	ParallelCommitsPerSecond float64 `json:"parallelCommitsPerSecond"`
	// RowsPerSecond is rows inserted by transactions of one connection that
	// each insert as many rows of the size that the load had.
	RowsPerSecond float64 `json:"rowsPerSecond"`
}

// Like is what the bare transactions are to be like.
type Like struct {
	RowsPerCommit float64
	RowBytes      int
	For           time.Duration // how long each limit is measured
}

// maxRows bounds a statement's parameters.
const maxRows = 2048

// Measure measures the bare limits. The folder is on the disk that is meant.
func Measure(ctx context.Context, database Database, folder string, like Like) (limits Limits, err error) {
	db, err := database.Connect(true)
	if err != nil {
		return limits, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	blob := "BYTEA"
	if database.Name() == "SQLite" {
		blob = "BLOB"
	}
	for _, statement := range []string{"DROP TABLE IF EXISTS bare", "CREATE TABLE bare (n BIGINT PRIMARY KEY, name TEXT NOT NULL, body " + blob + " NOT NULL)"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return limits, err
		}
	}
	rows := min(max(1, int(like.RowsPerCommit+0.5)), maxRows)
	body := bytes.Repeat([]byte("x"), like.RowBytes)
	var next atomic.Int64
	if limits.FsyncsPerSecond, err = fsyncs(folder, like.For); err != nil {
		return limits, err
	}
	one, err := repeat(ctx, like.For, 1, inserting(db, &next, 1, body))
	if err != nil {
		return limits, err
	}
	limits.CommitMs, limits.ParallelCommitsPerSecond = one.times, one.rate
	if connections := db.Stats().MaxOpenConnections; connections > 1 {
		many, err := repeat(ctx, like.For, connections, inserting(db, &next, 1, body))
		if err != nil {
			return limits, err
		}
		limits.ParallelCommitsPerSecond = many.rate
	}
	grouped, err := repeat(ctx, like.For, 1, inserting(db, &next, rows, body))
	limits.RowsPerSecond = grouped.rate * float64(rows)
	return limits, err
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

type repeated struct {
	rate  float64 // a second
	times Quantiles
}

// repeat does something again and again from several goroutines.
func repeat(ctx context.Context, duration time.Duration, goroutines int, once func(context.Context) error) (repeated, error) {
	if err := once(ctx); err != nil { // connect first
		return repeated{}, err
	}
	var mu sync.Mutex
	var times []time.Duration
	begin := time.Now()
	workers := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError()
	for range goroutines {
		workers.Go(func(ctx context.Context) error {
			var own []time.Duration
			for at := time.Now(); len(own) == 0 || at.Sub(begin) < duration; {
				if err := once(ctx); err != nil {
					return err
				}
				after := time.Now()
				own, at = append(own, after.Sub(at)), after
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, own...)
			return nil
		})
	}
	err := workers.Wait()
	seconds := time.Since(begin).Seconds()
	return repeated{float64(len(times)) / seconds, QuantilesOf(times)}, err
}

func fsyncs(folder string, duration time.Duration) (rate float64, err error) {
	file, err := os.Create(filepath.Join(folder, "bare"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	block := bytes.Repeat([]byte("x"), 4096)
	begin, done := time.Now(), 0
	for done == 0 || time.Since(begin) < duration {
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

package machine

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
)

// bareSuffix names the file of the bare limits.
const bareSuffix = "-bare"

// sqliteFile is a file that is removed at the end.
type sqliteFile struct {
	path    string
	counted *atomic.Uint64
}

// counters are the commits of each file that is measured. The driver tells of
// every connection, for as long as the process lives.
var (
	counters sync.Map // path to *atomic.Uint64
	hookOnce sync.Once
)

func newSQLite(path string) (*sqliteFile, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	file := &sqliteFile{path: path, counted: &atomic.Uint64{}}
	counters.Store(path, file.counted)
	hookOnce.Do(func() { sqlite.RegisterConnectionHook(countCommits) })
	return file, nil
}

// countCommits counts what a connection to a measured file commits.
func countCommits(connection sqlite.ExecQuerierContext, dsn string) error {
	name, err := url.Parse(dsn)
	if err != nil {
		return nil //nolint:nilerr // none of ours
	}
	counter, measured := counters.Load(name.Path)
	hooks, able := connection.(sqlite.HookRegisterer)
	if !measured || !able {
		return nil
	}
	hooks.RegisterCommitHook(func() int32 {
		counter.(*atomic.Uint64).Add(1)
		return 0
	})
	return nil
}

// Name returns "SQLite".
func (f *sqliteFile) Name() string { return "SQLite" }

// DSN returns the file's.
func (f *sqliteFile) DSN() string { return "sqlite:" + f.path }

// CPU is 0: SQLite runs in this process.
func (f *sqliteFile) CPU() time.Duration { return 0 }

// Counters returns the commits that a hook counted.
func (f *sqliteFile) Counters(context.Context) (Counters, error) {
	made := f.counted.Load()
	return Counters{Commits: made, Syncs: made, WrittenBytes: WrittenBytes()}, nil
}

// Connect opens the file, or one beside it that is as durable.
func (f *sqliteFile) Connect(bare bool) (*sql.DB, error) {
	path := f.path
	if bare {
		path += bareSuffix
	}
	const settings = "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate"
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: settings}).String())
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// Close removes the files.
func (f *sqliteFile) Close() error {
	counters.Delete(f.path)
	var faults []error
	for _, path := range []string{f.path, f.path + bareSuffix} {
		for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
			if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				faults = append(faults, err)
			}
		}
	}
	return errors.Join(faults...)
}

package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"modernc.org/sqlite"
)

// database is the one that is measured: Gantry's tables and, beside them on the
// same disk, one of our own for the bare limits.
type database interface {
	name() string
	dsn() string
	// commits counts write transactions so far.
	commits(ctx context.Context) (uint64, error)
	// bare opens the same database for the bare limits.
	bare() (*sql.DB, error)
	close() error
}

func openDatabase(ctx context.Context, dsn, folder string) (database, error) {
	switch {
	case dsn == "":
		return newSQLite(filepath.Join(folder, "gantry.db"))
	case strings.HasPrefix(dsn, "sqlite:"):
		path := strings.TrimPrefix(dsn, "sqlite:")
		if _, err := os.Stat(path); err == nil {
			return nil, fmt.Errorf("database %s is there already: name one for the benchmark alone, it is removed afterwards", path)
		}
		return newSQLite(path)
	case strings.HasPrefix(dsn, "postgres://"), strings.HasPrefix(dsn, "postgresql://"):
		return newPostgres(ctx, dsn)
	}
	return nil, errors.New("database: must begin with sqlite: or postgres://")
}

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

func (f *sqliteFile) name() string { return "SQLite" }

func (f *sqliteFile) dsn() string { return "sqlite:" + f.path }

func (f *sqliteFile) commits(context.Context) (uint64, error) { return f.counted.Load(), nil }

// bare opens a file beside the measured one, as durable as that.
func (f *sqliteFile) bare() (*sql.DB, error) {
	const settings = "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate"
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: f.path + "-bare", RawQuery: settings}).String())
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

func (f *sqliteFile) close() error {
	counters.Delete(f.path)
	var faults []error
	for _, path := range []string{f.path, f.path + "-bare"} {
		for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
			if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				faults = append(faults, err)
			}
		}
	}
	return errors.Join(faults...)
}

// postgresSchema is a schema that is dropped at the end.
type postgresSchema struct {
	admin  *sql.DB
	url    string // with the schema
	schema string
}

// maxConnections is how many connections the bare limit uses at most.
const maxConnections = 64

func newPostgres(ctx context.Context, dsn string) (*postgresSchema, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, errors.New("database: not a URL") // it may hold a password: it is not repeated
	}
	p := &postgresSchema{schema: "gantry_bench_" + strings.ReplaceAll(uuid.NewString(), "-", "")}
	if p.admin, err = sql.Open("pgx", dsn); err != nil {
		return nil, errors.New("database: not a PostgreSQL URL")
	}
	if _, err := p.admin.ExecContext(ctx, "CREATE SCHEMA "+p.schema); err != nil {
		return nil, errors.Join(fmt.Errorf("database: %w", err), p.admin.Close())
	}
	query := u.Query()
	query.Set("search_path", p.schema)
	u.RawQuery = query.Encode()
	p.url = u.String()
	return p, nil
}

func (p *postgresSchema) name() string { return "PostgreSQL" }

func (p *postgresSchema) dsn() string { return p.url }

// commits counts the transactions that wrote a record.
func (p *postgresSchema) commits(ctx context.Context) (count uint64, err error) {
	err = p.admin.QueryRowContext(ctx, "SELECT count(DISTINCT xmin::text) FROM "+p.schema+".journal").Scan(&count)
	return count, err
}

func (p *postgresSchema) bare() (*sql.DB, error) {
	db, err := sql.Open("pgx", p.url)
	if err == nil {
		db.SetMaxOpenConns(maxConnections)
		db.SetMaxIdleConns(maxConnections)
	}
	return db, err
}

func (p *postgresSchema) close() error {
	_, err := p.admin.ExecContext(context.Background(), "DROP SCHEMA "+p.schema+" CASCADE")
	return errors.Join(err, p.admin.Close())
}

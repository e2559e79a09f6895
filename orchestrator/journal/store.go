// Package journal is the truth: it keeps the records of runs, their heads,
// texts, budgets and everything else that must commit together, in SQLite or
// PostgreSQL.
package journal

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/sourcegraph/conc"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	_ "modernc.org/sqlite" // registers the driver "sqlite"

	"gantry.dev/migrations"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal/upgrade"
	"gantry.dev/orchestrator/run"
)

// Config says where the store is and what it tells of its commits.
type Config struct {
	DSN       string            // "sqlite:PATH" or "postgres://…"
	MasterKey []byte            // 32 bytes: wraps the keys of subjects
	Clock     func() int64      // UTC ms, in place of the database clock. Nil: PostgreSQL's own, for SQLite the machine's
	OnCommit  func([]Committed) // called in order, after each commit; must not block
	ReadOnly  bool              // only to be looked at: nothing is made, migrated or freed, and every write is refused

	Connections int                                     // most at once to PostgreSQL for reading; 0: 12
	Between     func(driver.Connector) driver.Connector // stands between the store and its driver, as faults of a test do; nil for none
}

const defaultConnections = 12

// Committed is one write that was committed.
type Committed struct {
	Writer  string // names this store's writer
	N       uint64 // number of the write's last record at the writer, without gaps
	Outside bool   // the write came from outside, not from the run's owner
	Head    run.Head
	Records []run.Record
	Entries []engine.Entry // numbered
	Inbox   []engine.InboxItem
	Wakes   []string // runs that the write made due
}

// Store is the journal in a database. It is safe for concurrent use.
type Store struct {
	config   Config
	write    *bun.DB // SQLite: one connection
	read     *database
	postgres bool
	lock     *os.File
	id       string // of this writer
	number   int64  // of this writer, in the journal's rows
	n        uint64 // records written; the writer goroutine's alone
	prepared *prepared
	queue    chan *item
	gate     sync.RWMutex // held for reading while a write enters the queue
	closed   bool
	tasks    conc.WaitGroup
	vault    *vault
	clock    atomic.Pointer[reading]
	claims   atomic.Uint64 // that left something due
}

var (
	_ engine.Journal = (*Store)(nil)
	_ engine.Claims  = (*Store)(nil)
)

// ErrInUse is returned where another process has the SQLite file open.
var ErrInUse = errors.New("in use by another process")

// Open opens the store, migrates it and starts its writer. A SQLite file
// belongs to one process at a time; its leases are free after a restart. To be
// looked at only, a store may be in use, and must be there. Errors: ErrInUse;
// ErrNoStore and ErrVersion where it is only looked at.
func Open(ctx context.Context, config Config) (*Store, error) {
	vault, err := newVault(config.MasterKey)
	if err != nil {
		return nil, err
	}
	s := &Store{config: config, queue: make(chan *item, queueLength), vault: vault}
	path, isSQLite := strings.CutPrefix(config.DSN, "sqlite:")
	switch {
	case config.ReadOnly:
		err = s.openToRead(ctx, path, isSQLite)
	case isSQLite:
		err = s.openSQLite(ctx, path)
	default:
		err = s.openPostgres(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.closeDatabases())
	}
	if config.ReadOnly {
		return s, nil
	}
	if err := s.enlist(ctx); err != nil {
		return nil, errors.Join(err, s.closeDatabases())
	}
	s.prepared = &prepared{known: map[string]*sql.Stmt{}}
	background := context.WithoutCancel(ctx) // a batch is never given up half way
	s.tasks.Go(func() { s.writeLoop(background) })
	return s, nil
}

// Writer names this store's writer, as Committed does.
func (s *Store) Writer() string { return s.id }

// localWriter is the one writer that a SQLite file ever has.
const localWriter = "local"

// enlist makes the writer known and finds where its numbers go on.
func (s *Store) enlist(ctx context.Context) error {
	s.id = localWriter
	if s.postgres {
		s.id = uuid.NewString()
	}
	nowMs, err := s.Now(ctx)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if _, err := s.write.ExecContext(ctx, "INSERT INTO writers (id, opened_ms) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", s.id, nowMs); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := s.write.QueryRowContext(ctx, "SELECT number FROM writers WHERE id = ?", s.id).Scan(&s.number); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return s.recount(ctx)
}

// recount reads the writer's last number. After a commit whose answer was lost
// only the database knows it.
func (s *Store) recount(ctx context.Context) error {
	if err := s.write.QueryRowContext(ctx, "SELECT coalesce(max(n), 0) FROM journal WHERE writer = ?", s.number).Scan(&s.n); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

func (s *Store) openSQLite(ctx context.Context, path string) error {
	s.useMachineClock()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	file, err := lockFile(path + ".lock")
	if err != nil {
		return fmt.Errorf("store %s: %w", filepath.Base(path), err)
	}
	s.lock = file
	const pragmas = "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)"
	// KiB of pages that a connection keeps, which SQLite has 2 MB of by itself: what
	// does not fit is read and written again and again, in a large transaction most.
	const writerPages, readerPages = "&_pragma=cache_size(-32768)", "&_pragma=cache_size(-8192)"
	writer, err := s.openFile(fileURL(path, pragmas+writerPages+"&_txlock=immediate"))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	writer.SetMaxOpenConns(1)
	s.write = bun.NewDB(writer, sqlitedialect.New())
	reader, err := s.openFile(fileURL(path, pragmas+readerPages))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	reader.SetMaxOpenConns(8)
	reader.SetMaxIdleConns(8)
	s.read = newDatabase(bun.NewDB(reader, sqlitedialect.New()), false)
	if err := migrate(ctx, goose.DialectSQLite3, writer, "sqlite"); err != nil {
		return err
	}
	_, err = s.write.ExecContext(ctx, "UPDATE heads SET owner = '', lease_until = 0 WHERE owner <> ''")
	return err
}

func (s *Store) useMachineClock() {
	if s.config.Clock == nil {
		s.config.Clock = func() int64 { return time.Now().UnixMilli() }
	}
}

// openFile readies the connections to a SQLite file.
func (s *Store) openFile(name string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", name)
	if err != nil || s.config.Between == nil {
		return db, err
	}
	registered := db.Driver()
	return s.openConnector(fileConnector{registered, name}), db.Close() // it has connected to nothing yet
}

func (s *Store) openConnector(connector driver.Connector) *sql.DB {
	if s.config.Between != nil {
		connector = s.config.Between(connector)
	}
	return sql.OpenDB(connector)
}

// fileConnector connects to a SQLite file.
type fileConnector struct {
	driver driver.Driver
	name   string
}

func (c fileConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.name) }
func (c fileConnector) Driver() driver.Driver                        { return c.driver }

// fileURL names a file to SQLite whatever signs its path holds: unescaped, a
// "#" or "?" would cut the name short and lose the settings behind it.
func fileURL(path, query string) string {
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query}).String()
}

func (s *Store) openPostgres(ctx context.Context) error {
	if _, err := s.connect(); err != nil {
		return err
	}
	return migrate(ctx, goose.DialectPostgres, s.write.DB, "postgres")
}

// connect readies the connections to PostgreSQL and says where it is.
func (s *Store) connect() (place string, err error) {
	config, err := pgx.ParseConfig(s.config.DSN)
	if err != nil {
		// The parse error may hold the password.
		return "", errors.New("store: the DSN is neither sqlite:PATH nor a PostgreSQL URL")
	}
	if s.config.ReadOnly {
		config.RuntimeParams["default_transaction_read_only"] = "on"
	}
	// Those who read never keep the writer waiting for a connection.
	pool := func(most int) *bun.DB {
		db := s.openConnector(stdlib.GetConnector(*config, stdlib.OptionAfterConnect(boundIdleness(config.RuntimeParams))))
		db.SetMaxOpenConns(most)
		db.SetMaxIdleConns(most)
		return bun.NewDB(db, pgdialect.New())
	}
	s.postgres = true
	s.vault.lock = " FOR SHARE"
	s.write = pool(writeConnections)
	s.read = newDatabase(pool(cmp.Or(s.config.Connections, defaultConnections)), true)
	return config.Host + "/" + config.Database, nil
}

// writeConnections are for the writer and for the few writes that are not its.
const writeConnections = 4

// idleInTransaction is for how long a process may stand still in the middle of
// a write. Its locks would keep everybody from the runs that it writes, for as
// long as its machine answers for it, and whatever its leases say.
const idleInTransaction = "idle_in_transaction_session_timeout"

// boundIdleness bounds that at 10 s, unless the address says otherwise.
func boundIdleness(told map[string]string) func(context.Context, *pgx.Conn) error {
	return func(ctx context.Context, conn *pgx.Conn) error {
		if told[idleInTransaction] != "" {
			return nil
		}
		_, err := conn.Exec(ctx, "SET "+idleInTransaction+" = '10s'")
		return err
	}
}

func migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, folder string) error {
	files, err := fs.Sub(migrations.Files, folder)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	frames := func(ctx context.Context, tx *sql.Tx) error {
		return upgrade.Frames(ctx, tx, dialect == goose.DialectPostgres)
	}
	options := []goose.ProviderOption{goose.WithGoMigrations(goose.NewGoMigration(upgrade.FramesVersion, &goose.GoFunc{RunTx: frames}, nil))}
	if dialect == goose.DialectPostgres {
		options = append(options, goose.WithSessionLocker(turn{}))
	}
	provider, err := goose.NewProvider(dialect, db, files, options...)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return nil
}

// turn is how several processes that start at once migrate one after the other.
// The server queues them: goose's own lock asks again every 5 s. Whoever waits
// holds a snapshot, so that no migration may build an index concurrently.
type turn struct{}

var _ lock.SessionLocker = turn{}

// turnMs is how long a process waits for the others before it gives up.
const turnMs = 300_000

// SessionLock waits until nobody else migrates.
func (turn) SessionLock(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, turnMs*time.Millisecond)
	defer cancel()
	_, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", lock.DefaultLockID)
	return err
}

// SessionUnlock lets the next one migrate. A lost connection has done so already.
func (turn) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", lock.DefaultLockID)
	return err
}

// Close lets the writer finish what it was given and closes the database.
func (s *Store) Close() error {
	s.gate.Lock()
	first := !s.closed
	s.closed = true
	s.gate.Unlock()
	if !first {
		return nil
	}
	close(s.queue)
	s.tasks.Wait()
	return s.closeDatabases()
}

func (s *Store) closeDatabases() error {
	var faults []error
	if s.read != nil && s.read.bun != s.write {
		faults = append(faults, s.read.bun.Close())
	}
	if s.write != nil {
		faults = append(faults, s.write.Close())
	}
	if s.lock != nil {
		faults = append(faults, unlockFile(s.lock))
	}
	return errors.Join(faults...)
}

// clockQuery reads PostgreSQL's clock, UTC ms.
const clockQuery = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"

// Ready asks the database something, so that it fails where no connection is
// free before the context ends.
func (s *Store) Ready(ctx context.Context) error {
	var writers int
	return s.read.QueryRowContext(ctx, "SELECT count(*) FROM writers").Scan(&writers)
}

// clockAgeMs is how long a reading of the database clock is carried on by the
// machine's monotonic one before it is read again.
const clockAgeMs = 250

// reading is the database clock as it was last read.
type reading struct {
	databaseMs int64
	at         time.Time // monotonic; when the answer was there, so that what is carried on from it is never ahead
}

// Now returns the database clock, UTC ms. It may be behind by what an answer
// of the database takes, never ahead.
func (s *Store) Now(ctx context.Context) (int64, error) {
	if s.config.Clock != nil {
		return s.config.Clock(), nil
	}
	if last := s.clock.Load(); last != nil {
		if age := time.Since(last.at).Milliseconds(); age < clockAgeMs {
			return last.databaseMs + age, nil
		}
	}
	nowMs, err := s.now(ctx, s.read)
	if err == nil {
		s.sawClock(nowMs, time.Now())
	}
	return nowMs, err
}

func (s *Store) sawClock(databaseMs int64, at time.Time) {
	if last := s.clock.Load(); last == nil || at.After(last.at) {
		s.clock.Store(&reading{databaseMs: databaseMs, at: at})
	}
}

// now reads the database clock.
func (s *Store) now(ctx context.Context, db querier) (nowMs int64, err error) {
	if s.config.Clock != nil {
		return s.config.Clock(), nil
	}
	err = db.QueryRowContext(ctx, clockQuery).Scan(&nowMs)
	return nowMs, err
}

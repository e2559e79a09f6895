package machine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Database is the one that is measured: Gantry's tables and, beside them on the
// same disk, one of our own for the bare limits.
type Database interface {
	Name() string
	// DSN is how Gantry opens it.
	DSN() string
	// Counters are what it has done so far. PostgreSQL counts its whole
	// cluster, and what a connection did last only when that has closed.
	Counters(ctx context.Context) (Counters, error)
	// Connect opens the database itself, or what is measured bare beside it.
	Connect(bare bool) (*sql.DB, error)
	// CPU is what the server's processes have used, if they can be seen.
	CPU() time.Duration
	// Close removes everything.
	Close() error
}

// Counters only grow.
type Counters struct {
	Commits      uint64 // transactions that wrote: on SQLite all, on PostgreSQL those with records
	Syncs        uint64 // of the log; on SQLite one for each commit, as synchronous=FULL does
	LogBytes     uint64 // PostgreSQL only
	WrittenBytes uint64 // by this process, with everything that is no log
}

// Since is what was counted since an earlier moment.
func (c Counters) Since(before Counters) Counters {
	return Counters{Commits: c.Commits - before.Commits, Syncs: c.Syncs - before.Syncs, LogBytes: c.LogBytes - before.LogBytes,
		WrittenBytes: c.WrittenBytes - before.WrittenBytes}
}

// Open makes a fresh database: a SQLite file in a folder for "", or at a path
// where nothing is, or a schema of its own in PostgreSQL.
func Open(ctx context.Context, dsn, folder string) (Database, error) {
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

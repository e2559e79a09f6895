package machine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
)

// postgresSchema is a schema that is dropped at the end.
type postgresSchema struct {
	admin  *sql.DB
	url    string // with the schema
	schema string
}

// The bare limit uses so many connections at most, and leaves so many of what
// the server has to others.
const (
	maxConnections  = 64
	spareConnection = 8
)

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

// Name returns "PostgreSQL".
func (p *postgresSchema) Name() string { return "PostgreSQL" }

// DSN returns the URL with the schema.
func (p *postgresSchema) DSN() string { return p.url }

// CPU is of all processes on this machine that are called postgres.
func (p *postgresSchema) CPU() time.Duration { return namedCPU("postgres") }

// Counters asks the server, and counts the transactions that wrote a record. A
// server before version 14 tells no syncs.
func (p *postgresSchema) Counters(ctx context.Context) (c Counters, err error) {
	c.WrittenBytes = WrittenBytes()
	var known bool
	if err := p.admin.QueryRowContext(ctx, "SELECT to_regclass('"+p.schema+".journal') IS NOT NULL").Scan(&known); err != nil {
		return c, err
	}
	if known {
		if err := p.admin.QueryRowContext(ctx, "SELECT count(DISTINCT xmin::text) FROM "+p.schema+".journal").Scan(&c.Commits); err != nil {
			return c, err
		}
	}
	var current int64
	if err := p.admin.QueryRowContext(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").Scan(&current); err != nil {
		return c, err
	}
	c.LogBytes = uint64(current)
	if p.admin.QueryRowContext(ctx, "SELECT wal_sync FROM pg_stat_wal").Scan(&c.Syncs) != nil {
		c.Syncs = 0
	}
	return c, nil
}

// Connect opens the schema with as many connections as are measured bare: 64,
// or fewer where the server has no more left.
func (p *postgresSchema) Connect(bool) (*sql.DB, error) {
	left := maxConnections + spareConnection
	if err := p.admin.QueryRowContext(context.Background(),
		"SELECT current_setting('max_connections')::int - count(*) FROM pg_stat_activity").Scan(&left); err != nil {
		return nil, err
	}
	connections := max(1, min(maxConnections, left-spareConnection))
	db, err := sql.Open("pgx", p.url)
	if err == nil {
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
	}
	return db, err
}

// Close drops the schema.
func (p *postgresSchema) Close() error {
	_, err := p.admin.ExecContext(context.Background(), "DROP SCHEMA "+p.schema+" CASCADE")
	return errors.Join(err, p.admin.Close())
}

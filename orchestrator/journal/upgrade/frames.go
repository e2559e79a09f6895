// Package upgrade brings older stores to the form of today where it takes more
// than SQL.
package upgrade

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"gantry.dev/orchestrator/journal/frame"
	"gantry.dev/orchestrator/run"
)

// FramesVersion is the version of the schema since which a row of the journal
// holds all records of one write.
const FramesVersion = 11

// framesSQLite and framesPostgres make room for rows of that form, and for
// writers that have numbers. On SQLite, which has one writer, its numbers are
// the rows' own. A row that settles costs says when its last cost was settled.
const framesSQLite = `
ALTER TABLE writers RENAME TO writers_before;
CREATE TABLE writers (
    number INTEGER NOT NULL PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    opened_ms BIGINT NOT NULL
);
INSERT INTO writers (id, opened_ms) SELECT id, opened_ms FROM writers_before ORDER BY opened_ms, id;
DROP TABLE writers_before;
DROP INDEX journal_settled;
ALTER TABLE journal RENAME TO journal_before;
CREATE TABLE journal (
    run TEXT NOT NULL,
    seq BIGINT NOT NULL,
    count BIGINT NOT NULL,
    writer BIGINT NOT NULL,
    n INTEGER NOT NULL PRIMARY KEY,
    settled_ms BIGINT NOT NULL,
    frame BLOB NOT NULL,
    UNIQUE (run, seq)
);
CREATE INDEX journal_settled ON journal (settled_ms) WHERE settled_ms > 0;`

const framesPostgres = `
ALTER TABLE writers ADD COLUMN number INTEGER GENERATED ALWAYS AS IDENTITY UNIQUE;
DROP INDEX journal_settled;
ALTER TABLE journal RENAME TO journal_before;
CREATE TABLE journal (
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    settled_ms BIGINT NOT NULL,
    writer INTEGER NOT NULL,
    count INTEGER NOT NULL,
    run TEXT NOT NULL,
    frame BYTEA NOT NULL,
    CONSTRAINT journal_place PRIMARY KEY (run, seq),
    CONSTRAINT journal_number UNIQUE (writer, n)
) WITH (toast_tuple_target = 8160);
ALTER TABLE journal ALTER COLUMN frame SET STORAGE EXTERNAL;
CREATE INDEX journal_settled ON journal USING brin (settled_ms);`

// Frames packs the journal's records, of which each had a row of its own, in
// the transaction. It takes what is broken along as broken as it is.
func Frames(ctx context.Context, tx *sql.Tx, postgres bool) error {
	schema := framesSQLite
	if postgres {
		schema = framesPostgres
	}
	for one := range strings.SplitSeq(schema, ";\n") {
		if _, err := tx.ExecContext(ctx, one); err != nil {
			return fmt.Errorf("frames: %w", err)
		}
	}
	if err := Pack(ctx, tx, "journal_before", "journal"); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DROP TABLE journal_before")
	return err
}

// A frame of records that were rows gets at most so many, and so many are read
// at a time.
const (
	mostPacked = 64
	pageRows   = 1024
)

// Pack packs all records of a table of the older form into one of today's.
func Pack(ctx context.Context, tx *sql.Tx, from, into string) error {
	p := packer{tx: tx, into: into}
	after := place{}
	for {
		page, err := records(ctx, tx, from, after)
		if err != nil {
			return fmt.Errorf("frames: %w", err)
		}
		for _, one := range page {
			if err := p.add(ctx, one); err != nil {
				return fmt.Errorf("frames: %w", err)
			}
			after = one.place()
		}
		if len(page) < pageRows {
			return p.flush(ctx)
		}
	}
}

type place struct {
	run string
	seq uint64
}

// numbered is a record with its number at its writer.
type numbered struct {
	run.Record
	writer int64
	n      int64
}

func (r numbered) place() place { return place{r.Run, r.Seq} }

// follows reports whether a record may stand behind another one in a frame.
func (r numbered) follows(before numbered) bool {
	return r.Run == before.Run && r.Seq == before.Seq+1 && r.writer == before.writer && r.n == before.n+1 && r.Prev == before.Digest
}

func records(ctx context.Context, tx *sql.Tx, from string, after place) (list []numbered, err error) {
	//nolint:gosec // the name of a table of this migration
	rows, err := tx.QueryContext(ctx, `SELECT t.run, t.seq, t.kind, t.version, t.at_ms, t.body, t.prev, t.digest, coalesce(w.number, 0), t.n FROM `+from+` t
		LEFT JOIN writers w ON w.id = t.writer WHERE (t.run, t.seq) > ($1, $2) ORDER BY t.run, t.seq LIMIT $3`, after.run, int64(after.seq), pageRows)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r numbered
		if err := rows.Scan(&r.Run, &r.Seq, (*string)(&r.Kind), &r.Version, &r.AtMs, &r.Body, &r.Prev, &r.Digest, &r.writer, &r.n); err != nil {
			return nil, err
		}
		if !isDigest(r.Digest) {
			r.Digest = noDigest
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// noDigest stands for what is none: no record has it.
var noDigest = strings.Repeat("0", hex.EncodedLen(sha256.Size))

func isDigest(text string) bool {
	return len(text) == len(noDigest) && strings.Trim(text, "0123456789abcdef") == ""
}

// packer packs what follows each other.
type packer struct {
	tx   *sql.Tx
	into string
	open []numbered
}

func (p *packer) add(ctx context.Context, one numbered) error {
	if count := len(p.open); count > 0 && (count == mostPacked || !one.follows(p.open[count-1])) {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	p.open = append(p.open, one)
	return nil
}

func (p *packer) flush(ctx context.Context) error {
	if len(p.open) == 0 {
		return nil
	}
	list := make([]run.Record, len(p.open))
	for i := range p.open {
		list[i] = p.open[i].Record
	}
	packed, err := frame.Pack(list)
	if err != nil {
		return err
	}
	last := p.open[len(p.open)-1]
	//nolint:gosec // the name of a table of this migration
	_, err = p.tx.ExecContext(ctx, "INSERT INTO "+p.into+" (run, seq, count, writer, n, settled_ms, frame) VALUES ($1, $2, $3, $4, $5, $6, $7)",
		last.Run, int64(last.Seq), len(list), last.writer, last.n, frame.SettledMs(list), packed)
	p.open = p.open[:0]
	return err
}

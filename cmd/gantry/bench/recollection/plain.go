package recollection

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gantry.dev/cmd/gantry/bench/machine"
	"gantry.dev/memory/store"
)

// plain is what one would do without an index: a table of vectors, of which all
// that a reader may see are read and compared.
type plain struct {
	db       *sql.DB
	database machine.Database
}

func newPlain(ctx context.Context, database machine.Database) (*plain, error) {
	db, err := database.Connect(true)
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{
		"CREATE TABLE plain (item TEXT NOT NULL, space TEXT NOT NULL, set_id TEXT NOT NULL, vector " + blobType(database) + " NOT NULL)",
		"CREATE INDEX plain_seen ON plain (space, set_id)",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return &plain{db, database}, nil
}

func blobType(database machine.Database) string {
	if database.Name() == "SQLite" {
		return "BLOB"
	}
	return "BYTEA"
}

// add puts the vectors of items in.
func (p *plain) add(ctx context.Context, vectorSpace string, batch []kept) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // says so where it was committed
	insert, err := tx.PrepareContext(ctx, "INSERT INTO plain (item, space, set_id, vector) VALUES ($1, $2, $3, $4)")
	if err != nil {
		return err
	}
	defer func() { _ = insert.Close() }() // with the transaction
	for _, one := range batch {
		for _, reading := range one.readings {
			var vector bytes.Buffer
			if err := binary.Write(&vector, binary.LittleEndian, reading.Vectors[vectorSpace]); err != nil {
				return err
			}
			if _, err := insert.ExecContext(ctx, one.item.ID, string(one.item.Space), reading.Set, vector.Bytes()); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}

// scanned is one of the best of the table.
type scanned struct {
	item  string
	score float64
}

// scan returns the best that a reader sees, and how many were looked at.
func (p *plain) scan(ctx context.Context, scope store.Scope, question []float32) (best []scanned, looked int, err error) {
	var args []any
	among := func(values []string) string {
		places := make([]string, len(values))
		for n, value := range values {
			args = append(args, value)
			places[n] = fmt.Sprintf("$%d", len(args))
		}
		return "(" + strings.Join(places, ", ") + ")"
	}
	spaces := make([]string, len(scope.Spaces))
	for n, space := range scope.Spaces {
		spaces[n] = string(space)
	}
	query := "SELECT item, vector FROM plain WHERE space IN " + among(spaces) + " AND set_id IN " + among(scope.Sets) //nolint:gosec // placeholders
	rows, err := p.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	vector := make([]float32, len(question))
	for rows.Next() {
		var item string
		var blob sql.RawBytes
		if err := rows.Scan(&item, &blob); err != nil {
			return nil, 0, err
		}
		for n := range vector {
			vector[n] = math.Float32frombits(binary.LittleEndian.Uint32(blob[4*n:]))
		}
		looked++
		if one := (scanned{item, product(question, vector)}); len(best) < mostHits || one.score >= best[len(best)-1].score {
			at, _ := slices.BinarySearchFunc(best, one, func(a, b scanned) int {
				return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.item, b.item))
			})
			best = slices.Insert(best, at, one)
			best = best[:min(len(best), mostHits)]
		}
	}
	return best, looked, rows.Err()
}

// product is the product of two vectors, with four sums side by side, which is
// about what a core can do without wider registers.
func product(a, b []float32) float64 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	n := 0
	for ; n+4 <= len(a); n += 4 {
		x, y := (*[4]float32)(a[n:]), (*[4]float32)(b[n:])
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; n < len(a); n++ {
		s0 += a[n] * b[n]
	}
	return float64(s0 + s1 + s2 + s3)
}

// The limits of the machine are measured for so long each, with vectors that no
// cache holds.
const (
	bareFor     = 300 * time.Millisecond
	bareVectors = 64 << 20 / 4 / 384
)

// bare measures what the machine does alone.
func (m *measuring) bare(ctx context.Context) error {
	limits, err := machine.Measure(ctx, m.database, m.folder, machine.Like{RowsPerCommit: together, RowBytes: 1600, For: bareFor})
	if err != nil {
		return err
	}
	all, question := make([]float32, 384*bareVectors), make([]float32, 384)
	for n := range all {
		all[n] = float32(n%7) - 3
	}
	copy(question, all)
	began, dots, sum := time.Now(), 0, 0.0
	for time.Since(began) < bareFor {
		for n := range bareVectors {
			sum += product(question, all[384*n:384*(n+1)])
		}
		dots += bareVectors
	}
	rate := float64(dots) / time.Since(began).Seconds()
	into, copied := make([]float32, len(all)), 0
	began = time.Now()
	for time.Since(began) < bareFor {
		copied += 4 * copy(into, all)
	}
	if math.IsNaN(sum + float64(into[0])) {
		return errors.New("what was multiplied is no number")
	}
	m.size.Bare = Bare{DotsPerSecond: rate, CopiedPerSecond: float64(copied) / time.Since(began).Seconds(),
		FsyncsPerSecond: limits.FsyncsPerSecond, CommitMs: limits.CommitMs}
	return nil
}

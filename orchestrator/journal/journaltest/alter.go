package journaltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"gantry.dev/orchestrator/journal/frame"
	"gantry.dev/orchestrator/journal/upgrade"
)

// Alter changes a store's records behind its back, in one transaction of its
// database. To what alter does, "journal" has a row for each record: run, seq,
// kind, version, at_ms, body, prev, digest, writer and n. A digest that is none
// becomes one that nothing has.
func Alter(ctx context.Context, db *sql.DB, postgres bool, alter func(tx *sql.Tx) error) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	kept, bytes := "main.journal", "BLOB"
	if postgres {
		var schema string
		if err := tx.QueryRowContext(ctx, "SELECT current_schema()").Scan(&schema); err != nil {
			return err
		}
		kept, bytes = schema+".journal", "BYTEA"
	}
	if _, err := tx.ExecContext(ctx, "CREATE TEMPORARY TABLE journal (run TEXT, seq BIGINT, kind TEXT, version BIGINT, at_ms BIGINT, body "+bytes+
		", prev TEXT, digest TEXT, writer TEXT, n BIGINT, PRIMARY KEY (run, seq))"); err != nil {
		return err
	}
	if err := unpack(ctx, tx, kept); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	if err := alter(tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+kept); err != nil {
		return err
	}
	if err := upgrade.Pack(ctx, tx, "journal", kept); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DROP TABLE journal"); err != nil {
		return err
	}
	return tx.Commit()
}

// row is a row of the journal with the name of its writer.
type row struct {
	frame.Row
	writer string
	n      uint64
}

func rows(ctx context.Context, tx *sql.Tx, kept string) (list []row, err error) {
	found, err := tx.QueryContext(ctx, "SELECT j.run, j.seq, j.count, j.frame, coalesce(w.id, ''), j.n FROM "+kept+" j LEFT JOIN writers w ON w.number = j.writer ORDER BY j.run, j.seq")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		var r row
		if err := found.Scan(&r.Run, &r.Seq, &r.Count, &r.Frame, &r.writer, &r.n); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, found.Err()
}

func unpack(ctx context.Context, tx *sql.Tx, kept string) error {
	list, err := rows(ctx, tx, kept)
	if err != nil {
		return err
	}
	for _, one := range list {
		records := one.Records()
		for i, r := range records {
			if _, err := tx.ExecContext(ctx, "INSERT INTO journal VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)", r.Run, int64(r.Seq), string(r.Kind), r.Version,
				r.AtMs, r.Body, r.Prev, r.Digest, one.writer, int64(one.n)-int64(len(records)-1-i)); err != nil {
				return err
			}
		}
	}
	return nil
}

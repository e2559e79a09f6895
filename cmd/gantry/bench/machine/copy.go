package machine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// Copies inserts many copies of a run's rows, as fast as the database can. Ids and the writer's numbers are made
// anew; everything else is the original's, so that the copies weigh what it
// weighs, but their chains do not verify: they are there to lie still.
func Copies(ctx context.Context, db *sql.DB, postgres bool, original string, number int) error {
	tables := map[string]map[string]string{
		"heads":    {"run": made("run"), "root": made("root")},
		"journal":  {"run": made("run"), "n": "-(g.number * 1000 + t.seq)"},
		"payloads": {"id": made("id"), "run": made("run")},
		"inbox":    {"id": made("id"), "run": made("run")},
	}
	for _, table := range []string{"heads", "journal", "payloads", "inbox"} {
		columns, err := columnsOf(ctx, db, table)
		if err != nil {
			return err
		}
		values := make([]string, len(columns))
		for i, column := range columns {
			values[i] = "t." + column
			if anew, changed := tables[table][column]; changed {
				values[i] = anew
			}
		}
		into := "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") "
		statement := "SELECT " + strings.Join(values, ", ") + " FROM g CROSS JOIN " + table + " AS t WHERE t.run = $1"
		for first := 1; first <= number; first += atOnce {
			series := fmt.Sprintf("WITH RECURSIVE g(number) AS (SELECT %d UNION ALL SELECT number + 1 FROM g WHERE number < %d) ", first, min(first+atOnce-1, number))
			if _, err := db.ExecContext(ctx, into+series+statement, original); err != nil {
				return fmt.Errorf("copy %s: %w", table, err)
			}
		}
	}
	_, err := db.ExecContext(ctx, "ANALYZE")
	if postgres || err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// atOnce is how many copies one transaction makes.
const atOnce = 2000

// made is an id of a copy; all have one length, so that they are inserted in
// their order.
func made(column string) string {
	return "t." + column + " || '-' || CAST(g.number + 10000000 AS TEXT)"
}

func columnsOf(ctx context.Context, db *sql.DB, table string) (columns []string, err error) {
	rows, err := db.QueryContext(ctx, "SELECT * FROM "+table+" LIMIT 0") //nolint:gosec // a name of ours
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if columns, err = rows.Columns(); err != nil {
		return nil, err
	}
	return columns, rows.Err()
}

package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"gantry.dev/orchestrator/engine"
)

// querier is what reading a row needs of a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// changer is what writing a row needs of a transaction.
type changer interface {
	querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Databases are the handles to a store's database, for what keeps tables of its
// own beside the journal's.
type Databases struct {
	Write    *sql.DB // SQLite: one connection, whose transactions begin by taking the file
	Read     *sql.DB
	Postgres bool
}

// Databases returns the handles. They close with the store.
func (s *Store) Databases() Databases {
	return Databases{Write: s.write.DB, Read: s.read.bun.DB, Postgres: s.postgres}
}

// Beside is what of the journal's own commits together with rows of a table that
// is kept beside it.
type Beside struct {
	Texts   []engine.Payload
	Erased  []string        // ids of texts that are not needed any more
	Receipt *engine.Receipt // nil for none
}

// Beside runs one transaction of a table that is kept beside the journal's: what
// rows writes commits with texts and the receipt of its command, or nothing
// does. Rows asks in the database's own dialect. Errors: engine.ErrReplayed for
// a receipt's command that was accepted before, and those of rows.
func (s *Store) Beside(ctx context.Context, with Beside, rows func(ctx context.Context, tx *sql.Tx) error) error {
	return s.write.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if err := remember(ctx, tx, with.Receipt); err != nil {
			return err
		}
		for _, text := range with.Texts {
			if err := s.storePayload(ctx, tx, text); err != nil {
				return err
			}
		}
		for _, id := range with.Erased {
			if _, err := tx.ExecContext(ctx, "DELETE FROM payloads WHERE id = ?", id); err != nil {
				return err
			}
		}
		return rows(ctx, tx.Tx)
	})
}

// database asks a database with ? for arguments, by statements that are prepared
// once: on SQLite here, on PostgreSQL by its driver.
type database struct {
	bun      *bun.DB // the same database, for transactions
	postgres bool
	mu       sync.Mutex
	prepared map[string]*sql.Stmt
}

func newDatabase(db *bun.DB, postgres bool) *database {
	return &database{bun: db, postgres: postgres, prepared: map[string]*sql.Stmt{}}
}

// statement returns what is prepared for a text, nil where it has to be sent as
// it is.
func (d *database) statement(ctx context.Context, text string) *sql.Stmt {
	d.mu.Lock()
	known, met := d.prepared[text]
	d.mu.Unlock()
	if met {
		return known
	}
	made, err := d.bun.PrepareContext(ctx, text)
	if err != nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if earlier, met := d.prepared[text]; met {
		_ = made.Close() // somebody was faster
		return earlier
	}
	d.prepared[text] = made.Stmt
	return made.Stmt
}

// QueryContext asks for rows.
func (d *database) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if d.postgres {
		return d.bun.DB.QueryContext(ctx, numbered(query), args...)
	}
	if prepared := d.statement(ctx, query); prepared != nil { //nolint:sqlclosecheck // kept for the next time
		return prepared.QueryContext(ctx, args...)
	}
	return d.bun.DB.QueryContext(ctx, query, args...)
}

// QueryRowContext asks for one row.
func (d *database) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if d.postgres {
		return d.bun.DB.QueryRowContext(ctx, numbered(query), args...)
	}
	if prepared := d.statement(ctx, query); prepared != nil { //nolint:sqlclosecheck // kept for the next time
		return prepared.QueryRowContext(ctx, args...)
	}
	return d.bun.DB.QueryRowContext(ctx, query, args...)
}

// statement is one step of a batch's transaction, with ? for its arguments.
type statement struct {
	text string
	args []any
	scan func(scanner) error // takes each row; nil where none comes
}

// prepared are the writer's statements on SQLite, by their text; on PostgreSQL
// its driver keeps them. The query builder would format arguments into every
// statement, which costs a batch more than all the rest. Only the writer's
// goroutine uses them.
type prepared struct {
	known map[string]*sql.Stmt
	fresh []string
}

// ready prepares what the last transaction met first. It runs between
// transactions: inside one, SQLite's only connection for writing is taken.
func (p *prepared) ready(ctx context.Context, db *sql.DB) {
	for _, text := range p.fresh {
		if statement, err := db.PrepareContext(ctx, text); err == nil { //nolint:sqlclosecheck // kept for the next batch
			p.known[text] = statement // without it the text is sent as it is
		}
	}
	p.fresh = nil
}

// steps sends statements one by one.
type steps struct {
	tx       *sql.Tx
	postgres bool
	prepared *prepared
}

func (s steps) send(ctx context.Context, list []statement) error {
	for _, one := range list {
		if err := s.one(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func (s steps) one(ctx context.Context, one statement) error {
	if one.scan == nil {
		_, err := s.exec(ctx, one)
		return err
	}
	rows, err := s.query(ctx, one)
	if err != nil {
		return err
	}
	_, err = collect(rows, func(row scanner) (struct{}, error) { return struct{}{}, one.scan(row) })
	return err
}

func (s steps) exec(ctx context.Context, one statement) (sql.Result, error) {
	if s.postgres {
		return s.tx.ExecContext(ctx, numbered(one.text), one.args...)
	}
	if known := s.find(one.text); known != nil {
		return s.tx.StmtContext(ctx, known).ExecContext(ctx, one.args...) //nolint:sqlclosecheck // ends with the transaction
	}
	return s.tx.ExecContext(ctx, one.text, one.args...)
}

func (s steps) query(ctx context.Context, one statement) (*sql.Rows, error) {
	if s.postgres {
		return s.tx.QueryContext(ctx, numbered(one.text), one.args...)
	}
	if known := s.find(one.text); known != nil {
		return s.tx.StmtContext(ctx, known).QueryContext(ctx, one.args...) //nolint:sqlclosecheck // ends with the transaction
	}
	return s.tx.QueryContext(ctx, one.text, one.args...)
}

func (s steps) find(text string) *sql.Stmt {
	known, met := s.prepared.known[text]
	if !met {
		s.prepared.known[text] = nil
		s.prepared.fresh = append(s.prepared.fresh, text)
	}
	return known
}

// pipeline sends statements to PostgreSQL in one round trip.
type pipeline struct {
	conn   *pgx.Conn
	begun  bool
	commit bool // with the next statements
}

func (p *pipeline) send(ctx context.Context, list []statement) error {
	var batch pgx.Batch
	if !p.begun {
		batch.Queue("BEGIN")
	}
	for _, one := range list {
		batch.Queue(numbered(one.text), one.args...)
	}
	if p.commit {
		batch.Queue("COMMIT")
	}
	results := p.conn.SendBatch(ctx, &batch)
	err := p.receive(results, list)
	if closed := results.Close(); err == nil {
		err = closed
	}
	return err
}

func (p *pipeline) receive(results pgx.BatchResults, list []statement) error {
	if !p.begun {
		if _, err := results.Exec(); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		p.begun = true
	}
	for _, one := range list {
		if one.scan == nil {
			if _, err := results.Exec(); err != nil {
				return err
			}
			continue
		}
		rows, err := results.Query()
		if err != nil {
			return err
		}
		for rows.Next() {
			if err := one.scan(rows); err != nil {
				rows.Close()
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	if !p.commit {
		return nil
	}
	tag, err := results.Exec()
	if err == nil && tag.String() != "COMMIT" {
		return errors.New("the transaction was rolled back")
	}
	return err
}

// numbered writes each ? as PostgreSQL wants it.
func numbered(query string) string {
	var b strings.Builder
	b.Grow(len(query) + 2*strings.Count(query, "?"))
	n := 0
	for {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
		query = after
	}
}

// find reads the rows of some keys of one column, and locks them in the order
// of the keys where others may change them meanwhile.
func (s *Store) find(columns, table, key, lock string, keys []string, scan func(scanner) error) (list []statement) {
	query := "SELECT " + columns + " FROM " + table + " WHERE " + key
	if s.postgres && len(keys) > 0 {
		return []statement{{query + " = ANY(?) ORDER BY " + key + lock, []any{keys}, scan}}
	}
	for some := range pieces(keys) {
		args := make([]any, len(some))
		for i, one := range some {
			args[i] = one
		}
		list = append(list, statement{query + " IN (?" + strings.Repeat(", ?", len(some)-1) + ")", args, scan})
	}
	return list
}

// insert puts rows into a table. Then says what becomes of a row whose key is
// there.
func (s *Store) insert(table, columns, then string, rows [][]any) (list []statement) {
	into := "INSERT INTO " + table + " (" + columns + ") "
	for _, some := range s.tables(rows) {
		some.text = into + some.text + then
		list = append(list, some)
	}
	return list
}

// update changes columns of the rows that the first column names.
func (s *Store) update(table string, columns []string, rows [][]any) (list []statement) {
	key := columns[0]
	if !s.postgres && len(rows) == 1 { // SQLite would make a table for the one row that is joined
		return []statement{{text: "UPDATE " + table + " SET " + strings.Join(columns[1:], " = ?, ") + " = ? WHERE " + key + " = ?",
			args: slices.Concat(rows[0][1:], rows[0][:1])}}
	}
	set := make([]string, 0, len(columns))
	for _, column := range columns[1:] {
		set = append(set, column+" = moved."+column)
	}
	for _, some := range s.tables(rows) {
		some.text = "WITH moved (" + strings.Join(columns, ", ") + ") AS (" + some.text + ") UPDATE " + table + " SET " + strings.Join(set, ", ") +
			" FROM moved WHERE " + table + "." + key + " = moved." + key
		list = append(list, some)
	}
	return list
}

// tables are rows as queries give them: on PostgreSQL one, on SQLite a few.
func (s *Store) tables(rows [][]any) (list []statement) {
	if s.postgres && len(rows) > 0 {
		arrays, types := transposed(rows)
		return []statement{{text: "SELECT * FROM unnest(" + types + ") ", args: arrays}}
	}
	for some := range pieces(rows) {
		row := "(?" + strings.Repeat(", ?", len(some[0])-1) + ")"
		list = append(list, statement{text: "VALUES " + row + strings.Repeat(", "+row, len(some)-1) + " ", args: slices.Concat(some...)})
	}
	return list
}

// pieces cuts a list into a few sizes, so that few statements are prepared.
func pieces[T any](list []T) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for _, size := range []int{64, 16, 4, 1} {
			for len(list) >= size {
				if !yield(list[:size]) {
					return
				}
				list = list[size:]
			}
		}
	}
}

// transposed turns rows into one array for each column, and says their types.
func transposed(rows [][]any) (arrays []any, types string) {
	names := make([]string, len(rows[0]))
	for column, value := range rows[0] {
		switch value.(type) {
		case string:
			arrays, names[column] = append(arrays, columnOf[string](rows, column)), "?::text[]"
		case int64:
			arrays, names[column] = append(arrays, columnOf[int64](rows, column)), "?::bigint[]"
		default:
			arrays, names[column] = append(arrays, columnOf[[]byte](rows, column)), "?::bytea[]"
		}
	}
	return arrays, strings.Join(names, ", ")
}

func columnOf[T any](rows [][]any, column int) []T {
	values := make([]T, len(rows))
	for i, row := range rows {
		values[i], _ = row[column].(T)
	}
	return values
}

package journal

import (
	"cmp"
	"context"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/uptrace/bun"

	"gantry.dev/orchestrator/run"
)

// SignedHead is one line of an organisation's series of signed heads, as it was
// signed.
type SignedHead struct {
	Organisation string
	Number       uint64 // from 1
	Body         string
}

// Moved is a run with records that no signed head covers yet.
type Moved struct {
	Organisation string
	Run          string
	From         uint64 // records that are covered
	Version      uint64 // records that there are
	Digest       string // of the last one
}

// Unsigned is what moved since heads were last signed, as it stood at one
// moment.
type Unsigned struct {
	Moved   []Moved           // by organisation and run
	Reached map[string]uint64 // by writer: the numbers that Moved comes up to
}

// headsCursor names how far signed heads have come, among the cursors.
const headsCursor = "signed heads"

// Unsigned finds what moved since KeepHeads last kept something. It reads the
// records' places only, by the numbers that every writer gives them.
func (s *Snapshot) Unsigned(ctx context.Context) (Unsigned, error) {
	u := Unsigned{Reached: map[string]uint64{}}
	type position struct {
		writer string
		n      uint64
	}
	writers, err := listed(ctx, s.tx, func(row scanner) (p position, err error) { return p, row.Scan(&p.writer, &p.n) },
		"SELECT w.id, coalesce(c.n, 0) FROM writers w LEFT JOIN cursors c ON c.name = ? AND c.writer = w.id", headsCursor)
	if err != nil {
		return u, err
	}
	moved := map[string]Moved{}
	for _, writer := range writers {
		reached, err := s.movedBy(ctx, writer.writer, writer.n, moved)
		if err != nil {
			return u, err
		}
		if reached > writer.n {
			u.Reached[writer.writer] = reached
		}
	}
	u.Moved = slices.SortedFunc(maps.Values(moved), func(a, b Moved) int {
		return cmp.Or(cmp.Compare(a.Organisation, b.Organisation), cmp.Compare(a.Run, b.Run))
	})
	return u, nil
}

// movedBy adds what a writer recorded after a number, and returns its last.
func (s *Snapshot) movedBy(ctx context.Context, writer string, after uint64, moved map[string]Moved) (reached uint64, err error) {
	type counted struct {
		Moved
		records, last uint64
	}
	rows, err := listed(ctx, s.tx, func(row scanner) (c counted, err error) {
		return c, row.Scan(&c.Run, &c.records, &c.last, &c.Version, &c.Digest, &c.Organisation)
	}, `SELECT t.run, t.records, t.reached, h.version, h.digest, h.organisation
		FROM (SELECT run, CAST(sum(CASE WHEN n - ? < count THEN n - ? ELSE count END) AS BIGINT) AS records, max(n) AS reached FROM journal WHERE writer = (SELECT number FROM writers WHERE id = ?) AND n > ? GROUP BY run) AS t JOIN heads h ON h.run = t.run`, after, after, writer, after)
	for _, row := range rows {
		reached = max(reached, row.last)
		one, known := moved[row.Run]
		if !known {
			one, one.From = row.Moved, row.Version
		}
		one.From -= min(row.records, one.From)
		moved[row.Run] = one
	}
	return reached, err
}

// SignedHeads lists up to limit heads of an organisation after a number.
func (s *Snapshot) SignedHeads(ctx context.Context, organisation string, after uint64, limit int) ([]SignedHead, error) {
	return listed(ctx, s.tx, scanSignedHead, "SELECT organisation, number, body FROM signed_heads WHERE organisation = ? AND number > ? ORDER BY number LIMIT ?",
		organisation, after, limit)
}

// SignedOrganisations lists the organisations that have signed heads.
func (s *Snapshot) SignedOrganisations(ctx context.Context) ([]string, error) {
	return listed(ctx, s.tx, func(row scanner) (name string, err error) { return name, row.Scan(&name) },
		"SELECT DISTINCT organisation FROM signed_heads ORDER BY organisation")
}

func scanSignedHead(row scanner) (h SignedHead, err error) {
	return h, row.Scan(&h.Organisation, &h.Number, &h.Body)
}

// KeepHeads keeps signed heads and how far they come, whole or not at all.
// run.ErrConflict where another process signed the same numbers first.
func (s *Store) KeepHeads(ctx context.Context, heads []SignedHead, reached map[string]uint64) error {
	return s.write.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		for _, head := range heads {
			result, err := tx.ExecContext(ctx, "INSERT INTO signed_heads (organisation, number, body) VALUES (?, ?, ?) ON CONFLICT (organisation, number) DO NOTHING",
				head.Organisation, head.Number, head.Body)
			if err != nil {
				return err
			}
			if kept, err := result.RowsAffected(); err != nil || kept != 1 {
				return cmp.Or(err, run.ErrConflict)
			}
		}
		for _, writer := range slices.Sorted(maps.Keys(reached)) {
			if _, err := tx.ExecContext(ctx, "INSERT INTO cursors (name, writer, n) VALUES (?, ?, ?) ON CONFLICT (name, writer) DO UPDATE SET n = excluded.n",
				headsCursor, writer, reached[writer]); err != nil {
				return err
			}
		}
		return nil
	})
}

// LockFile takes a lock on a file that ends with the process at the latest.
// Errors: ErrInUse.
func LockFile(path string) (io.Closer, error) {
	file, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	return fileLock{file}, nil
}

// fileLock is a file that is locked until it is closed.
type fileLock struct{ file *os.File }

// Close gives the lock back.
func (l fileLock) Close() error { return unlockFile(l.file) }

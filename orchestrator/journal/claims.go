package journal

import (
	"context"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// Claim takes runs that are due, each under a new epoch: of roots and of children
// those that have been due the longest, shared by engine.Share. Which of the two
// gets an odd place changes from one claim to the next.
func (s *Store) Claim(ctx context.Context, worker string, limit int, ttlMs int64) ([]engine.Lease, error) {
	nowMs, err := s.now(ctx, s.read)
	if err != nil {
		return nil, err
	}
	roots, children, err := s.due(ctx, nowMs, limit)
	if err != nil {
		return nil, err
	}
	if roots+children <= limit {
		if roots+children == 0 {
			return nil, nil
		}
		return s.take(ctx, worker, "", limit, ttlMs)
	}
	ofRoots, ofChildren := engine.Share(limit, roots, children, s.claims.Add(1)%2 == 1)
	leases, err := s.take(ctx, worker, " AND parent = ''", ofRoots, ttlMs)
	if err != nil {
		return nil, err // what was claimed without an answer waits for its end
	}
	more, err := s.take(ctx, worker, " AND parent <> ''", ofChildren, ttlMs)
	if err != nil && len(leases) == 0 {
		return nil, err
	}
	return append(leases, more...), nil // the others are due still
}

// due counts the roots and the children that are due, of each up to one more
// than limit.
func (s *Store) due(ctx context.Context, nowMs int64, limit int) (roots, children int, err error) {
	const counted = "(SELECT count(*) FROM (SELECT 1 FROM heads WHERE due_ms > 0 AND due_ms <= ? AND (owner = '' OR lease_until <= ?) AND parent "
	err = s.read.QueryRowContext(ctx, "SELECT "+counted+"= '' LIMIT ?) AS roots), "+counted+"<> '' LIMIT ?) AS children)",
		nowMs, nowMs, limit+1, nowMs, nowMs, limit+1).Scan(&roots, &children)
	return roots, children, err
}

// take claims up to limit of the runs that are due and of a kind.
func (s *Store) take(ctx context.Context, worker, kind string, limit int, ttlMs int64) (leases []engine.Lease, err error) {
	if limit <= 0 {
		return nil, nil
	}
	skip := ""
	if s.postgres {
		skip = " FOR UPDATE SKIP LOCKED"
	}
	err = s.beside(ctx, "", func(nowMs int64) statement {
		leases = nil
		return statement{`UPDATE heads SET epoch = epoch + 1, owner = ?, lease_until = ? WHERE run IN (
			SELECT run FROM heads WHERE due_ms > 0 AND due_ms <= ? AND (owner = '' OR lease_until <= ?) AND status NOT IN (?, ?, ?, ?, ?)` + kind + `
			ORDER BY due_ms LIMIT ?` + skip + `) RETURNING run, epoch`, []any{worker, nowMs + ttlMs, nowMs, nowMs,
			string(run.StatusParked), string(run.StatusCompleted), string(run.StatusPartial), string(run.StatusFailed), string(run.StatusCancelled), limit},
			func(row scanner) error {
				lease := engine.Lease{UntilMs: nowMs + ttlMs}
				err := row.Scan(&lease.Run, &lease.Epoch)
				leases = append(leases, lease)
				return err
			}}
	})
	if err != nil {
		return nil, err
	}
	return leases, nil
}

// Renew prolongs the leases that still hold.
func (s *Store) Renew(ctx context.Context, worker string, leases []engine.Lease, ttlMs int64) ([]engine.Lease, error) {
	var held []engine.Lease
	for _, lease := range leases {
		holds := false
		if err := s.beside(ctx, lease.Run, func(nowMs int64) statement {
			holds = false
			return statement{"UPDATE heads SET lease_until = ? WHERE run = ? AND owner = ? AND epoch = ? AND lease_until > ? RETURNING lease_until",
				[]any{nowMs + ttlMs, lease.Run, worker, number(lease.Epoch), nowMs}, func(row scanner) error {
					holds = true
					return row.Scan(&lease.UntilMs)
				}}
		}); err != nil {
			return held, err
		}
		if holds {
			held = append(held, lease)
		}
	}
	return held, nil
}

// Release gives a lease back; a lease that was taken over stays with its new
// owner.
func (s *Store) Release(ctx context.Context, worker string, lease engine.Lease) error {
	return s.beside(ctx, lease.Run, func(int64) statement {
		return statement{text: "UPDATE heads SET owner = '', lease_until = 0 WHERE run = ? AND owner = ? AND epoch = ?",
			args: []any{lease.Run, worker, number(lease.Epoch)}}
	})
}

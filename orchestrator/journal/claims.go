package journal

import (
	"context"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// Claim takes runs that are due, each under a new epoch.
func (s *Store) Claim(ctx context.Context, worker string, limit int, ttlMs int64) ([]engine.Lease, error) {
	nowMs, err := s.now(ctx, s.read)
	if err != nil {
		return nil, err
	}
	skip := ""
	if s.postgres {
		skip = " FOR UPDATE SKIP LOCKED"
	}
	var due int
	if err := s.read.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM heads WHERE due_ms > 0 AND due_ms <= ? AND (owner = '' OR lease_until <= ?) LIMIT 1) AS due",
		nowMs, nowMs).Scan(&due); err != nil || due == 0 {
		return nil, err
	}
	var leases []engine.Lease
	err = s.beside(ctx, "", func(nowMs int64) statement {
		leases = nil
		return statement{`UPDATE heads SET epoch = epoch + 1, owner = ?, lease_until = ? WHERE run IN (
			SELECT run FROM heads WHERE due_ms > 0 AND due_ms <= ? AND (owner = '' OR lease_until <= ?) AND status NOT IN (?, ?, ?, ?, ?)
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
		return nil, err // what was claimed without an answer waits for its end
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

package journal

import (
	"context"
	"fmt"

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
	rows, err := s.lease.QueryContext(ctx, `UPDATE heads SET epoch = epoch + 1, owner = ?, lease_until = ? WHERE run IN (
		SELECT run FROM heads WHERE due_ms > 0 AND due_ms <= ? AND (owner = '' OR lease_until <= ?) AND status NOT IN (?, ?, ?, ?, ?)
		ORDER BY due_ms LIMIT ?`+skip+`) RETURNING run, epoch`, worker, nowMs+ttlMs, nowMs, nowMs,
		string(run.StatusParked), string(run.StatusCompleted), string(run.StatusPartial), string(run.StatusFailed), string(run.StatusCancelled), limit)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(row scanner) (engine.Lease, error) {
		lease := engine.Lease{UntilMs: nowMs + ttlMs}
		return lease, row.Scan(&lease.Run, &lease.Epoch)
	})
}

// Renew prolongs the leases that still hold.
func (s *Store) Renew(ctx context.Context, worker string, leases []engine.Lease, ttlMs int64) ([]engine.Lease, error) {
	nowMs, err := s.now(ctx, s.read)
	if err != nil {
		return nil, err
	}
	var held []engine.Lease
	for _, lease := range leases {
		result, err := s.lease.ExecContext(ctx, "UPDATE heads SET lease_until = ? WHERE run = ? AND owner = ? AND epoch = ? AND lease_until > ?",
			nowMs+ttlMs, lease.Run, worker, lease.Epoch, nowMs)
		if err != nil {
			return held, err
		}
		changed, err := result.RowsAffected()
		if err != nil {
			return held, fmt.Errorf("renew: %w", err)
		}
		if changed == 1 {
			lease.UntilMs = nowMs + ttlMs
			held = append(held, lease)
		}
	}
	return held, nil
}

// Release gives a lease back; a lease that was taken over stays with its new
// owner.
func (s *Store) Release(ctx context.Context, worker string, lease engine.Lease) error {
	_, err := s.lease.ExecContext(ctx, "UPDATE heads SET owner = '', lease_until = 0 WHERE run = ? AND owner = ? AND epoch = ?",
		lease.Run, worker, lease.Epoch)
	return err
}

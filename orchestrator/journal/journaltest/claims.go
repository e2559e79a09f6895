package journaltest

import (
	"cmp"
	"context"
	"slices"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

func byAge(a, b engine.InboxItem) int {
	return cmp.Or(cmp.Compare(a.SinceMs, b.SinceMs), cmp.Compare(a.ID, b.ID))
}

// Claim takes runs that are due, each under a new epoch: of roots and of children
// those that have been due the longest, shared by engine.Share.
func (m *Memory) Claim(_ context.Context, worker string, limit int, ttlMs int64) ([]engine.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	nowMs := m.clock()
	var roots, children []run.Head
	for _, head := range m.heads {
		switch {
		case !run.Claimable(head, nowMs):
		case head.Parent == "":
			roots = append(roots, head)
		default:
			children = append(children, head)
		}
	}
	if len(roots)+len(children) > limit {
		m.claims++
	}
	ofRoots, ofChildren := engine.Share(limit, len(roots), len(children), m.claims%2 == 1)
	var leases []engine.Lease
	for _, head := range slices.Concat(longestDue(roots, ofRoots), longestDue(children, ofChildren)) {
		head.Epoch++
		head.Owner, head.LeaseUntil = worker, nowMs+ttlMs
		m.heads[head.Run] = head
		leases = append(leases, engine.Lease{Run: head.Run, Epoch: head.Epoch, UntilMs: head.LeaseUntil})
	}
	return leases, nil
}

// longestDue are the first of the runs, by when they became due.
func longestDue(heads []run.Head, most int) []run.Head {
	slices.SortFunc(heads, func(a, b run.Head) int {
		return cmp.Or(cmp.Compare(a.DueMs, b.DueMs), cmp.Compare(a.Run, b.Run))
	})
	return heads[:most]
}

// Renew prolongs the leases that still hold.
func (m *Memory) Renew(_ context.Context, worker string, leases []engine.Lease, ttlMs int64) ([]engine.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	nowMs := m.clock()
	var held []engine.Lease
	for _, lease := range leases {
		head := m.heads[lease.Run]
		if head.Owner != worker || head.Epoch != lease.Epoch || head.LeaseUntil <= nowMs {
			continue
		}
		head.LeaseUntil = nowMs + ttlMs
		m.heads[lease.Run] = head
		lease.UntilMs = head.LeaseUntil
		held = append(held, lease)
	}
	return held, nil
}

// Release gives a lease back.
func (m *Memory) Release(_ context.Context, worker string, lease engine.Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	head, known := m.heads[lease.Run]
	if known && head.Owner == worker && head.Epoch == lease.Epoch {
		head.Owner, head.LeaseUntil = "", 0
		m.heads[lease.Run] = head
	}
	return nil
}

package simulate

import (
	"context"
	"errors"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/run"
)

var errStore = errors.New("the store did not answer")

// fault is how one operation of the store goes wrong.
type fault int

const (
	none     fault = iota
	lost           // it did not happen, and the caller is told of a failure
	silent         // it happened, and the caller is told of a failure
	conflict       // it is refused as if another write came first
	fenced         // it is refused as if the lease was lost
)

// store is the journal in memory behind a line on which anything can go wrong.
type store struct {
	*journaltest.Memory
	sim    *simulation
	epochs map[string]uint64   // of the last lease by run
	owners map[string]*process // that got the last lease
	barred map[string]bool     // runs of whose last write under it the conditions did not hold
}

var (
	_ engine.Journal = (*store)(nil)
	_ engine.Claims  = (*store)(nil)
)

// meets lets time pass on the way to the store and says what goes wrong.
func (s *store) meets() fault {
	drawn := none
	if s.sim.hit(s.sim.rate(s.sim.plan.store)) {
		s.sim.faults++
		drawn = fault(s.sim.between(int64(lost), int64(fenced)))
		if p := s.sim.running.process; p != nil {
			p.faulty = true
		}
	}
	s.sim.lag()
	return drawn
}

// answers lets time pass on the way back.
func (s *store) answers(met fault, err error) error {
	s.sim.lag()
	if met == silent {
		return errStore
	}
	return err
}

// Append is the journal's.
func (s *store) Append(ctx context.Context, write engine.Write) error {
	met := s.meets()
	switch {
	case met == lost:
		return errStore
	case met == conflict:
		return run.ErrConflict
	case met == fenced && write.Epoch != 0:
		return run.ErrFenced
	}
	err := s.Memory.Append(ctx, write)
	s.barred[write.Head.Run] = errors.Is(err, run.ErrGuard)
	if err == nil {
		s.committed(write)
	}
	return s.answers(met, err)
}

func (s *store) committed(write engine.Write) {
	if id := write.Head.Run; write.Epoch != 0 && write.Epoch != s.epochs[id] {
		s.sim.report("%s: a write of epoch %d was accepted under epoch %d", id, write.Epoch, s.epochs[id])
	}
	s.sim.witness(write)
	s.sim.tell(write.Head.Run)
	s.sim.born(write)
	for _, id := range write.Wakes {
		s.sim.tell(id)
	}
}

// Load is the journal's.
func (s *store) Load(ctx context.Context, id string, after uint64) (run.Head, []run.Record, error) {
	if met := s.meets(); met == lost || met == silent {
		return run.Head{}, nil, errStore
	}
	head, records, err := s.Memory.Load(ctx, id, after)
	s.sim.lag()
	return head, records, err
}

// Now is the clock of the store.
func (s *store) Now(ctx context.Context) (int64, error) {
	if met := s.meets(); met == lost || met == silent {
		return 0, errStore
	}
	return s.Memory.Now(ctx)
}

// Receipt is the journal's. It is asked seldom, and so fails more often.
func (s *store) Receipt(ctx context.Context, organisation, caller, command string) (engine.Receipt, error) {
	if met := s.meets(); met == lost || met == silent || s.sim.hit(s.sim.rate(3*s.sim.plan.store)) {
		return engine.Receipt{}, errStore
	}
	return s.Memory.Receipt(ctx, organisation, caller, command)
}

// Payloads is the journal's.
func (s *store) Payloads(ctx context.Context, ids []string) (map[string]engine.Payload, error) {
	if met := s.meets(); met == lost || met == silent {
		return nil, errStore
	}
	return s.Memory.Payloads(ctx, ids)
}

// Claim is the journal's. It watches over who loses a lease.
func (s *store) Claim(ctx context.Context, worker string, limit int, ttlMs int64) ([]engine.Lease, error) {
	met := s.meets()
	if met == lost {
		return nil, errStore
	}
	held := map[string]bool{}
	for _, r := range s.sim.runs {
		head, _ := s.sim.head(r.id)
		held[r.id] = head.Owner != ""
	}
	leases, err := s.Memory.Claim(ctx, worker, limit, ttlMs)
	for _, lease := range leases {
		if was := s.owners[lease.Run]; held[lease.Run] && !s.barred[lease.Run] && was != nil && !was.dead && !was.faulty && s.sim.plan.leaseMs >= soundLeaseMs {
			s.sim.report("%s: the lease of a healthy worker ran out", lease.Run)
		}
		s.barred[lease.Run] = false
		s.epochs[lease.Run], s.owners[lease.Run] = lease.Epoch, s.sim.running.process
		s.sim.note(lease.Epoch, uint64(len(lease.Run)))
	}
	return leases, s.answers(met, err)
}

// Renew is the journal's.
func (s *store) Renew(ctx context.Context, worker string, leases []engine.Lease, ttlMs int64) ([]engine.Lease, error) {
	met := s.meets()
	switch met {
	case lost:
		return nil, errStore
	case fenced:
		return nil, nil
	}
	held, err := s.Memory.Renew(ctx, worker, leases, ttlMs)
	return held, s.answers(met, err)
}

// Release is the journal's.
func (s *store) Release(ctx context.Context, worker string, lease engine.Lease) error {
	met := s.meets()
	if met == lost {
		return errStore
	}
	return s.answers(met, s.Memory.Release(ctx, worker, lease))
}

// tell rings the workers after a commit, as far as messages arrive.
func (s *simulation) tell(id string) {
	for _, p := range s.living() {
		for range 2 {
			if s.hit(s.rate(s.plan.silence)) {
				continue // lost
			}
			s.at(s.nowMs+s.between(0, s.plan.ringMs), func() {
				if !p.dead {
					p.worker.Ring(id)
				}
			})
			if !s.hit(0.1) {
				break // else it comes twice
			}
		}
	}
}

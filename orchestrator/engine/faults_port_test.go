package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/run"
)

// portFault is how the n-th operation of a store goes wrong.
type portFault string

const (
	timesOut        portFault = "timeout"             // it did not happen
	happensAndFails portFault = "execute and timeout" // it happened, the caller sees an error
	losesTheLease   portFault = "ownership lost"      // another worker takes all leases over just before
	meetsAnother    portFault = "conflict"            // it is refused as if another write came first
	isFull          portFault = "full"                // nothing can be written for a while
	isReadOnly      portFault = "read-only"           // the same, and the store says so
)

// sickMs is how long a fault that lasts goes on.
const sickMs = 2 * leaseMs

var (
	errFull     = errors.New("database or disk is full")
	errReadOnly = errors.New("attempt to write a readonly database")
)

// sickPort is a store of which one operation goes wrong.
type sickPort struct {
	port
	lane    *lane
	fault   portFault
	at      int // from 1; 0: none
	passed  int
	untilMs int64 // what lasts is over
}

// meet counts an operation and says what the caller is told instead.
func (p *sickPort) meet(writes bool, happen func() error) error {
	p.passed++
	mine := p.passed == p.at
	if mine {
		p.untilMs = p.lane.nowMs + sickMs
	}
	switch p.fault {
	case timesOut:
		if mine {
			return errStore
		}
	case happensAndFails:
		err := happen()
		if mine {
			return errors.Join(errStore, err)
		}
		return err
	case losesTheLease:
		if mine {
			p.takeOver()
		}
	case isFull, isReadOnly:
		if p.at != 0 && p.passed >= p.at && writes && p.lane.nowMs < p.untilMs {
			if p.fault == isFull {
				return errFull
			}
			return errReadOnly
		}
	}
	return happen()
}

// takeOver lets another worker have all due runs for a moment, once no lease
// holds any more. The owner does not know.
func (p *sickPort) takeOver() {
	wasMs := p.lane.nowMs
	p.lane.nowMs += 2 * leaseMs
	leases, _ := p.port.Claim(context.Background(), "intruder", 9, leaseMs)
	for _, lease := range leases {
		_ = p.port.Release(context.Background(), "intruder", lease)
	}
	p.lane.nowMs = wasMs + 1 // the owner's clock went on as if nothing was
}

func (p *sickPort) Append(ctx context.Context, write engine.Write) error {
	if p.fault == meetsAnother && p.passed+1 == p.at {
		p.passed++
		return run.ErrConflict
	}
	return p.meet(true, func() error { return p.port.Append(ctx, write) })
}

func (p *sickPort) Load(ctx context.Context, id string, after uint64) (head run.Head, records []run.Record, err error) {
	err = p.meet(false, func() (err error) { head, records, err = p.port.Load(ctx, id, after); return err })
	return head, records, err
}

func (p *sickPort) Now(ctx context.Context) (nowMs int64, err error) {
	err = p.meet(false, func() (err error) { nowMs, err = p.port.Now(ctx); return err })
	return nowMs, err
}

func (p *sickPort) Receipt(ctx context.Context, organisation, caller, command string) (r engine.Receipt, err error) {
	err = p.meet(false, func() (err error) { r, err = p.port.Receipt(ctx, organisation, caller, command); return err })
	return r, err
}

func (p *sickPort) Payloads(ctx context.Context, ids []string) (found map[string]engine.Payload, err error) {
	err = p.meet(false, func() (err error) { found, err = p.port.Payloads(ctx, ids); return err })
	return found, err
}

func (p *sickPort) Claim(ctx context.Context, worker string, limit int, ttlMs int64) (leases []engine.Lease, err error) {
	err = p.meet(true, func() (err error) { leases, err = p.port.Claim(ctx, worker, limit, ttlMs); return err })
	if err != nil {
		return nil, err
	}
	return leases, nil
}

func (p *sickPort) Renew(ctx context.Context, worker string, leases []engine.Lease, ttlMs int64) (held []engine.Lease, err error) {
	err = p.meet(true, func() (err error) { held, err = p.port.Renew(ctx, worker, leases, ttlMs); return err })
	if err != nil {
		return nil, err
	}
	return held, nil
}

func (p *sickPort) Release(ctx context.Context, worker string, lease engine.Lease) error {
	return p.meet(true, func() error { return p.port.Release(ctx, worker, lease) })
}

// Every operation that the engine asks of its store goes wrong once, in each
// way, and the runs come to the same ends with nothing doubled or lost.
func TestFault_A3_EveryOperationOfTheStoreMayFailOnce(t *testing.T) {
	t.Parallel()
	kinds := []portFault{timesOut, happensAndFails, losesTheLease, meetsAnother, isFull, isReadOnly}
	operations, _ := throughPort(t, "", 0)
	require.Greater(t, operations, 50)
	cases := 0
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			for n := 1; n <= operations; n++ {
				passed, waits := throughPort(t, kind, n)
				require.GreaterOrEqual(t, passed, n, "the passage before the fault is always the same")
				require.Less(t, passed, 3*operations+8*waits, "%s of operation %d: it spins", kind, n)
				cases++
			}
		})
	}
	fmt.Printf("level: L3 failed operations %d\n", cases)
}

// throughPort takes the runs through a store whose n-th operation goes wrong, and
// counts the operations, and how often all waited for time to pass.
func throughPort(t *testing.T, fault portFault, n int) (passed, waits int) {
	t.Helper()
	l := &lane{nowMs: ordealStartMs}
	store, err := journal.Open(t.Context(), journal.Config{DSN: "sqlite:" + freshFile(t), MasterKey: ordealKey, Clock: l.NowMs, Between: journaltest.Hasty})
	require.NoError(t, err)
	sick := &sickPort{lane: l, fault: fault, at: n}
	o := newOrdeal(t, l, store, func(p port) port { sick.port = p; return sick })
	o.endure()
	require.Empty(t, o.judge(), "%s of operation %d", fault, n)
	require.NoError(t, store.Close())
	return sick.passed, l.waits
}

var ordealKey = []byte("0123456789abcdef0123456789abcdef")

// freshFile makes the file of an empty store.
var freshFile = journaltest.Files(func(path string) error {
	s, err := journal.Open(context.Background(), journal.Config{DSN: "sqlite:" + path, MasterKey: ordealKey})
	if err != nil {
		return err
	}
	return s.Close()
})

// Who sends a command to a store that takes no writes is told so, and may send
// it again: reads go on, and nothing was done.
func TestFault_C6_WhoWritesToAReadOnlyStoreIsToldSo(t *testing.T) {
	l := &lane{nowMs: ordealStartMs}
	store, err := journal.Open(t.Context(), journal.Config{DSN: "sqlite:" + freshFile(t), MasterKey: ordealKey, Clock: l.NowMs, Between: journaltest.Hasty})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	sick := &sickPort{lane: l, fault: isReadOnly, at: 1, untilMs: 1 << 50}
	o := newOrdeal(t, l, store, func(p port) port { sick.port = p; return sick })
	command, payloads := o.starts("r1")(nil)
	submission := engine.Submission{Organisation: "o", Run: "r1", Command: command, Payloads: payloads,
		Receipt: &engine.Receipt{Organisation: "o", Caller: "ada", Command: "start", Run: "r1", Answer: []byte("{}")}}
	_, err = o.engine.Submit(t.Context(), submission)
	require.ErrorIs(t, err, engine.ErrStore)
	require.ErrorIs(t, err, errReadOnly)
	_, err = o.engine.State(t.Context(), "r1")
	require.ErrorIs(t, err, engine.ErrNotFound)
	require.NotErrorIs(t, err, engine.ErrStore)

	l.nowMs += sickMs
	sent, err := o.engine.Submit(t.Context(), submission)
	require.NoError(t, err)
	require.Equal(t, run.StatusQueued, sent.Status)
	_, err = o.engine.Submit(t.Context(), submission)
	require.ErrorIs(t, err, engine.ErrReplayed)
	require.NotErrorIs(t, err, engine.ErrStore)
}

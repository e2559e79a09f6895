package notary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// Store is the database, as the notary needs it.
type Store interface {
	// Snapshot is the store as it stands at one moment.
	Snapshot(ctx context.Context) (*journal.Snapshot, error)
	// KeepHeads keeps new heads; run.ErrConflict where others came first.
	KeepHeads(ctx context.Context, heads []journal.SignedHead, reached map[string]uint64) error
	// Now is the database's clock, UTC ms.
	Now(ctx context.Context) (int64, error)
}

// Config is what a notary works with.
type Config struct {
	Store  Store
	Folder string // outside the database
	// Keys are asked for before every signature: they may have been changed.
	Keys func() (Signer, Ring, error)
}

// Notary signs heads. Sign and Run are for one goroutine.
type Notary struct {
	config  Config
	folder  Folder
	lock    io.Closer
	last    map[string]kept // of each organisation, in the folder
	signer  Signer
	ring    Ring
	records atomic.Int64 // that Count was told of since the last signature
	full    chan struct{}
}

// kept is how far the folder has come.
type kept struct {
	thread
	line string // the last one
}

// mostRecords is how many new records do not wait for the next tick.
const mostRecords = 1000

// New returns a notary. Close it when done.
func New(config Config) *Notary {
	return &Notary{config: config, folder: NewFolder(config.Folder), last: map[string]kept{}, full: make(chan struct{}, 1)}
}

// Count hears of new records; it does not block.
func (n *Notary) Count(records int) {
	if n.records.Add(int64(records)) < mostRecords {
		return
	}
	select {
	case n.full <- struct{}{}:
	default:
	}
}

// Run signs at each tick, and when many records came, until the context ends.
// report hears of each failure; the next tick tries again.
func (n *Notary) Run(ctx context.Context, ticks <-chan time.Time, report func(error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		case <-n.full:
		}
		if err := n.Sign(ctx); err != nil && ctx.Err() == nil {
			report(err)
		}
	}
}

// Sign brings the folder up to what the database has, then covers what moved
// since. Where the database does not continue what the folder has, nothing is
// signed: the error says what is wrong. Where another process keeps the same
// folder there is nothing to do.
func (n *Notary) Sign(ctx context.Context) error {
	if err := n.take(); err != nil {
		if errors.Is(err, journal.ErrInUse) {
			return nil
		}
		return err
	}
	n.records.Store(0)
	if err := n.readKeys(); err != nil {
		return err
	}
	moved, reached, err := n.look(ctx)
	if err != nil || len(moved) == 0 {
		return err
	}
	nowMs, err := n.config.Store.Now(ctx)
	if err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	heads, err := n.draft(moved, nowMs)
	if err != nil {
		return err
	}
	err = n.config.Store.KeepHeads(ctx, heads, reached)
	if errors.Is(err, run.ErrConflict) {
		return nil // another process signed; the next time copies it
	}
	if err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	return n.append(heads)
}

// take makes the folder this process's own.
func (n *Notary) take() error {
	if n.lock != nil {
		return nil
	}
	if err := os.MkdirAll(n.config.Folder, 0o700); err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	lock, err := journal.LockFile(filepath.Join(n.config.Folder, "lock"))
	if err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	n.lock = lock
	return nil
}

// Close lets the folder go.
func (n *Notary) Close() error {
	if n.lock == nil {
		return nil
	}
	lock := n.lock
	n.lock, n.last = nil, map[string]kept{}
	return lock.Close()
}

// readKeys asks for the keys. What was read of the folder under another ring
// may mean something else now.
func (n *Notary) readKeys() error {
	signer, ring, err := n.config.Keys()
	if err == nil {
		err = ring.Validate()
	}
	if err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	if !slices.Equal(ring, n.ring) {
		n.last = map[string]kept{}
	}
	n.signer, n.ring = signer, ring
	return nil
}

// look copies what the folder lacks and finds what moved, both at one moment.
func (n *Notary) look(ctx context.Context) (moved []movement, reached map[string]uint64, err error) {
	snapshot, err := n.config.Store.Snapshot(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("heads: %w", err)
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	organisations, err := everywhere(ctx, n.folder, snapshot)
	if err != nil {
		return nil, nil, err
	}
	var void []string
	for _, organisation := range organisations {
		if err := n.copy(ctx, snapshot, organisation); err != nil {
			return nil, nil, err
		}
		if n.last[organisation].void != nil {
			void = append(void, organisation)
		}
	}
	unsigned, err := snapshot.Unsigned(ctx)
	if err != nil {
		return nil, nil, err
	}
	moved, err = n.anew(ctx, snapshot, void, movements(unsigned.Moved))
	return moved, unsigned.Reached, err
}

// everywhere lists the organisations with heads in the folder or the database.
func everywhere(ctx context.Context, folder Folder, snapshot *journal.Snapshot) ([]string, error) {
	outside, err := folder.Organisations()
	if err != nil {
		return nil, err
	}
	inside, err := snapshot.SignedOrganisations(ctx)
	outside = append(outside, inside...)
	slices.Sort(outside)
	return slices.Compact(outside), err
}

const pageHeads = 64

// copy adds to the folder what the database has beyond it, if it continues it.
func (n *Notary) copy(ctx context.Context, snapshot *journal.Snapshot, organisation string) error {
	last, err := n.newest(organisation)
	if err != nil {
		return err
	}
	heads, err := snapshot.SignedHeads(ctx, organisation, max(last.number, 1)-1, pageHeads)
	if err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	if last.number > 0 {
		if len(heads) == 0 || heads[0].Number != last.number {
			return Fault{Code: DatabaseBehind, Organisation: organisation, Head: last.number,
				Text: "The folder has this head and the database has not: was an old copy of it put in place?"}
		}
		if heads[0].Body != last.line {
			return Fault{Code: HeadForked, Organisation: organisation, Head: last.number, Text: "The database has another head of this number than the folder."}
		}
		heads = heads[1:]
	}
	for len(heads) > 0 {
		if err := n.append(heads); err != nil {
			return err
		}
		if heads, err = snapshot.SignedHeads(ctx, organisation, heads[len(heads)-1].Number, pageHeads); err != nil {
			return fmt.Errorf("heads: %w", err)
		}
	}
	return nil
}

// newest returns how far an organisation's heads in the folder have come. Where
// a key was revoked every line is read again: heads of the past may not count
// any more.
func (n *Notary) newest(organisation string) (kept, error) {
	if known, is := n.last[organisation]; is {
		return known, nil
	}
	last := kept{thread: thread{organisation: organisation, ring: n.ring}}
	whole := n.ring.anyRevoked()
	err := n.folder.Read(organisation, func(line []byte) error {
		last.line = string(line)
		if !whole {
			return nil
		}
		if fault := last.add(line); fault != nil {
			return *fault
		}
		return nil
	})
	if err != nil || last.line == "" {
		return last, err
	}
	if !whole {
		read, err := parse([]byte(last.line))
		if err != nil {
			return last, Fault{Code: HeadUnreadable, Organisation: organisation, Text: "The last line of the file is no signed head."}
		}
		if why := n.ring.believes(read); why != "" {
			return last, Fault{Code: HeadUnsigned, Organisation: organisation, Head: read.Head.Number, Text: why}
		}
		last.take(read.Head)
	}
	n.last[organisation] = last
	return last, nil
}

// append adds heads to the folder, each of which must continue the one before.
func (n *Notary) append(heads []journal.SignedHead) error {
	for len(heads) > 0 {
		organisation := heads[0].Organisation
		last, err := n.newest(organisation)
		if err != nil {
			return err
		}
		var lines [][]byte
		for len(heads) > 0 && heads[0].Organisation == organisation {
			if heads[0].Number != last.number+1 {
				return Fault{Code: DatabaseBehind, Organisation: organisation, Head: last.number + 1, Text: "The database lacks this head."}
			}
			last.line = heads[0].Body
			if fault := last.add([]byte(last.line)); fault != nil {
				return *fault
			}
			lines, heads = append(lines, []byte(last.line)), heads[1:]
		}
		if err := n.folder.Append(organisation, lines); err != nil {
			return err
		}
		n.last[organisation] = last
	}
	return nil
}

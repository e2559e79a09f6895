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
	Ring   Ring
	Signer Signer
}

// Notary signs heads. Sign and Run are for one goroutine.
type Notary struct {
	config  Config
	folder  Folder
	lock    io.Closer
	last    map[string]kept // of each organisation, in the folder
	records atomic.Int64    // that Count was told of since the last signature
	full    chan struct{}
}

// kept is the newest head in the folder.
type kept struct {
	head Head
	line string
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
	unsigned, err := n.look(ctx)
	if err != nil || len(unsigned.Moved) == 0 {
		return err
	}
	nowMs, err := n.config.Store.Now(ctx)
	if err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	heads, err := n.draft(unsigned, nowMs)
	if err != nil {
		return err
	}
	err = n.config.Store.KeepHeads(ctx, heads, unsigned.Reached)
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

// look copies what the folder lacks and finds what moved, both at one moment.
func (n *Notary) look(ctx context.Context) (u journal.Unsigned, err error) {
	snapshot, err := n.config.Store.Snapshot(ctx)
	if err != nil {
		return u, fmt.Errorf("heads: %w", err)
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	organisations, err := everywhere(ctx, n.folder, snapshot)
	if err != nil {
		return u, err
	}
	for _, organisation := range organisations {
		if err := n.copy(ctx, snapshot, organisation); err != nil {
			return u, err
		}
	}
	return snapshot.Unsigned(ctx)
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
	heads, err := snapshot.SignedHeads(ctx, organisation, max(last.head.Number, 1)-1, pageHeads)
	if err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	if last.head.Number > 0 {
		if len(heads) == 0 || heads[0].Number != last.head.Number {
			return Fault{Code: DatabaseBehind, Organisation: organisation, Head: last.head.Number,
				Text: "The folder has this head and the database has not: was an old copy of it put in place?"}
		}
		if heads[0].Body != last.line {
			return Fault{Code: HeadForked, Organisation: organisation, Head: last.head.Number, Text: "The database has another head of this number than the folder."}
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

// newest returns the last head of an organisation in the folder.
func (n *Notary) newest(organisation string) (kept, error) {
	if known, is := n.last[organisation]; is {
		return known, nil
	}
	var last kept
	err := n.folder.Read(organisation, func(line []byte) error {
		last.line = string(line)
		return nil
	})
	if err != nil || last.line == "" {
		return last, err
	}
	read, err := parse([]byte(last.line))
	if err != nil {
		return last, Fault{Code: HeadUnreadable, Organisation: organisation, Text: "The last line of the file is no signed head."}
	}
	if why := n.config.Ring.believes(read); why != "" {
		return last, Fault{Code: HeadUnsigned, Organisation: organisation, Head: read.Head.Number, Text: why}
	}
	last.head = read.Head
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
			head, fault := continues(last.head, organisation, n.config.Ring, []byte(heads[0].Body))
			if fault != nil {
				return *fault
			}
			last = kept{head: head, line: heads[0].Body}
			lines, heads = append(lines, []byte(last.line)), heads[1:]
		}
		if err := n.folder.Append(organisation, lines); err != nil {
			return err
		}
		n.last[organisation] = last
	}
	return nil
}

// draft signs heads over what moved.
func (n *Notary) draft(u journal.Unsigned, nowMs int64) ([]journal.SignedHead, error) {
	var heads []journal.SignedHead
	last := map[string]Head{}
	for start := 0; start < len(u.Moved); {
		organisation := u.Moved[start].Organisation
		before, begun := last[organisation]
		if !begun {
			known, err := n.newest(organisation)
			if err != nil {
				return nil, err
			}
			before = known.head
		}
		if before.Epoch > n.config.Signer.epoch {
			return nil, fmt.Errorf("heads: key epoch %d has taken over from %d: start this process again", before.Epoch, n.config.Signer.epoch)
		}
		head, err := before.follows(organisation, nowMs, n.config.Signer.epoch)
		if err != nil {
			return nil, err
		}
		for ; start < len(u.Moved) && u.Moved[start].Organisation == organisation && len(head.Entries) < mostEntries; start++ {
			m := u.Moved[start]
			head.cover(Entry{Run: m.Run, From: m.From, Version: m.Version, Digest: m.Digest})
		}
		line, err := n.config.Signer.sign(head)
		if err != nil {
			return nil, err
		}
		heads = append(heads, journal.SignedHead{Organisation: organisation, Number: head.Number, Body: string(line)})
		last[organisation] = head
	}
	return heads, nil
}

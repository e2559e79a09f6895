package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal/frame"
)

// Batches are bounded in rows and in bytes.
const (
	maxBatchRows  = 2048
	maxBatchBytes = 8 << 20
	queueLength   = 4096
)

// attempts is how often a write that the database fails is tried alone. What
// another process committed first is seen, and refused properly, by the next.
const attempts = 3

// Errors of Append besides the engine's own.
var (
	ErrClosed    = errors.New("store is closed")
	ErrMalformed = errors.New("the write is malformed")
	ErrReadOnly  = errors.New("the store was opened to be looked at only")
)

// item is one write on its way through the writer, or statements that share its
// transaction: they are made under the database clock, anew for each attempt.
type item struct {
	write  *engine.Write
	frames [][]byte // the records of the write, and of each of its births
	aside  func(nowMs int64) statement
	run    string // whose row the statement changes; empty where it finds that out
	done   chan error
}

// Append hands the write to the store's one writer and waits for its commit.
// Many runs' writes share a transaction; each is accepted or refused alone. A
// context that ends leaves it open whether the write was committed. Errors
// besides those of engine.Journal: ErrClosed, ErrMalformed, ErrReadOnly.
func (s *Store) Append(ctx context.Context, write engine.Write) error {
	if err := check(&write); err != nil {
		return err
	}
	frames, err := pack(&write)
	if err != nil {
		return err
	}
	it := &item{write: &write, frames: frames, done: make(chan error, 1)}
	if err := s.enqueue(ctx, it); err != nil {
		return err
	}
	select {
	case err := <-it.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beside sends a statement in the transaction of the next batch. Once it is on
// its way its answer is waited for: a lease that was taken must be known.
func (s *Store) beside(ctx context.Context, run string, aside func(nowMs int64) statement) error {
	it := &item{aside: aside, run: run, done: make(chan error, 1)}
	if err := s.enqueue(ctx, it); err != nil {
		return err
	}
	return <-it.done
}

func (s *Store) enqueue(ctx context.Context, it *item) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.config.ReadOnly:
		return ErrReadOnly
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case s.queue <- it:
		return nil
	}
}

// check refuses a write whose parts contradict each other, or whose names no
// database takes as text.
func check(write *engine.Write) error {
	for _, name := range names(write) {
		if !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
			return fmt.Errorf("%w: a name is no text", ErrMalformed)
		}
	}
	if len(write.Records) == 0 {
		return fmt.Errorf("%w: it has no record", ErrMalformed)
	}
	for i, r := range write.Records {
		if r.Run != write.Head.Run || r.Seq != write.From+uint64(i)+1 {
			return fmt.Errorf("%w: record %d is out of place", ErrMalformed, i)
		}
	}
	last := write.Records[len(write.Records)-1]
	if write.Head.Version != last.Seq || write.Head.Digest != last.Digest {
		return fmt.Errorf("%w: the head is not that of the last record", ErrMalformed)
	}
	for _, birth := range write.Births {
		if birth.From != 0 || birth.Head.Run == write.Head.Run || len(birth.Births) > 0 || birth.Receipt != nil {
			return fmt.Errorf("%w: a birth begins another run and nothing else", ErrMalformed)
		}
		if err := check(birth); err != nil {
			return err
		}
	}
	return nil
}

// whole is a write, and what is born with it.
func whole(write *engine.Write) []*engine.Write {
	return append([]*engine.Write{write}, write.Births...)
}

// pack packs the records of a write and of its births.
func pack(write *engine.Write) (frames [][]byte, err error) {
	for _, one := range whole(write) {
		packed, err := frame.Pack(one.Records)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		frames = append(frames, packed)
	}
	return frames, nil
}

// names are what a write has in columns of text, apart from what is JSON there.
func names(write *engine.Write) []string {
	h := &write.Head
	list := []string{h.Run, h.Organisation, h.Root, h.Parent, h.Conversation, h.Subject, h.Agent, h.Department}
	list = append(list, write.Wakes...)
	if r := write.Receipt; r != nil {
		list = append(list, r.Organisation, r.Caller, r.Command, r.Request, r.Run)
	}
	for _, change := range write.Gates {
		list = append(list, change.Gate, change.Value)
	}
	for _, guard := range write.Guards {
		list = append(list, guard.Gate, guard.Value)
	}
	for _, move := range write.Budget {
		list = append(list, move.Node)
	}
	for _, item := range write.Inbox {
		list = append(list, item.ID, item.Organisation, item.Run)
	}
	for _, p := range write.Payloads {
		list = append(list, p.Text.ID, p.Text.Subject, p.Run)
	}
	for _, link := range write.Links {
		list = append(list, link.Item, link.Text)
	}
	for _, e := range write.Entries {
		list = append(list, e.Conversation, e.Organisation, e.Run, e.Author)
	}
	return list
}

func (s *Store) writeLoop(ctx context.Context) {
	for first := range s.queue {
		s.commit(ctx, s.gather(first))
	}
}

// gather takes what waits already, after letting woken runs add theirs. It
// never waits for a time.
func (s *Store) gather(first *item) []*item {
	batch := []*item{first}
	rows, bytes := size(first)
	for range 2 {
		runtime.Gosched()
		for rows < maxBatchRows && bytes < maxBatchBytes {
			select {
			case it, open := <-s.queue:
				if !open {
					return batch
				}
				batch = append(batch, it)
				moreRows, moreBytes := size(it)
				rows, bytes = rows+moreRows, bytes+moreBytes
				continue
			default:
			}
			break
		}
	}
	return batch
}

func size(it *item) (rows, bytes int) {
	if it.write == nil {
		return 1, 0
	}
	for i, write := range whole(it.write) {
		rows, bytes = rows+len(write.Records), bytes+len(it.frames[i])
		for _, p := range write.Payloads {
			bytes += len(p.Bytes)
		}
	}
	return rows, bytes
}

// commit writes a batch in one transaction. When the database fails it, each
// write is tried alone, so that one that cannot be stored stops no other.
func (s *Store) commit(ctx context.Context, batch []*item) {
	answers, committed, err := s.transact(ctx, batch)
	if err != nil {
		for _, it := range batch {
			s.commitAlone(ctx, it)
		}
		return
	}
	s.tell(committed)
	for i, it := range batch {
		it.done <- answers[i]
	}
}

func (s *Store) commitAlone(ctx context.Context, it *item) {
	var failed error
	for range attempts {
		if failed = s.recount(ctx); failed != nil {
			continue
		}
		answers, committed, err := s.transact(ctx, []*item{it})
		if failed = err; failed == nil {
			s.tell(committed)
			it.done <- answers[0]
			return
		}
	}
	it.done <- fmt.Errorf("store: %w", failed)
}

func (s *Store) tell(committed []Committed) {
	if len(committed) > 0 && s.config.OnCommit != nil {
		s.config.OnCommit(committed)
	}
}

// transact admits and writes a batch in one transaction.
func (s *Store) transact(ctx context.Context, items []*item) (answers []error, committed []Committed, err error) {
	b := s.newBatch(items)
	if s.postgres && s.config.Between == nil {
		answers, err = s.pipelined(ctx, b)
	} else {
		answers, err = s.stepped(ctx, b)
	}
	if err != nil {
		return nil, nil, err
	}
	s.n = b.n
	s.sawClock(b.facts.nowMs, b.facts.readAt)
	return answers, b.committed, nil
}

// stepped sends one statement after the other.
func (s *Store) stepped(ctx context.Context, b *batch) (answers []error, err error) {
	err = s.write.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, tx bun.Tx) error {
		session := steps{tx: tx.Tx, postgres: s.postgres, prepared: s.prepared}
		if err := session.send(ctx, b.reads()); err != nil {
			return err
		}
		var writes []statement
		if answers, writes, err = b.settle(); err != nil {
			return err
		}
		return session.send(ctx, writes)
	})
	s.prepared.ready(ctx, s.write.DB)
	return answers, err
}

// pipelined sends all reads in one round trip and all writes with the commit in
// another.
func (s *Store) pipelined(ctx context.Context, b *batch) (answers []error, err error) {
	conn, err := s.write.DB.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // goes back to the pool
	return answers, conn.Raw(func(raw any) error {
		driven, is := raw.(*stdlib.Conn)
		if !is {
			return fmt.Errorf("the driver's connection is a %T", raw)
		}
		session := &pipeline{conn: driven.Conn()}
		err := session.send(ctx, b.reads())
		var writes []statement
		if err == nil {
			answers, writes, err = b.settle()
		}
		if err == nil {
			session.commit = true
			err = session.send(ctx, writes)
		}
		if err != nil {
			if _, rollback := session.conn.Exec(ctx, "ROLLBACK"); rollback != nil {
				_ = session.conn.Close(ctx) // the pool drops what is closed
			}
		}
		return err
	})
}

// settle admits the writes one after the other and gives what is to be sent of
// those that are accepted, and then what goes beside them.
func (b *batch) settle() (answers []error, list []statement, err error) {
	var asides []statement
	for _, it := range b.items {
		if it.write == nil {
			answers = append(answers, nil)
			asides = append(asides, it.aside(b.facts.nowMs))
			continue
		}
		refusal := b.admit(it.write)
		answers = append(answers, refusal)
		if refusal != nil {
			continue
		}
		for i, write := range whole(it.write) {
			b.admitted = append(b.admitted, write)
			if err := b.record(write, it.frames[i]); err != nil {
				return nil, nil, err
			}
		}
	}
	list, err = b.statements()
	return answers, append(list, asides...), err
}

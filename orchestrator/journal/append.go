package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"

	"github.com/uptrace/bun"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// Batches are bounded in rows and in bytes.
const (
	maxBatchRows  = 2048
	maxBatchBytes = 8 << 20
)

// ErrClosed means that the store is closing and takes no more writes.
var ErrClosed = errors.New("store is closed")

// item is one write on its way through the writer.
type item struct {
	write engine.Write
	done  chan error
}

// Append hands the write to the store's one writer and waits for its commit.
// Many runs' writes share a transaction; each is accepted or refused alone.
func (s *Store) Append(ctx context.Context, write engine.Write) error {
	if len(write.Records) == 0 {
		return errors.New("a write needs a record")
	}
	it := &item{write: write, done: make(chan error, 1)}
	select {
	case <-s.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	case s.queue <- it:
	}
	select {
	case err := <-it.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) writeLoop() {
	for {
		select {
		case first := <-s.queue:
			s.commit(s.gather(first))
		case <-s.closing:
			for {
				select {
				case it := <-s.queue:
					s.commit(s.gather(it))
				default:
					return
				}
			}
		}
	}
}

// gather takes what waits already, after letting woken runs add theirs. It
// never waits for a time.
func (s *Store) gather(first *item) []*item {
	batch, rows, bytes := []*item{first}, len(first.write.Records), size(first)
	for range 2 {
		runtime.Gosched()
		for rows < maxBatchRows && bytes < maxBatchBytes {
			select {
			case it := <-s.queue:
				batch = append(batch, it)
				rows += len(it.write.Records)
				bytes += size(it)
				continue
			default:
			}
			break
		}
	}
	return batch
}

func size(it *item) int {
	total := 0
	for _, r := range it.write.Records {
		total += len(r.Body)
	}
	for _, p := range it.write.Payloads {
		total += len(p.Bytes)
	}
	return total
}

// commit writes a batch in one transaction. When the database fails it, each
// write is tried alone, so that one that cannot be stored stops no other.
func (s *Store) commit(batch []*item) {
	ctx := context.Background()
	answers, committed, err := s.transact(ctx, batch)
	if err != nil && len(batch) > 1 {
		for _, it := range batch {
			s.commit([]*item{it})
		}
		return
	}
	if err != nil {
		batch[0].done <- fmt.Errorf("store: %w", err)
		return
	}
	if len(committed) > 0 && s.config.OnCommit != nil {
		s.config.OnCommit(committed)
	}
	for i, it := range batch {
		it.done <- answers[i]
	}
}

func (s *Store) transact(ctx context.Context, batch []*item) (answers []error, committed []Committed, err error) {
	n, met := s.n, fresh{}
	err = s.write.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, tx bun.Tx) error {
		nowMs, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		for _, it := range batch {
			w := writing{store: s, tx: tx, nowMs: nowMs, write: &it.write, met: met}
			refusal, err := w.admit(ctx)
			if err != nil {
				return err
			}
			answers = append(answers, refusal)
			if refusal != nil {
				continue
			}
			if n, err = w.record(ctx, n); err != nil {
				return err
			}
			committed = append(committed, Committed{Writer: s.id, N: n, Outside: it.write.Epoch == 0, Head: it.write.Head, Records: it.write.Records})
		}
		return nil
	})
	if err == nil {
		s.n = n
		s.vault.keep(met)
	}
	return answers, committed, err
}

// writing is one write inside the transaction of its batch.
type writing struct {
	store *Store
	tx    bun.Tx
	nowMs int64
	write *engine.Write
	met   fresh
}

// admit checks everything that the write depends on before any row of it is
// written. A refusal is the write's own; an error is the database's.
func (w *writing) admit(ctx context.Context) (refusal, err error) {
	for _, check := range []func(context.Context) (error, error){w.receipt, w.head, w.guards, w.budgets} {
		if refusal, err = check(ctx); refusal != nil || err != nil {
			return refusal, err
		}
	}
	return nil, nil
}

func (w *writing) receipt(ctx context.Context) (error, error) {
	r := w.write.Receipt
	if r == nil {
		return nil, nil
	}
	var found int
	err := w.tx.QueryRowContext(ctx, "SELECT count(*) FROM receipts WHERE organisation = ? AND caller = ? AND command = ?",
		r.Organisation, r.Caller, r.Command).Scan(&found)
	if err == nil && found > 0 {
		return engine.ErrReplayed, nil
	}
	return nil, err
}

func (w *writing) forUpdate() string {
	if w.store.postgres {
		return " FOR UPDATE"
	}
	return ""
}

func (w *writing) head(ctx context.Context) (error, error) {
	var head run.Head
	err := w.tx.QueryRowContext(ctx, "SELECT version, epoch, started_ms FROM heads WHERE run = ?"+w.forUpdate(), w.write.Head.Run).
		Scan(&head.Version, &head.Epoch, &head.StartedMs)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
		if w.write.From != 0 {
			return run.ErrConflict, nil
		}
	}
	if err != nil {
		return nil, err
	}
	w.write.Head.StartedMs = head.StartedMs
	return run.Admit(head, w.write.From, w.write.Epoch), nil
}

// guards checks the gates under a lock that a change of the same gate waits
// for. SQLite has one writer and needs none.
func (w *writing) guards(ctx context.Context) (error, error) {
	for _, change := range w.write.Gates {
		if err := w.lockGate(ctx, "pg_advisory_xact_lock", change.Gate); err != nil {
			return nil, err
		}
	}
	for _, guard := range w.write.Guards {
		if guard.BeforeMs != 0 && w.nowMs >= guard.BeforeMs {
			return run.ErrGuard, nil
		}
		if guard.Gate == "" {
			continue
		}
		if err := w.lockGate(ctx, "pg_advisory_xact_lock_shared", guard.Gate); err != nil {
			return nil, err
		}
		value, err := gate(ctx, w.tx, guard.Gate)
		if err != nil {
			return nil, err
		}
		if value != guard.Value {
			return run.ErrGuard, nil
		}
	}
	return nil, nil
}

func (w *writing) lockGate(ctx context.Context, function, name string) error {
	if !w.store.postgres {
		return nil
	}
	_, err := w.tx.ExecContext(ctx, "SELECT "+function+"(hashtextextended(?, 0))", name)
	return err
}

func (w *writing) budgets(ctx context.Context) (error, error) {
	for _, move := range w.write.Budget {
		b, err := budget(ctx, w.tx, move.Node, w.forUpdate())
		if errors.Is(err, sql.ErrNoRows) {
			return run.ErrBudget, nil
		}
		if err != nil {
			return nil, err
		}
		grows := move.Reserve.MicroUSD > 0 || move.Reserve.Tokens > 0
		if grows && !b.Covers(move.Reserve) {
			return run.ErrBudget, nil
		}
	}
	return nil, nil
}

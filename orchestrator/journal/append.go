package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/uptrace/bun"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
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
)

// item is one write on its way through the writer.
type item struct {
	write engine.Write
	done  chan error
}

// Append hands the write to the store's one writer and waits for its commit.
// Many runs' writes share a transaction; each is accepted or refused alone. A
// context that ends leaves it open whether the write was committed. Errors
// besides those of engine.Journal: ErrClosed, ErrMalformed.
func (s *Store) Append(ctx context.Context, write engine.Write) error {
	if err := check(&write); err != nil {
		return err
	}
	it := &item{write: write, done: make(chan error, 1)}
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

func (s *Store) enqueue(ctx context.Context, it *item) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return ErrClosed
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case s.queue <- it:
		return nil
	}
}

// check refuses a write whose parts contradict each other.
func check(write *engine.Write) error {
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
	return nil
}

func (s *Store) writeLoop(ctx context.Context) {
	for first := range s.queue {
		s.commit(ctx, s.gather(first))
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
			case it, open := <-s.queue:
				if !open {
					return batch
				}
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

func (s *Store) transact(ctx context.Context, batch []*item) (answers []error, committed []Committed, err error) {
	n := s.n
	err = s.write.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, outer bun.Tx) error {
		tx := hotTx{outer.Tx, s.hot}
		nowMs, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		shared := &shared{keys: fresh{}, gates: map[string]string{}}
		for _, it := range batch {
			w := writing{store: s, tx: tx, nowMs: nowMs, write: &it.write, shared: shared}
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
			committed = append(committed, Committed{Writer: s.id, N: n, Outside: it.write.Epoch == 0, Head: it.write.Head,
				Records: it.write.Records, Entries: it.write.Entries, Inbox: it.write.Inbox})
		}
		return shared.flush(ctx, tx)
	})
	s.hot.prepare(ctx, s.write.DB)
	if err != nil {
		return nil, nil, err
	}
	s.n = n
	return answers, committed, nil
}

// writing is one write inside the transaction of its batch.
type writing struct {
	store *Store
	tx    hotTx
	nowMs int64
	write *engine.Write
	*shared
}

// shared is what the writes of one transaction have in common: what they read
// already, and the rows that nothing in the transaction reads again.
type shared struct {
	keys     fresh
	gates    map[string]string // under a lock until the end
	records  [][]any
	payloads [][]any
}

// admit checks everything that the write depends on before any row of it is
// written. A refusal is the write's own; an error is the database's.
func (w *writing) admit(ctx context.Context) (refusal, err error) {
	for _, check := range []func(context.Context) (error, error){w.receipt, w.head, w.guards, w.budgets, w.conversations} {
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
	err := w.tx.QueryRowContext(ctx, "SELECT version, epoch, owner, lease_until, started_ms, ended_ms FROM heads WHERE run = ?"+w.forUpdate(), w.write.Head.Run).
		Scan(&head.Version, &head.Epoch, &head.Owner, &head.LeaseUntil, &head.StartedMs, &head.EndedMs)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
		if w.write.From != 0 {
			return run.ErrConflict, nil
		}
	}
	if err != nil {
		return nil, err
	}
	h := &w.write.Head
	h.Epoch, h.Owner, h.LeaseUntil, h.StartedMs, h.EndedMs = head.Epoch, head.Owner, head.LeaseUntil, head.StartedMs, head.EndedMs
	return run.Admit(head, w.write.From, w.write.Epoch), nil
}

// guards checks the gates under a lock that a change of the same gate waits
// for. SQLite has one writer and needs none.
func (w *writing) guards(ctx context.Context) (error, error) {
	for _, change := range w.write.Gates {
		if err := w.store.lockGate(ctx, w.tx, "pg_advisory_xact_lock", change.Gate); err != nil {
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
		value, err := w.gate(ctx, guard.Gate)
		if err != nil {
			return nil, err
		}
		if value != guard.Value {
			return run.ErrGuard, nil
		}
	}
	return nil, nil
}

// gate reads a gate under a shared lock, once in the transaction.
func (w *writing) gate(ctx context.Context, name string) (string, error) {
	if value, known := w.gates[name]; known {
		return value, nil
	}
	if err := w.store.lockGate(ctx, w.tx, "pg_advisory_xact_lock_shared", name); err != nil {
		return "", err
	}
	value, err := gate(ctx, w.tx, name)
	if err == nil {
		w.gates[name] = value
	}
	return value, err
}

// lockGate holds a gate's name until the end of the transaction. SQLite has one
// writer and needs no lock.
func (s *Store) lockGate(ctx context.Context, db querier, function, name string) error {
	if !s.postgres {
		return nil
	}
	_, err := db.ExecContext(ctx, "SELECT "+function+"(hashtextextended(?, 0))", name)
	return err
}

func (w *writing) budgets(ctx context.Context) (error, error) {
	nodes := map[string]run.Budget{}
	for _, move := range sortedMoves(w.write.Budget) {
		b, known := nodes[move.Node]
		if !known {
			var err error
			b, err = w.budgetNode(ctx, move.Node)
			if errors.Is(err, sql.ErrNoRows) {
				return run.ErrBudget, nil
			}
			if err != nil {
				return nil, err
			}
		}
		if !fits(b, move.Reserve) {
			return run.ErrBudget, nil
		}
		b.Reserved, b.Settled, b.Unknown = b.Reserved.Plus(move.Reserve), b.Settled.Plus(move.Settle), b.Unknown.Plus(move.Unknown)
		nodes[move.Node] = b
	}
	return nil, nil
}

// budgetNode reads and locks a node. One period of a node begins with its limit.
func (w *writing) budgetNode(ctx context.Context, name string) (run.Budget, error) {
	b, err := budget(ctx, w.tx, name, w.forUpdate())
	node, isPeriod := run.NodeOfPeriod(name)
	if !isPeriod || !errors.Is(err, sql.ErrNoRows) {
		return b, err
	}
	if _, err := w.tx.ExecContext(ctx, `INSERT INTO budgets (node, limit_money, limit_tokens)
		SELECT ?, limit_money, limit_tokens FROM budgets WHERE node = ? ON CONFLICT (node) DO NOTHING`, name, node); err != nil {
		return b, err
	}
	return budget(ctx, w.tx, name, w.forUpdate())
}

// fits holds each part that grows against the limit: a release or a settlement
// is never refused.
func fits(b run.Budget, reserve run.Amount) bool {
	after := b.Committed().Plus(reserve)
	return (reserve.MicroUSD <= 0 || after.MicroUSD <= b.Limit.MicroUSD) && (reserve.Tokens <= 0 || after.Tokens <= b.Limit.Tokens)
}

// sortedMoves orders by node, so that no two processes lock the same nodes in
// opposite orders; the moves of one node stay in theirs.
func sortedMoves(moves []run.BudgetMove) []run.BudgetMove {
	sorted := slices.Clone(moves)
	slices.SortStableFunc(sorted, func(a, b run.BudgetMove) int { return cmp.Compare(a.Node, b.Node) })
	return sorted
}

// conversations refuses entries to a conversation that the organisation does
// not have.
func (w *writing) conversations(ctx context.Context) (error, error) {
	for _, e := range w.write.Entries {
		var found int
		if err := w.tx.QueryRowContext(ctx, "SELECT count(*) FROM conversations WHERE id = ? AND organisation = ?", e.Conversation, e.Organisation).Scan(&found); err != nil {
			return nil, err
		}
		if found == 0 {
			return fmt.Errorf("conversation: %w", engine.ErrNotFound), nil
		}
	}
	return nil, nil
}

package journal

import (
	"crypto/cipher"
	"fmt"
	"maps"
	"slices"
	"time"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// facts are what the database holds of everything that a batch depends on,
// under locks until its transaction ends. Admitted writes change them as they
// will change the database.
type facts struct {
	nowMs         int64
	readAt        time.Time // when the clock said that
	heads         map[string]run.Head
	gates         map[string]string
	nodes         map[string]run.Budget
	receipts      map[receiptKey]bool
	conversations map[string]thread
	keys          map[string]cipher.AEAD // by subject
}

// thread is what a new entry needs to know of its conversation.
type thread struct {
	organisation string
	next         int64 // number of the last entry
}

type receiptKey struct{ organisation, caller, command string }

func receiptOf(r *engine.Receipt) receiptKey { return receiptKey{r.Organisation, r.Caller, r.Command} }

// batch is the writes of one transaction.
type batch struct {
	store    *Store
	items    []*item
	writes   []*engine.Write
	admitted []*engine.Write
	facts    facts
	*changes
}

func (s *Store) newBatch(items []*item) *batch {
	b := &batch{store: s, items: items, changes: newChanges(s.n), facts: facts{heads: map[string]run.Head{}, gates: map[string]string{}, nodes: map[string]run.Budget{},
		receipts: map[receiptKey]bool{}, conversations: map[string]thread{}, keys: map[string]cipher.AEAD{}}}
	for _, it := range items {
		if it.write != nil {
			b.writes = append(b.writes, whole(it.write)...)
		}
	}
	return b
}

// different are the values of the batch's writes, sorted: whoever locks
// several locks them in this order.
func (b *batch) different(of func(*engine.Write, func(string))) []string {
	met := map[string]bool{}
	for _, write := range b.writes {
		of(write, func(key string) { met[key] = true })
	}
	return slices.Sorted(maps.Keys(met))
}

// runs are those whose rows the batch changes, by writes or beside them.
func (b *batch) runs() []string {
	runs := b.different(func(w *engine.Write, add func(string)) {
		add(w.Head.Run)
		for _, id := range w.Wakes {
			add(id)
		}
	})
	for _, it := range b.items {
		if it.run != "" {
			runs = append(runs, it.run)
		}
	}
	slices.Sort(runs)
	return slices.Compact(runs)
}

// reads are the statements that find the facts. The clock comes last: what is
// too late is so when every lock is held.
func (b *batch) reads() []statement {
	s := b.store
	var list []statement
	if s.postgres {
		list = append(list, statement{text: "SET LOCAL lock_timeout = '2s'"}) // whoever holds one run must not hold up all
	}
	list = append(list, b.readGates()...)
	list = append(list, s.find("run, version, epoch, owner, lease_until, status, due_ms, started_ms, ended_ms, news, heard", "heads", "run", " FOR UPDATE",
		b.runs(), func(row scanner) error {
			var h run.Head
			err := row.Scan(&h.Run, &h.Version, &h.Epoch, &h.Owner, &h.LeaseUntil, (*string)(&h.Status), &h.DueMs, &h.StartedMs, &h.EndedMs, &h.News, &h.Heard)
			b.facts.heads[h.Run] = h
			return err
		})...)
	list = append(list, b.readNodes()...)
	list = append(list, s.find("id, organisation, next", "conversations", "id", " FOR UPDATE",
		b.different(func(w *engine.Write, add func(string)) {
			for _, e := range w.Entries {
				add(e.Conversation)
			}
		}), func(row scanner) error {
			var id string
			var t thread
			err := row.Scan(&id, &t.organisation, &t.next)
			b.facts.conversations[id] = t
			return err
		})...)
	list = append(list, b.readReceipts()...)
	list = append(list, b.readKeys()...)
	return append(list, b.readClock()...)
}

// readGates reads gates under locks that a change of the same gate waits for.
// SQLite has one writer and needs none. A gate that is absent can only be
// locked by its name, and is read by a later statement, which sees what was
// committed before the lock was given.
func (b *batch) readGates() []statement {
	changed := map[string]bool{}
	guarded := map[string]bool{}
	all := b.different(func(w *engine.Write, add func(string)) {
		for _, c := range w.Gates {
			changed[c.Gate] = true
			add(c.Gate)
		}
		for _, g := range w.Guards {
			if g.Gate != "" {
				guarded[g.Gate] = true
				add(g.Gate)
			}
		}
	})
	list := b.store.lockGates(all, changed)
	return append(list, b.store.find("name, value", "gates", "name", "", slices.Sorted(maps.Keys(guarded)), func(row scanner) error {
		var name, value string
		err := row.Scan(&name, &value)
		b.facts.gates[name] = value
		return err
	})...)
}

// PostgreSQL's locks by name, which end with the transaction.
const (
	lockExclusive = "pg_advisory_xact_lock"
	lockShared    = "pg_advisory_xact_lock_shared"
)

// lockGates takes the locks in the order of the names, so that no two batches
// wait for each other: runs of names with the same kind of lock share a
// statement.
func (s *Store) lockGates(names []string, exclusive map[string]bool) (list []statement) {
	for len(names) > 0 && s.postgres {
		function, n := lockShared, 1
		if exclusive[names[0]] {
			function = lockExclusive
		}
		for n < len(names) && exclusive[names[n]] == exclusive[names[0]] {
			n++
		}
		list = append(list, statement{text: "SELECT " + function + "(hashtextextended(name, 0)) FROM unnest(?::text[]) AS name", args: []any{names[:n]}})
		names = names[n:]
	}
	return list
}

// readNodes reads and locks budgets, and with the node of a period the one that
// it is a period of: where the first is not there yet, the lock on the second
// holds off whoever would make it too. Periods are looked at again under that
// lock, since another batch may have made them while it was waited for.
func (b *batch) readNodes() []statement {
	nodes := b.different(func(w *engine.Write, add func(string)) {
		for _, move := range w.Budget {
			add(move.Node)
		}
	})
	var periods []string
	all := nodes
	for _, name := range nodes {
		if node, isPeriod := run.NodeOfPeriod(name); isPeriod {
			periods, all = append(periods, name), append(all, node)
		}
	}
	slices.Sort(all)
	scan := func(row scanner) error {
		node, err := scanBudget(row)
		b.facts.nodes[node.Node] = node.Budget
		return err
	}
	return slices.Concat(b.store.find(budgetColumns, "budgets", "node", " FOR UPDATE", slices.Compact(all), scan),
		b.store.find(budgetColumns, "budgets", "node", " FOR UPDATE", periods, scan))
}

// node is what a budget stands at. One period of a node begins with its limit.
func (f *facts) node(name string) (run.Budget, bool) {
	if node, known := f.nodes[name]; known {
		return node, true
	}
	whole, isPeriod := run.NodeOfPeriod(name)
	if !isPeriod {
		return run.Budget{}, false
	}
	node, known := f.nodes[whole]
	return run.Budget{Limit: node.Limit}, known
}

func (b *batch) readReceipts() []statement {
	var list []statement
	for _, write := range b.writes {
		if r := write.Receipt; r != nil {
			list = append(list, statement{"SELECT organisation, caller, command FROM receipts WHERE organisation = ? AND caller = ? AND command = ?",
				[]any{r.Organisation, r.Caller, r.Command}, func(row scanner) error {
					var key receiptKey
					err := row.Scan(&key.organisation, &key.caller, &key.command)
					b.facts.receipts[key] = true
					return err
				}})
		}
	}
	return list
}

// readKeys opens the subjects' keys, and on PostgreSQL holds up their erasure
// until the texts under them are committed.
func (b *batch) readKeys() []statement {
	subjects := b.different(func(w *engine.Write, add func(string)) {
		for _, p := range w.Payloads {
			add(p.Text.Subject)
		}
	})
	return b.store.find("subject, wrapped", "subject_keys", "subject", b.store.vault.lock, subjects, func(row scanner) error {
		var subject string
		var wrapped []byte
		if err := row.Scan(&subject, &wrapped); err != nil {
			return err
		}
		key, err := b.store.vault.unwrap(subject, wrapped)
		b.facts.keys[subject] = key
		return err
	})
}

func (b *batch) readClock() []statement {
	if clock := b.store.config.Clock; clock != nil {
		b.facts.nowMs = clock()
		return nil
	}
	return []statement{{clockQuery, nil, func(row scanner) error {
		err := row.Scan(&b.facts.nowMs)
		b.facts.readAt = time.Now()
		return err
	}}}
}

// admit checks everything that a write depends on, and the births with it. What
// it returns is the write's own refusal.
func (b *batch) admit(write *engine.Write) error {
	if err := b.admitOne(write); err != nil {
		return err
	}
	for _, birth := range write.Births {
		if err := b.admitOne(birth); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) admitOne(write *engine.Write) error {
	if r := write.Receipt; r != nil && b.facts.receipts[receiptOf(r)] {
		return engine.ErrReplayed
	}
	head := b.facts.heads[write.Head.Run] // the zero head of a run that is not there
	h := &write.Head
	h.Epoch, h.Owner, h.LeaseUntil, h.StartedMs, h.EndedMs = head.Epoch, head.Owner, head.LeaseUntil, head.StartedMs, head.EndedMs
	h.News, h.Heard = head.News, max(head.Heard, write.Heard)
	if err := run.Admit(head, write.From, write.Epoch); err != nil {
		return err
	}
	for _, guard := range write.Guards {
		late := guard.BeforeMs != 0 && b.facts.nowMs >= guard.BeforeMs
		if late || guard.Gate != "" && b.facts.gates[guard.Gate] != guard.Value {
			return run.ErrGuard
		}
	}
	if err := b.admitMoves(write.Budget); err != nil {
		return err
	}
	for _, e := range write.Entries {
		if thread, known := b.facts.conversations[e.Conversation]; !known || thread.organisation != e.Organisation {
			return fmt.Errorf("conversation: %w", engine.ErrNotFound)
		}
	}
	return nil
}

func (b *batch) admitMoves(moves []run.BudgetMove) error {
	after := map[string]run.Budget{}
	for _, move := range moves {
		node, met := after[move.Node]
		if !met {
			var known bool
			if node, known = b.facts.node(move.Node); !known {
				return run.ErrBudget
			}
		}
		if !fits(node, move.Reserve) {
			return run.ErrBudget
		}
		after[move.Node] = moved(node, move)
	}
	return nil
}

func moved(b run.Budget, move run.BudgetMove) run.Budget {
	b.Reserved, b.Settled, b.Unknown = b.Reserved.Plus(move.Reserve), b.Settled.Plus(move.Settle), b.Unknown.Plus(move.Unknown)
	return b
}

// fits holds each part that grows against the limit: a release or a settlement
// is never refused.
func fits(b run.Budget, reserve run.Amount) bool {
	after := b.Committed().Plus(reserve)
	return (reserve.MicroUSD <= 0 || after.MicroUSD <= b.Limit.MicroUSD) && (reserve.Tokens <= 0 || after.Tokens <= b.Limit.Tokens)
}

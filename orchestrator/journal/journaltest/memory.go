// Package journaltest holds what every journal must do, as a suite of tests,
// and a journal in memory that does it: the oracle of simulations.
package journaltest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

const memoryWriter = "memory"

type receiptKey struct{ organisation, caller, command string }

type itemKey struct{ organisation, id string }

// runLink is a link of a run.
type runLink struct {
	engine.Link
	run string
}

// Memory is a journal without a database. It is safe for concurrent use.
type Memory struct {
	clock func() int64

	mu       sync.Mutex
	heads    map[string]run.Head
	records  map[string][]run.Record
	written  uint64
	claims   uint64 // that left something due
	gates    map[string]string
	budgets  map[string]run.Budget
	payloads map[string]engine.Payload
	receipts map[receiptKey]engine.Receipt
	inbox    map[itemKey]engine.InboxItem
	talks    map[itemKey][]engine.Entry
	links    []runLink
	erased   map[string]bool // by item
}

var _ Journal = (*Memory)(nil)

// NewMemory returns an empty journal whose database clock is the given one, UTC ms.
func NewMemory(clock func() int64) *Memory {
	return &Memory{
		clock: clock, heads: map[string]run.Head{}, records: map[string][]run.Record{}, gates: map[string]string{},
		budgets: map[string]run.Budget{}, payloads: map[string]engine.Payload{}, receipts: map[receiptKey]engine.Receipt{},
		inbox: map[itemKey]engine.InboxItem{}, talks: map[itemKey][]engine.Entry{}, erased: map[string]bool{},
	}
}

// Append commits the write whole or not at all.
func (m *Memory) Append(ctx context.Context, write engine.Write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	nowMs := m.clock()
	moves := write.Budget
	for _, one := range whole(write) {
		if err := m.admit(*one, nowMs); err != nil {
			return err
		}
	}
	for _, birth := range write.Births {
		moves = append(slices.Clip(moves), birth.Budget...)
	}
	budgets, err := m.moved(moves)
	if err != nil {
		return err
	}
	for _, one := range whole(write) {
		if err := m.carries(*one); err != nil {
			return err
		}
	}
	for node, b := range budgets {
		m.budgets[node] = b
	}
	for _, one := range whole(write) {
		m.store(*one, nowMs)
	}
	return nil
}

// whole is a write with its births.
func whole(write engine.Write) []*engine.Write {
	return append([]*engine.Write{&write}, write.Births...)
}

// wake counts news of a run that waits for its children.
func (m *Memory) wake(id string, nowMs int64) {
	head, known := m.heads[id]
	if !known || head.Status.Ended() {
		return
	}
	head.News++
	head.DueMs = run.KeepDue(head.DueMs, head.Due(nowMs), nowMs)
	m.heads[id] = head
}

// EndedChildren returns the ends of a run's children.
func (m *Memory) EndedChildren(_ context.Context, parent string, known func(child string) bool) (news uint64, ends []run.Record, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	head, there := m.heads[parent]
	if !there {
		return 0, nil, engine.ErrNotFound
	}
	for _, id := range slices.Sorted(maps.Keys(m.heads)) {
		if m.heads[id].Parent != parent || m.heads[id].EndedMs == 0 || known(id) {
			continue
		}
		for _, record := range m.records[id] {
			if record.Kind == run.KindEnded {
				ends = append(ends, record)
			}
		}
	}
	return head.News, ends, nil
}

func (m *Memory) admit(write engine.Write, nowMs int64) error {
	if r := write.Receipt; r != nil {
		if _, known := m.receipts[receiptKey{r.Organisation, r.Caller, r.Command}]; known {
			return engine.ErrReplayed
		}
	}
	if err := run.Admit(m.heads[write.Head.Run], write.From, write.Epoch); err != nil {
		return err
	}
	for _, guard := range write.Guards {
		if guard.Gate != "" && m.gates[guard.Gate] != guard.Value || guard.BeforeMs != 0 && nowMs >= guard.BeforeMs {
			return run.ErrGuard
		}
	}
	return nil
}

// carries refuses what a write brings where there is no place for it.
func (m *Memory) carries(write engine.Write) error {
	for _, e := range write.Entries {
		if _, known := m.talks[itemKey{e.Organisation, e.Conversation}]; !known {
			return fmt.Errorf("conversation: %w", engine.ErrNotFound)
		}
	}
	for _, p := range write.Payloads {
		if _, known := m.payloads[p.Text.ID]; known {
			return fmt.Errorf("text %s is stored already", p.Text.ID)
		}
	}
	return nil
}

// node finds a node; one period of a node begins with its limit.
func (m *Memory) node(name string) (run.Budget, bool) {
	b, known := m.budgets[name]
	if node, isPeriod := run.NodeOfPeriod(name); isPeriod && !known {
		b, known = m.budgets[node]
		b = run.Budget{Limit: b.Limit}
	}
	return b, known
}

func (m *Memory) moved(moves []run.BudgetMove) (map[string]run.Budget, error) {
	budgets := map[string]run.Budget{}
	for _, move := range moves {
		b, known := budgets[move.Node]
		if !known {
			if b, known = m.node(move.Node); !known {
				return nil, run.ErrBudget
			}
		}
		b.Reserved = b.Reserved.Plus(move.Reserve)
		all := b.Committed()
		if move.Reserve.MicroUSD > 0 && all.MicroUSD > b.Limit.MicroUSD || move.Reserve.Tokens > 0 && all.Tokens > b.Limit.Tokens {
			return nil, run.ErrBudget
		}
		b.Settled, b.Unknown = b.Settled.Plus(move.Settle), b.Unknown.Plus(move.Unknown)
		budgets[move.Node] = b
	}
	return budgets, nil
}

func (m *Memory) store(write engine.Write, nowMs int64) {
	id := write.Head.Run
	was := m.heads[id]
	head := write.Head
	head.Epoch, head.Owner, head.LeaseUntil = was.Epoch, was.Owner, was.LeaseUntil
	head.StartedMs, head.EndedMs = was.StartedMs, was.EndedMs
	head.News, head.Heard = was.News, max(was.Heard, write.Heard)
	head.DueMs = run.KeepDue(was.DueMs, head.Due(nowMs), nowMs)
	if write.From == 0 {
		head.StartedMs = nowMs
	}
	if head.Status.Ended() && head.EndedMs == 0 {
		head.EndedMs = nowMs
	}
	m.heads[id] = head
	for _, woken := range write.Wakes {
		m.wake(woken, nowMs)
	}
	m.records[id] = append(m.records[id], write.Records...)
	m.written += uint64(len(write.Records))
	for _, change := range write.Gates {
		m.gates[change.Gate] = change.Value
	}
	for _, p := range write.Payloads {
		p.Salt, p.Bytes, p.Items = bytes.Clone(p.Salt), bytes.Clone(p.Bytes), nil
		m.payloads[p.Text.ID] = p
	}
	for _, link := range write.Links {
		m.links = append(m.links, runLink{link, id})
		if m.erased[link.Item] {
			delete(m.payloads, link.Text)
		}
	}
	if r := write.Receipt; r != nil {
		m.receipts[receiptKey{r.Organisation, r.Caller, r.Command}] = *r
	}
	for _, item := range write.Inbox {
		key := itemKey{item.Organisation, item.ID}
		delete(m.inbox, key)
		if item.Open {
			m.inbox[key] = item
		}
	}
	for _, e := range write.Entries {
		key := itemKey{e.Organisation, e.Conversation}
		e.Number = uint64(len(m.talks[key])) + 1
		m.talks[key] = append(m.talks[key], e)
	}
}

// Load returns the head of a run and its records after a version.
func (m *Memory) Load(_ context.Context, id string, after uint64) (run.Head, []run.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	head, known := m.heads[id]
	if !known {
		return head, nil, engine.ErrNotFound
	}
	return head, slices.Clone(m.records[id][min(after, head.Version):]), nil
}

// Now is the clock.
func (m *Memory) Now(context.Context) (int64, error) { return m.clock(), nil }

// Receipt finds the answer to an earlier command.
func (m *Memory) Receipt(_ context.Context, organisation, caller, command string) (engine.Receipt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.receipts[receiptKey{organisation, caller, command}]
	if !known {
		return r, engine.ErrNotFound
	}
	return r, nil
}

// Payloads returns texts by id; erased and unknown ones are absent.
func (m *Memory) Payloads(_ context.Context, ids []string) (map[string]engine.Payload, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[string]engine.Payload{}
	for _, id := range ids {
		if p, known := m.payloads[id]; known {
			found[id] = p
		}
	}
	return found, nil
}

// Gate returns the value of a gate, "" for an absent one.
func (m *Memory) Gate(_ context.Context, name string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gates[name], nil
}

// SetGate sets a gate outside of any write, as a new configuration does.
func (m *Memory) SetGate(_ context.Context, change run.GateChange) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gates[change.Gate] = change.Value
	return nil
}

// EraseSubject forgets the texts of a subject.
func (m *Memory) EraseSubject(_ context.Context, subject string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, p := range m.payloads {
		if p.Text.Subject == subject {
			delete(m.payloads, id)
		}
	}
	return nil
}

// EraseItems forgets the texts that quote remembered items.
func (m *Memory) EraseItems(_ context.Context, items []string) (count int, runs []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, item := range items {
		m.erased[item] = true
	}
	for _, link := range m.links {
		if !slices.Contains(items, link.Item) {
			continue
		}
		runs = append(runs, link.run)
		if _, there := m.payloads[link.Text]; there {
			delete(m.payloads, link.Text)
			count++
		}
	}
	slices.Sort(runs)
	return count, slices.Compact(runs), nil
}

// SetBudget sets the limit of a node, which it makes where there is none.
func (m *Memory) SetBudget(_ context.Context, node string, limit run.Amount) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.budgets[node]
	b.Limit = limit
	m.budgets[node] = b
	return nil
}

// Budget returns one node.
func (m *Memory) Budget(_ context.Context, node string) (run.Budget, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, known := m.budgets[node]
	if !known {
		return b, engine.ErrNotFound
	}
	return b, nil
}

// Inbox lists what waits for a person, the oldest first.
func (m *Memory) Inbox(_ context.Context, person policy.Principal) ([]engine.InboxItem, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var items []engine.InboxItem
	for _, item := range m.inbox {
		names := func(a policy.Approver) bool { return a.Names(person) }
		if item.Organisation == person.Organisation && slices.ContainsFunc(item.Approvers, names) {
			items = append(items, item)
		}
	}
	slices.SortFunc(items, byAge)
	return items, nil
}

// Converse makes a conversation.
func (m *Memory) Converse(_ context.Context, organisation, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := itemKey{organisation, id}
	if _, known := m.talks[key]; known {
		return fmt.Errorf("conversation %s is there already", id)
	}
	m.talks[key] = nil
	return nil
}

// Note adds an entry to a conversation, once for its receipt.
func (m *Memory) Note(_ context.Context, entry engine.Entry, receipt engine.Receipt) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, talk := receiptKey{receipt.Organisation, receipt.Caller, receipt.Command}, itemKey{entry.Organisation, entry.Conversation}
	if _, known := m.receipts[key]; known {
		return engine.ErrReplayed
	}
	if _, known := m.talks[talk]; !known {
		return engine.ErrNotFound
	}
	m.receipts[key] = receipt
	entry.Number, entry.AtMs = uint64(len(m.talks[talk]))+1, m.clock()
	m.talks[talk] = append(m.talks[talk], entry)
	return nil
}

// Entries lists up to limit entries of a conversation after a number.
func (m *Memory) Entries(_ context.Context, organisation, conversation string, after uint64, limit int) ([]engine.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all, known := m.talks[itemKey{organisation, conversation}]
	if !known {
		return nil, engine.ErrNotFound
	}
	rest := all[min(after, uint64(len(all))):]
	return slices.Clone(rest[:min(limit, len(rest))]), nil
}

// Numbers lists the numbers of each writer's records, in their order.
func (m *Memory) Numbers(context.Context) (map[string][]uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var numbers []uint64
	for n := range m.written {
		numbers = append(numbers, n+1)
	}
	return map[string][]uint64{memoryWriter: numbers}, nil
}

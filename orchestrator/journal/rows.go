package journal

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal/frame"
	"gantry.dev/orchestrator/run"
)

// changes are what the admitted writes of a batch come to: what several of them
// touch has its last value.
type changes struct {
	n                                                              uint64 // of the writer's last record
	created, moved                                                 map[string]*run.Head
	frames, payloads, keys, receipts, budgets, gates, opened, gone [][]any
	entries, conversations, links                                  [][]any
	woken                                                          map[string]bool
	inbox                                                          map[[2]string]engine.InboxItem
	committed                                                      []Committed
}

func newChanges(n uint64) *changes {
	return &changes{n: n, created: map[string]*run.Head{}, moved: map[string]*run.Head{}, woken: map[string]bool{}, inbox: map[[2]string]engine.InboxItem{}}
}

// record notes everything that an admitted write changes, its records packed,
// in what is known of the database too: the batch's next writes meet it.
func (b *batch) record(write *engine.Write, packed []byte) error {
	b.recordHead(write)
	for _, id := range write.Wakes {
		b.wake(id)
	}
	b.n += uint64(len(write.Records))
	b.frames = append(b.frames, []any{number(write.Head.Version), number(b.n), frame.SettledMs(write.Records), b.store.number, int64(len(write.Records)), write.Head.Run, packed})
	if r := write.Receipt; r != nil {
		b.facts.receipts[receiptOf(r)] = true
		b.receipts = append(b.receipts, []any{r.Organisation, r.Caller, r.Command, r.Request, r.Run, r.Answer})
	}
	for _, change := range write.Gates {
		b.facts.gates[change.Gate] = change.Value
	}
	for _, move := range write.Budget {
		node, _ := b.facts.node(move.Node)
		b.facts.nodes[move.Node] = moved(node, move)
	}
	for _, item := range write.Inbox {
		b.inbox[[2]string{item.Organisation, item.ID}] = item
	}
	for _, p := range write.Payloads {
		if err := b.recordPayload(p); err != nil {
			return err
		}
	}
	for _, link := range write.Links {
		b.links = append(b.links, []any{link.Item, link.Text, write.Head.Run})
	}
	if err := b.recordEntries(write.Entries); err != nil {
		return err
	}
	b.committed = append(b.committed, Committed{Writer: b.store.id, N: b.n, Outside: write.Epoch == 0, Head: write.Head,
		Records: write.Records, Entries: write.Entries, Inbox: write.Inbox, Wakes: write.Wakes})
	return nil
}

// number is a count as databases hold it.
func number(n uint64) int64 { return int64(n) }

func (b *batch) recordHead(write *engine.Write) {
	h := &write.Head
	h.DueMs = run.KeepDue(b.facts.heads[h.Run].DueMs, h.Due(b.facts.nowMs), b.facts.nowMs)
	if h.Status.Ended() && h.EndedMs == 0 {
		h.EndedMs = b.facts.nowMs
	}
	if write.From == 0 {
		h.StartedMs = b.facts.nowMs
		b.created[h.Run] = h
	} else if _, alsoCreated := b.created[h.Run]; alsoCreated {
		b.created[h.Run] = h
	} else {
		b.moved[h.Run] = h
	}
	b.facts.heads[h.Run] = *h
}

// wake counts news of a run that waits for its children.
func (b *batch) wake(runID string) {
	head, known := b.facts.heads[runID]
	if !known || head.Status.Ended() {
		return
	}
	head.News++
	head.DueMs = run.KeepDue(head.DueMs, head.Due(b.facts.nowMs), b.facts.nowMs)
	b.facts.heads[runID], b.woken[runID] = head, true
	for _, changed := range []map[string]*run.Head{b.created, b.moved} {
		if h, also := changed[runID]; also {
			h.News, h.DueMs = head.News, head.DueMs
		}
	}
}

func (b *batch) recordPayload(p engine.Payload) error {
	key, known := b.facts.keys[p.Text.Subject]
	if !known {
		var wrapped []byte
		var err error
		if key, wrapped, err = b.store.vault.make(p.Text.Subject); err != nil {
			return err
		}
		b.facts.keys[p.Text.Subject] = key
		b.keys = append(b.keys, []any{p.Text.Subject, wrapped})
	}
	sealed, err := seal(key, p)
	if err != nil {
		return err
	}
	row, err := payloadRow(p, sealed)
	b.payloads = append(b.payloads, row)
	return err
}

func (b *batch) recordEntries(entries []engine.Entry) error {
	for i := range entries {
		e := &entries[i]
		thread := b.facts.conversations[e.Conversation]
		thread.next++
		b.facts.conversations[e.Conversation] = thread
		e.Number = uint64(thread.next)
		text, err := json.Marshal(e.Text)
		if err != nil {
			return err
		}
		b.entries = append(b.entries, []any{e.Conversation, thread.next, e.Kind, e.Run, e.Author, string(text), e.AtMs})
		b.conversations = append(b.conversations, []any{thread.next, e.Conversation})
	}
	return nil
}

// statements are the changes as they are sent.
func (b *batch) statements() ([]statement, error) {
	s := b.store
	created, err := headRows(b.created, createdRow)
	if err != nil {
		return nil, err
	}
	moved, err := headRows(b.moved, movedRow)
	if err != nil {
		return nil, err
	}
	if err := b.noteItems(); err != nil {
		return nil, err
	}
	b.noteNodes()
	const heads = "run, version, digest, status, due_ms, organisation, root, parent, conversation, subject, agent, department, labels, started_ms, ended_ms, news, heard"
	const amounts = "reserved_money = excluded.reserved_money, reserved_tokens = excluded.reserved_tokens, settled_money = excluded.settled_money, " +
		"settled_tokens = excluded.settled_tokens, unknown_money = excluded.unknown_money, unknown_tokens = excluded.unknown_tokens"
	list := slices.Concat(
		s.insert("heads", heads, "", created),
		s.update("heads", movedColumns, moved),
		s.insert("journal", "seq, n, settled_ms, writer, count, run, frame", "", b.frames),
		s.insert("subject_keys", "subject, wrapped", "", b.keys),
		s.insert("payloads", payloadColumns, "", b.payloads),
		s.insert("text_items", "item, text, run", "ON CONFLICT (item, run, text) DO NOTHING", b.links), b.lateLinks(),
		s.insert("receipts", "organisation, caller, command, request, run, answer", "", b.receipts),
		s.insert("gates", "name, value", "ON CONFLICT (name) DO UPDATE SET value = excluded.value", b.gates),
		s.insert("budgets", budgetColumns, "ON CONFLICT (node) DO UPDATE SET "+amounts, b.budgets),
		s.insert("inbox", itemColumns, "ON CONFLICT (organisation, id) DO UPDATE SET run = excluded.run, kind = excluded.kind, "+
			"approvers = excluded.approvers, not_after_ms = excluded.not_after_ms, since_ms = excluded.since_ms", b.opened),
		s.insert("conversation_entries", "conversation, number, kind, run, author, text, at_ms", "", b.entries))
	for _, id := range slices.Sorted(maps.Keys(b.woken)) {
		h := b.facts.heads[id]
		list = append(list, statement{text: "UPDATE heads SET news = ?, due_ms = ? WHERE run = ?", args: []any{number(h.News), h.DueMs, id}})
	}
	for _, row := range b.conversations {
		list = append(list, statement{text: "UPDATE conversations SET next = ? WHERE id = ?", args: row})
	}
	for _, row := range b.gone {
		list = append(list, statement{text: "DELETE FROM inbox WHERE organisation = ? AND id = ?", args: row})
	}
	return list, nil
}

// lateLinks deletes those of the batch's texts that quote what was erased
// meanwhile.
func (b *batch) lateLinks() []statement {
	var texts []string
	for _, row := range b.links {
		if text, _ := row[1].(string); text != "" {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	const late = "DELETE FROM payloads WHERE id IN (SELECT t.text FROM text_items t JOIN erased_items e ON e.item = t.item WHERE t.text "
	if b.store.postgres {
		return []statement{{text: late + "= ANY(?))", args: []any{texts}}}
	}
	list, _ := json.Marshal(texts) // texts always marshal
	return []statement{{text: late + "IN (SELECT value FROM json_each(?)))", args: []any{string(list)}}}
}

// headRows are the columns of heads, in the order of their runs; a row has their
// labels as JSON.
func headRows(heads map[string]*run.Head, row func(h *run.Head, labels string) []any) ([][]any, error) {
	rows := make([][]any, 0, len(heads))
	for _, id := range slices.Sorted(maps.Keys(heads)) {
		labels, err := json.Marshal(heads[id].Labels)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row(heads[id], string(labels)))
	}
	return rows, nil
}

func createdRow(h *run.Head, labels string) []any {
	return []any{h.Run, number(h.Version), h.Digest, string(h.Status), h.DueMs, h.Organisation, h.Root, h.Parent,
		h.Conversation, h.Subject, h.Agent, h.Department, labels, h.StartedMs, h.EndedMs, number(h.News), number(h.Heard)}
}

// movedColumns are those of a head that its writes move.
var movedColumns = []string{"run", "version", "digest", "status", "due_ms", "labels", "ended_ms", "heard"}

func movedRow(h *run.Head, labels string) []any {
	return []any{h.Run, number(h.Version), h.Digest, string(h.Status), h.DueMs, labels, h.EndedMs, number(h.Heard)}
}

// noteItems sorts the inbox into what is open and what is gone.
func (b *batch) noteItems() error {
	for key, i := range b.inbox {
		if !i.Open {
			b.gone = append(b.gone, []any{key[0], key[1]})
			continue
		}
		approvers, err := json.Marshal(i.Approvers)
		if err != nil {
			return err
		}
		b.opened = append(b.opened, []any{i.ID, i.Organisation, i.Run, string(i.Kind), string(approvers), i.NotAfterMs, i.SinceMs})
	}
	return nil
}

// noteNodes takes up the nodes and gates that admitted writes moved.
func (b *batch) noteNodes() {
	nodes, gates := map[string]bool{}, map[string]bool{}
	for _, c := range b.admitted {
		for _, move := range c.Budget {
			nodes[move.Node] = true
		}
		for _, change := range c.Gates {
			gates[change.Gate] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n := b.facts.nodes[name]
		b.budgets = append(b.budgets, []any{name, n.Limit.MicroUSD, n.Limit.Tokens, n.Reserved.MicroUSD, n.Reserved.Tokens,
			n.Settled.MicroUSD, n.Settled.Tokens, n.Unknown.MicroUSD, n.Unknown.Tokens})
	}
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		b.gates = append(b.gates, []any{name, b.facts.gates[name]})
	}
}

func (s *Store) storePayload(ctx context.Context, db changer, p engine.Payload) error {
	sealed, err := s.vault.seal(ctx, db, fresh{}, p)
	if err != nil {
		return err
	}
	row, err := payloadRow(p, sealed)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "INSERT INTO payloads ("+payloadColumns+") VALUES (?, ?, ?, ?, ?)", row...)
	return err
}

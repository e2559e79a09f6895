package journal

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"gantry.dev/orchestrator/engine"
)

// flush inserts the rows that were kept for the end, many in one statement.
func (s *shared) flush(ctx context.Context, tx hotTx) error {
	if err := insert(ctx, tx, "INSERT INTO journal (run, seq, kind, version, at_ms, body, prev, digest, writer, n) VALUES ", s.records); err != nil {
		return err
	}
	return insert(ctx, tx, "INSERT INTO payloads (id, run, subject, text, sealed) VALUES ", s.payloads)
}

// insert sends rows in a few sizes, so that few statements are prepared.
func insert(ctx context.Context, tx hotTx, into string, rows [][]any) error {
	for len(rows) > 0 {
		size := 1
		for _, several := range []int{64, 16, 4} {
			if len(rows) >= several {
				size = several
				break
			}
		}
		row := "(?" + strings.Repeat(", ?", len(rows[0])-1) + ")"
		if _, err := tx.ExecContext(ctx, into+row+strings.Repeat(", "+row, size-1), slices.Concat(rows[:size]...)...); err != nil {
			return err
		}
		rows = rows[size:]
	}
	return nil
}

// record writes every row of the write and returns the writer's new number.
func (w *writing) record(ctx context.Context, n uint64) (uint64, error) {
	if err := w.writeHead(ctx); err != nil {
		return n, err
	}
	for _, r := range w.write.Records {
		n++
		w.records = append(w.records, []any{r.Run, r.Seq, string(r.Kind), r.Version, r.AtMs, r.Body, r.Prev, r.Digest, w.store.id, n})
	}
	for _, write := range []func(context.Context) error{w.writePayloads, w.writeReceipt, w.writeGates, w.writeBudgets, w.writeInbox, w.writeEntries} {
		if err := write(ctx); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (w *writing) writeHead(ctx context.Context) error {
	h := &w.write.Head
	labels, err := json.Marshal(h.Labels)
	if err != nil {
		return err
	}
	if h.Status.Ended() && h.EndedMs == 0 {
		h.EndedMs = w.nowMs
	}
	if w.write.From == 0 {
		h.StartedMs = w.nowMs
		_, err = w.tx.ExecContext(ctx, `INSERT INTO heads (run, version, digest, status, due_ms, organisation, root, parent, conversation, subject, agent, department, labels, started_ms, ended_ms)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, h.Run, h.Version, h.Digest, string(h.Status), h.DueMs, h.Organisation, h.Root, h.Parent,
			h.Conversation, h.Subject, h.Agent, h.Department, string(labels), h.StartedMs, h.EndedMs)
		return err
	}
	_, err = w.tx.ExecContext(ctx, "UPDATE heads SET version = ?, digest = ?, status = ?, due_ms = ?, labels = ?, ended_ms = ? WHERE run = ? AND version = ? AND epoch = ?",
		h.Version, h.Digest, string(h.Status), h.DueMs, string(labels), h.EndedMs, h.Run, w.write.From, h.Epoch)
	return err
}

func (w *writing) writePayloads(ctx context.Context) error {
	for _, p := range w.write.Payloads {
		row, err := w.store.payloadRow(ctx, w.tx, w.keys, p)
		if err != nil {
			return err
		}
		w.payloads = append(w.payloads, row)
	}
	return nil
}

func (s *Store) payloadRow(ctx context.Context, db querier, met fresh, p engine.Payload) ([]any, error) {
	sealed, err := s.vault.seal(ctx, db, met, p)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(p.Text)
	return []any{p.Text.ID, p.Run, p.Text.Subject, string(text), sealed}, err
}

func (s *Store) storePayload(ctx context.Context, db querier, p engine.Payload) error {
	row, err := s.payloadRow(ctx, db, fresh{}, p)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "INSERT INTO payloads (id, run, subject, text, sealed) VALUES (?, ?, ?, ?, ?)", row...)
	return err
}

func (w *writing) writeReceipt(ctx context.Context) error {
	return remember(ctx, w.tx, w.write.Receipt)
}

func (w *writing) writeGates(ctx context.Context) error {
	for _, change := range w.write.Gates {
		if err := setGate(ctx, w.tx, change); err != nil {
			return err
		}
		w.gates[change.Gate] = change.Value
	}
	return nil
}

func (w *writing) writeBudgets(ctx context.Context) error {
	for _, m := range w.write.Budget {
		if _, err := w.tx.ExecContext(ctx, `UPDATE budgets SET reserved_money = reserved_money + ?, reserved_tokens = reserved_tokens + ?,
			settled_money = settled_money + ?, settled_tokens = settled_tokens + ?, unknown_money = unknown_money + ?, unknown_tokens = unknown_tokens + ?
			WHERE node = ?`, m.Reserve.MicroUSD, m.Reserve.Tokens, m.Settle.MicroUSD, m.Settle.Tokens, m.Unknown.MicroUSD, m.Unknown.Tokens, m.Node); err != nil {
			return err
		}
	}
	return nil
}

func (w *writing) writeInbox(ctx context.Context) error {
	for _, i := range w.write.Inbox {
		if _, err := w.tx.ExecContext(ctx, "DELETE FROM inbox WHERE organisation = ? AND id = ?", i.Organisation, i.ID); err != nil {
			return err
		}
		if !i.Open {
			continue
		}
		approvers, err := json.Marshal(i.Approvers)
		if err != nil {
			return err
		}
		if _, err := w.tx.ExecContext(ctx, "INSERT INTO inbox (id, organisation, run, kind, approvers, not_after_ms, since_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
			i.ID, i.Organisation, i.Run, string(i.Kind), string(approvers), i.NotAfterMs, i.SinceMs); err != nil {
			return err
		}
	}
	return nil
}

func (w *writing) writeEntries(ctx context.Context) error {
	for i := range w.write.Entries {
		if err := appendEntry(ctx, w.tx, &w.write.Entries[i]); err != nil {
			return err
		}
	}
	return nil
}

package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Inbox lists what waits for a person, the oldest first.
func (s *Store) Inbox(ctx context.Context, person policy.Principal) ([]engine.InboxItem, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT id, organisation, run, kind, approvers, not_after_ms, since_ms FROM inbox WHERE organisation = ? ORDER BY since_ms, id",
		person.Organisation)
	if err != nil {
		return nil, err
	}
	items, err := collect(rows, scanItem)
	return slices.DeleteFunc(items, func(i engine.InboxItem) bool {
		return !slices.ContainsFunc(i.Approvers, func(a policy.Approver) bool { return a.Names(person) })
	}), err
}

// InboxItem returns one open item.
func (s *Store) InboxItem(ctx context.Context, organisation, id string) (engine.InboxItem, error) {
	item, err := scanItem(s.read.QueryRowContext(ctx, "SELECT id, organisation, run, kind, approvers, not_after_ms, since_ms FROM inbox WHERE organisation = ? AND id = ?", organisation, id))
	return item, notFound(err)
}

func scanItem(row scanner) (engine.InboxItem, error) {
	item := engine.InboxItem{Open: true}
	var approvers string
	if err := row.Scan(&item.ID, &item.Organisation, &item.Run, (*string)(&item.Kind), &approvers, &item.NotAfterMs, &item.SinceMs); err != nil {
		return item, err
	}
	return item, json.Unmarshal([]byte(approvers), &item.Approvers)
}

// Budget is one node of the tree of budgets.
type Budget struct {
	Node string
	run.Budget
}

func budget(ctx context.Context, db querier, node, lock string) (run.Budget, error) {
	b, err := scanBudget(db.QueryRowContext(ctx, "SELECT "+budgetColumns+" FROM budgets WHERE node = ?"+lock, node))
	return b.Budget, err
}

const budgetColumns = "node, limit_money, limit_tokens, reserved_money, reserved_tokens, settled_money, settled_tokens, unknown_money, unknown_tokens"

func scanBudget(row scanner) (Budget, error) {
	var b Budget
	err := row.Scan(&b.Node, &b.Limit.MicroUSD, &b.Limit.Tokens, &b.Reserved.MicroUSD, &b.Reserved.Tokens,
		&b.Settled.MicroUSD, &b.Settled.Tokens, &b.Unknown.MicroUSD, &b.Unknown.Tokens)
	return b, err
}

// Budgets lists the nodes whose names begin with a prefix.
func (s *Store) Budgets(ctx context.Context, prefixes ...string) ([]Budget, error) {
	var list []Budget
	for _, prefix := range prefixes {
		rows, err := s.read.QueryContext(ctx, "SELECT "+budgetColumns+" FROM budgets WHERE substr(node, 1, ?) = ? ORDER BY node", len(prefix), prefix)
		if err != nil {
			return nil, err
		}
		nodes, err := collect(rows, scanBudget)
		if err != nil {
			return nil, err
		}
		list = append(list, nodes...)
	}
	return list, nil
}

// Budget returns one node; engine.ErrNotFound for an unknown one.
func (s *Store) Budget(ctx context.Context, node string) (run.Budget, error) {
	b, err := budget(ctx, s.read, node, "")
	return b, notFound(err)
}

// SetBudget sets the limit of a node, which it makes where there is none.
func (s *Store) SetBudget(ctx context.Context, node string, limit run.Amount) error {
	_, err := s.write.ExecContext(ctx, `INSERT INTO budgets (node, limit_money, limit_tokens) VALUES (?, ?, ?)
		ON CONFLICT (node) DO UPDATE SET limit_money = excluded.limit_money, limit_tokens = excluded.limit_tokens`, node, limit.MicroUSD, limit.Tokens)
	return err
}

// SaveConfiguration stores a configuration and puts it in force: the gate that
// the writes of intents check changes with it.
func (s *Store) SaveConfiguration(ctx context.Context, organisation, digest string, body []byte) error {
	return s.write.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		nowMs, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		name := run.ConfigGate(organisation)
		if s.postgres {
			if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", name); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO configurations (organisation, digest, body, at_ms) VALUES (?, ?, ?, ?) ON CONFLICT (organisation, digest) DO NOTHING",
			organisation, digest, body, nowMs); err != nil {
			return err
		}
		return setGate(ctx, tx, run.GateChange{Gate: name, Value: digest})
	})
}

// Configuration returns the configuration with a digest.
func (s *Store) Configuration(ctx context.Context, organisation, digest string) (body []byte, err error) {
	err = s.read.QueryRowContext(ctx, "SELECT body FROM configurations WHERE organisation = ? AND digest = ?", organisation, digest).Scan(&body)
	return body, notFound(err)
}

// Conversation is a shared thread of people and agents.
type Conversation struct {
	ID, Organisation, Title, CreatedBy string
	CreatedMs                          int64
	Participants                       []string // principal ids
	Entries                            uint64
}

const conversationColumns = "id, organisation, title, created_by, created_ms, participants, next"

func scanConversation(row scanner) (Conversation, error) {
	var c Conversation
	var participants string
	if err := row.Scan(&c.ID, &c.Organisation, &c.Title, &c.CreatedBy, &c.CreatedMs, &participants, &c.Entries); err != nil {
		return c, err
	}
	return c, json.Unmarshal([]byte(participants), &c.Participants)
}

// CreateConversation stores a conversation.
func (s *Store) CreateConversation(ctx context.Context, c Conversation) error {
	participants, err := json.Marshal(c.Participants)
	if err != nil {
		return err
	}
	_, err = s.write.ExecContext(ctx, "INSERT INTO conversations (id, organisation, title, created_by, created_ms, participants) VALUES (?, ?, ?, ?, ?, ?)",
		c.ID, c.Organisation, c.Title, c.CreatedBy, c.CreatedMs, string(participants))
	return err
}

// AddParticipant lets a principal take part; one who does already stays.
// engine.ErrNotFound for an unknown conversation.
func (s *Store) AddParticipant(ctx context.Context, organisation, id, principal string) error {
	return s.write.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		query := "SELECT " + conversationColumns + " FROM conversations WHERE organisation = ? AND id = ?"
		if s.postgres {
			query += " FOR UPDATE"
		}
		c, err := scanConversation(tx.QueryRowContext(ctx, query, organisation, id))
		if err != nil || slices.Contains(c.Participants, principal) {
			return notFound(err)
		}
		participants, err := json.Marshal(append(c.Participants, principal))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE conversations SET participants = ? WHERE organisation = ? AND id = ?", string(participants), organisation, id)
		return err
	})
}

// Conversation returns one conversation.
func (s *Store) Conversation(ctx context.Context, organisation, id string) (Conversation, error) {
	c, err := scanConversation(s.read.QueryRowContext(ctx, "SELECT "+conversationColumns+" FROM conversations WHERE organisation = ? AND id = ?", organisation, id))
	return c, notFound(err)
}

// Conversations lists those of an organisation, the newest first.
func (s *Store) Conversations(ctx context.Context, organisation, before string, limit int) ([]Conversation, error) {
	query, args := "SELECT "+conversationColumns+" FROM conversations WHERE organisation = ?", []any{organisation}
	if before != "" {
		query, args = query+" AND id < ?", append(args, before)
	}
	rows, err := s.read.QueryContext(ctx, query+" ORDER BY id DESC LIMIT ?", append(args, limit)...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanConversation)
}

// Entries lists up to limit entries of a conversation after a number, in
// order. engine.ErrNotFound for an unknown conversation.
func (s *Store) Entries(ctx context.Context, organisation, conversation string, after uint64, limit int) ([]engine.Entry, error) {
	if _, err := s.Conversation(ctx, organisation, conversation); err != nil {
		return nil, err
	}
	rows, err := s.read.QueryContext(ctx, "SELECT conversation, number, kind, run, author, text, at_ms FROM conversation_entries WHERE conversation = ? AND number > ? ORDER BY number LIMIT ?",
		conversation, after, limit)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(row scanner) (engine.Entry, error) {
		e := engine.Entry{Organisation: organisation}
		var text string
		if err := row.Scan(&e.Conversation, &e.Number, &e.Kind, &e.Run, &e.Author, &text, &e.AtMs); err != nil {
			return e, err
		}
		return e, json.Unmarshal([]byte(text), &e.Text)
	})
}

func appendEntry(ctx context.Context, tx querier, e *engine.Entry) error {
	err := tx.QueryRowContext(ctx, "UPDATE conversations SET next = next + 1 WHERE id = ? AND organisation = ? RETURNING next", e.Conversation, e.Organisation).Scan(&e.Number)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("conversation: %w", engine.ErrNotFound)
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(e.Text)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO conversation_entries (conversation, number, kind, run, author, text, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
		e.Conversation, e.Number, e.Kind, e.Run, e.Author, string(text), e.AtMs)
	return err
}

// Cursor returns how far a reader of a writer's records has come.
func (s *Store) Cursor(ctx context.Context, name, writer string) (n uint64, err error) {
	err = s.read.QueryRowContext(ctx, "SELECT n FROM cursors WHERE name = ? AND writer = ?", name, writer).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

// SaveCursor stores how far a reader has come; it never goes back.
func (s *Store) SaveCursor(ctx context.Context, name, writer string, n uint64) error {
	_, err := s.write.ExecContext(ctx, "INSERT INTO cursors (name, writer, n) VALUES (?, ?, ?) ON CONFLICT (name, writer) DO UPDATE SET n = excluded.n WHERE cursors.n < excluded.n", name, writer, n)
	return err
}

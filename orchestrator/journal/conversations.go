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
	"gantry.dev/orchestrator/run"
)

// Conversation is a shared thread of people and agents.
type Conversation struct {
	ID, Organisation, CreatedBy string
	Title                       run.Text
	CreatedMs                   int64
	Participants                []string // principal ids
	Entries                     uint64
}

const conversationColumns = "id, organisation, title, created_by, created_ms, participants, next"

func scanConversation(row scanner) (Conversation, error) {
	var c Conversation
	var title, participants string
	if err := row.Scan(&c.ID, &c.Organisation, &title, &c.CreatedBy, &c.CreatedMs, &participants, &c.Entries); err != nil {
		return c, err
	}
	return c, errors.Join(json.Unmarshal([]byte(title), &c.Title), json.Unmarshal([]byte(participants), &c.Participants))
}

// CreateConversation stores a conversation with the payload of its title.
// Errors: engine.ErrReplayed for a receipt's command that was accepted before.
func (s *Store) CreateConversation(ctx context.Context, c Conversation, title engine.Payload, receipt *engine.Receipt) error {
	participants, err := json.Marshal(c.Participants)
	if err != nil {
		return err
	}
	ref, err := json.Marshal(c.Title)
	if err != nil {
		return err
	}
	return s.write.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if err := remember(ctx, tx, receipt); err != nil {
			return err
		}
		if err := s.storePayload(ctx, tx, title); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO conversations (id, organisation, title, created_by, created_ms, participants) VALUES (?, ?, ?, ?, ?, ?)",
			c.ID, c.Organisation, string(ref), c.CreatedBy, c.CreatedMs, string(participants))
		return err
	})
}

// Say adds a message of a person that starts or steers no run. Errors:
// engine.ErrReplayed, engine.ErrNotFound for an unknown conversation.
func (s *Store) Say(ctx context.Context, entry engine.Entry, text engine.Payload, receipt engine.Receipt) error {
	err := s.write.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) (err error) {
		if err := remember(ctx, tx, &receipt); err != nil {
			return err
		}
		if entry.AtMs, err = s.now(ctx, tx); err != nil {
			return err
		}
		if err := s.storePayload(ctx, tx, text); err != nil {
			return err
		}
		return appendEntry(ctx, tx, &entry)
	})
	if err == nil {
		s.tell([]Committed{{Writer: s.id, Entries: []engine.Entry{entry}}})
	}
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

func appendEntry(ctx context.Context, tx changer, e *engine.Entry) error {
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

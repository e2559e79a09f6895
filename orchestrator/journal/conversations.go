package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

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
	Turns                       string // the rule of turns as it was set, JSON; empty for the usual one
}

const conversationColumns = "id, organisation, title, created_by, created_ms, participants, next, turns"

func scanConversation(row scanner) (Conversation, error) {
	var c Conversation
	var title, participants string
	if err := row.Scan(&c.ID, &c.Organisation, &title, &c.CreatedBy, &c.CreatedMs, &participants, &c.Entries, &c.Turns); err != nil {
		return c, err
	}
	return c, errors.Join(json.Unmarshal([]byte(title), &c.Title), json.Unmarshal([]byte(participants), &c.Participants))
}

// CreateConversation stores a conversation with the payload of its title and
// its first entries. Errors: engine.ErrReplayed for a receipt's command that was
// accepted before.
func (s *Store) CreateConversation(ctx context.Context, c Conversation, title engine.Payload, receipt *engine.Receipt, entries ...engine.Entry) error {
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
		_, err := tx.ExecContext(ctx, "INSERT INTO conversations (id, organisation, title, created_by, created_ms, participants, turns) VALUES (?, ?, ?, ?, ?, ?, ?)",
			c.ID, c.Organisation, string(ref), c.CreatedBy, c.CreatedMs, string(participants), c.Turns)
		if err != nil {
			return err
		}
		return gathered(ctx, tx, &c, entries)
	})
}

// gathered adds entries that say who takes part and whose turn it is. From then
// on somebody follows the conversation.
func gathered(ctx context.Context, tx changer, c *Conversation, entries []engine.Entry) error {
	for i := range entries {
		entries[i].Organisation, entries[i].Conversation = c.Organisation, c.ID
		if err := appendEntry(ctx, tx, &entries[i]); err != nil {
			return err
		}
	}
	if len(entries) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO followed_conversations (conversation, organisation) VALUES (?, ?) ON CONFLICT DO NOTHING", c.ID, c.Organisation)
	return err
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

// Note adds an entry that nobody said. Errors: engine.ErrReplayed,
// engine.ErrNotFound for an unknown conversation.
func (s *Store) Note(ctx context.Context, entry engine.Entry, receipt engine.Receipt) error {
	err := s.write.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) (err error) {
		if err := remember(ctx, tx, &receipt); err != nil {
			return err
		}
		if entry.AtMs, err = s.now(ctx, tx); err != nil {
			return err
		}
		return appendEntry(ctx, tx, &entry)
	})
	if err == nil {
		s.tell([]Committed{{Writer: s.id, Entries: []engine.Entry{entry}}})
	}
	return err
}

// ChangeConversation lets change alter who takes part in a conversation and its
// rule of turns, while nobody else does, and adds the entries that change
// returns. Errors: engine.ErrReplayed, engine.ErrNotFound for an unknown
// conversation, those of change.
func (s *Store) ChangeConversation(ctx context.Context, organisation, id string, receipt engine.Receipt, change func(*Conversation) ([]engine.Entry, error)) error {
	var entries []engine.Entry
	err := s.write.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if err := remember(ctx, tx, &receipt); err != nil {
			return err
		}
		query := "SELECT " + conversationColumns + " FROM conversations WHERE organisation = ? AND id = ?"
		if s.postgres {
			query += " FOR UPDATE"
		}
		c, err := scanConversation(tx.QueryRowContext(ctx, query, organisation, id))
		if err != nil {
			return notFound(err)
		}
		if entries, err = change(&c); err != nil {
			return err
		}
		participants, err := json.Marshal(c.Participants)
		if err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, "UPDATE conversations SET participants = ?, turns = ? WHERE organisation = ? AND id = ?",
			string(participants), c.Turns, organisation, id); err != nil {
			return err
		}
		nowMs, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		for i := range entries {
			entries[i].AtMs = nowMs
		}
		return gathered(ctx, tx, &c, entries)
	})
	if err == nil && len(entries) > 0 {
		s.tell([]Committed{{Writer: s.id, Entries: entries}})
	}
	return err
}

// Followed is a conversation whose turns are given, and how far.
type Followed struct {
	Organisation, Conversation string
	Settled                    uint64 // every exchange up to this entry is over
	Seen                       uint64 // nothing was left to do up to this entry
}

// News lists up to limit conversations that are followed and have entries that
// were not seen.
func (s *Store) News(ctx context.Context, limit int) ([]Followed, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT f.organisation, f.conversation, f.settled, f.seen FROM followed_conversations f "+
		"JOIN conversations c ON c.id = f.conversation WHERE c.next > f.seen ORDER BY f.conversation LIMIT ?", limit)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(row scanner) (f Followed, err error) {
		return f, row.Scan(&f.Organisation, &f.Conversation, &f.Settled, &f.Seen)
	})
}

// Follow keeps how far a conversation was followed. What was kept before by
// somebody who is further stays.
func (s *Store) Follow(ctx context.Context, f Followed) error {
	_, err := s.write.ExecContext(ctx, "UPDATE followed_conversations SET settled = CASE WHEN settled > ? THEN settled ELSE ? END, "+
		"seen = CASE WHEN seen > ? THEN seen ELSE ? END WHERE conversation = ?", f.Settled, f.Settled, f.Seen, f.Seen, f.Conversation)
	return err
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
	rows, err := s.read.QueryContext(ctx, "SELECT "+entryColumns+" FROM conversation_entries WHERE conversation = ? AND number > ? ORDER BY number LIMIT ?",
		conversation, after, limit)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanEntry(organisation))
}

// Gatherings lists up to limit entries of a conversation after a number that
// say who takes part and whose turn it is, in order.
func (s *Store) Gatherings(ctx context.Context, organisation, conversation string, after uint64, limit int) ([]engine.Entry, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT "+entryColumns+" FROM conversation_entries WHERE conversation = ? AND number > ? "+
		"AND kind IN ('joined', 'left', 'turns_set') ORDER BY number LIMIT ?", conversation, after, limit)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanEntry(organisation))
}

const entryColumns = "conversation, number, kind, run, author, text, at_ms, whom, code, about"

func scanEntry(organisation string) func(scanner) (engine.Entry, error) {
	return func(row scanner) (engine.Entry, error) {
		e := engine.Entry{Organisation: organisation}
		var text string
		if err := row.Scan(&e.Conversation, &e.Number, &e.Kind, &e.Run, &e.Author, &text, &e.AtMs, &e.Whom, &e.Code, &e.About); err != nil {
			return e, err
		}
		return e, json.Unmarshal([]byte(text), &e.Text)
	}
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
	_, err = tx.ExecContext(ctx, "INSERT INTO conversation_entries ("+entryColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		e.Conversation, e.Number, e.Kind, e.Run, e.Author, string(text), e.AtMs, e.Whom, e.Code, e.About)
	return err
}

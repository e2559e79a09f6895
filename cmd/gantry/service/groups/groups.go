// Package groups lets agents and people take turns in conversations: who takes
// part, by which rule, and a follower that gives the turns that package group
// says are due.
package groups

import (
	"context"
	"errors"
	"slices"

	"gantry.dev/cmd/gantry/service"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/group"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// maxParticipants bounds who takes part in one conversation.
const maxParticipants = 100

// Groups answers for who takes part in conversations.
type Groups struct{ *service.Service }

var _ graph.Groups = Groups{}

// Change changes who takes part in a conversation that the caller takes part in,
// or its rule of turns. Who is there already is added to no effect, who is not is
// removed to none. Errors: *run.Refusal, engine.ErrNotFound.
func (g Groups) Change(ctx context.Context, caller graph.Caller, in graph.Gathering) (graph.Outcome, error) {
	o, person, err := g.Fresh(ctx, caller)
	if err != nil {
		return graph.Outcome{}, err
	}
	remembered, err := service.Receipt(caller, in.CommandID, "", struct{}{}, "gather", in)
	if err != nil {
		return graph.Outcome{}, err
	}
	var none struct{}
	if before, err := g.Replayed(ctx, remembered, &none); before || err != nil {
		return graph.Outcome{Replayed: before}, err
	}
	if in.Add != "" {
		nowMs, err := g.Store.Now(ctx)
		if err != nil {
			return graph.Outcome{}, err
		}
		if err := service.Joins(o, person, in.Add, nowMs); err != nil {
			return graph.Outcome{}, g.absent(ctx, caller, in.Conversation, err)
		}
	}
	err = g.Store.ChangeConversation(ctx, person.Organisation, in.Conversation, remembered, func(c *journal.Conversation) ([]engine.Entry, error) {
		if !slices.Contains(c.Participants, person.ID) {
			return nil, engine.ErrNotFound
		}
		return changed(c, person.ID, in)
	})
	if errors.Is(err, engine.ErrReplayed) {
		return graph.Outcome{Replayed: true}, g.Replay(ctx, remembered, &none)
	}
	return graph.Outcome{}, err
}

// absent prefers to say that there is no such conversation.
func (g Groups) absent(ctx context.Context, caller graph.Caller, conversation string, otherwise error) error {
	if _, err := (service.Conversations{Service: g.Service}).Get(ctx, caller, conversation); err != nil {
		return err
	}
	return otherwise
}

// changed makes the change, and the entries that say so.
func changed(c *journal.Conversation, by string, in graph.Gathering) (entries []engine.Entry, err error) {
	if in.Add != "" && !slices.Contains(c.Participants, in.Add) {
		if len(c.Participants) == maxParticipants {
			return nil, &run.Refusal{Code: "PARTICIPANTS", Detail: "A conversation has at most 100 participants; begin another one."}
		}
		c.Participants = append(c.Participants, in.Add)
		entries = append(entries, engine.Entry{Kind: group.Joined, Author: by, Whom: in.Add})
	}
	if slices.Contains(c.Participants, in.Remove) {
		c.Participants = slices.DeleteFunc(c.Participants, func(id string) bool { return id == in.Remove })
		if !slices.ContainsFunc(c.Participants, func(id string) bool { return !group.IsAgent(id) }) {
			return nil, &run.Refusal{Code: "LAST_PERSON", Detail: "Somebody has to stay with the agents; remove them first, or add another person."}
		}
		entries = append(entries, engine.Entry{Kind: group.Left, Author: by, Whom: in.Remove})
	}
	if in.Turns != nil {
		entry, err := service.SetTurns(c, by, *in.Turns)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

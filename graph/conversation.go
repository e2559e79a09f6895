package graph

import (
	"context"
	"errors"
	"strings"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/opaque"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/group"
	"gantry.dev/orchestrator/run"
)

// Conversation returns one conversation.
func (r queries) Conversation(ctx context.Context, id string) (*generated.Conversation, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := opaque.ReadID(id, caller.Principal.Organisation, opaque.Conversation, 1)
	if err != nil {
		return nil, err
	}
	return r.conversation(ctx, caller, parts[0])
}

func (r root) conversation(ctx context.Context, caller Caller, id string) (*generated.Conversation, error) {
	found, err := r.config.Conversations.Get(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, caller, []run.Text{found.Title})
	if err != nil {
		return nil, err
	}
	return v.conversation(found), nil
}

func (v *viewer) conversation(c Conversation) *generated.Conversation {
	turns := &generated.TurnRule{Kind: generated.TurnKind(c.Turns.Kind), Most: c.Turns.Most}
	if c.Turns.Agent != "" {
		turns.Agent = v.actor(c.Turns.Agent)
	}
	return &generated.Conversation{ID: v.id(opaque.Conversation, c.ID), Title: v.text(c.Title), Participants: v.actors(c.Participants), Turns: turns, CreatedAt: at(c.CreatedMs)}
}

// Conversations lists conversations.
func (r queries) Conversations(ctx context.Context, first int, after *string) (*generated.ConversationConnection, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	list, err := opaque.ReadList("conversations", first, after, func(after string, first int) ([]Conversation, string, error) {
		return r.config.Conversations.List(ctx, caller, after, first)
	})
	if err != nil {
		return nil, err
	}
	v, err := newViewer(ctx, r.config, caller, each(list.Items, func(c Conversation) run.Text { return c.Title }))
	if err != nil {
		return nil, err
	}
	out := &generated.ConversationConnection{Edges: []*generated.ConversationEdge{}, PageInfo: pageInfo(list.Cursors, list.More)}
	for i, item := range list.Items {
		out.Edges = append(out.Edges, &generated.ConversationEdge{Cursor: list.Cursors[i], Node: v.conversation(item)})
	}
	return out, nil
}

// Entries lists the entries of a conversation.
func (r conversations) Entries(ctx context.Context, obj *generated.Conversation, first int, after *string) (*generated.EntryConnection, error) {
	caller, id, err := r.of(ctx, obj, first)
	if err != nil {
		return nil, err
	}
	from, err := opaque.ReadPosition(after, id)
	if err != nil {
		return nil, err
	}
	entries, err := r.config.Conversations.Entries(ctx, caller, id, from, first+1)
	if err != nil {
		return nil, err
	}
	more := len(entries) > first
	edges, err := r.entries(ctx, caller, entries[:min(first, len(entries))])
	if err != nil {
		return nil, err
	}
	cursors := each(edges, func(e *generated.EntryEdge) string { return e.Cursor })
	return &generated.EntryConnection{Edges: edges, PageInfo: pageInfo(cursors, more)}, nil
}

// Runs lists the runs of a conversation.
func (r conversations) Runs(ctx context.Context, obj *generated.Conversation, first int, after *string) (*generated.RunConnection, error) {
	caller, id, err := r.of(ctx, obj, first)
	if err != nil {
		return nil, err
	}
	return r.runPage(ctx, caller, RunFilter{Conversation: id}, first, after)
}

func (r conversations) of(ctx context.Context, obj *generated.Conversation, first int) (Caller, string, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return caller, "", err
	}
	parts, err := opaque.ReadID(obj.ID, caller.Principal.Organisation, opaque.Conversation, 1)
	if err != nil {
		return caller, "", err
	}
	return caller, parts[0], opaque.CheckFirst(first)
}

// entries maps entries for a caller, opening all their texts at once.
func (r root) entries(ctx context.Context, caller Caller, entries []engine.Entry) ([]*generated.EntryEdge, error) {
	var texts []run.Text
	for _, entry := range entries {
		if entry.Text != nil {
			texts = append(texts, *entry.Text)
		}
	}
	v, err := newViewer(ctx, r.config, caller, texts)
	if err != nil {
		return nil, err
	}
	return each(entries, func(e engine.Entry) *generated.EntryEdge {
		node := &generated.Entry{Number: int64(e.Number), Kind: generated.EntryKind(strings.ToUpper(e.Kind)), Author: v.actor(e.Author),
			Code: maybe(e.Code), About: maybe(int64(e.About)), Text: v.optional(e.Text), At: at(e.AtMs)}
		if e.Whom != "" {
			node.Whom = v.actor(e.Whom)
		}
		if e.Run != "" {
			id := v.id(opaque.Run, e.Run)
			node.Run = &id
		}
		return &generated.EntryEdge{Cursor: opaque.Position(e.Conversation, e.Number), Node: node}
	}), nil
}

// StartConversation begins a conversation.
func (r mutations) StartConversation(ctx context.Context, in generated.StartConversationInput) (*generated.StartConversationPayload, error) {
	created, outcome, err := r.startConversation(ctx, in)
	caller, refusals, err := accepted(ctx, err)
	if err != nil {
		return nil, err
	}
	payload := &generated.StartConversationPayload{UserErrors: refusals, ClientMutationID: in.ClientMutationID}
	if len(refusals) > 0 {
		return payload, nil
	}
	payload.Outcome = mutationOutcome(outcome.Replayed)
	payload.Conversation, err = r.conversation(ctx, caller, created.ID)
	return payload, err
}

func (r mutations) startConversation(ctx context.Context, in generated.StartConversationInput) (Conversation, Outcome, error) {
	c, err := r.command(ctx, in.CommandID)
	if err != nil {
		return Conversation{}, Outcome{}, err
	}
	if err := checkText("title", in.Title, maxTitle); err != nil {
		return Conversation{}, Outcome{}, err
	}
	if len(in.Participants) > edge.MaxFirst {
		return Conversation{}, Outcome{}, &inputError{"INVALID", "participants", "A conversation begins with at most 100 participants."}
	}
	return r.config.Conversations.Create(ctx, c.caller, ConversationInput{Title: in.Title, Participants: in.Participants, Turns: turnRule(in.Turns), CommandID: c.id})
}

// turnRule is the rule that an input gives; the usual one for none.
func turnRule(in *generated.TurnRuleInput) group.Rule {
	if in == nil {
		return group.Rule{}
	}
	rule := group.Rule{Kind: group.Kind(in.Kind), Most: in.Most}
	if in.Agent != nil {
		rule.Agent = *in.Agent
	}
	return rule
}

// AddParticipant brings somebody into a conversation.
func (r mutations) AddParticipant(ctx context.Context, in generated.AddParticipantInput) (*generated.GatheringPayload, error) {
	return r.gather(ctx, in.Conversation, in.CommandID, in.ClientMutationID, Gathering{Add: in.Principal})
}

// RemoveParticipant takes somebody out of a conversation.
func (r mutations) RemoveParticipant(ctx context.Context, in generated.RemoveParticipantInput) (*generated.GatheringPayload, error) {
	return r.gather(ctx, in.Conversation, in.CommandID, in.ClientMutationID, Gathering{Remove: in.Principal})
}

// SetTurns sets the rule of turns of a conversation.
func (r mutations) SetTurns(ctx context.Context, in generated.SetTurnsInput) (*generated.GatheringPayload, error) {
	rule := turnRule(in.Turns)
	return r.gather(ctx, in.Conversation, in.CommandID, in.ClientMutationID, Gathering{Turns: &rule})
}

func (r mutations) gather(ctx context.Context, conversation string, commandID, clientID *string, change Gathering) (*generated.GatheringPayload, error) {
	id, outcome, err := r.gathered(ctx, conversation, commandID, change)
	caller, refusals, err := accepted(ctx, err)
	if err != nil {
		return nil, err
	}
	payload := &generated.GatheringPayload{UserErrors: refusals, ClientMutationID: clientID}
	if len(refusals) > 0 {
		return payload, nil
	}
	payload.Outcome = mutationOutcome(outcome.Replayed)
	payload.Conversation, err = r.conversation(ctx, caller, id)
	if errors.Is(err, engine.ErrNotFound) {
		return payload, nil // the caller left
	}
	return payload, err
}

func (r mutations) gathered(ctx context.Context, conversation string, commandID *string, change Gathering) (string, Outcome, error) {
	c, err := r.command(ctx, commandID)
	if err != nil {
		return "", Outcome{}, err
	}
	parts, err := opaque.ReadID(conversation, c.caller.Principal.Organisation, opaque.Conversation, 1)
	if err != nil {
		return "", Outcome{}, err
	}
	change.Conversation, change.CommandID = parts[0], c.id
	outcome, err := r.config.Groups.Change(ctx, c.caller, change)
	return parts[0], outcome, err
}

// SendMessage says something in a conversation.
func (r mutations) SendMessage(ctx context.Context, in generated.SendMessageInput) (*generated.SendMessagePayload, error) {
	conversation, outcome, err := r.sendMessage(ctx, in)
	caller, refusals, err := accepted(ctx, err)
	if err != nil {
		return nil, err
	}
	payload := &generated.SendMessagePayload{UserErrors: refusals, ClientMutationID: in.ClientMutationID}
	if len(refusals) > 0 {
		return payload, nil
	}
	payload.Outcome = mutationOutcome(outcome.Replayed)
	if payload.Conversation, err = r.conversation(ctx, caller, conversation); err != nil || outcome.Run == "" {
		return payload, err
	}
	payload.Run, err = r.run(ctx, caller, outcome.Run)
	return payload, err
}

func (r mutations) sendMessage(ctx context.Context, in generated.SendMessageInput) (string, Outcome, error) {
	c, err := r.command(ctx, in.CommandID)
	if err != nil {
		return "", Outcome{}, err
	}
	if err := checkText("text", in.Text, maxText); err != nil {
		return "", Outcome{}, err
	}
	parts, err := opaque.ReadID(in.Conversation, c.caller.Principal.Organisation, opaque.Conversation, 1)
	if err != nil {
		return "", Outcome{}, err
	}
	message := Message{Conversation: parts[0], Text: in.Text, Steer: in.Steer, CommandID: c.id}
	if in.Agent != nil {
		message.Agent = *in.Agent
	}
	outcome, err := r.config.Conversations.Send(ctx, c.caller, message)
	return parts[0], outcome, err
}

package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gantry.dev/agents"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/group"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Conversations answers for conversations.
type Conversations struct{ *Service }

func shown(c journal.Conversation) graph.Conversation {
	return graph.Conversation{ID: c.ID, Title: c.Title, Participants: slices.Sorted(slices.Values(c.Participants)), CreatedMs: c.CreatedMs, Turns: Turns(c)}
}

// Turns is the rule of turns of a conversation. Where the agent that answers
// takes no part any more, who is mentioned answers.
func Turns(c journal.Conversation) (rule group.Rule) {
	_ = json.Unmarshal([]byte(c.Turns), &rule) // empty or what was stored
	if rule.Kind == group.ByName && !slices.Contains(c.Participants, rule.Agent) {
		rule.Kind, rule.Agent = group.ByMention, ""
	}
	return rule.Completed()
}

// SetTurns sets the rule of turns, and returns the entry that says so. Errors:
// *run.Refusal.
func SetTurns(c *journal.Conversation, by string, rule group.Rule) (engine.Entry, error) {
	rule = rule.Completed()
	switch {
	case rule.Kind != group.ByName:
		rule.Agent = ""
	case !slices.Contains(c.Participants, rule.Agent):
		return engine.Entry{}, errUnknownParticipant
	}
	if rule.Most < 1 || rule.Most > group.HighestMost {
		return engine.Entry{}, &run.Refusal{Code: "TURNS", Detail: fmt.Sprintf("Give agents 1 to %d turns for one message.", group.HighestMost)}
	}
	kept, err := json.Marshal(rule)
	c.Turns = string(kept)
	return engine.Entry{Kind: group.TurnsSet, Author: by, Whom: rule.Agent, Code: string(rule.Kind), About: uint64(rule.Most)}, err
}

var errUnknownParticipant error = &run.Refusal{Code: "UNKNOWN_PARTICIPANT", Detail: "One of the participants is not known; check their ids."}

// Joins reports whether a person may bring somebody into a conversation: whoever
// the organisation knows, and of its agents those that serve the person. Errors:
// *run.Refusal, which does not tell one that is not there from one that may not
// be used.
func Joins(o agents.Organisation, person policy.Principal, id string, nowMs int64) error {
	if name, isAgent := strings.CutPrefix(id, agents.AgentID("")); isAgent {
		if _, _, serves := o.Serves(name, person, nowMs); !serves {
			return errUnknownParticipant
		}
		return nil
	}
	if _, known := o.Principal(id); !known {
		return errUnknownParticipant
	}
	return nil
}

// begun is what a repeated beginning is answered with.
type begun struct {
	Conversation string `json:"conversation"`
}

// Create begins a conversation of the caller with other people and agents.
func (c Conversations) Create(ctx context.Context, caller graph.Caller, in graph.ConversationInput) (graph.Conversation, graph.Outcome, error) {
	o, person, err := c.Fresh(ctx, caller)
	if err != nil {
		return graph.Conversation{}, graph.Outcome{}, err
	}
	nowMs, err := c.Store.Now(ctx)
	if err != nil {
		return graph.Conversation{}, graph.Outcome{}, err
	}
	made := journal.Conversation{ID: c.Source.ID(), Organisation: person.Organisation, CreatedBy: person.ID, CreatedMs: nowMs, Participants: []string{person.ID}}
	entries, err := gathered(&made, o, person, in)
	if err != nil {
		return graph.Conversation{}, graph.Outcome{}, err
	}
	var payload engine.Payload
	made.Title, payload = engine.Seal(c.Source, made.ID, person.ID, policy.Marking{Integrity: policy.Trusted}, []byte(in.Title))
	request := []any{"converse", in.Title, slices.Sorted(slices.Values(made.Participants))}
	if made.Turns != "" {
		request = append(request, made.Turns)
	}
	remembered, err := Receipt(caller, in.CommandID, "", begun{made.ID}, request...)
	if err != nil {
		return graph.Conversation{}, graph.Outcome{}, err
	}
	err = c.Store.CreateConversation(ctx, made, payload, &remembered, entries...)
	if errors.Is(err, engine.ErrReplayed) {
		var first begun
		if err := c.Replay(ctx, remembered, &first); err != nil {
			return graph.Conversation{}, graph.Outcome{}, err
		}
		found, err := c.Get(ctx, caller, first.Conversation)
		return found, graph.Outcome{Replayed: true}, err
	}
	return shown(made), graph.Outcome{}, err
}

// gathered lets those take part with whom a conversation begins. Of agents the
// conversation says so: their turns are worked out from what it holds, in the
// order in which they were named.
func gathered(made *journal.Conversation, o agents.Organisation, person policy.Principal, in graph.ConversationInput) (entries []engine.Entry, err error) {
	for _, id := range in.Participants {
		if slices.Contains(made.Participants, id) {
			continue
		}
		if err := Joins(o, person, id, made.CreatedMs); err != nil {
			return nil, err
		}
		made.Participants = append(made.Participants, id)
		if group.IsAgent(id) {
			entries = append(entries, engine.Entry{Kind: group.Joined, Author: person.ID, Whom: id, AtMs: made.CreatedMs})
		}
	}
	if in.Turns != (group.Rule{}) {
		entry, err := SetTurns(made, person.ID, in.Turns)
		if err != nil {
			return nil, err
		}
		entry.AtMs = made.CreatedMs
		entries = append(entries, entry)
	}
	return entries, nil
}

// Get returns a conversation that the caller takes part in.
func (c Conversations) Get(ctx context.Context, caller graph.Caller, id string) (graph.Conversation, error) {
	found, err := c.Store.Conversation(ctx, caller.Principal.Organisation, id)
	if err != nil {
		return graph.Conversation{}, err
	}
	if !slices.Contains(found.Participants, caller.Principal.ID) {
		return graph.Conversation{}, engine.ErrNotFound
	}
	return shown(found), nil
}

// List pages through the caller's conversations, the newest first.
func (c Conversations) List(ctx context.Context, caller graph.Caller, after string, first int) ([]graph.Conversation, string, error) {
	var list []graph.Conversation
	for {
		page, err := c.Store.Conversations(ctx, caller.Principal.Organisation, after, pageRows)
		if err != nil {
			return nil, "", err
		}
		for _, found := range page {
			after = found.ID
			if !slices.Contains(found.Participants, caller.Principal.ID) {
				continue
			}
			if len(list) == first {
				return list, list[first-1].ID, nil
			}
			list = append(list, shown(found))
		}
		if len(page) < pageRows {
			return list, "", nil
		}
	}
}

// Entries returns entries of a conversation that the caller takes part in.
func (c Conversations) Entries(ctx context.Context, caller graph.Caller, id string, after uint64, first int) ([]engine.Entry, error) {
	if _, err := c.Get(ctx, caller, id); err != nil {
		return nil, err
	}
	return c.Store.Entries(ctx, caller.Principal.Organisation, id, after, first)
}

// History is what was said in a conversation that the caller takes part in,
// oldest first, and the ids of who takes part; nothing without one. Of what a
// run said, its result counts.
func (c Conversations) History(ctx context.Context, caller graph.Caller, id string) (said []run.Message, participants []string, err error) {
	if id == "" {
		return nil, nil, nil
	}
	conversation, err := c.Get(ctx, caller, id)
	if err != nil {
		return nil, nil, err
	}
	for after := uint64(0); ; {
		page, err := c.Store.Entries(ctx, caller.Principal.Organisation, id, after, pageRows)
		if err != nil {
			return nil, nil, err
		}
		for _, entry := range page {
			after = entry.Number
			if entry.Text != nil {
				said = append(said, run.Message{Author: entry.Author, Text: *entry.Text})
			}
		}
		if len(page) < pageRows {
			return said, conversation.Participants, nil
		}
	}
}

// Send says something: to the people alone, to an agent that begins a run, or
// to the newest run that goes on.
func (c Conversations) Send(ctx context.Context, caller graph.Caller, in graph.Message) (graph.Outcome, error) {
	if _, err := c.Get(ctx, caller, in.Conversation); err != nil {
		return graph.Outcome{}, err
	}
	switch {
	case in.Steer:
		return c.steer(ctx, caller, in)
	case in.Agent != "":
		return Runs(c).Start(ctx, caller, graph.StartInput{Agent: in.Agent, Goal: in.Text, Conversation: in.Conversation, CommandID: in.CommandID})
	}
	return c.say(ctx, caller, in)
}

func (c Conversations) steer(ctx context.Context, caller graph.Caller, in graph.Message) (graph.Outcome, error) {
	active, err := c.steered(ctx, caller, in)
	if err != nil {
		return graph.Outcome{}, err
	}
	return Runs(c).Command(ctx, caller, in.CommandID, active, func(seal func(string) run.Text, _ policy.Principal) run.Command {
		return run.Steer{Steer: c.Source.ID(), By: caller.Identity, Text: seal(in.Text)}
	})
}

// steered finds the run that a message guides: for a repeated command the one
// that it guided then, else the newest that goes on.
func (c Conversations) steered(ctx context.Context, caller graph.Caller, in graph.Message) (string, error) {
	first, err := c.Store.Receipt(ctx, caller.Principal.Organisation, caller.Principal.ID, in.CommandID)
	if err == nil && first.Run != "" {
		return first.Run, nil
	}
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return "", err
	}
	rows := journal.Filter{Organisation: caller.Principal.Organisation, Conversation: in.Conversation, Agent: in.Agent}
	for {
		heads, err := c.Store.Heads(ctx, rows, pageRows)
		if err != nil {
			return "", err
		}
		for _, head := range heads {
			rows.Before = head.Run
			if !head.Status.Ended() {
				return head.Run, nil
			}
		}
		if len(heads) < pageRows {
			return "", &run.Refusal{Code: "NO_ACTIVE_RUN", Detail: "No run of the conversation goes on; name an agent to start one."}
		}
	}
}

func (c Conversations) say(ctx context.Context, caller graph.Caller, in graph.Message) (graph.Outcome, error) {
	person := caller.Principal
	text, payload := engine.Seal(c.Source, in.Conversation, person.ID, policy.Marking{Integrity: policy.Trusted}, []byte(in.Text))
	remembered, err := Receipt(caller, in.CommandID, "", struct{}{}, "say", in.Conversation, in.Text)
	if err != nil {
		return graph.Outcome{}, err
	}
	err = c.Store.Say(ctx, engine.Entry{Organisation: person.Organisation, Conversation: in.Conversation, Kind: "message", Author: person.ID, Text: &text}, payload, remembered)
	if errors.Is(err, engine.ErrReplayed) {
		var none struct{}
		return graph.Outcome{Replayed: true}, c.Replay(ctx, remembered, &none)
	}
	return graph.Outcome{}, err
}

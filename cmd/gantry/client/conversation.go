package client

import (
	"context"
	"time"
)

// Conversation is a shared thread of people and agents.
type Conversation struct {
	ID           string  `json:"id"` // global
	Title        Text    `json:"title"`
	Participants []Actor `json:"participants"`
	Turns        Turns   `json:"turns"`
}

// Turns is the rule by which agents take turns after a person's message.
type Turns struct {
	Kind  string `json:"kind"` // MENTION, ROUND or NAMED
	Agent *Actor `json:"agent"`
	Most  int    `json:"most"` // agents' turns for one message
}

// Entry is one line of a conversation.
type Entry struct {
	Number int64     `json:"number,string"`
	Kind   string    `json:"kind"`
	Author Actor     `json:"author"`
	Whom   *Actor    `json:"whom,omitempty"`
	Code   string    `json:"code,omitempty"`
	Text   *Text     `json:"text,omitempty"`
	Run    string    `json:"run,omitempty"` // global id
	At     time.Time `json:"at"`
}

const (
	conversationFields = `{id title{value display withheld{reason}} participants{principal name} turns{kind agent{principal name} most}}`
	converseDocument   = `mutation($input:StartConversationInput!){done:startConversation(input:$input){conversation` + conversationFields + ` userErrors{code message field}}}`
	sayDocument        = `mutation($input:SendMessageInput!){done:sendMessage(input:$input){conversation` + conversationFields + ` userErrors{code message field}}}`
	addDocument        = `mutation($input:AddParticipantInput!){done:addParticipant(input:$input){conversation` + conversationFields + ` userErrors{code message field}}}`
	removeDocument     = `mutation($input:RemoveParticipantInput!){done:removeParticipant(input:$input){conversation` + conversationFields + ` userErrors{code message field}}}`
	turnsDocument      = `mutation($input:SetTurnsInput!){done:setTurns(input:$input){conversation` + conversationFields + ` userErrors{code message field}}}`
	entriesDocument    = `subscription($id:ID!,$after:Cursor){told:conversationEvents(conversation:$id,after:$after){cursor node{number kind ` +
		`author{principal name} whom{principal name} code text{value display withheld{reason}} run at}}}`
)

func (c *Client) converse(ctx context.Context, document string, input map[string]any) (Conversation, error) {
	type payload struct{ Conversation Conversation }
	got, err := change[payload](ctx, c, document, input)
	return got.Conversation, err
}

// Converse begins a conversation with others: people, and "agent:" with the
// names of agents. Errors: *Error.
func (c *Client) Converse(ctx context.Context, title string, participants ...string) (Conversation, error) {
	return c.converse(ctx, converseDocument, map[string]any{"title": title, "participants": participants})
}

// Say says something to everybody in a conversation. Errors: *Error.
func (c *Client) Say(ctx context.Context, conversation, text string) (Conversation, error) {
	return c.converse(ctx, sayDocument, map[string]any{"conversation": conversation, "text": text})
}

// AddParticipant brings somebody into a conversation. Errors: *Error.
func (c *Client) AddParticipant(ctx context.Context, conversation, principal string) (Conversation, error) {
	return c.converse(ctx, addDocument, map[string]any{"conversation": conversation, "principal": principal})
}

// RemoveParticipant takes somebody out of a conversation. Errors: *Error.
func (c *Client) RemoveParticipant(ctx context.Context, conversation, principal string) (Conversation, error) {
	return c.converse(ctx, removeDocument, map[string]any{"conversation": conversation, "principal": principal})
}

// SetTurns sets the rule of turns of a conversation; agent is the principal id
// of the one that answers, of NAMED. Errors: *Error.
func (c *Client) SetTurns(ctx context.Context, conversation, kind, agent string, most int) (Conversation, error) {
	turns := map[string]any{"kind": kind, "most": most}
	if agent != "" {
		turns["agent"] = agent
	}
	return c.converse(ctx, turnsDocument, map[string]any{"conversation": conversation, "turns": turns})
}

// Entries follows a conversation from its beginning until visit wants no more.
// Errors: *Error, those of visit and of the context.
func (c *Client) Entries(ctx context.Context, conversation string, visit func(entry Entry) (more bool, err error)) error {
	type told struct {
		Told struct {
			Cursor string
			Node   Entry
		}
	}
	return follow(ctx, c, entriesDocument, map[string]any{"id": conversation}, "", func(got told) (string, bool, error) {
		more, err := visit(got.Told.Node)
		return got.Told.Cursor, more, err
	})
}

package groups

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"gantry.dev/agents"
	"gantry.dev/agents/perform"
	"gantry.dev/cmd/gantry/service"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/group"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

const (
	pageRows = 200 // of one reading
	// maxRounds bounds how often one conversation is read anew at a time: each
	// round writes something that the next one reads.
	maxRounds = 100
)

// Follower gives the turns that are due in conversations. What is due it works
// out from what a conversation holds, and does under ids that follow from that:
// any number of followers, wherever they end, give each turn once.
type Follower struct {
	*service.Service
	Log  *slog.Logger
	rung chan struct{}
}

// NewFollower returns a follower of the service's conversations.
func NewFollower(s *service.Service, log *slog.Logger) *Follower {
	return &Follower{Service: s, Log: log, rung: make(chan struct{}, 1)}
}

// Ring says that a conversation has new entries. It does not block.
func (f *Follower) Ring() {
	select {
	case f.rung <- struct{}{}:
	default: // it will look anyway
	}
}

// Run gives turns when it is rung, and at every tick what nobody rang for, until
// the context ends.
func (f *Follower) Run(ctx context.Context, ticks <-chan time.Time) {
	for {
		if err := f.Pass(ctx); err != nil && ctx.Err() == nil {
			f.Log.Warn("turns in conversations", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-f.rung:
		case <-ticks:
		}
	}
}

// Pass gives every turn that is due now. A conversation that fails is tried
// again by a later pass, and holds up no other.
func (f *Follower) Pass(ctx context.Context) error {
	news, err := f.Store.News(ctx, pageRows)
	if err != nil {
		return err
	}
	for _, followed := range news {
		if failed := f.follow(ctx, followed); failed != nil {
			err = errors.Join(err, fmt.Errorf("conversation %s: %w", followed.Conversation, failed))
		}
	}
	return err
}

// follow brings one conversation to where nothing is due in it.
func (f *Follower) follow(ctx context.Context, followed journal.Followed) error {
	for range maxRounds {
		talk, err := f.read(ctx, followed)
		if err != nil {
			return err
		}
		due := group.Follow(followed.Conversation, talk.lines)
		if len(due.Turns)+len(due.Stops) == 0 {
			followed.Settled, followed.Seen = due.Settled, talk.last
			return f.Store.Follow(ctx, followed)
		}
		for _, stop := range due.Stops {
			command := fmt.Sprintf("stop %s/%d", followed.Conversation, stop.Exchange)
			if err := f.note(ctx, followed, command, engine.Entry{Kind: group.Stopped, Whom: stop.Agent, Code: string(stop.Reason), About: stop.Exchange}); err != nil {
				return err
			}
		}
		for _, turn := range due.Turns {
			if err := f.give(ctx, followed, turn, talk.texts[turn.Entry]); err != nil {
				return err
			}
		}
	}
	return nil // the next pass goes on
}

// talk is a conversation as it was read.
type talk struct {
	lines []group.Line
	texts map[uint64]run.Text // by number of the entry
	last  uint64              // number of the newest entry
}

// read reads what is not settled, and before it who joined and left.
func (f *Follower) read(ctx context.Context, followed journal.Followed) (talk, error) {
	before, err := pages(func(after uint64) ([]engine.Entry, error) {
		return f.Store.Gatherings(ctx, followed.Organisation, followed.Conversation, after, pageRows)
	}, 0)
	if err != nil {
		return talk{}, err
	}
	rest, err := pages(func(after uint64) ([]engine.Entry, error) {
		return f.Store.Entries(ctx, followed.Organisation, followed.Conversation, after, pageRows)
	}, followed.Settled)
	if err != nil {
		return talk{}, err
	}
	t := talk{texts: map[uint64]run.Text{}, last: followed.Settled}
	var ids []string
	for _, entry := range rest {
		t.last = entry.Number
		if entry.Text != nil {
			t.texts[entry.Number] = *entry.Text
			ids = append(ids, entry.Text.ID)
		}
	}
	opened, err := f.Store.Payloads(ctx, ids)
	if err != nil {
		return talk{}, err
	}
	before = slices.DeleteFunc(before, func(e engine.Entry) bool { return e.Number > followed.Settled })
	for _, e := range append(before, rest...) {
		line := group.Line{Number: e.Number, Kind: e.Kind, Run: e.Run, Author: e.Author, Whom: e.Whom, Code: e.Code, About: e.About, AtMs: e.AtMs}
		if e.Text != nil {
			line.Text = string(opened[e.Text.ID].Bytes)
		}
		t.lines = append(t.lines, line)
	}
	return t, nil
}

func pages(read func(after uint64) ([]engine.Entry, error), after uint64) (all []engine.Entry, _ error) {
	for {
		page, err := read(after)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < pageRows {
			return all, nil
		}
		after = page[len(page)-1].Number
	}
}

// note writes an entry that nobody said, once under one command, whoever comes
// to it.
func (f *Follower) note(ctx context.Context, followed journal.Followed, command string, entry engine.Entry) error {
	entry.Organisation, entry.Conversation, entry.Author = followed.Organisation, followed.Conversation, group.Platform
	err := f.Store.Note(ctx, entry, engine.Receipt{Organisation: followed.Organisation, Caller: group.Platform, Command: command, Answer: []byte("{}")})
	if errors.Is(err, engine.ErrReplayed) {
		return nil
	}
	return err
}

// give starts the run of a turn, or says why the agent cannot take it.
func (f *Follower) give(ctx context.Context, followed journal.Followed, turn group.Turn, said run.Text) error {
	err := f.start(ctx, followed, turn, said)
	refusal := &run.Refusal{Code: "NOT_FOUND"}
	if !errors.As(err, &refusal) && !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	return f.note(ctx, followed, "refuse "+turn.Run(followed.Conversation),
		engine.Entry{Kind: group.Refused, Whom: turn.Agent, Code: refusal.Code, About: turn.Exchange})
}

// start admits the run of a turn for the person whose message began the
// exchange, with the rights that this person has now.
func (f *Follower) start(ctx context.Context, followed journal.Followed, turn group.Turn, said run.Text) error {
	person, err := f.Principal(ctx, followed.Organisation, turn.Subject)
	if err != nil {
		return err
	}
	id := turn.Run(followed.Conversation)
	by := run.Identity{Principal: person.ID, Issuer: group.Platform, TokenID: fmt.Sprintf("%s/%d", followed.Conversation, turn.Entry)}
	history, participants, err := f.heard(ctx, person, by, followed.Conversation, said.ID)
	if err != nil {
		return err
	}
	_, err = f.Admission.Start(ctx, perform.Order{Person: person, By: by, Agent: strings.TrimPrefix(turn.Agent, agents.AgentID("")),
		Conversation: followed.Conversation, Participants: participants, History: history, CommandID: "turn " + id,
		Said: &perform.Said{Said: run.Said{Entry: turn.Entry, By: turn.By}, Text: said, Run: id}})
	return err
}

// heard is what was said in the conversation besides what gives the turn.
func (f *Follower) heard(ctx context.Context, person policy.Principal, by run.Identity, conversation, goal string) ([]run.Message, []string, error) {
	history, participants, err := service.Conversations{Service: f.Service}.History(ctx, graph.Caller{Principal: person, Identity: by}, conversation)
	return slices.DeleteFunc(history, func(m run.Message) bool { return m.Text.ID == goal }), participants, err
}

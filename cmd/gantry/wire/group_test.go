package wire_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The desks of the sample, and a person that is cleared for nothing.
const (
	invoices = "agent:invoice-desk"
	rules    = "agent:rules-desk"
	buyer    = "pieter.vanacker"
)

// said is a conversation in lines, as somebody sees it.
func said(entries []entry) (lines []string) {
	for _, e := range entries {
		line := e.Node.Kind + " " + e.Node.Author.Principal
		if e.Node.Whom != nil {
			line += " -> " + e.Node.Whom.Principal
		}
		if e.Node.Code != nil {
			line += " " + *e.Node.Code
		}
		if e.Node.Text != nil {
			line += ": " + e.Node.Text.Value
		}
		lines = append(lines, line)
	}
	return lines
}

func (p *person) say(conversation, text string) {
	p.t.Helper()
	done := p.mutate("sendMessage", map[string]any{"conversation": conversation, "text": text})
	require.Empty(p.t, done.UserErrors)
	require.Nil(p.t, done.Run)
}

// hear waits until so many runs ended, and returns everything up to there.
func (p *person) hear(conversation string, kind string, count int) []entry {
	p.t.Helper()
	return p.listen(conversation, "", func(e entry) bool {
		if e.Node.Kind == kind {
			count--
		}
		return count == 0
	})
}

// Two agents and two people: agents take turns by mention, for the person who
// asked; everybody has their own view, and every department its own bill.
func TestAgentsAndPeopleInOneConversation(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, pieter := h.as(asker), h.as(buyer)
	conversation := amara.talk("INV-1004", buyer, invoices, rules)
	before := amara.usage("DEPARTMENT")

	amara.say(conversation, "@invoice-desk what does INV-1004 come to?")
	amara.hear(conversation, "RUN_ENDED", 1)
	amara.say(conversation, "@rules-desk may we pay INV-1004?")
	all := amara.hear(conversation, "RUN_ENDED", 3)
	sum := "RUN_ENDED agent:invoice-desk: INV-1004 of Torino Motori SpA comes to 1945.68 EUR."
	handed := "RUN_ENDED agent:rules-desk: Above 1,000 euros two people sign. I cannot read 1 of the messages. @invoice-desk, what does INV-1004 come to?"
	want := []string{
		"JOINED amara.diallo -> agent:invoice-desk", "JOINED amara.diallo -> agent:rules-desk",
		"MESSAGE amara.diallo: @invoice-desk what does INV-1004 come to?", "RUN_STARTED agent:invoice-desk", sum,
		"MESSAGE amara.diallo: @rules-desk may we pay INV-1004?", "RUN_STARTED agent:rules-desk", handed,
		"RUN_STARTED agent:invoice-desk", sum,
	}
	require.Equal(t, want, said(all))
	for i, line := range want {
		want[i] = strings.ReplaceAll(line, strings.TrimPrefix(sum, "RUN_ENDED agent:invoice-desk: "), "[redacted]")
	}
	require.Equal(t, want, said(pieter.hear(conversation, "RUN_ENDED", 3)), "a person who is not cleared sees that something was said")

	for _, e := range all {
		if e.Node.Kind != "RUN_STARTED" {
			continue
		}
		run, err := amara.Run(t.Context(), *e.Node.Run)
		require.NoError(t, err)
		require.Equal(t, asker, run.Subject.Principal, "whoever hands over, it is for the person who asked")
	}
	spent := amara.usage("DEPARTMENT")
	for _, department := range []string{"finance", "hr"} {
		require.Greater(t, spent[department].MicroUSD, before[department].MicroUSD, department)
	}
}

// Two agents that each take the other for the right one are stopped, and people
// see why; the next message begins anew. An agent that does not serve a person
// takes no turn for them, and people see that, too.
func TestALoopOfAgentsIsStopped(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, pieter := h.as(asker), h.as(buyer)
	conversation := amara.talk("Who does it", buyer, invoices, rules)
	for round := 1; round <= 2; round++ {
		amara.say(conversation, "@invoice-desk who orders the coffee?")
		all := pieter.hear(conversation, "EXCHANGE_STOPPED", round)
		last := all[len(all)-1].Node
		require.Equal(t, "BACK_AND_FORTH", *last.Code)
		require.Equal(t, "gantry:group", last.Author.Principal)
		require.Equal(t, invoices, last.Whom.Principal)
		require.Len(t, all, 2+round*(1+2*4+1))
	}
	pieter.say(conversation, "@rules-desk what about INV-1004?")
	all := pieter.hear(conversation, "TURN_REFUSED", 1)
	last := said(all)[len(all)-1]
	require.Equal(t, "TURN_REFUSED gantry:group -> agent:invoice-desk NOT_FOUND", last, "the agent does not serve this person")
	amara.mutate("setTurns", map[string]any{"conversation": conversation, "turns": map[string]any{"kind": "ROUND", "most": 1}})
	amara.say(conversation, "INV-1004?")
	all = pieter.hear(conversation, "EXCHANGE_STOPPED", 3)
	require.Equal(t, "TURN_LIMIT", *all[len(all)-1].Node.Code)
}

// Only who takes part brings somebody in or takes somebody out; whoever is out
// sees nothing any more, also where they listened before.
func TestWhoTakesPart(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, pieter, liam := h.as(asker), h.as(buyer), h.as(outsider)
	conversation := amara.talk("Who", rules)
	add := func(p *person, who string) string {
		return p.mutate("addParticipant", map[string]any{"conversation": conversation, "principal": who}).code()
	}
	remove := func(p *person, who string) string {
		return p.mutate("removeParticipant", map[string]any{"conversation": conversation, "principal": who}).code()
	}
	require.Equal(t, "NOT_FOUND", add(pieter, buyer))
	require.Equal(t, "NOT_FOUND", remove(pieter, rules))
	require.Equal(t, "UNKNOWN_PARTICIPANT", add(amara, "nobody"))
	require.Equal(t, "UNKNOWN_PARTICIPANT", add(amara, "agent:nobody"))
	require.Equal(t, "UNKNOWN_PARTICIPANT", add(amara, "agent:research-assistant"), "one that does not serve her looks like none")
	require.Equal(t, "UNKNOWN_PARTICIPANT", liam.mutate("startConversation", map[string]any{"title": "x", "participants": []string{invoices}}).code())
	amara.say(conversation, "before")
	require.Empty(t, add(amara, buyer))
	require.Empty(t, add(amara, buyer), "who is there stays")
	require.Equal(t, "before", pieter.hear(conversation, "MESSAGE", 1)[1].Node.Text.Value, "who comes later sees what was said before")

	var got struct {
		Conversation struct {
			Participants []struct{ Principal, Kind string }
			Turns        struct {
				Kind  string
				Agent *struct{ Principal string }
				Most  int
			}
		}
	}
	const document = `query($id:ID!){conversation(id:$id){participants{principal kind} turns{kind agent{principal} most}}}`
	named := map[string]any{"conversation": conversation, "turns": map[string]any{"kind": "NAMED", "agent": invoices}}
	require.Equal(t, "UNKNOWN_PARTICIPANT", amara.mutate("setTurns", named).code())
	named["turns"] = map[string]any{"kind": "NAMED", "agent": rules, "most": 51}
	require.Equal(t, "TURNS", amara.mutate("setTurns", named).code())
	named["turns"] = map[string]any{"kind": "NAMED", "agent": rules, "most": 2}
	require.Empty(t, pieter.mutate("setTurns", named).code())
	amara.ask(document, map[string]any{"id": conversation}, &got)
	require.Equal(t, "NAMED", got.Conversation.Turns.Kind)
	require.Equal(t, rules, got.Conversation.Turns.Agent.Principal)
	require.Equal(t, 2, got.Conversation.Turns.Most)
	require.Equal(t, "AGENT", got.Conversation.Participants[0].Kind)
	amara.say(conversation, "and INV-1004?")
	amara.hear(conversation, "RUN_ENDED", 1)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	heard := 0
	err := subscribe(ctx, pieter, `subscription($id:ID!){told:conversationEvents(conversation:$id)`+entryFields+`}`, map[string]any{"id": conversation}, func(e entry) bool {
		if heard++; e.Node.Kind == "RUN_ENDED" {
			require.Empty(t, remove(amara, buyer))
			amara.say(conversation, "now among us")
		}
		return true
	})
	require.ErrorContains(t, err, "REVOKED")
	require.NotZero(t, heard)
	require.Equal(t, "NOT_FOUND", add(pieter, buyer))
	require.Empty(t, remove(amara, rules))
	require.Equal(t, "LAST_PERSON", remove(amara, asker))
	amara.ask(document, map[string]any{"id": conversation}, &got)
	require.Equal(t, "MENTION", got.Conversation.Turns.Kind, "where the one that answers is gone, who is mentioned does")
}

// What an agent of a group wants to do is decided by whom policy names for the
// person who asked, whoever else takes part.
func TestApprovalsOfAGroupGoToTheRightPeople(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, tomas, pieter := h.as(asker), h.as(controller), h.as(buyer)
	conversation := amara.talk("INV-1004", buyer, "agent:"+reconciler, rules)
	amara.say(conversation, "@invoice-reconciler please reconcile INV-1004.")
	started := amara.hear(conversation, "RUN_STARTED", 1)
	run := *started[len(started)-1].Node.Run
	approval := tomas.held(run)
	require.Equal(t, asker, approval.Subject.Principal)
	for _, other := range []*person{amara, pieter} {
		_, err := other.Decide(t.Context(), approval, true, "me, too")
		require.Error(t, err)
	}
	amara.say(conversation, "@rules-desk who orders the coffee?")
	amara.hear(conversation, "RUN_ENDED", 1)
	tomas.decide(approval, true)
	require.Equal(t, "COMPLETED", amara.ended(run).Status)
}

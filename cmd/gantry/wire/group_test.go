package wire_test

import (
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

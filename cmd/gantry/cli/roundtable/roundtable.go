// Package roundtable shows a conversation of two agents and two people of the
// sample organisation: turns by mention and from agent to agent, everybody's own
// view, a loop that is stopped, and what each agent cost.
package roundtable

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

const (
	asker    = "amara.diallo"    // accountant, cleared for finance
	listener = "pieter.vanacker" // buyer, cleared for nothing
	invoices = "agent:invoice-desk"
	rules    = "agent:rules-desk"
	sum      = "1945.68" // stands in the invoice alone
)

// House is a running installation with the sample organisation.
type House struct {
	As func(principal string) (*client.Client, error) // speaks to it as somebody
}

// Bill is what the turns of one agent cost in the conversation.
type Bill struct {
	Agent    string `json:"agent"`
	Turns    int    `json:"turns"`
	MicroUSD int64  `json:"microUsd"`
}

// Result is what was shown.
type Result struct {
	Views  map[string][]client.Entry `json:"views"` // the conversation, by who looks at it
	Bills  []Bill                    `json:"bills"`
	Checks []string                  `json:"checks"` // what was looked at and found as it must be
}

// show is the demonstration under way.
type show struct {
	ask.Witness
	asker        *client.Client
	listener     *client.Client
	conversation string
}

// Run has the four speak. The error says what was not as it must be.
func Run(ctx context.Context, house House, out io.Writer) (result Result, err error) {
	s := &show{Witness: ask.Witness{Out: out}}
	if s.asker, err = house.As(asker); err != nil {
		return result, err
	}
	if s.listener, err = house.As(listener); err != nil {
		return result, err
	}
	begun, err := s.asker.Converse(ctx, "Pay INV-1004?", listener, invoices, rules)
	if err != nil {
		return result, err
	}
	s.conversation = begun.ID
	if err := s.speak(ctx); err != nil {
		return result, err
	}
	result.Views = map[string][]client.Entry{}
	for name, c := range map[string]*client.Client{asker: s.asker, listener: s.listener} {
		if result.Views[name], err = s.until(ctx, c, "TURN_REFUSED", 1); err != nil {
			return result, err
		}
	}
	if err := s.compare(result.Views[asker], result.Views[listener]); err != nil {
		return result, err
	}
	if err := s.agents(result.Views[asker]); err != nil {
		return result, err
	}
	if result.Bills, err = s.bill(ctx, result.Views[asker]); err != nil {
		return result, err
	}
	result.Checks = s.Checked
	return result, s.Conclude()
}

// speak says one thing after the other, each once the one before is answered.
func (s *show) speak(ctx context.Context) error {
	for _, step := range []struct {
		who   *client.Client
		text  string
		kind  string // of the entry that ends it
		count int    // how many of these there are then
	}{
		{s.asker, "@invoice-desk who orders the coffee?", "EXCHANGE_STOPPED", 1},
		{s.asker, "@invoice-desk what does INV-1004 come to?", "RUN_ENDED", 5},
		{s.asker, "Then: @rules-desk, may we pay INV-1004?", "RUN_ENDED", 7},
		{s.listener, "@rules-desk, and what about INV-1008?", "TURN_REFUSED", 1},
	} {
		if _, err := step.who.Say(ctx, s.conversation, step.text); err != nil {
			return err
		}
		if _, err := s.until(ctx, s.asker, step.kind, step.count); err != nil {
			return err
		}
	}
	return nil
}

// until returns the conversation as somebody sees it, up to so many entries of a
// kind.
func (s *show) until(ctx context.Context, c *client.Client, kind string, count int) (entries []client.Entry, err error) {
	err = c.Entries(ctx, s.conversation, func(entry client.Entry) (bool, error) {
		entries = append(entries, entry)
		switch entry.Kind {
		case kind:
			count--
		case "TURN_REFUSED":
			return false, fmt.Errorf("not so: %s takes its turn: %s", entry.Whom.Principal, entry.Code)
		}
		return count > 0, nil
	})
	return entries, err
}

// compare prints both people's views, and checks that they differ in what one
// of them may not see, and in nothing else.
func (s *show) compare(own, other []client.Entry) error {
	for _, one := range []struct {
		who     string
		entries []client.Entry
	}{{asker + ", cleared for finance", own}, {listener + ", cleared for nothing", other}} {
		if err := s.Say("\n── as %s sees it ──", one.who); err != nil {
			return err
		}
		for _, entry := range one.entries {
			if line := lineOf(entry); line != "" {
				if err := s.Say("%s", line); err != nil {
					return err
				}
			}
		}
	}
	seen, withheld := 0, 0
	for i, entry := range own {
		if i >= len(other) || other[i].Number != entry.Number || other[i].Kind != entry.Kind || other[i].Author != entry.Author {
			return fmt.Errorf("not so: both see that something was said, in entry %d", entry.Number)
		}
		if entry.Text != nil && strings.Contains(entry.Text.Value, sum) {
			seen++
		}
		if text := other[i].Text; text != nil && len(text.Withheld) > 0 {
			withheld++
		}
		if text := other[i].Text; text != nil && strings.Contains(text.Value, sum) {
			return fmt.Errorf("not so: %s does not see the sum", listener)
		}
	}
	return s.Check(seen == 2 && withheld >= seen && len(own) == len(other), "two people, two views, no gap")
}

// lineOf is an entry in words; empty for one that says nothing by itself.
func lineOf(e client.Entry) string {
	whom := ""
	if e.Whom != nil {
		whom = e.Whom.Principal
	}
	switch e.Kind {
	case "JOINED":
		return fmt.Sprintf("%3d  %s brings in %s", e.Number, e.Author.Principal, whom)
	case "EXCHANGE_STOPPED":
		return fmt.Sprintf("%3d  stopped before the turn of %s: %s", e.Number, whom, e.Code)
	case "TURN_REFUSED":
		return fmt.Sprintf("%3d  no turn for %s: %s", e.Number, whom, e.Code)
	}
	if e.Text == nil {
		return ""
	}
	return fmt.Sprintf("%3d  %-20s %s", e.Number, e.Author.Principal, e.Text.Display)
}

// agents checks what the agents had before them, and that the loop was stopped.
func (s *show) agents(entries []client.Entry) error {
	redacted, handed, stopped, refused := false, false, "", ""
	for i, entry := range entries {
		switch {
		case entry.Kind == "RUN_ENDED" && entry.Author.Principal == rules && entry.Text != nil:
			redacted = redacted || strings.Contains(entry.Text.Value, "I cannot read 1 of the messages")
			handed = handed || i+1 < len(entries) && entries[i+1].Kind == "RUN_STARTED" && entries[i+1].Author.Principal == invoices
		case entry.Kind == "EXCHANGE_STOPPED":
			stopped = entry.Code
		case entry.Kind == "TURN_REFUSED":
			refused = entry.Code
		}
	}
	for _, check := range []struct {
		ok   bool
		what string
	}{
		{redacted, "the agent that is cleared for nothing was told that something was said, and not what"},
		{handed, "an agent gave another one the turn"},
		{stopped == "BACK_AND_FORTH", "two agents that went in circles were stopped"},
		{refused == "NOT_FOUND", "an agent takes no turn for a person whom it does not serve"},
	} {
		if err := s.Check(check.ok, "%s", check.what); err != nil {
			return err
		}
	}
	return nil
}

// bill adds up what the runs of each agent cost.
func (s *show) bill(ctx context.Context, entries []client.Entry) (bills []Bill, err error) {
	for _, entry := range entries {
		if entry.Kind != "RUN_STARTED" {
			continue
		}
		one, err := s.asker.Run(ctx, entry.Run)
		if err != nil {
			return nil, err
		}
		if one.Subject.Principal != asker && one.Subject.Principal != listener {
			return nil, fmt.Errorf("not so: agents act for the person whose message began the exchange")
		}
		at := slices.IndexFunc(bills, func(b Bill) bool { return b.Agent == one.Agent })
		if at < 0 {
			at, bills = len(bills), append(bills, Bill{Agent: one.Agent})
		}
		bills[at].Turns++
		bills[at].MicroUSD += one.Budget.Settled.MicroUSD
	}
	if err := s.Say("\n── what each agent cost ──"); err != nil {
		return nil, err
	}
	for _, b := range bills {
		if err := s.Say("%-14s %2d turns  %4d micro-dollars", b.Agent, b.Turns, b.MicroUSD); err != nil {
			return nil, err
		}
	}
	return bills, s.Check(len(bills) == 2 && bills[0].MicroUSD > 0 && bills[1].MicroUSD > 0, "each agent has its own bill")
}

// Package outreach shows an agent at work in the sample's office, over a
// protocol that the office speaks and Gantry did not invent.
package outreach

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

const (
	asker   = "nadia.haddad" // procurement: for whom the visit is arranged
	decider = "keiko.tanaka" // answers for the office's tools: decides what is held
	desk    = "office-desk"
	goal    = "Arrange a visit of Duarte Castings on 2026-05-12 from 09:00 to 11:00."
)

// House is a running installation with the sample organisation and its office.
type House struct {
	As   func(principal string) (*client.Client, error)    // speaks to it as somebody
	Done func(ctx context.Context) (map[string]int, error) // the office's own word on what was done, by its tools
}

// Result is what was shown.
type Result struct {
	Run    client.Run     `json:"run"`
	Done   map[string]int `json:"done"`   // by the office's own word
	Checks []string       `json:"checks"` // what was looked at and found as it must be
}

// DemoCommand returns "gantry demo office"; show runs the demonstration over a
// fresh installation.
func DemoCommand(show func(ctx context.Context, out io.Writer) (Result, error)) *cobra.Command {
	return ask.Demonstration("office", "Have a visit arranged in an office that is a server of the Model Context Protocol", show)
}

// show is the demonstration under way.
type show struct {
	ask.Witness
	asker, decider *client.Client
	held           []string // tools whose calls waited for a person
}

// Run has a visit arranged. The error says what was not as it must be.
func Run(ctx context.Context, house House, out io.Writer) (result Result, err error) {
	s := &show{Witness: ask.Witness{Out: out}}
	if s.asker, err = house.As(asker); err != nil {
		return result, err
	}
	if s.decider, err = house.As(decider); err != nil {
		return result, err
	}
	run, err := s.asker.StartRun(ctx, client.Start{Agent: desk, Goal: goal})
	if err != nil {
		return result, err
	}
	if err := s.Say("%s: %s", asker, goal); err != nil {
		return result, err
	}
	if err := s.asker.Events(ctx, run.ID, "", func(event client.Event) (bool, error) { return s.follow(ctx, event) }); err != nil {
		return result, err
	}
	if result.Run, err = s.asker.Run(ctx, run.ID); err != nil {
		return result, err
	}
	if result.Done, err = house.Done(ctx); err != nil {
		return result, err
	}
	if err := s.judge(result); err != nil {
		return result, err
	}
	result.Checks = s.Checked
	return result, s.Conclude()
}

// follow tells what happens, and decides what is held.
func (s *show) follow(ctx context.Context, event client.Event) (more bool, err error) {
	switch event.Kind {
	case "call_proposed", "call_ended", "approval_requested", "approval_decided", "verified", "ended":
		if err := s.Say("  %3d %s", event.Seq, event.Summary); err != nil {
			return false, err
		}
	}
	switch event.Kind {
	case "limit_reached", "parked":
		return false, fmt.Errorf("the run does not go on by itself: %s", event.Summary)
	case "approval_requested":
		var fact struct{ Approval string }
		if err := event.Decode(&fact); err != nil {
			return false, err
		}
		approval, err := s.decider.Approval(ctx, fact.Approval)
		if err != nil {
			return false, err
		}
		s.held = append(s.held, approval.Tool)
		if err := s.Say("      %s sees: %s %s", decider, approval.Tool, approval.Arguments.Display); err != nil {
			return false, err
		}
		_, err = s.decider.Decide(ctx, approval, true, "As it was asked for.")
		return true, err
	}
	return event.Kind != "ended", nil
}

func (s *show) judge(result Result) error {
	once := map[string]int{"mail_draft": 1, "calendar_add": 1, "file_write": 1, "mail_send": 1}
	for tool, times := range once {
		if result.Done[tool] != times {
			return fmt.Errorf("not so: the office did %s %d times", tool, result.Done[tool])
		}
	}
	for _, check := range []struct {
		ok   bool
		what string
	}{
		{result.Run.Status == "COMPLETED", "the run is complete, and each of its four effects was read back in the office"},
		{len(result.Done) == len(once), "the office itself says that each was done once: a draft (KEYED), an event (KEYED), a file (CHECKABLE) and a message (OPAQUE)"},
		{!slices.Contains(s.held, "office.mail_draft"), "the draft needed nobody"},
		{slices.Contains(s.held, "office.mail_send"), "the message that left was looked at by who answers for the office's tools"},
		{slices.Contains(s.held, "office.calendar_add") && slices.Contains(s.held, "office.file_write"),
			"once a mail from outside was read, a person looked at whom is invited and where is written"},
	} {
		if err := s.Check(check.ok, "%s", check.what); err != nil {
			return err
		}
	}
	return nil
}

package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

const (
	asker  = "amara.diallo"    // finance: for whom the invoice is looked up
	ledger = "tomas.rehak"     // owns the tools of the ledger
	payer  = "marta.lindqvist" // owns the budget of the department
	clerk  = "invoice-clerk"
)

// House is a running installation with the sample organisation.
type House struct {
	As func(principal string) (*client.Client, error) // speaks to it as somebody
}

// Result is what was shown.
type Result struct {
	Run    client.Run `json:"run"`
	Checks []string   `json:"checks"` // what was looked at and found as it must be
}

// DemoCommand returns "gantry demo access"; show runs the demonstration over a
// fresh installation.
func DemoCommand(show func(ctx context.Context, out io.Writer) (Result, error)) *cobra.Command {
	return ask.Demonstration("access", "Have a run ask for a tool that it lacks, go on with it, and lose it again", show)
}

// show is the demonstration under way.
type show struct {
	ask.Witness
	asker, ledger, payer *client.Client

	asked   int
	grant   string // that the tool rests on
	barred  error  // what the one for whom the run acts was told
	resumed bool   // the first look went on as the same call
}

// Run has an invoice looked up by an agent that was not given the ledger. The
// error says what was not as it must be.
func Run(ctx context.Context, house House, out io.Writer) (result Result, err error) {
	s := &show{Witness: ask.Witness{Out: out}}
	for principal, at := range map[string]**client.Client{asker: &s.asker, ledger: &s.ledger, payer: &s.payer} {
		if *at, err = house.As(principal); err != nil {
			return result, err
		}
	}
	main, err := s.asker.StartRun(ctx, client.Start{Agent: clerk, Goal: "What is known of INV-1004?"})
	if err != nil {
		return result, err
	}
	if err := s.Say("%s looks up an invoice for %s; the ledger is not among its tools", clerk, asker); err != nil {
		return result, err
	}
	if err := s.asker.Events(ctx, main.ID, "", func(event client.Event) (bool, error) { return s.follow(ctx, event) }); err != nil {
		return result, err
	}
	if result.Run, err = s.asker.Run(ctx, main.ID); err != nil {
		return result, err
	}
	if err := s.judge(result.Run); err != nil {
		return result, err
	}
	result.Checks = s.Checked
	return result, s.Conclude()
}

// follow prints what happens, and decides what is asked for.
func (s *show) follow(ctx context.Context, event client.Event) (more bool, err error) {
	switch event.Kind {
	case "access_requested", "access_decided", "call_intended", "call_ended", "limit_raised", "ended":
		err = s.Say("  %3d %s", event.Seq, event.Summary)
	case "limit_reached", "parked":
		err = fmt.Errorf("the run does not go on by itself: %s", event.Summary)
	}
	if err == nil && event.Kind == "access_requested" {
		err = s.decide(ctx, event)
	}
	return event.Kind != "ended", err
}

// decide consents to the first look and to the budget, takes the tool back
// before the second look, and refuses that.
func (s *show) decide(ctx context.Context, event client.Event) error {
	var fact struct{ Access string }
	if err := event.Decode(&fact); err != nil {
		return err
	}
	s.asked++
	owner, consent, reason := s.ledger, true, "For this invoice."
	switch s.asked {
	case 2:
		owner, reason = s.payer, ""
	case 3:
		consent, reason = false, "Once is enough."
	}
	request, err := owner.Access(ctx, fact.Access)
	if err != nil {
		return err
	}
	for _, line := range Lines(request) {
		if err := s.Say("        %s", line); err != nil {
			return err
		}
	}
	if s.asked == 1 {
		_, _, s.barred = s.asker.DecideAccess(ctx, request, client.Word{Granted: true})
	}
	if s.asked == 2 {
		if _, err := s.ledger.RecallAgent(ctx, s.grant, "Once is enough."); err != nil {
			return err
		}
		if err := s.Say("        %s takes the ledger back", ledger); err != nil {
			return err
		}
	}
	_, run, err := owner.DecideAccess(ctx, request, client.Word{Granted: consent, Reason: reason})
	if err != nil {
		return err
	}
	if s.asked == 1 {
		grants, err := s.ledger.Grants(ctx, "IN_FORCE")
		if err != nil {
			return err
		}
		for _, grant := range grants {
			if grant.Kind == "ACCESS" && grant.Agent == clerk {
				s.grant = grant.ID
			}
		}
		s.resumed = run.ID == request.Run
	}
	return nil
}

// judge looks whether it all came as it must.
func (s *show) judge(run client.Run) error {
	var refused *client.Error
	looks, asks := []client.Call{}, []client.Call{}
	for _, call := range run.Calls {
		switch call.Tool {
		case "ledger.find_adjustments":
			looks = append(looks, call)
		case "access.request":
			asks = append(asks, call)
		}
	}
	if len(looks) != 2 || len(asks) != 2 {
		return fmt.Errorf("%d looks into the ledger and %d requests, expected 2 of each", len(looks), len(asks))
	}
	for _, check := range []struct {
		ok   bool
		what string
	}{
		{looks[0].Outcome == "OK" && s.resumed, "the call that lacked its tool waited, and the same run made it once the tool's owner consented"},
		{errors.As(s.barred, &refused) && refused.Code == "NOT_FOUND", "who is asked for decides nothing"},
		{asks[0].Outcome == "REFUSED" && asks[0].Code == "NOTHING_TO_ASK_FOR", "what the agent may not ask for looks as if it were not there"},
		{asks[1].Outcome == "ANSWERED" && run.Budget.Limit.MicroUSD == 70_000, "the budget's owner raised the budget of the run"},
		{s.grant != "" && looks[1].Outcome == "DENIED", "after the tool was taken back the next call had to ask again, and was refused"},
		{run.Status == "COMPLETED" && run.End.Result != nil && strings.Contains(run.End.Result.Value, "INV-1004"), "no refusal ended the run"},
	} {
		if err := s.Check(check.ok, "%s", check.what); err != nil {
			return err
		}
	}
	return nil
}

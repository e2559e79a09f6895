package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/access"
	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/cli/tree"
	"gantry.dev/cmd/gantry/client"
)

func inboxCommand() *cobra.Command {
	var asJSON bool
	command := ask.Server("inbox", "List what waits for you", cobra.NoArgs, func(command *cobra.Command, c *client.Client, _ []string) error {
		items, err := c.Inbox(command.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return ask.JSON(command, append([]client.Item{}, items...))
		}
		out := command.OutOrStdout()
		if len(items) == 0 {
			return ask.Say(out, "nothing waits for you")
		}
		for _, item := range items {
			if err := sayItem(out, item, hintsOf(command)); err != nil {
				return err
			}
		}
		return nil
	})
	ask.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

func sayItem(out io.Writer, item client.Item, hints hints) error {
	until := ""
	if item.ExpiresAt != nil {
		until = ", until " + item.ExpiresAt.Format(time.RFC3339)
	}
	if err := ask.Say(out, "%s %s since %s%s", item.Kind, item.ID, item.Since.Format(time.RFC3339), until); err != nil {
		return err
	}
	for _, detail := range itemLines(item, hints) {
		if err := ask.Say(out, "  %s", detail); err != nil {
			return err
		}
	}
	return nil
}

func itemLines(item client.Item, hints hints) []string {
	var lines, next []string
	id := client.ShortID(item.Run.ID)
	switch {
	case item.Approval != nil:
		lines, next = append(approvalLines(*item.Approval), othersLines(item)...), hints.decide(item.ID)
	case item.Question != nil && item.Question.Ask != nil:
		lines, next = serverLines(*item.Question.Ask), []string{hints.command("answer", item.ID, "VALUES-AS-JSON | --decline | --dismiss")}
	case item.Question != nil:
		lines, next = []string{"asks: " + oneLine(item.Question.Question.Display)}, []string{hints.command("answer", item.ID, "TEXT")}
	case item.Access != nil:
		lines, next = access.Lines(*item.Access), []string{hints.command(append([]string{"consent", item.ID}, consentFlags(item.Access.Scopes)...)...), hints.command("withhold", item.ID)}
	case item.Limit != nil:
		lines, next = []string{"limit " + item.Limit.Limit + ": " + item.Limit.Detail}, []string{hints.command("resume", id, "--turns N | --money N | --end")}
	case item.Parked != nil:
		lines, next = []string{"parked: " + told(item.Parked.Code, item.Parked.Detail)}, []string{hints.command("resume", id)}
	}
	for _, call := range item.Uncertain {
		lines = append(lines, fmt.Sprintf("call %d may or may not have happened: %s %s", call.Number, call.Tool, call.Arguments.Display))
		next = append(next, hints.command("resolve", id, strconv.Itoa(call.Number), "HAPPENED|NOT_HAPPENED|REPEAT --evidence TEXT"))
	}
	if item.OnBehalfOf != nil {
		lines = append(lines, "you are the deputy of "+item.OnBehalfOf.Principal)
	}
	if item.EscalatedAt != nil {
		lines = append(lines, "nobody has reacted; escalated "+item.EscalatedAt.Format(time.RFC3339))
	}
	if item.Onlooker {
		next = nil // it is only shown
	}
	for _, hint := range next {
		lines = append(lines, "→ "+hint)
	}
	agent := item.Run.Agent
	if len(item.Run.Lineage) > 1 {
		agent = tree.Line(item.Run.Lineage)
	}
	return append([]string{fmt.Sprintf("%s for %s: %s", agent, item.Run.Subject.Principal, oneLine(item.Run.Goal.Display))}, lines...)
}

// consentFlags say how far a yes may reach.
func consentFlags(scopes []string) []string {
	if len(scopes) < 2 {
		return nil
	}
	return []string{"[--for " + strings.ToLower(strings.Join(scopes, "|")) + "]"}
}

// othersLines name the calls that wait together with the one that is shown. Each
// is decided by itself, once it was looked at.
func othersLines(item client.Item) []string {
	if len(item.Others) == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("%d calls of this run to %s wait; besides this one:", item.Count, item.Approval.Tool)}
	for _, other := range item.Others {
		lines = append(lines, "  "+client.ShortID(other.ID)+": "+oneLine(other.Arguments.Display))
	}
	return lines
}

// approvalLines say exactly what is, or was, decided.
func approvalLines(a client.Approval) []string {
	lines := []string{"call " + strconv.Itoa(a.Call) + ": " + a.Tool + " " + a.Arguments.Display}
	add := func(label, text string) {
		if text != "" {
			lines = append(lines, label+": "+text)
		}
	}
	add("operation", a.Operation)
	add("resource", a.Resource)
	add("consequence", a.Consequence)
	add("guarantee", a.Guarantee)
	if a.CostBound > 0 {
		add("costs at most", ask.Dollars(a.CostBound))
	}
	add("asked by", a.Requester.Principal+" for "+a.Subject.Principal)
	if a.Integrity == "UNTRUSTED" {
		add("beware", "text that somebody outside may have written influenced it")
	}
	for _, reason := range a.Reasons {
		add("held by", reason.Policy+": "+oneLine(reason.Text))
	}
	var who []string
	for _, approver := range a.Approvers {
		who = append(who, approver.String())
	}
	add("decides", fmt.Sprintf("%s, %d needed", strings.Join(who, " or "), a.Quorum))
	add("digest", a.Digest)
	return lines
}

// errUnseen refuses to grant what the person was not shown.
var errUnseen = errors.New("you are not shown the arguments of the call, so you cannot approve it; somebody who is must decide")

func decideCommand(grant bool) *cobra.Command {
	use, short, word := "deny ID", "Deny a held call", "denied"
	if grant {
		use, short, word = "approve ID", "Approve a held call, once, exactly as it is shown", "granted"
	}
	var reason string
	command := ask.Server(use, short, cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		approval, err := c.Approval(command.Context(), args[0])
		if err != nil {
			return err
		}
		if grant && len(approval.Arguments.Withheld) > 0 {
			return errUnseen
		}
		decided, err := c.Decide(command.Context(), approval, grant, reason)
		if err != nil {
			return err
		}
		out := command.OutOrStdout()
		if err := ask.Say(out, "%s:", word); err != nil {
			return err
		}
		for _, detail := range approvalLines(approval) {
			if err := ask.Say(out, "  %s", detail); err != nil {
				return err
			}
		}
		if grant && approval.Quorum > 1 {
			if err := ask.Say(out, "%d of %d needed", len(approval.Decisions)+1, approval.Quorum); err != nil {
				return err
			}
		}
		return sayStatus(command, decided, nil)
	})
	command.Flags().StringVar(&reason, "reason", "", "why, for the record and for the agent")
	return command
}

func answerCommand() *cobra.Command {
	var decline, dismiss bool
	command := ask.Server("answer ID [TEXT]", "Answer the question of a run, or the form of a server with its values as JSON", cobra.RangeArgs(1, 2),
		func(command *cobra.Command, c *client.Client, args []string) error {
			question, err := c.Question(command.Context(), args[0])
			if err != nil {
				return err
			}
			text, action := "{}", ""
			if len(args) > 1 {
				text = args[1]
			}
			switch {
			case question.Ask == nil && (decline || dismiss || len(args) < 2):
				return errors.New("the model asks in words: answer it with a TEXT")
			case decline && dismiss:
				return errors.New("either --decline or --dismiss")
			case decline:
				action = "DECLINE"
			case dismiss:
				action = "CANCEL"
			case question.Ask != nil:
				action = "ACCEPT"
			}
			respond := func() (client.Run, error) { return c.Respond(command.Context(), question, action, text) }
			if action == "" {
				respond = func() (client.Run, error) { return c.Answer(command.Context(), question, text) }
			}
			answered, err := respond()
			return sayStatus(command, answered, err)
		})
	command.Flags().BoolVar(&decline, "decline", false, "say no to what a server asks")
	command.Flags().BoolVar(&dismiss, "dismiss", false, "say neither yes nor no to what a server asks")
	return command
}

// serverLines show what a server asks: its words stand in quotes.
func serverLines(one client.ServerAsk) []string {
	lines := []string{fmt.Sprintf("server %s asks (%s); these are its words, not the agent's:", one.Origin, one.Kind)}
	if one.Form == nil {
		return lines
	}
	return append(lines, oneLine(one.Form.Display))
}

func resolveCommand() *cobra.Command {
	var evidence string
	var override bool
	command := ask.Run("resolve RUN CALL HAPPENED|NOT_HAPPENED|REPEAT", "Say what became of a call that may or may not have happened", cobra.ExactArgs(3),
		func(command *cobra.Command, c *client.Client, args []string) error {
			call, err := strconv.Atoi(args[1])
			if err != nil {
				return fmt.Errorf("call %q is no number", args[1])
			}
			resolution, err := ask.OneOf("what became of it", args[2], []string{"HAPPENED", "NOT_HAPPENED", "REPEAT"})
			if err != nil {
				return err
			}
			found := client.Finding{Call: call, Resolution: resolution, Evidence: evidence, Override: override}
			resolved, err := c.Resolve(command.Context(), args[0], found)
			return sayStatus(command, resolved, err)
		})
	command.Flags().StringVar(&evidence, "evidence", "", "what was looked at, and where (needed)")
	command.Flags().BoolVar(&override, "override", false, "with REPEAT: accept that the first attempt may still act")
	_ = command.MarkFlagRequired("evidence") // the flag is declared above
	return command
}

// Package access has the commands about what runs ask for that they may not use
// yet, and their demonstration.
package access

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// Commands returns "gantry requests", "gantry consent" and "gantry withhold".
func Commands() []*cobra.Command {
	return []*cobra.Command{requestsCommand(), decideCommand(true), decideCommand(false)}
}

func requestsCommand() *cobra.Command {
	var asJSON bool
	command := ask.Server("requests", "List what runs ask you for that they may not use yet", cobra.NoArgs, func(command *cobra.Command, c *client.Client, _ []string) error {
		items, err := c.Inbox(command.Context())
		if err != nil {
			return err
		}
		open := []client.Access{}
		for _, item := range items {
			if item.Access != nil {
				open = append(open, *item.Access)
			}
		}
		if asJSON {
			return ask.JSON(command, open)
		}
		out := command.OutOrStdout()
		if len(open) == 0 {
			return ask.Say(out, "no run asks you for anything")
		}
		for _, request := range open {
			if err := ask.Say(out, "%s until %s", client.ShortID(request.ID), request.ExpiresAt.Format("2006-01-02 15:04 MST")); err != nil {
				return err
			}
			for _, line := range Lines(request) {
				if err := ask.Say(out, "  %s", line); err != nil {
					return err
				}
			}
		}
		return nil
	})
	ask.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

// errUnseen refuses to give what the person was not shown the use of.
var errUnseen = errors.New("you are not shown the arguments of the call, so you cannot consent; somebody who is must decide")

func decideCommand(consent bool) *cobra.Command {
	use, short, word := "withhold ID", "Refuse a run what it asks you for", "refused"
	if consent {
		use, short, word = "consent ID", "Let one run use what it asks you for; its calls are still judged", "given"
	}
	var reason string
	command := ask.Server(use, short, cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		request, err := c.Access(command.Context(), args[0])
		if err != nil {
			return err
		}
		if consent && len(request.Arguments.Withheld) > 0 {
			return errUnseen
		}
		run, err := c.DecideAccess(command.Context(), request, consent, reason)
		if err != nil {
			return err
		}
		return ask.Say(command.OutOrStdout(), "%s %s: run %s is %s", wanted(request), word, client.ShortID(run.ID), run.Status)
	})
	command.Flags().StringVar(&reason, "reason", "", "why")
	return command
}

// wanted names what is asked for.
func wanted(a client.Access) string {
	if a.More != nil {
		return fmt.Sprintf("%s and %d tokens more", ask.Dollars(a.More.MicroUSD), a.More.Tokens)
	}
	return strings.ToLower(a.Thing) + " " + a.Name
}

// Lines say what is asked for, by whom and what follows from a yes.
func Lines(a client.Access) []string {
	lines := []string{"asks for " + wanted(a)}
	add := func(label, text string) {
		if text != "" {
			lines = append(lines, label+": "+text)
		}
	}
	if a.Bounds != nil {
		add("bounds", fmt.Sprintf("%s, %s in this run", a.Bounds.Impact, ask.Counted(a.Bounds.Calls, "call")))
	}
	add("definition", a.Definition)
	add("consequence", a.Consequence)
	add("guarantee", a.Guarantee)
	if a.CostBound > 0 {
		add("a call costs at most", ask.Dollars(a.CostBound))
	}
	add("waiting call", a.Tool+" "+a.Arguments.Display)
	add("asked by", a.Requester.Principal+" for "+a.Subject.Principal)
	if a.Integrity == "UNTRUSTED" {
		add("beware", "text that somebody outside may have written influenced it")
	}
	var who []string
	for _, approver := range a.Approvers {
		who = append(who, approver.String())
	}
	add("decides", strings.Join(who, " or "))
	add("digest", a.Digest)
	return lines
}

// Package access has the commands about what runs ask for that they may not use
// yet, and their demonstration.
package access

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// Commands returns "gantry requests", "gantry consent", "gantry withhold" and
// "gantry proposed".
func Commands() []*cobra.Command {
	return []*cobra.Command{requestsCommand(), decideCommand(true), decideCommand(false), proposedCommand()}
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

// scopes are how far a yes may reach.
var scopes = []string{"RUN", "CONVERSATION", "AGENT"}

func decideCommand(consent bool) *cobra.Command {
	use, short, verb := "withhold ID", "Refuse a run what it asks you for", "refused"
	if consent {
		use, short, verb = "consent ID", "Let a run use what it asks you for; its calls are still judged", "given"
	}
	word := client.Word{Granted: consent}
	var reach string
	var lasts time.Duration
	command := ask.Server(use, short, cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		if consent {
			scope, err := ask.OneOf("--for", reach, scopes)
			if err != nil {
				return err
			}
			word.Scope = scope
		}
		if lasts > 0 {
			until := time.Now().Add(lasts)
			word.Until = &until
		}
		request, err := c.Access(command.Context(), args[0])
		if err != nil {
			return err
		}
		if consent && len(request.Arguments.Withheld) > 0 {
			return errUnseen
		}
		decided, run, err := c.DecideAccess(command.Context(), request, word)
		if err != nil {
			return err
		}
		out := command.OutOrStdout()
		if err := ask.Say(out, "%s %s: run %s is %s", wanted(request), verb, client.ShortID(run.ID), run.Status); err != nil {
			return err
		}
		if p := decided.Proposed; p != nil {
			return ask.Say(out, "proposed revision %.12s of %s; a second person puts it in force: gantry proposed %s --publish", p.Digest, p.Agent, client.ShortID(run.ID))
		}
		return nil
	})
	command.Flags().StringVar(&word.Reason, "reason", "", "why")
	if consent {
		command.Flags().StringVar(&reach, "for", "run", "how far it reaches: run, conversation (every later run of the agent for the same person in it) or agent (proposes a revision, which a second person must publish)")
		command.Flags().DurationVar(&lasts, "ends-after", 0, "with --for conversation: how long it holds, for example 720h; without it until it is taken back")
	}
	return command
}

func proposedCommand() *cobra.Command {
	var publish bool
	command := ask.Run("proposed RUN", "Show the revisions that were proposed with what the run asked for and that wait for a second person", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			requests, err := c.Requests(command.Context(), args[0])
			if err != nil {
				return err
			}
			out := command.OutOrStdout()
			for _, request := range requests {
				p := request.Proposed
				if p == nil || p.Manifest == "" {
					continue
				}
				if err := ask.Say(out, "revision %s of %s, with %s: %s", p.Digest, p.Agent, wanted(request), p.Manifest); err != nil {
					return err
				}
				if !publish {
					continue
				}
				waits, err := c.PublishAgent(command.Context(), p.Manifest)
				if err != nil {
					return err
				}
				standing := "is in force"
				if waits {
					standing = "waits for a second person"
				}
				if err := ask.Say(out, "%s", standing); err != nil {
					return err
				}
			}
			return nil
		})
	command.Flags().BoolVar(&publish, "publish", false, "put them in force as the second person")
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
		add("bounds", fmt.Sprintf("%s, %s in a run", a.Bounds.Impact, ask.Counted(a.Bounds.Calls, "call")))
	}
	add("definition", a.Definition)
	add("consequence", a.Consequence)
	add("guarantee", a.Guarantee)
	if a.CostBound > 0 {
		add("a call costs at most", ask.Dollars(a.CostBound))
	}
	if p := a.Prices; p != nil {
		add("a million tokens cost", fmt.Sprintf("%s read, %s written", ask.Dollars(p.Input), ask.Dollars(p.Output)))
	}
	add("a yes may be for", strings.ToLower(strings.Join(a.Scopes, ", ")))
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

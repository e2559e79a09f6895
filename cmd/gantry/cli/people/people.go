// Package people holds the commands by which a person says who reacts for them,
// and sees how they were told.
package people

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// Commands returns deputy and notices.
func Commands() []*cobra.Command {
	deputy := &cobra.Command{Use: "deputy", Short: "Name who decides and answers for you for a while"}
	deputy.AddCommand(list(), set(), clearCommand())
	return []*cobra.Command{deputy, notices()}
}

func list() *cobra.Command {
	var asJSON bool
	command := ask.Server("list", "List your deputy and those whose deputy you are", cobra.NoArgs, func(command *cobra.Command, c *client.Client, _ []string) error {
		deputies, err := c.Deputies(command.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return ask.JSON(command, append([]client.Deputy{}, deputies...))
		}
		return say(command, deputies)
	})
	ask.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

func set() *cobra.Command {
	var from, until string
	command := ask.Server("set PERSON --until WHEN", "Let somebody decide and answer for you, under every rule of who may", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			begins, err := moment(from)
			if err != nil {
				return err
			}
			ends, err := moment(until)
			if err != nil {
				return err
			}
			deputies, err := c.SetDeputy(command.Context(), args[0], begins, ends)
			if err != nil {
				return err
			}
			return say(command, deputies)
		})
	command.Flags().StringVar(&from, "from", "", "day, or moment of RFC 3339, from when on (default now)")
	command.Flags().StringVar(&until, "until", "", "day, or moment of RFC 3339, when it ends (needed); a day ends it at its first moment in UTC")
	_ = command.MarkFlagRequired("until") // the flag is declared above
	return command
}

func clearCommand() *cobra.Command {
	return ask.Server("clear", "Take your deputy back, at once", cobra.NoArgs, func(command *cobra.Command, c *client.Client, _ []string) error {
		deputies, err := c.SetDeputy(command.Context(), "", time.Time{}, time.Time{})
		if err != nil {
			return err
		}
		return say(command, deputies)
	})
}

// moment reads a day or a time; the zero one where there is none.
func moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, errors.New("a time is a day, for example 2026-12-21, or a moment, for example 2026-12-21T08:00:00Z")
}

func say(command *cobra.Command, deputies []client.Deputy) error {
	if len(deputies) == 0 {
		return ask.Say(command.OutOrStdout(), "nobody is your deputy, and you are nobody's")
	}
	for _, d := range deputies {
		if err := ask.Say(command.OutOrStdout(), "%s for %s, from %s until %s", d.Deputy.Principal, d.Person.Principal,
			d.From.UTC().Format(time.RFC3339), d.Until.UTC().Format(time.RFC3339)); err != nil {
			return err
		}
	}
	return nil
}

func notices() *cobra.Command {
	var asJSON bool
	command := ask.Server("notices", "List how you were told of what waits; to operators also what could not be delivered", cobra.NoArgs,
		func(command *cobra.Command, c *client.Client, _ []string) error {
			list, err := c.Notices(command.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return ask.JSON(command, append([]client.Notice{}, list...))
			}
			if len(list) == 0 {
				return ask.Say(command.OutOrStdout(), "nobody was told anything")
			}
			for _, n := range list {
				if err := ask.Say(command.OutOrStdout(), "%s", line(n)); err != nil {
					return err
				}
			}
			return nil
		})
	ask.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

func line(n client.Notice) string {
	words := n.CreatedAt.UTC().Format(time.RFC3339) + "  " + n.State + "  " + n.Step + "  " + n.Person.Principal + "  " + n.Kind + " " + n.Item
	if n.Channel != "" {
		words += "  by " + n.Channel
	}
	if n.Failure != "" {
		words += "  (" + n.Failure + ")"
	}
	return words
}

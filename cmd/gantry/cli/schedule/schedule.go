// Package schedule holds the commands by which a person lets runs begin by
// themselves.
package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// Command returns schedule, with all that can be done with one.
func Command() *cobra.Command {
	command := &cobra.Command{Use: "schedule", Short: "Let runs begin by themselves, at times of a local clock"}
	command.AddCommand(add(), list(), history(),
		change("pause NAME", "Stop a schedule's further runs; those that began go on", (*client.Client).PauseSchedule),
		change("resume NAME", "Let a schedule go on with its next time", (*client.Client).ResumeSchedule), remove())
	return command
}

func add() *cobra.Command {
	var order client.ScheduleOrder
	var from, until string
	var usd float64
	command := ask.Server("add NAME AGENT GOAL", "Make a schedule", cobra.ExactArgs(3), func(command *cobra.Command, c *client.Client, args []string) (err error) {
		order.Name, order.Agent, order.Goal = args[0], args[1], args[2]
		order.Overlap, order.CatchUp = strings.ToUpper(order.Overlap), strings.ToUpper(order.CatchUp)
		if order.From, err = moment(from); err != nil {
			return err
		}
		if order.Until, err = moment(until); err != nil {
			return err
		}
		order.MicroUSD = int64(usd*1e6 + 0.5)
		made, err := c.CreateSchedule(command.Context(), order)
		if err != nil {
			return err
		}
		return say(command.OutOrStdout(), made)
	})
	flags := command.Flags()
	flags.StringVar(&order.Cron, "cron", "", "minute, hour, day of the month, month, day of the week, for example \"30 8 * * 1-5\" (needed)")
	flags.StringVar(&order.Zone, "zone", "", "time zone of the IANA database, for example Europe/Copenhagen (needed)")
	flags.StringVar(&order.Overlap, "overlap", "skip", "what becomes of a time while an earlier run goes on: skip, queue or allow")
	flags.StringVar(&order.CatchUp, "catch-up", "last", "which times that were missed still happen: none, last or all (100 at most)")
	flags.StringVar(&order.Subject, "for", "", "principal id of a service whose manager you are (default you)")
	flags.StringVar(&order.Conversation, "conversation", "", "id of the conversation that the runs belong to")
	flags.StringVar(&from, "from", "", "moment of RFC 3339 before which nothing begins")
	flags.StringVar(&until, "until", "", "moment of RFC 3339 from which on nothing begins")
	flags.Float64Var(&usd, "usd", 0, "what each run may spend, in dollars (default the agent's limit)")
	for _, needed := range []string{"cron", "zone"} {
		_ = command.MarkFlagRequired(needed) // the flags are declared above
	}
	return command
}

func moment(text string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, errors.New("a moment is written like 2026-01-31T09:30:00Z")
	}
	return &at, nil
}

func list() *cobra.Command {
	var asJSON bool
	command := ask.Server("list", "List the schedules that you made, and those for you or your services", cobra.NoArgs, func(command *cobra.Command, c *client.Client, _ []string) error {
		found, err := c.Schedules(command.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return ask.JSON(command, append([]client.Schedule{}, found...))
		}
		if len(found) == 0 {
			return ask.Say(command.OutOrStdout(), "There are no schedules.")
		}
		for _, s := range found {
			if err := say(command.OutOrStdout(), s); err != nil {
				return err
			}
		}
		return nil
	})
	ask.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

func say(out io.Writer, s client.Schedule) error {
	next := "no time comes any more"
	switch {
	case s.Paused != "":
		next = "paused: " + map[string]string{"PERSON": "a person stopped it", "REFUSALS": "its runs were refused", "TIMES": "its zone is not known"}[s.Paused]
	case s.Next != nil:
		next = "next " + s.Next.UTC().Format(time.RFC3339)
	}
	if err := ask.Say(out, "%s  %s  %s  %s (%s)  %s", s.Name, client.ShortID(s.ID), s.Agent, s.Cron, s.Zone, next); err != nil {
		return err
	}
	return ask.Say(out, "  for %s, made by %s; overlap %s, catch up %s: %s", s.Subject.Principal, s.MadeBy.Principal, s.Overlap, s.CatchUp, cmp.Or(s.Goal.Display, s.Goal.Value))
}

func history() *cobra.Command {
	var asJSON bool
	var most int
	command := ask.Server("history NAME", "Show what became of a schedule's times, the latest first", cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		found, err := c.ScheduleNamed(command.Context(), args[0])
		if err != nil {
			return err
		}
		firings, err := c.Firings(command.Context(), found.ID, most)
		if err != nil {
			return err
		}
		if asJSON {
			return ask.JSON(command, firings)
		}
		if len(firings) == 0 {
			return ask.Say(command.OutOrStdout(), "nothing was due yet")
		}
		for _, f := range firings {
			line := fmt.Sprintf("%s  %s", f.PlannedAt.UTC().Format(time.RFC3339), f.Outcome)
			if f.Count != "1" {
				line += fmt.Sprintf("  %s times until %s", f.Count, f.LastAt.UTC().Format(time.RFC3339))
			}
			if err := ask.Say(command.OutOrStdout(), "%s", strings.TrimRight(line+"  "+f.Code+client.ShortID(f.Run), " ")); err != nil {
				return err
			}
		}
		return nil
	})
	command.Flags().IntVarP(&most, "most", "n", 20, "how many, 100 at most")
	ask.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

func change(use, short string, do func(c *client.Client, ctx context.Context, id string) (client.Schedule, error)) *cobra.Command {
	return ask.Server(use, short, cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		found, err := c.ScheduleNamed(command.Context(), args[0])
		if err != nil {
			return err
		}
		if found, err = do(c, command.Context(), found.ID); err != nil {
			return err
		}
		return say(command.OutOrStdout(), found)
	})
}

func remove() *cobra.Command {
	return ask.Server("remove NAME", "Delete a schedule with its goal and history; runs that began go on", cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		found, err := c.ScheduleNamed(command.Context(), args[0])
		if err != nil {
			return err
		}
		if err := c.DeleteSchedule(command.Context(), found.ID); err != nil {
			return err
		}
		return ask.Say(command.OutOrStdout(), "%s is deleted.", found.Name)
	})
}

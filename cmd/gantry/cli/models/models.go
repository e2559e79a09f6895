// Package models holds the commands that show which models there are, how they
// stand, and what turns would have cost with others.
package models

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// Command returns models, with report below it.
func Command() *cobra.Command {
	var asJSON bool
	command := ask.Server("models", "List the models of the catalogue, how they stand, and which agents may use them", cobra.NoArgs,
		func(command *cobra.Command, c *client.Client, _ []string) error {
			list, err := c.Models(command.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return ask.JSON(command, append([]client.Model{}, list...))
			}
			for _, m := range list {
				if err := say(command.OutOrStdout(), m); err != nil {
					return err
				}
			}
			return nil
		})
	ask.JSONFlag(command, &asJSON, "a JSON array")
	command.AddCommand(report())
	return command
}

func say(out io.Writer, m client.Model) error {
	price := fmt.Sprintf("%s in, %s out for a million tokens", ask.Dollars(m.Prices.Input), ask.Dollars(m.Prices.Output))
	if m.Prices == (client.ModelPrices{}) {
		price = "costs nothing"
	}
	if m.AsOf != "" {
		price += " as of " + m.AsOf
	}
	if err := ask.Say(out, "%s: %s, tier %d, %d tokens, %s", m.Name, cmp.Or(m.Residency, "nobody says where"), m.Tier, m.Context, price); err != nil {
		return err
	}
	standing := "not asked yet by this server"
	if s := m.Standing; s != nil {
		standing = map[string]string{"CLOSED": "is asked", "OPEN": "is left alone", "HALF_OPEN": "one request finds out whether it answers"}[s.Mode]
		if s.Failures > 0 {
			standing += fmt.Sprintf(", %d failures in a row (%s)", s.Failures, s.Cause)
		}
		if s.Until != nil {
			standing += ", until " + s.Until.UTC().Format(time.RFC3339)
		}
	}
	return ask.Say(out, "  %s; used by %s", standing, cmp.Or(strings.Join(m.Agents, ", "), "no agent that you may know of"))
}

func report() *cobra.Command {
	var agent, since string
	var asJSON bool
	command := ask.Server("report", "Compare what turns cost with what they would have cost with the other models that were right for them", cobra.NoArgs,
		func(command *cobra.Command, c *client.Client, _ []string) error {
			now := time.Now()
			from, err := begin(since, now)
			if err != nil {
				return err
			}
			rows, err := c.ModelReport(command.Context(), agent, from, now)
			if err != nil {
				return err
			}
			if asJSON {
				return ask.JSON(command, append([]client.ModelReportRow{}, rows...))
			}
			return tell(command.OutOrStdout(), rows)
		})
	command.Flags().StringVar(&agent, "agent", "", "only runs of this agent")
	command.Flags().StringVar(&since, "since", "720h", "from when on: a duration back from now, a day, or a moment of RFC 3339")
	ask.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

func begin(since string, now time.Time) (time.Time, error) {
	if back, err := time.ParseDuration(since); err == nil && back > 0 {
		return now.Add(-back), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, since); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time to begin at: give a duration such as 24h, a day such as 2026-12-21, or a moment of RFC 3339", since)
}

func tell(out io.Writer, rows []client.ModelReportRow) error {
	if len(rows) == 0 {
		return ask.Say(out, "no turn was answered in that time in a run whose cost you may see")
	}
	for _, row := range rows {
		if err := ask.Say(out, "%s with %s: %s, %s", row.Agent, row.Model, ask.Counted(uint64(row.Turns), "turn"), ask.Dollars(row.Spent.MicroUSD)); err != nil {
			return err
		}
		for _, other := range row.Others {
			line := "  not with " + other.Model + ": " + strings.Join(other.Refusals, ", ")
			if other.Turns > 0 {
				line = fmt.Sprintf("  with %s %s would have cost %s instead of %s", other.Model, ask.Counted(uint64(other.Turns), "turn"), ask.Dollars(other.Cost), ask.Dollars(other.Instead))
				if len(other.Refusals) > 0 {
					line += "; it was not right for " + strings.Join(other.Refusals, ", ")
				}
			}
			if err := ask.Say(out, "%s", line); err != nil {
				return err
			}
		}
	}
	return nil
}

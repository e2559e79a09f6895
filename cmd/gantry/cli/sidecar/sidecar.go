// Package sidecar holds the commands about what goes on beside runs, and the
// demonstration of it.
package sidecar

import (
	"strings"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// Commands returns sidecar and delegate.
func Commands() []*cobra.Command { return []*cobra.Command{dispatch(), delegate()} }

func dispatch() *cobra.Command {
	order, asJSON := client.Dispatch{}, false
	command := ask.Run("sidecar RUN AGENT --brief TEXT", "Start a sidecar beside a run: it only reads, and brings what it finds", cobra.ExactArgs(2),
		func(command *cobra.Command, c *client.Client, args []string) error {
			order.Agent = args[1]
			order.Purpose, order.Lands = strings.ToUpper(order.Purpose), strings.ToUpper(order.Lands)
			return start(command, c, args[0], order, asJSON)
		})
	flags := command.Flags()
	flags.StringVar(&order.Purpose, "purpose", "research", "what it is for: research or monitor")
	flags.StringVar(&order.Lands, "lands", "evidence", "where its result goes: steer, evidence or message")
	flags.BoolVar(&order.Outlives, "outlives", false, "let it go on when the run has ended; what it finds then stays with it")
	return brief(command, &order.Brief, &asJSON)
}

func delegate() *cobra.Command {
	order, asJSON := client.Dispatch{}, false
	command := ask.Run("delegate RUN AGENT --brief TEXT", "Have an agent do a piece of work beside a run; its result comes to the run as evidence", cobra.ExactArgs(2),
		func(command *cobra.Command, c *client.Client, args []string) error {
			order.Agent = args[1]
			return start(command, c, args[0], order, asJSON)
		})
	return brief(command, &order.Brief, &asJSON)
}

func brief(command *cobra.Command, text *string, asJSON *bool) *cobra.Command {
	command.Flags().StringVar(text, "brief", "", "what it is to do (needed)")
	_ = command.MarkFlagRequired("brief") // the flag is declared above
	ask.JSONFlag(command, asJSON, "the run that was started as one JSON object")
	return command
}

func start(command *cobra.Command, c *client.Client, main string, order client.Dispatch, asJSON bool) error {
	started, err := c.Dispatch(command.Context(), main, order)
	if err != nil {
		return err
	}
	if asJSON {
		return ask.JSON(command, started)
	}
	return ask.Say(command.OutOrStdout(), "run %s of %s goes on beside run %s: %s", client.ShortID(started.ID), started.Agent, client.ShortID(main), started.Status)
}

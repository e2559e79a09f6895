package roundtable

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
)

// DemoCommand returns "gantry demo group"; show runs the demonstration over a
// fresh installation.
func DemoCommand(show func(ctx context.Context, out io.Writer) (Result, error)) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "group",
		Short: "Have two agents and two people speak, each with their own view, and stop a loop of agents",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			out := command.OutOrStdout()
			if asJSON {
				out = io.Discard
			}
			result, err := show(command.Context(), out)
			if err != nil || !asJSON {
				return err
			}
			encoder := json.NewEncoder(command.OutOrStdout())
			encoder.SetIndent("", "  ")
			return encoder.Encode(result)
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object instead of the conversation")
	return command
}

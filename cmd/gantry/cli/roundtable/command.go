package roundtable

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
)

// DemoCommand returns "gantry demo group"; show runs the demonstration over a
// fresh installation.
func DemoCommand(show func(ctx context.Context, out io.Writer) (Result, error)) *cobra.Command {
	return ask.Demonstration("group", "Have two agents and two people speak, each with their own view, and stop a loop of agents", show)
}

package ask

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

// Demonstration returns a command that shows something over a fresh
// installation: in words as it goes on, or with --json what it came to.
func Demonstration[R any](use, short string, show func(ctx context.Context, out io.Writer) (R, error)) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   use,
		Short: short,
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
			return JSON(command, result)
		},
	}
	JSONFlag(command, &asJSON, "one JSON object instead of what happens")
	return command
}

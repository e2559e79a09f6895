package ask

import (
	"context"
	"fmt"
	"io"
	"strings"

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

// Witness tells a demonstration as it goes on, and keeps what was looked at and
// found as it must be.
type Witness struct {
	Out     io.Writer
	Checked []string
}

// Say prints a line.
func (w *Witness) Say(format string, args ...any) error {
	_, err := fmt.Fprintf(w.Out, format+"\n", args...)
	return err
}

// Check keeps that something is as it must be. The error says that it is not.
func (w *Witness) Check(ok bool, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if !ok {
		return fmt.Errorf("not so: %s", what)
	}
	w.Checked = append(w.Checked, what)
	return nil
}

// Conclude prints what was checked.
func (w *Witness) Conclude() error { return w.Say("\nchecked: %s", strings.Join(w.Checked, "; ")) }

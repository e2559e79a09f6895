package cli

import (
	"fmt"
	"io"

	"gantry.dev/cmd/gantry/client"
)

// printEvent writes one line of a run's timeline.
func printEvent(out io.Writer, event client.Event) error {
	_, err := fmt.Fprintf(out, "  %3d %s\n", event.Seq, event.Summary)
	return err
}

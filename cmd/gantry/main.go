// Command gantry runs AI agents for an organisation and stays in charge of
// what they do.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"gantry.dev/cmd/gantry/cli"
	"gantry.dev/cmd/gantry/cli/policies"
)

// collectPercent is how much the heap may grow before it is collected, where
// GOGC says nothing else. What lives of a process is small beside what its runs
// pass through: collecting seldom costs some memory and saves a tenth of the
// CPU.
const collectPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cli.Root().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	if !errors.Is(err, policies.ErrFaults) {
		fmt.Fprintln(os.Stderr, "gantry:", err)
	}
	if errors.Is(err, cli.ErrUnchecked) {
		os.Exit(2)
	}
	os.Exit(1)
}

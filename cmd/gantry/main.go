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
	"strings"
	"syscall"

	"gantry.dev/agents/tool/sandbox"
	"gantry.dev/cmd/gantry/cli"
	"gantry.dev/cmd/gantry/cli/policies"
	"gantry.dev/orchestrator/policy/guard"
)

// collectPercent is how much the heap may grow before it is collected, where
// GOGC says nothing else. What lives of a process is small beside what its runs
// pass through: collecting seldom costs some memory and saves a tenth of the
// CPU.
const collectPercent = 400

func main() {
	sandbox.Inner()
	if !guard.Up && !strings.HasPrefix(strings.Join(os.Args[1:], " "), "bench obedient") {
		fmt.Fprintln(os.Stderr, "gantry: this build keeps to no policy; it runs \"bench obedient\" and nothing else")
		os.Exit(1)
	}
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

// Command gantry runs AI agents for an organisation and stays in charge of
// what they do.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"gantry.dev/cmd/gantry/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cli.Root().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	if !errors.Is(err, cli.ErrPolicy) {
		fmt.Fprintln(os.Stderr, "gantry:", err)
	}
	if errors.Is(err, cli.ErrUnchecked) {
		os.Exit(2)
	}
	os.Exit(1)
}

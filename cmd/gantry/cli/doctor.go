package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/invariant"
)

// doctorCommand checks what a store holds against itself.
func doctorCommand() *cobra.Command {
	var one string
	command := &cobra.Command{
		Use: "doctor", Short: "Check that everything in the store fits together: records, heads, inboxes, texts, budgets", Args: cobra.NoArgs,
		Long: "Looks through the store as it stands at one moment, run by run, and changes nothing. Each check has a line; each violation is\n" +
			"printed with a code that does not change, its run, the number of the record that shows it, and a sentence. The exit code is 1\n" +
			"when there is any. A SQLite file must not be in use; PostgreSQL may be. A store that was changed with care fits together too: hold it\n" +
			"against its signed heads with: gantry verify --heads FOLDER",
		RunE: func(command *cobra.Command, _ []string) error {
			return quietly(command, func(ctx context.Context, p *wire.Platform) error { return examine(ctx, command, p, one) })
		},
	}
	settingFlags(command, "")
	command.Flags().StringVar(&one, "run", "", "id of the one run to check; by default the whole store")
	return command
}

func examine(ctx context.Context, command *cobra.Command, p *wire.Platform, one string) (err error) {
	out := command.OutOrStdout()
	snapshot, err := p.Store.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	audit := invariant.NewAudit(snapshot, func(v invariant.Violation) error {
		_, err := fmt.Fprintln(out, v)
		return err
	})
	var report invariant.Report
	if one == "" {
		report, err = audit.Store(ctx)
	} else {
		report, err = audit.Run(ctx, client.ShortID(one))
	}
	if errors.Is(err, engine.ErrNotFound) {
		return fmt.Errorf("doctor: the store has no run %q", one)
	}
	if err != nil {
		return fmt.Errorf("doctor: %w", err)
	}
	for _, line := range report.Lines() {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	if count := report.Violations(); count > 0 {
		return errors.New("doctor: " + counted(count, "violation"))
	}
	return nil
}

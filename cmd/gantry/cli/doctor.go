package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/invariant"
	"gantry.dev/orchestrator/journal"
)

// doctorCommand checks what a store holds against itself.
func doctorCommand() *cobra.Command {
	var one string
	command := &cobra.Command{
		Use: "doctor", Short: "Check that everything in the store fits together: records, heads, inboxes, texts, budgets", Args: cobra.NoArgs,
		Long: "Looks through the store as it stands at one moment, run by run, and changes nothing. Each check has a line; each violation is\n" +
			"printed with a code that does not change, its run, the number of the record that shows it, and a sentence. The exit code is 1\n" +
			"when there is any. A server may be at work meanwhile, and the right to read is enough. A store that was changed with care fits\n" +
			"together too: hold it against its signed heads with: gantry verify --heads FOLDER",
		RunE: func(command *cobra.Command, _ []string) error {
			return look(command, func(ctx context.Context, store *journal.Store) error { return examine(ctx, command, store, one) })
		},
	}
	someSettingFlags(command, "folder", "database")
	command.Flags().StringVar(&one, "run", "", "id of the one run to check; by default the whole store")
	return command
}

// look opens the store to be looked at only, for one task.
func look(command *cobra.Command, task func(context.Context, *journal.Store) error) (err error) {
	s, err := readSettings(command)
	if err != nil {
		return err
	}
	store, err := wire.Look(command.Context(), s.config(logTo(command)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return task(command.Context(), store)
}

func examine(ctx context.Context, command *cobra.Command, store *journal.Store, one string) (err error) {
	out := command.OutOrStdout()
	snapshot, err := store.Snapshot(ctx)
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
		return errors.New("doctor: " + ask.Counted(count, "violation"))
	}
	return nil
}

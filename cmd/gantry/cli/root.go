// Package cli holds the commands of the binary.
package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
	"gantry.dev/cmd/gantry/cli/access"
	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/cli/brain"
	"gantry.dev/cmd/gantry/cli/evaluation"
	"gantry.dev/cmd/gantry/cli/lending"
	"gantry.dev/cmd/gantry/cli/measure"
	"gantry.dev/cmd/gantry/cli/models"
	"gantry.dev/cmd/gantry/cli/people"
	"gantry.dev/cmd/gantry/cli/policies"
	"gantry.dev/cmd/gantry/cli/protocols"
	"gantry.dev/cmd/gantry/cli/record"
	"gantry.dev/cmd/gantry/cli/research"
	"gantry.dev/cmd/gantry/cli/schedule"
	"gantry.dev/cmd/gantry/cli/sidecar"
	"gantry.dev/cmd/gantry/cli/tools"
	"gantry.dev/cmd/gantry/cli/tree"
	"gantry.dev/cmd/gantry/ledger"
	"gantry.dev/cmd/gantry/office"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/notary"
	"gantry.dev/orchestrator/run/account"
)

// Root returns the whole command line.
func Root() *cobra.Command {
	root := &cobra.Command{Use: "gantry", Short: "Run AI agents and stay in charge of what they do", SilenceUsage: true, SilenceErrors: true, Version: version()}
	root.AddCommand(devCommand(), demoCommand(), serveCommand(), workCommand(), migrateCommand(), applyCommand(), keysCommand(), tokenCommand(),
		verifyCommand(), doctorCommand(), measure.Command(), policies.Command(policies.Folder), ledger.Command(), office.Command())
	root.AddCommand(remote()...)
	root.AddCommand(lending.Commands()...)
	root.AddCommand(protocols.Commands(version())...)
	house := brain.House{Ask: ask.Server, Say: ask.Say, JSON: ask.JSON, JSONFlag: ask.JSONFlag}
	root.AddCommand(brain.Commands(house, sweepCommand(), rebuildCommand(), reembedCommand(), queueCommand())...)
	root.AddCommand(research.Command(house))
	root.AddCommand(people.Commands()...)
	root.AddCommand(schedule.Command(), tree.Command(), models.Command(), tools.Command())
	root.AddCommand(evaluation.Command())
	root.AddCommand(sidecar.Commands()...)
	root.AddCommand(record.Command(func(provider string, server exchange.Server) (model.Provider, error) {
		return wire.ProviderAt(provider, server, false)
	}))
	root.AddCommand(access.Commands()...)
	refuseUnknown(root)
	sayUse(root)
	return root
}

// remote are the commands that ask a server.
func remote() []*cobra.Command {
	return []*cobra.Command{runCommand(), watchCommand(), runsCommand(), steerCommand(), cancelCommand(), resumeCommand(),
		inboxCommand(), decideCommand(true), decideCommand(false), answerCommand(), resolveCommand(),
		observeCommand(), stageCommand(), explainCommand(), exportCommand(), agentsCommand(),
		killCommand(), liftCommand(), killsCommand()}
}

func verifyCommand() *cobra.Command {
	var head string
	command := &cobra.Command{
		Use: "verify [FILE]", Short: "Check an exported run offline, or the database against signed heads", Args: cobra.MaximumNArgs(1),
		Long: "With a FILE: checks an exported run: every digest, the order and the rules. Exports of runs below it may follow in\n" +
			"the FILE: the beginning and the end of each are held against what the run above it says.\n" +
			"With --heads FOLDER: checks every head in the folder, and the database against them: what was covered must still be there as it\n" +
			"was. It needs the public keys, in heads-keys.json of the folder of keys or where --keys says, and none of the secrets. Each fault\n" +
			"is printed with a code that does not change, its run and the number of the first bad record. The exit code is 1 when there is any,\n" +
			"and 2 when it could not be checked.",
		RunE: func(command *cobra.Command, args []string) error {
			byHeads := command.Flags().Changed(headsFlag)
			switch {
			case byHeads == (len(args) == 1):
				return errors.New("say either the FILE of an exported run or --heads FOLDER")
			case byHeads:
				return verifyHeads(command)
			}
			return verifyFile(command.OutOrStdout(), args[0], head)
		},
	}
	someSettingFlags(command, "folder", "database", headsFlag)
	command.Flags().StringVar(&head, "head", "", "digest of the last record of FILE, from a copy kept elsewhere")
	command.Flags().String(keysFlag, "", "file of the public keys that sign heads; by default heads-keys.json in the folder")
	return command
}

const keysFlag = "keys"

func verifyFile(out io.Writer, path, head string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read
	report, err := account.Verify(file, head)
	if err != nil {
		return err
	}
	for _, one := range append([]account.Report{report}, report.Below...) {
		if err := ask.Say(out, "run %s: %s verify, head %s, %s", one.Run, ask.Counted(one.Records, "record"), one.Head, one.Status); err != nil {
			return err
		}
	}
	return nil
}

// ErrUnchecked means that nothing was found out.
var ErrUnchecked = errors.New("could not check")

func verifyHeads(command *cobra.Command) error {
	out := command.OutOrStdout()
	report, err := checkHeads(command, func(f notary.Fault) error { return ask.Say(out, "%s", f) })
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnchecked, err)
	}
	for _, note := range report.Notes {
		if err := ask.Say(out, "note: %s", note); err != nil {
			return err
		}
	}
	if report.Uncovered > 0 {
		if err := ask.Say(out, "note: nothing is said of %s newer than the last head", ask.Counted(report.Uncovered, "record")); err != nil {
			return err
		}
	}
	if report.Faults > 0 {
		return fmt.Errorf("the database is not what was signed: %s", ask.Counted(report.Faults, "fault"))
	}
	return ask.Say(out, "%s, %s: %s with %s covered verify", ask.Counted(report.Organisations, "organisation"), ask.Counted(report.Heads, "head"),
		ask.Counted(report.Runs, "run"), ask.Counted(report.Records, "record"))
}

func checkHeads(command *cobra.Command, tell func(notary.Fault) error) (notary.Report, error) {
	s, err := readSettings(command)
	if err != nil {
		return notary.Report{}, err
	}
	keys, _ := command.Flags().GetString(keysFlag)
	ring, err := wire.HeadRing(cmp.Or(keys, wire.HeadRingPath(s.Folder)))
	if err != nil {
		return notary.Report{}, err
	}
	return wire.CheckHeads(command.Context(), s.config(logTo(command)), ring, tell)
}

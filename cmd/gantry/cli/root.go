// Package cli holds the commands of the binary.
package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/ledger"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run/account"
)

// Root returns the whole command line.
func Root() *cobra.Command {
	root := &cobra.Command{Use: "gantry", Short: "Run AI agents and stay in charge of what they do", SilenceUsage: true, SilenceErrors: true, Version: version()}
	root.AddCommand(devCommand(), demoCommand(), serveCommand(), workCommand(), migrateCommand(), applyCommand(), keysCommand(), tokenCommand(),
		verifyCommand(), doctorCommand(), benchCommand(), Policy(policySource), ledger.Command())
	root.AddCommand(remote()...)
	sayUse(root)
	return root
}

// policySource reads what the policy commands look at from an organisation's
// folder.
func policySource(dir string) ([]policy.File, []policy.ToolShape, policy.Directory, error) {
	organisation, err := agents.LoadDir(os.DirFS(dir), agents.LoadOptions{})
	if err != nil {
		return nil, nil, nil, err
	}
	return organisation.PolicyFiles(), organisation.Shapes(), organisation.Directory(), nil
}

func verifyCommand() *cobra.Command {
	var head string
	command := &cobra.Command{
		Use: "verify FILE", Short: "Check an exported run offline: every digest, the order and the rules", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }() // only read
			report, err := account.Verify(file, head)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "run %s: %d records verify, head %s, %s\n", report.Run, report.Records, report.Head, report.Status)
			return err
		},
	}
	command.Flags().StringVar(&head, "head", "", "digest of the last record, from a copy kept elsewhere")
	return command
}

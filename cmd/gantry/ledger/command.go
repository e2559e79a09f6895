package ledger

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/listen"
)

// Command returns "gantry sample-ledger", which serves a Ledger until its
// context ends.
func Command() *cobra.Command {
	var address, path, tokenFile string
	command := &cobra.Command{
		Use:   "sample-ledger",
		Short: "Run a small outside ledger to try effects against",
		Long: "Runs a ledger with a database and an HTTP API of its own, as something outside that agents can book in.\n" +
			"It knows nothing of Gantry: what it says it has booked is the truth about effects.\n\n" +
			"The token file holds one client per line: its name, a space, its token of at least 16 characters.",
		Example: "  gantry sample-ledger --db ledger.db --token-file ledger-tokens.txt",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tokens, err := readTokens(tokenFile)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			l, err := New(ctx, Config{Path: path, Tokens: tokens, Clock: time.Now})
			if err != nil {
				return err
			}
			listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			if err != nil {
				return errors.Join(fmt.Errorf("ledger: listen: %w", err), l.Close())
			}
			cmd.Printf("ledger listens on http://%s\n", listener.Addr())
			return errors.Join(listen.Serve(ctx, listener, l.Handler()), l.Close())
		},
	}
	command.Flags().StringVar(&address, "listen", "127.0.0.1:7411", "address to listen on")
	command.Flags().StringVar(&path, "db", "ledger.db", "file of the ledger's own SQLite database")
	command.Flags().StringVar(&tokenFile, "token-file", "", "file of clients and their tokens")
	cobra.CheckErr(command.MarkFlagRequired("token-file"))
	return command
}

// readTokens reads clients and their tokens. Its errors name lines, never
// tokens.
func readTokens(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("ledger: token file: %w", err)
	}
	tokens := map[string]string{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 || len(fields[1]) < 16 {
			return nil, fmt.Errorf("ledger: token file: line %d must be a name, a space and a token of at least 16 characters", number)
		}
		if _, twice := tokens[fields[1]]; twice {
			return nil, fmt.Errorf("ledger: token file: line %d repeats a token", number)
		}
		tokens[fields[1]] = fields[0]
	}
	if len(tokens) == 0 {
		return nil, errors.New("ledger: token file: holds no client")
	}
	return tokens, nil
}

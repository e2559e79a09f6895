package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/client"
)

const defaultURL = "http://127.0.0.1:8080"

// What a development server leaves in its folder for this command line.
const (
	urlFile     = "url"    // its address
	meFile      = "me"     // the principal that is meant where none is named
	tokenFolder = "tokens" // one token per principal
)

// access says which server is asked, and as whom.
type access struct{ url, as string }

// remote are the commands that ask a server.
func remote() []*cobra.Command {
	return []*cobra.Command{runCommand(), watchCommand(), runsCommand(), steerCommand(), cancelCommand(), resumeCommand(),
		inboxCommand(), decideCommand(true), decideCommand(false), answerCommand(), resolveCommand(),
		observeCommand(), stageCommand(), explainCommand(), exportCommand()}
}

// asking returns a command that asks a server.
func asking(use, short string, args cobra.PositionalArgs, do func(command *cobra.Command, c *client.Client, args []string) error) *cobra.Command {
	var to access
	command := &cobra.Command{Use: use, Short: short, Args: args, RunE: func(command *cobra.Command, args []string) error {
		c, err := to.client()
		if err != nil {
			return err
		}
		err = do(command, c, args)
		if client.IsCode(err, "UNAUTHENTICATED") {
			return fmt.Errorf("%w: set GANTRY_TOKEN, or name somebody with --as", err)
		}
		return err
	}}
	command.Flags().StringVar(&to.url, "url", "", "address of the server (default $GANTRY_URL, then what `gantry dev` wrote, then "+defaultURL+")")
	command.Flags().StringVar(&to.as, "as", "", "principal to ask as, with the token that `gantry dev` wrote for them (default $GANTRY_TOKEN, then the controller)")
	return command
}

func (a access) client() (*client.Client, error) {
	home := os.Getenv("GANTRY_HOME")
	if home == "" {
		home = ".gantry"
	}
	folder, err := os.OpenRoot(home)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if folder != nil {
		defer func() { _ = folder.Close() }() // only read
	}
	token, err := a.token(folder)
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{URL: a.address(folder), Token: token})
}

func (a access) address(folder *os.Root) string {
	if a.url != "" {
		return a.url
	}
	if url := os.Getenv("GANTRY_URL"); url != "" {
		return url
	}
	if url := line(folder, urlFile); url != "" {
		return url
	}
	return defaultURL
}

func (a access) token(folder *os.Root) (string, error) {
	who := a.as
	if who == "" {
		if token := os.Getenv("GANTRY_TOKEN"); token != "" {
			return token, nil
		}
		who = line(folder, meFile)
	}
	if who == "" {
		return "", errors.New("there is no token: set GANTRY_TOKEN, or start `gantry dev` here and name somebody with --as")
	}
	if folder != nil {
		tokens, err := folder.OpenRoot(tokenFolder)
		if err != nil {
			return "", fmt.Errorf("tokens: %w", err)
		}
		defer func() { _ = tokens.Close() }() // only read
		if token := line(tokens, who); token != "" {
			return token, nil
		}
	}
	return "", fmt.Errorf("there is no token for %q: name a principal that `gantry dev` made one for", who)
}

// line reads a file of one line in the folder; empty where there is none.
func line(folder *os.Root, name string) string {
	if folder == nil {
		return ""
	}
	text, err := folder.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// jsonFlag lets a command print JSON for programs.
func jsonFlag(command *cobra.Command, asJSON *bool, what string) {
	command.Flags().BoolVar(asJSON, "json", false, "print "+what+" instead of text")
}

func printJSON(command *cobra.Command, value any) error {
	encoder := json.NewEncoder(command.OutOrStdout())
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

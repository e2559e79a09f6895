package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/brain"
	"gantry.dev/cmd/gantry/client"
)

const defaultURL = "http://127.0.0.1:8080"

// What a development server leaves in its folder for this command line.
const (
	urlFile     = "url"    // its address
	meFile      = "me"     // the principal that is meant where none is named
	tokenFolder = "tokens" // one token per principal
)

// folderFlag names the folder of a development server.
const folderFlag = "folder"

// access says which server is asked, and as whom.
type access struct{ url, as, folder string }

// remote are the commands that ask a server.
func remote() []*cobra.Command {
	return []*cobra.Command{runCommand(), watchCommand(), runsCommand(), steerCommand(), cancelCommand(), resumeCommand(),
		inboxCommand(), decideCommand(true), decideCommand(false), answerCommand(), resolveCommand(),
		observeCommand(), stageCommand(), explainCommand(), exportCommand(), agentsCommand(),
		killCommand(), liftCommand(), killsCommand()}
}

// asking returns a command that asks a server.
func asking(use, short string, args cobra.PositionalArgs, do brain.Do) *cobra.Command {
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
	command.Flags().StringVar(&to.url, "url", "", "address of the server (default $GANTRY_URL, then what \"gantry dev\" wrote, then "+defaultURL+")")
	command.Flags().StringVar(&to.as, "as", "", "principal to ask as, with the token that \"gantry dev\" wrote for them (default $GANTRY_TOKEN, then the controller)")
	command.Flags().StringVar(&to.folder, folderFlag, "", "folder of the \"gantry dev\" whose address and tokens are meant (default $GANTRY_HOME, then "+defaultFolder+")")
	return command
}

// onRun returns a command that asks about the run that its first argument
// names, by whatever id of it was printed.
func onRun(use, short string, args cobra.PositionalArgs, do func(command *cobra.Command, c *client.Client, args []string) error) *cobra.Command {
	return asking(use, short, args, func(command *cobra.Command, c *client.Client, args []string) error {
		id, err := c.RunID(command.Context(), args[0])
		if err != nil {
			return err
		}
		return do(command, c, append([]string{id}, args[1:]...))
	})
}

// defaultFolder is where a development server keeps everything.
const defaultFolder = ".gantry"

// home is the folder that is looked at where none is named.
func home() string {
	return cmp.Or(os.Getenv("GANTRY_HOME"), defaultFolder)
}

func (a access) client() (*client.Client, error) {
	folder, err := os.OpenRoot(cmp.Or(a.folder, home()))
	if err != nil && (a.folder != "" || !errors.Is(err, fs.ErrNotExist)) {
		return nil, fmt.Errorf("folder: %w", err)
	}
	if folder != nil {
		defer func() { _ = folder.Close() }() // only read
	}
	url := a.address(folder)
	token, err := a.token(folder, url)
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{URL: url, Token: token})
}

func (a access) address(folder *os.Root) string {
	if a.url != "" {
		return a.url
	}
	if a.folder == "" && os.Getenv("GANTRY_URL") != "" {
		return os.Getenv("GANTRY_URL")
	}
	return cmp.Or(line(folder, urlFile), defaultURL)
}

// token returns the token for an address. A folder's token goes to another
// address than the folder's own only when it is asked for.
func (a access) token(folder *os.Root, url string) (string, error) {
	who := a.as
	if who == "" {
		if token := os.Getenv("GANTRY_TOKEN"); token != "" && a.folder == "" {
			return token, nil
		}
		who = line(folder, meFile)
		if who != "" && a.folder == "" && url != line(folder, urlFile) {
			return "", fmt.Errorf("the tokens in %s are not for %s: set GANTRY_TOKEN, or say with --as whose of them to send", folder.Name(), url)
		}
	}
	if who == "" {
		return "", errors.New("there is no token: set GANTRY_TOKEN, or start \"" + program() + " dev\" here and name somebody with --as")
	}
	if folder == nil {
		return "", fmt.Errorf("there is no token for %q: there is no folder %s; start \"%s dev\" here or name its --folder", who, home(), program())
	}
	tokens, err := folder.OpenRoot(tokenFolder)
	if err != nil {
		return "", fmt.Errorf("there are no tokens in %[1]s: restart \"%[2]s dev\", which writes them, or set GANTRY_TOKEN to one of \"%[2]s token\"", folder.Name(), program())
	}
	defer func() { _ = tokens.Close() }() // only read
	if token := line(tokens, who); token != "" {
		return token, nil
	}
	return "", fmt.Errorf("there is no token for %q: name a principal that \"%s dev\" made one for, or restart it, which writes them", who, program())
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

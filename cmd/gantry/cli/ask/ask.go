// Package ask is how every command of the binary asks a server and prints what
// it answers.
package ask

import (
	"cmp"
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
	URLFile     = "url"    // its address
	MeFile      = "me"     // the principal that is meant where none is named
	TokenFolder = "tokens" // one token per principal
)

// FolderFlag names the folder of a development server.
const FolderFlag = "folder"

// access says which server is asked, and as whom.
type access struct{ url, as, folder string }

// Do is what a command does with a server.
type Do func(command *cobra.Command, c *client.Client, args []string) error

// Server returns a command that asks a server.
func Server(use, short string, args cobra.PositionalArgs, do Do) *cobra.Command {
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
	command.Flags().StringVar(&to.folder, FolderFlag, "", "folder of the \"gantry dev\" whose address and tokens are meant (default $GANTRY_HOME, then "+DefaultFolder+")")
	return command
}

// Run returns a command that asks about the run that its first argument
// names, by whatever id of it was printed.
func Run(use, short string, args cobra.PositionalArgs, do func(command *cobra.Command, c *client.Client, args []string) error) *cobra.Command {
	return Server(use, short, args, func(command *cobra.Command, c *client.Client, args []string) error {
		id, err := c.RunID(command.Context(), args[0])
		if err != nil {
			return err
		}
		return do(command, c, append([]string{id}, args[1:]...))
	})
}

// DefaultFolder is where a development server keeps everything.
const DefaultFolder = ".gantry"

// Home is the folder that is looked at where none is named.
func Home() string {
	return cmp.Or(os.Getenv("GANTRY_HOME"), DefaultFolder)
}

func (a access) client() (*client.Client, error) {
	folder, err := os.OpenRoot(cmp.Or(a.folder, Home()))
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
	return cmp.Or(line(folder, URLFile), defaultURL)
}

// token returns the token for an address. A folder's token goes to another
// address than the folder's own only when it is asked for.
func (a access) token(folder *os.Root, url string) (string, error) {
	who := a.as
	if who == "" {
		if token := os.Getenv("GANTRY_TOKEN"); token != "" && a.folder == "" {
			return token, nil
		}
		who = line(folder, MeFile)
		if who != "" && a.folder == "" && url != line(folder, URLFile) {
			return "", fmt.Errorf("the tokens in %s are not for %s: set GANTRY_TOKEN, or Say with --as whose of them to send", folder.Name(), url)
		}
	}
	if who == "" {
		return "", errors.New("there is no token: set GANTRY_TOKEN, or start \"" + Program() + " dev\" here and name somebody with --as")
	}
	if folder == nil {
		return "", fmt.Errorf("there is no token for %q: there is no folder %s; start \"%s dev\" here or name its --folder", who, Home(), Program())
	}
	tokens, err := folder.OpenRoot(TokenFolder)
	if err != nil {
		return "", fmt.Errorf("there are no tokens in %[1]s: restart \"%[2]s dev\", which writes them, or set GANTRY_TOKEN to one of \"%[2]s token\"", folder.Name(), Program())
	}
	defer func() { _ = tokens.Close() }() // only read
	if token := line(tokens, who); token != "" {
		return token, nil
	}
	return "", fmt.Errorf("there is no token for %q: name a principal that \"%s dev\" made one for, or restart it, which writes them", who, Program())
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

// JSONFlag lets a command print JSON for programs.
func JSONFlag(command *cobra.Command, asJSON *bool, what string) {
	command.Flags().BoolVar(asJSON, "json", false, "print "+what+" instead of text")
}

// JSON prints a value for programs.
func JSON(command *cobra.Command, value any) error {
	encoder := json.NewEncoder(command.OutOrStdout())
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

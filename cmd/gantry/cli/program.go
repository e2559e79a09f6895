package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/journal"
)

// hints writes commands that a person may copy. The zero value writes them for
// the folder that they look at anyway.
type hints struct{ folder string }

// hintsOf returns the hints that keep to the folder which a command was given.
func hintsOf(command *cobra.Command) hints {
	flag := command.Flags().Lookup(ask.FolderFlag)
	if flag == nil || !flag.Changed {
		return hints{}
	}
	return hints{folder: flag.Value.String()}
}

// command is a whole command line.
func (h hints) command(words ...string) string {
	line := ask.Program() + " " + strings.Join(words, " ")
	if h.folder == "" {
		return line
	}
	if strings.ContainsAny(h.folder, " '\"") {
		return line + fmt.Sprintf(" --%s %q", ask.FolderFlag, h.folder)
	}
	return line + " --" + ask.FolderFlag + " " + h.folder
}

// version is the module's version and the commit that it was built from, as
// far as the build knows them.
func version() string {
	build, known := debug.ReadBuildInfo()
	if !known {
		return "unknown"
	}
	words := []string{build.Main.Version}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			words = append(words, setting.Value)
		}
	}
	return strings.Join(append(words, build.GoVersion), " ")
}

// sayUse lets a command that got the wrong arguments say which it takes.
func sayUse(command *cobra.Command) {
	check := command.Args
	if check != nil {
		command.Args = func(command *cobra.Command, args []string) error {
			if err := check(command, args); err != nil {
				return fmt.Errorf("%w; use: %s%s", err, ask.Program(), strings.TrimPrefix(command.UseLine(), command.Root().Name()))
			}
			return nil
		}
	}
	for _, sub := range command.Commands() {
		sayUse(sub)
	}
}

// refuseUnknown makes a mistyped command an error wherever it stands. The
// library only refuses those at the top: below it prints the help and calls
// that a success.
func refuseUnknown(root *cobra.Command) {
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd() // so that these are there already
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		refuseBelow(command)
	}
}

func refuseBelow(command *cobra.Command) {
	if command.HasSubCommands() && !command.Runnable() {
		command.DisableFlagsInUseLine = true
		command.Args = cobra.ArbitraryArgs
		command.RunE = func(command *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(command, args[0])
			}
			return command.Help()
		}
	}
	for _, sub := range command.Commands() {
		refuseBelow(sub)
	}
}

func unknownCommand(command *cobra.Command, word string) error {
	path := strings.TrimPrefix(command.CommandPath(), command.Root().Name())
	return fmt.Errorf("unknown command %q; see: %s%s --help", strings.TrimSpace(path+" "+word), ask.Program(), path)
}

// helpCommand prints the help of a command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]...", Short: "Say what a command does and takes",
		RunE: func(command *cobra.Command, args []string) error {
			of, rest, err := command.Root().Find(args)
			if err != nil {
				return unknownCommand(command.Root(), args[0])
			}
			if len(rest) > 0 {
				return unknownCommand(of, rest[0])
			}
			of.InitDefaultHelpFlag() // so that the help has it
			of.InitDefaultVersionFlag()
			return of.Help()
		},
	}
}

func atLeastOne(what string, number int) error {
	if number < 1 {
		return fmt.Errorf("%s must be at least 1", what)
	}
	return nil
}

// advice is an error in words that say what to do about it.
type advice struct {
	text  string
	cause error
}

func (a advice) Error() string { return a.text }
func (a advice) Unwrap() error { return a.cause }

// open opens a process, and says what to do where another is in its way.
func open(ctx context.Context, config wire.Config) (*wire.Platform, error) {
	p, err := wire.Open(ctx, config)
	if errors.Is(err, journal.ErrInUse) {
		folder := config.Folder
		if path, named := strings.CutPrefix(config.Database, "sqlite:"); named {
			folder = filepath.Dir(path)
		}
		return nil, advice{"another gantry process uses " + folder + "; stop it first", err}
	}
	if err != nil {
		return nil, placeTaken(err, config.Listen, "listen")
	}
	return p, nil
}

// placeTaken says what to do where something else listens already.
func placeTaken(err error, at, flag string) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return advice{at + " is in use; stop what listens there or choose another with --" + flag, err}
}

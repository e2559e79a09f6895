package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/memory"
)

// serveCommand runs a whole process: interface and worker.
func serveCommand() *cobra.Command {
	var noWork bool
	command := &cobra.Command{
		Use: "serve", Short: "Serve the GraphQL interface and advance runs, until SIGTERM", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return operate(command, func(config *wire.Config) { config.Work = !noWork })
		},
	}
	settingFlags(command, "127.0.0.1:8080")
	command.Flags().BoolVar(&noWork, "no-work", false, "serve only: other processes advance runs")
	return command
}

// workCommand runs a worker without the interface.
func workCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "work", Short: "Advance runs without serving, until SIGTERM", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return operate(command, func(config *wire.Config) { config.Work, config.Listen = true, "" })
		},
	}
	settingFlags(command, "")
	return command
}

// operate runs a process until its context ends, and drains it.
func operate(command *cobra.Command, change func(*wire.Config)) error {
	s, err := readSettings(command)
	if err != nil {
		return err
	}
	log := logTo(command)
	config := s.config(log)
	change(&config)
	p, err := open(command.Context(), config)
	if err != nil {
		return err
	}
	warnOfGaps(log, config)
	log.Info("started", "address", p.Address(), "work", config.Work)
	<-command.Context().Done()
	log.Info("draining")
	err = p.Close()
	log.Info("stopped")
	return err
}

// warnOfGaps says at once what would otherwise only be seen when a call fails.
func warnOfGaps(log *slog.Logger, config wire.Config) {
	if !config.Work {
		return
	}
	if config.Files == "" {
		log.Warn("the built-in file tools do not work here: no root of files is set", "setting", "files", "environment", envPrefix+"FILES")
	}
	if len(config.Secrets)+len(config.Credentials) == 0 {
		log.Warn("tools and models with a credential do not work here: no secret is set", "setting", "secrets", "environment", envPrefix+secretPrefix+"NAME")
	}
}

// sayNeeds says what the processes that work must be told for an organisation.
func sayNeeds(out io.Writer, o agents.Organisation) error {
	needed := map[string][]string{} // by credential
	for _, tool := range o.Tools {
		if tool.Credential != "" {
			needed[tool.Credential] = append(needed[tool.Credential], tool.Name)
		}
	}
	for _, s := range o.Servers {
		if s.Auth != nil && s.Auth.Credential != "" {
			needed[s.Auth.Credential] = append(needed[s.Auth.Credential], "server "+s.Name)
		}
	}
	for _, model := range o.Models {
		if model.Secret != "" {
			needed[model.Secret] = append(needed[model.Secret], model.Name)
		}
	}
	for _, reference := range slices.Sorted(maps.Keys(needed)) {
		if err := ask.Say(out, "%s %s the secret %q: %s%s%s where gantry works", strings.Join(needed[reference], ", "), needs(len(needed[reference])), reference,
			envPrefix, secretPrefix, strings.ToUpper(reference)); err != nil {
			return err
		}
	}
	if o.Builtins.Files == nil {
		return nil
	}
	return ask.Say(out, "files.* need their root: --files where gantry works")
}

func needs(of int) string {
	if of == 1 {
		return "needs"
	}
	return "need"
}

// migrateCommand brings the schema up to date. Every process does so when it
// starts; the command is for those who want it done before.
func migrateCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "migrate", Short: "Bring the database schema up to date and stop", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return quietly(command, func(context.Context, *wire.Platform) error {
				_, err := fmt.Fprintln(command.OutOrStdout(), "the schema is up to date")
				return err
			})
		},
	}
	someSettingFlags(command, "folder", "database")
	return command
}

// applyCommand puts an organisation's files in force.
func applyCommand() *cobra.Command {
	var folder string
	command := &cobra.Command{
		Use: "apply -f DIR", Short: "Put an organisation's files in force, whole or not at all", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			organisation, err := agents.LoadDir(os.DirFS(folder), agents.LoadOptions{})
			if err != nil {
				return err
			}
			return quietly(command, func(ctx context.Context, p *wire.Platform) error {
				digest, changed, err := p.Kits.Apply(ctx, organisation)
				if err != nil {
					return err
				}
				if err := p.Reconsider(ctx, organisation.Name); err != nil {
					return err
				}
				word := "unchanged"
				if changed {
					word = "applied"
				}
				_, err = fmt.Fprintf(command.OutOrStdout(), "organisation %s %s: configuration %s\n", organisation.Name, word, digest)
				if err != nil {
					return err
				}
				return sayNeeds(command.OutOrStdout(), organisation)
			})
		},
	}
	someSettingFlags(command, "folder", "database", "bus")
	command.Flags().StringVarP(&folder, "file", "f", "", "the organisation's folder")
	_ = command.MarkFlagRequired("file") // the flag is declared above
	return command
}

// sweepCommand puts memory right. Processes that work do so now and then.
func sweepCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "sweep", Short: "Erase what has expired from memory, look again at what was erased, and mend the indexes", Args: cobra.NoArgs,
		Long: "Puts right what is left over in memory, as processes that work do now and then: erases what has expired, looks again whether what\n" +
			"was forgotten is gone everywhere, embeds what could not be embedded, and holds the indexes against the database. It opens the\n" +
			"database by itself, so it is for the operator; with SQLite no other process may use it. It may be repeated.",
		RunE: func(command *cobra.Command, _ []string) error {
			return quietly(command, func(ctx context.Context, p *wire.Platform) error {
				swept, err := p.SweepMemory(ctx)
				if said := ask.Say(command.OutOrStdout(), "%s erased, %s verified, %d still open, %s embedded, %s mended", ask.Counted(swept.Expired, "item"),
					ask.Counted(swept.Verified, "receipt"), swept.Open, ask.Counted(swept.Embedded, "item"), ask.Counted(swept.Mended, "item")); said != nil {
					return errors.Join(err, said)
				}
				return err
			})
		},
	}
	someSettingFlags(command, memoryFlags...)
	return command
}

// quietly opens a process that neither serves nor works, for one task.
func quietly(command *cobra.Command, task func(context.Context, *wire.Platform) error) (err error) {
	s, err := readSettings(command)
	if err != nil {
		return err
	}
	config := s.config(logTo(command))
	config.Listen, config.Work = "", false
	p, err := open(command.Context(), config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return task(command.Context(), p)
}

// keysCommand makes an installation's keys.
func keysCommand() *cobra.Command {
	var folder string
	command := &cobra.Command{
		Use: "keys", Short: "Make the keys of an installation, unless they are there", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			made, found, err := wire.MakeKeys(folder, time.Now())
			if err != nil {
				return err
			}
			if len(found) > 0 {
				if err := ask.Say(command.OutOrStdout(), "found in %s, and left as they are: %s", folder, strings.Join(found, ", ")); err != nil {
					return err
				}
			}
			if len(made) == 0 {
				return nil
			}
			return ask.Say(command.OutOrStdout(), "made in %s: %s; keep a copy elsewhere, what they seal is lost without them", folder, strings.Join(made, ", "))
		},
	}
	command.PersistentFlags().StringVar(&folder, "folder", ".gantry", "where the keys live")
	command.AddCommand(rotateCommand(&folder), revokeCommand(&folder))
	return command
}

// rotateCommand changes the key that signs heads.
func rotateCommand(folder *string) *cobra.Command {
	return &cobra.Command{
		Use: "rotate", Short: "Put a new key in place of the one that signs heads; what was signed still verifies", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			epoch, err := wire.RotateHeadKey(*folder, time.Now())
			if err != nil {
				return err
			}
			return ask.Say(command.OutOrStdout(), "heads are signed with key epoch %d by every process that has heads.key and heads-keys.json of %s; it need not start again", epoch, *folder)
		},
	}
}

// revokeCommand says from when on a key is not believed.
func revokeCommand(folder *string) *cobra.Command {
	var after string
	command := &cobra.Command{
		Use: "revoke EPOCH", Short: "Believe no head of a key epoch that is later than a moment", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			epoch, err := strconv.Atoi(args[0])
			if err != nil {
				return fmt.Errorf("the key epoch %q is no number", args[0])
			}
			moment, err := time.Parse(time.RFC3339, after)
			if err != nil {
				return fmt.Errorf("--after %q is no moment like 2026-01-31T12:00:00Z", after)
			}
			signs, err := wire.RevokeHeadKey(*folder, epoch, moment, time.Now())
			if err != nil {
				return err
			}
			next := "the key in place covers anew what they covered"
			if signs {
				next = "nothing is signed until another key is in place, which covers anew what they covered: gantry keys rotate --folder " + *folder
			}
			return ask.Say(command.OutOrStdout(), "heads of key epoch %d that are later than %s count for nothing; %s", epoch, moment.UTC().Format(time.RFC3339), next)
		},
	}
	command.Flags().StringVar(&after, "after", "", "the last moment at which the key was surely yours, for example 2026-01-31T12:00:00Z")
	_ = command.MarkFlagRequired("after") // the flag is declared above
	return command
}

// tokenCommand signs a bearer token.
func tokenCommand() *cobra.Command {
	var folder, organisation, issuer string
	var life time.Duration
	command := &cobra.Command{
		Use: "token PRINCIPAL", Short: "Sign a bearer token for a principal, with the installation's key", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			keys, err := wire.LoadKeys(folder, false)
			if err != nil {
				return err
			}
			token, err := keys.Token(organisation, args[0], issuer, uuid.NewString(), time.Now(), life)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), token)
			return err
		},
	}
	command.Flags().StringVar(&folder, "folder", ".gantry", "where the keys live")
	command.Flags().StringVar(&organisation, "organisation", "", "id of the principal's organisation")
	command.Flags().StringVar(&issuer, "issuer", "gantry", "issuer, as the server is told")
	command.Flags().DurationVar(&life, "life", 12*time.Hour, "how long the token is good for, 744h at most")
	_ = command.MarkFlagRequired("organisation") // the flag is declared above
	return command
}

// memoryFlags are the settings that the operator's commands on memory heed.
var memoryFlags = []string{"folder", "database", "bus", "qdrant", "embeddings", "embedder", "dimensions"}

// rebuildCommand makes memory's index anew.
func rebuildCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "rebuild", Short: "Make memory's index in a Qdrant server anew from the database, while it is used", Args: cobra.NoArgs,
		Long: "Fills a new collection behind the one that is asked and written to, and puts it in its place. Where it is stopped the old one\n" +
			"stays. It opens the database by itself; with SQLite no other process may use it.",
		RunE: func(command *cobra.Command, _ []string) error {
			return quietly(command, func(ctx context.Context, p *wire.Platform) error {
				if p.Config.Memory.Qdrant.URL == "" {
					return ask.Say(command.OutOrStdout(), "the index is in each process, and is made anew when it starts; there is nothing to do")
				}
				items, err := p.Tender().Rebuild(ctx)
				if err != nil {
					return err
				}
				return ask.Say(command.OutOrStdout(), "the index is made anew: %s", ask.Counted(items, "item"))
			})
		},
	}
	someSettingFlags(command, memoryFlags...)
	return command
}

// reembedCommand embeds everything that is remembered again.
func reembedCommand() *cobra.Command {
	var r memory.Reembedding
	command := &cobra.Command{
		Use: "reembed", Short: "Embed everything that is remembered by the models in the settings, and change over to them", Args: cobra.NoArgs,
		Long: "Makes vectors by each model of the settings that memory has none of, while it is used; compares what is nearest to some items by\n" +
			"the old vectors and the new; changes over at one moment; and deletes the vectors that are not used any more. It may be stopped at\n" +
			"any time, and goes on where it was. A process that does not know a model refuses to remember and recall once it is in use: start\n" +
			"the others with the new settings while this is at work, or right after. It opens the database by itself; with SQLite no other\n" +
			"process may use it.",
		RunE: func(command *cobra.Command, _ []string) error {
			out := command.OutOrStdout()
			r.Say = func(what string, items int) {
				if items > 0 {
					what += ": " + ask.Counted(items, "item")
				}
				_ = ask.Say(out, "%s", what)
			}
			return quietly(command, func(ctx context.Context, p *wire.Platform) error {
				done, err := p.Tender().Reembed(ctx, r)
				for _, space := range slices.Sorted(maps.Keys(done.Overlap)) {
					err = errors.Join(err, ask.Say(out, "%s: %.0f%% of what was nearest by the old vectors is so by the new ones", space, 100*done.Overlap[space]))
				}
				if err != nil {
					return err
				}
				return ask.Say(out, "in use: %s", strings.Join(done.Active, ", "))
			})
		},
	}
	someSettingFlags(command, memoryFlags...)
	command.Flags().BoolVar(&r.Again, "again", false, "also by models that are in use already")
	command.Flags().Float64Var(&r.Least, "least", 0, "what share of the nearest must be the same, 0 to 1; with less nothing changes over")
	command.Flags().DurationVar(&r.Grace, "grace", 30*time.Second, "how long the old vectors stay for those who still ask by them")
	return command
}

// queueCommand shows what waits for memory's index.
func queueCommand() *cobra.Command {
	var retry bool
	command := &cobra.Command{
		Use: "queue", Short: "Show what waits to be told to memory's index, and what is parked", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return quietly(command, func(ctx context.Context, p *wire.Platform) error {
				out := command.OutOrStdout()
				if retry {
					tried, err := p.Tender().Retry(ctx)
					if err != nil {
						return err
					}
					return ask.Say(out, "%s to be tried again", ask.Counted(tried, "item"))
				}
				queue, err := p.Tender().Queue(ctx)
				if err != nil {
					return err
				}
				err = ask.Say(out, "waiting %d, parked %d", queue.Waiting, len(queue.Parked))
				for _, task := range queue.Parked {
					err = errors.Join(err, ask.Say(out, "%s %s parked after %d attempts", task.Organisation, task.Item, task.Attempts))
				}
				return err
			})
		},
	}
	someSettingFlags(command, memoryFlags...)
	command.Flags().BoolVar(&retry, "retry", false, "let what is parked be tried again")
	return command
}

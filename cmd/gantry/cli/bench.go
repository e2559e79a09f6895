package cli

import (
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gantry.dev/cmd/gantry/bench"
)

func benchCommand() *cobra.Command {
	command := &cobra.Command{Use: "bench", Short: "Measure this machine with Gantry on it", Args: cobra.NoArgs}
	command.AddCommand(benchRunCommand())
	return command
}

const benchFigures = `Drives runs through everything that a run goes through, on SQLite and, where a
server is named, on PostgreSQL, and measures what the machine does bare beside
them: all in one execution, alternately, again for each repetition. A run has
--rounds rounds. A round is one model step with 450 bytes and two calls, which
run at the same time and give 200 bytes each; all are instant and durable.
Nothing is left behind.

Each line has an id, the median, the least and the most, and for goals the
floor, the stretch, and whether the floor was held:

  P1, P2  rounds a second to those of the program --beside, on PostgreSQL and
          on SQLite
  P3      CPU for a round to that of the program --beside, servers and all
  P4      journal rows a second to those of bare transactions that insert as
          many rows of the same size
  P5      rounds a second to bare commits of one row on 64 connections; one on
          SQLite, which has one writer
  P6      syncs and bytes of the database's log for a round. SQLite syncs once
          for each commit; PostgreSQL counts for its whole cluster, so nothing
          else should use it
  P7      the median round of a run that is alone, in bare commits of one row
  cpu     user and system, of this process with its followers and of all
          processes called postgres; "foreign" is what all others had

--beside and --beside-sqlite are shell commands that do the same work. {conc},
{secs}, {rounds} and {file} (a path where nothing is) are filled in. They print
BEGIN when they are warm, and END with {"rounds": …, "secs": …} when done.

Rates move with whatever else the machine does: compare the ratios.`

// benchRunCommand measures whole runs.
func benchRunCommand() *cobra.Command {
	var config bench.Config
	var output benchOutput
	var quick bool
	command := &cobra.Command{
		Use: "run", Short: "Measure whole runs beside the bare limits of the machine", Args: cobra.NoArgs,
		Long: benchFigures,
		RunE: func(command *cobra.Command, _ []string) error {
			if quick {
				config.Repeat = 1
			}
			return output.of(command, func() (*bench.Report, error) {
				config.Progress = command.ErrOrStderr()
				return bench.Run(command.Context(), config)
			})
		},
	}
	flags := command.Flags()
	benchStores(flags, &config)
	flags.IntSliceVar(&config.Concurrency, "conc", []int{1, 16, 64}, "runs under way at once, each measured apart")
	flags.IntVar(&config.Rounds, "rounds", 10, "rounds of a run")
	flags.Float64Var(&config.HeldShare, "held-share", 0, "share of the runs that wait for one approval, which is given at once")
	flags.DurationVar(&config.For, "for", 2*time.Second, "how long each load runs")
	flags.DurationVar(&config.Limit, "limit", 500*time.Millisecond, "how long each bare limit is measured")
	flags.IntVar(&config.Repeat, "repeat", 3, "repetitions")
	flags.BoolVar(&quick, "quick", false, "one repetition")
	flags.StringVar(&config.Beside.Postgres, "beside", "", "command of a program that does the same work on PostgreSQL")
	flags.StringVar(&config.Beside.SQLite, "beside-sqlite", "", "command of a program that does the same work on SQLite")
	output.flags(flags)
	return command
}

// benchStores declares where is measured.
func benchStores(flags *pflag.FlagSet, config *bench.Config) {
	known := os.Getenv("GANTRY_DATABASE")
	if !strings.HasPrefix(known, "postgres") {
		known = ""
	}
	flags.StringVar(&config.Postgres, "postgres", "", "postgres://… to measure too, in schemas of its own; by default GANTRY_DATABASE if that is one")
	config.Postgres = known // not as the flag's default, which the help would print
	flags.StringVar(&config.Only, "store", "", "sqlite or postgres: measure one alone")
	flags.StringVar(&config.Folder, "folder", "", "where temporary folders are made: the disk that is measured; by default the system's")
}

// benchOutput is how a report is given.
type benchOutput struct {
	json    bool
	profile string
}

func (o *benchOutput) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.json, "json", false, "print one JSON object")
	flags.StringVar(&o.profile, "cpuprofile", "", "file for a CPU profile")
}

// of measures and prints. A store with violations is an error, a goal that was
// missed is none.
func (o *benchOutput) of(command *cobra.Command, measure func() (*bench.Report, error)) error {
	if o.profile != "" {
		stop, err := profileTo(o.profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	report, err := measure()
	if err != nil {
		return err
	}
	write := report.Table
	if o.json {
		write = report.JSON
	}
	if err := write(command.OutOrStdout()); err != nil {
		return err
	}
	if report.Violations > 0 {
		return fmt.Errorf("bench: the store has %d violations", report.Violations)
	}
	return nil
}

// profileTo profiles until the returned function is called.
func profileTo(path string) (stop func(), err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close() // what was written is written
	}, nil
}

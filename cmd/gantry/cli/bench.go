package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/bench"
)

func benchCommand() *cobra.Command {
	command := &cobra.Command{Use: "bench", Short: "Measure this machine with Gantry on it", Args: cobra.NoArgs}
	command.AddCommand(benchRunCommand())
	return command
}

const benchFigures = `Drives runs of five turns and eight calls, with a scripted model and tools that
read small files, through everything that a run goes through. Nothing is left
behind. The figures:

  runs, rounds    ended runs, and turns with their calls, a second
  records         journal records a second, beside bare transactions that
                  insert as many rows of the same size
  commits         write transactions a second and the records that share one,
                  beside bare commits of one row. On SQLite leases are among
                  them, on PostgreSQL only transactions with records count
  side by side    rounds a second beside bare commits of as many connections
                  as runs (one on SQLite)
  fsyncs          appends of 4 KiB a second, each synced
  step            from the commit of a turn's or call's intent to the commit of
                  its outcome, as a follower of the run is told; "in bare
                  commits" is the median in units of one bare commit
  round           from the commit of one turn's intent to that of the next
  submit to held  from the request to start a run to the news that its first
                  turn's call waits for a person
  CPU             of this process, user and system, for one round, and the share
                  of all cores that it had; where that is low and no disk was
                  waited for, something else was at work
  paused          what a run costs that waits for a person: heap, goroutines,
                  and how many rounds others make beside it
  violations      what the doctor finds afterwards: must be 0

Rates move with whatever else the machine does: compare the ratios.`

// benchRunCommand measures whole runs.
func benchRunCommand() *cobra.Command {
	var config bench.Config
	var asJSON bool
	var profile string
	command := &cobra.Command{
		Use: "run", Short: "Measure whole runs beside the bare limits of the machine", Args: cobra.NoArgs,
		Long: benchFigures,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if profile != "" {
				stop, err := profileTo(profile)
				if err != nil {
					return err
				}
				defer stop()
			}
			result, err := bench.Run(command.Context(), config)
			if err != nil {
				return err
			}
			if asJSON {
				encoder := json.NewEncoder(command.OutOrStdout())
				encoder.SetIndent("", "  ")
				err = encoder.Encode(result)
			} else {
				err = result.Table(command.OutOrStdout())
			}
			if err == nil && result.Violations > 0 {
				err = fmt.Errorf("bench: the store has %d violations", result.Violations)
			}
			return err
		},
	}
	flags := command.Flags()
	flags.IntVar(&config.Runs, "runs", 2000, "runs that are measured")
	flags.IntVar(&config.Concurrency, "concurrency", 64, "runs under way at once")
	flags.Float64Var(&config.Held, "held", 0.1, "share of the runs that wait for one approval, which is given at once")
	flags.IntVar(&config.Paused, "paused", 0, "runs that are left waiting for an approval, to weigh them")
	flags.StringVar(&config.Database, "database", "", "sqlite:PATH of a file that is not there yet, or postgres://… for a schema that is not; by default a SQLite file in --folder")
	flags.StringVar(&config.Folder, "folder", "", "where a temporary folder is made: the disk that is measured; by default the system's")
	flags.DurationVar(&config.Limit, "limit", time.Second, "how long each bare limit is measured, twice")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	flags.StringVar(&profile, "cpuprofile", "", "file for a CPU profile")
	return command
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

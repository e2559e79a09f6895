// Package measure holds the commands that measure Gantry.
package measure

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gantry.dev/cmd/gantry/bench"
	"gantry.dev/cmd/gantry/bench/recollection"
	"gantry.dev/cmd/gantry/cli/ask"
)

// Command returns "gantry bench" with everything that measures.
func Command() *cobra.Command {
	command := &cobra.Command{Use: "bench", Short: "Measure this machine with Gantry on it", Args: cobra.NoArgs}
	command.AddCommand(benchRunCommand(), benchPartCommand(paused), benchPartCommand(recovered), benchEventsCommand(), benchSoakCommand(), benchFanoutCommand(), benchRecallCommand(), benchMemoryCommand(), benchObedientCommand(), benchChildCommand())
	return command
}

// benchChildCommand is the process that the benchmark kills.
func benchChildCommand() *cobra.Command {
	return &cobra.Command{Use: "child", Hidden: true, Args: cobra.NoArgs, RunE: func(command *cobra.Command, _ []string) error {
		child, err := bench.Child(command.Context(), command.InOrStdin(), command.OutOrStdout())
		if !child {
			return errors.New("bench: only the benchmark itself starts this")
		}
		return err
	}}
}

const benchFigures = `Drives runs through everything that a run goes through, on SQLite and, where a
server is named, on PostgreSQL, and measures what the machine does bare beside
them: all in one execution, alternately, again for each repetition. A run has
--rounds rounds. A round is one model step with 450 bytes and two calls, which
run at the same time and give 200 bytes each; all are instant and durable.
Nothing is left behind.

Each line has an id, the median, the least and the most, and for goals the
floor, the stretch, and whether the floor was held. Of less than 10000 paused
or 1000 killed runs it says "too few to tell":

  P1, P2  rounds a second to those of the program --beside, on PostgreSQL and
          on SQLite
  P3      CPU for a round to that of the program --beside, servers and all
  P4      records a second to rows of bare transactions that insert as
          many rows of the same size
  P5      rounds a second to bare commits of one row on 64 connections; one on
          SQLite, which has one writer
  P6      syncs and bytes of the database's log for a round. SQLite syncs once
          for each commit; PostgreSQL counts for its whole cluster, so nothing
          else should use it
  P7      the median round of a run that is alone, in bare commits of one row
  P10     rounds a second with --paused runs in the store to those without,
          and what the process keeps of each in memory. 200 of them came to
          wait by themselves; the others are copies of one of them, row by row
  P11     from the decision that one of the 200 waits for to its next step
  P12     what a round costs late in one long run to early in it, and in runs
          of 200 rounds to runs of 10
  P13     how long a run is read and folded, for each of its rounds, and
          whether that grows with its length
  P14     a process is killed with --killed runs in flight. How long, from the
          start of the next one or the end of the leases, until each run has a
          new step, and the same for each record that they had
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
	flags.IntVar(&config.Paused, "paused", 100_000, "runs that wait for a person (P10, P11); 0 leaves this out")
	flags.IntVar(&config.Long, "long", 5000, "rounds of one long run, which gets a minute (P12, P13); 0 leaves this out")
	flags.IntVar(&config.Killed, "killed", 1000, "runs in flight when their process is killed (P14); 0 leaves this out")
	flags.StringVar(&config.Beside.Postgres, "beside", "", "command of a program that does the same work on PostgreSQL; needs --postgres")
	flags.StringVar(&config.Beside.SQLite, "beside-sqlite", "", "command of a program that does the same work on SQLite")
	output.flags(flags)
	return command
}

// part is a piece of "bench run" that stands alone.
type part struct {
	use, short, long string
	flags            func(flags *pflag.FlagSet, config *bench.Config)
}

var (
	paused = part{"paused", "Measure what runs cost that wait for a person", `Lets 200 runs come to wait for an approval, copies one of them row by row until
there are --paused, and measures what they cost: memory of the process, its
start, the rounds of other runs beside them to those without, and how long it
takes to wake one. The copies weigh what the original weighs, but nobody can
wake them: their chains do not verify.`,
		func(flags *pflag.FlagSet, config *bench.Config) {
			flags.IntVar(&config.Paused, "paused", 100_000, "runs that wait for a person; with less than 10000 it is too few to tell")
			flags.IntSliceVar(&config.Concurrency, "conc", []int{64}, "runs under way beside them")
			flags.IntVar(&config.Repeat, "repeat", 3, "repetitions")
		}}
	recovered = part{"recover", "Measure how runs go on when their process was killed", `Starts a process, lets all its runs take turns, kills it with SIGKILL, and goes
on in this one. The time is from the start or, on PostgreSQL, from the end of
the leases, which hold for 15 seconds, until each run has a new step.`,
		func(flags *pflag.FlagSet, config *bench.Config) {
			flags.IntVar(&config.Killed, "killed", 1000, "runs in flight; of fewer, most of the time is the start of the process")
		}}
)

// benchPartCommand measures one part alone.
func benchPartCommand(p part) *cobra.Command {
	config := bench.Config{Concurrency: []int{1}, Rounds: 10, Repeat: 1, For: 2 * time.Second}
	var output benchOutput
	command := &cobra.Command{Use: p.use, Short: p.short, Long: p.long + "\n\n" + machineLimits, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return output.of(command, func() (*bench.Report, error) {
				config.Progress = command.ErrOrStderr()
				return bench.Part(command.Context(), config)
			})
		}}
	flags := command.Flags()
	benchStores(flags, &config)
	p.flags(flags, &config)
	flags.DurationVar(&config.For, "for", 2*time.Second, "how long each load runs")
	flags.DurationVar(&config.Limit, "limit", 500*time.Millisecond, "how long each bare limit is measured")
	output.flags(flags)
	return command
}

const machineLimits = `The bare limits of the machine are measured in the same execution. "gantry help
bench run" says what the ids mean.`

// benchEventsCommand measures who follows.
func benchEventsCommand() *cobra.Command {
	listening := bench.Listening{Config: bench.Config{Concurrency: []int{64}}}
	var output benchOutput
	command := &cobra.Command{Use: "events", Short: "Measure how long events take to their subscribers, and what those cost", Args: cobra.NoArgs,
		Long: `Starts as many runs as there are --subscribers, whose model thinks so long that
all together have --rate events a second, and follows each: first inside the
process, then over GraphQL on a websocket of its own. A delay is from the time
of the event, which is decided before its commit and has whole milliseconds, to
the subscriber's reading of it. The subscribers are in the same process as the
server, so its cores and its memory hold both sides.

  P8      the delays over websockets
  P16     rounds a second of 64 runs at once with as many followers inside the
          process to those with one for each run
  P17     memory and goroutines of a subscriber, of both sides together

` + machineLimits,
		RunE: func(command *cobra.Command, _ []string) error {
			return output.of(command, func() (*bench.Report, error) {
				listening.Progress = command.ErrOrStderr()
				return bench.Events(command.Context(), listening)
			})
		}}
	flags := command.Flags()
	benchStores(flags, &listening.Config)
	flags.IntVar(&listening.Subscribers, "subscribers", 1000, "who each follow a run of their own")
	flags.Float64Var(&listening.Rate, "rate", 3000, "events a second of all runs together, at most")
	flags.IntVar(&listening.Rounds, "rounds", 10, "rounds of a run of P16")
	flags.DurationVar(&listening.For, "for", 10*time.Second, "how long each load runs")
	flags.DurationVar(&listening.Limit, "limit", 500*time.Millisecond, "how long each bare limit is measured")
	flags.IntVar(&listening.Repeat, "repeat", 1, "repetitions of P16")
	output.flags(flags)
	return command
}

// benchFanoutCommand measures one run with many children.
func benchFanoutCommand() *cobra.Command {
	spreading := bench.Spreading{Config: bench.Config{Concurrency: []int{1}, For: time.Second}}
	var output benchOutput
	command := &cobra.Command{Use: "fanout", Short: "Measure one run with many children", Args: cobra.NoArgs,
		Long: `Starts one run that hands a piece of work to --children others in one turn, and
follows it until the last has ended and it has answered. Each child has --rounds
rounds, as "bench run" has them. Beside it goroutines write rows of the same
size, 64 in a commit, and nothing else.

  P15     from the order until all is done`,
		RunE: func(command *cobra.Command, _ []string) error {
			return output.of(command, func() (*bench.Report, error) {
				spreading.Progress = command.ErrOrStderr()
				return bench.Fanout(command.Context(), spreading)
			})
		}}
	flags := command.Flags()
	benchStores(flags, &spreading.Config)
	flags.IntVar(&spreading.Children, "children", 1000, "children of the run")
	flags.IntVar(&spreading.Rounds, "rounds", 1, "rounds of a child")
	flags.DurationVar(&spreading.Limit, "limit", 500*time.Millisecond, "how long the goroutines write")
	flags.IntVar(&spreading.Repeat, "repeat", 3, "repetitions")
	output.flags(flags)
	return command
}

// benchSoakCommand looks whether anything grows.
func benchSoakCommand() *cobra.Command {
	soaking := bench.Soaking{Config: bench.Config{Concurrency: []int{1}, Rounds: 1, Repeat: 1}}
	var output benchOutput
	command := &cobra.Command{Use: "soak", Short: "Keep a bounded load up and look whether anything grows", Args: cobra.NoArgs,
		Long: `Keeps 16 runs under way whose model takes 20 ms for each turn, and looks again
and again at resident memory and heap after a collection, at goroutines, open
leases, records that were not told to the bus, and parked runs. In the second
half memory may grow by a tenth, or 8 MB; at the end nothing may be owned,
untold or parked, and the doctor must find nothing. Fails when anything grew.

` + machineLimits,
		RunE: func(command *cobra.Command, _ []string) error {
			flat := false
			err := output.of(command, func() (report *bench.Report, err error) {
				soaking.Progress = command.ErrOrStderr()
				report, flat, err = bench.Soak(command.Context(), soaking)
				return report, err
			})
			if err == nil && !flat {
				err = errors.New("bench: not flat")
			}
			return err
		}}
	flags := command.Flags()
	benchStores(flags, &soaking.Config)
	flags.DurationVar(&soaking.For, "for", 10*time.Minute, "how long the load is kept up, on each store")
	flags.DurationVar(&soaking.Every, "every", 0, "how often to look; by default a sixtieth of that, in whole seconds")
	flags.DurationVar(&soaking.Limit, "limit", 500*time.Millisecond, "how long each bare limit is measured")
	output.flags(flags)
	return command
}

// benchRecallCommand measures what memory finds again.
func benchRecallCommand() *cobra.Command {
	var data string
	var config recollection.Config
	var asJSON bool
	command := &cobra.Command{Use: "recall", Short: "Measure how much of what answers a question memory finds again", Args: cobra.NoArgs,
		Long: `Remembers long conversations turn by turn, asks questions on them, each within
its own conversation, and counts how many of the turns that answer a question
are among the first 5, 10 and 25 that memory finds: the mean share, of all
questions and of each category. It does the same once more with memory's ranking
over every turn, which tells what the index loses, and with BM25 on stems, which
is what a search engine finds by words. Nothing is left behind.

The folder --data has turns.jsonl, with conversation, id, session, when ("1:56 pm
on 8 May, 2023"), speaker, text and perhaps image on each line, in the order in
which they were said, and questions.jsonl, with conversation, question, category
and evidence, which are ids of turns. LoCoMo (Maharana and others, ACL 2024) can
be brought into this form. The constants of the ranking are not fitted to such
questions: to fit them would measure the fitting.`,
		RunE: func(command *cobra.Command, _ []string) error {
			config.Conversations = os.DirFS(data)
			report, err := recollection.Measure(command.Context(), config)
			switch {
			case err != nil && command.Context().Err() != nil:
				return errInterrupted
			case err != nil:
				return err
			case asJSON:
				return report.JSON(command.OutOrStdout())
			}
			return report.Table(command.OutOrStdout())
		}}
	flags := command.Flags()
	flags.StringVar(&data, "data", "", "folder with turns.jsonl and questions.jsonl")
	flags.StringVar(&config.Folder, "folder", "", "where a temporary folder is made; by default the system's")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	_ = command.MarkFlagRequired("data") // it is there
	return command
}

// benchMemoryCommand measures how fast memory is.
func benchMemoryCommand() *cobra.Command {
	var config recollection.SpeedConfig
	var output benchOutput
	command := &cobra.Command{Use: "memory", Short: "Measure how fast memory remembers and recalls", Args: cobra.NoArgs,
		Long: `Puts --items generated texts of 12 to 30 words into ten spaces, with five sets of
labels and in one of ten a sentence that fewer may read, and asks questions as
two readers, who see 3.5 and 32 of a hundred. Measured are the time of a question
to memory, of the index alone, and of a table of the same vectors that is read
and compared, by turns; items a second, many in a transaction and one by one;
bytes on disk; what a new process does before it can answer, and what it then
keeps in memory; and beside them what the machine does bare. Nothing is left
behind. For 100,000 items there are goals, and "held" or "missed" beside them.`,
		RunE: func(command *cobra.Command, _ []string) error {
			config.Progress = command.ErrOrStderr()
			return output.profiled(func() error {
				report, err := recollection.Time(command.Context(), config)
				switch {
				case err != nil && command.Context().Err() != nil:
					return errInterrupted
				case err != nil:
					return err
				case output.json:
					return report.JSON(command.OutOrStdout())
				}
				return report.Table(command.OutOrStdout())
			})
		}}
	flags := command.Flags()
	flags.IntSliceVar(&config.Items, "items", []int{10_000, 100_000}, "how many texts, each measured apart")
	flags.IntVar(&config.Questions, "questions", 200, "questions of each reader")
	flags.IntVar(&config.Writes, "writes", 200, "texts that are remembered one by one")
	flags.StringVar(&config.Database, "database", "", "postgres://…, measured in a schema of its own; by default SQLite in a temporary folder")
	flags.StringVar(&config.Qdrant, "qdrant", "", "URL of a Qdrant server, measured in a collection of its own; by default the index of the process")
	flags.StringVar(&config.Folder, "folder", "", "where a temporary folder is made: the disk that is measured; by default the system's")
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

var errInterrupted = errors.New("bench: interrupted")

// of measures and prints. A store with violations is an error, a goal that was
// missed is none.
func (o *benchOutput) of(command *cobra.Command, measure func() (*bench.Report, error)) error {
	return o.profiled(func() error { return o.print(command, measure) })
}

// profiled does something under the profile that was asked for.
func (o *benchOutput) profiled(do func() error) error {
	if o.profile != "" {
		stop, err := profileTo(o.profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	return do()
}

func (o *benchOutput) print(command *cobra.Command, measure func() (*bench.Report, error)) error {
	report, err := measure()
	if err != nil && command.Context().Err() != nil {
		err = errInterrupted // whatever it broke
	}
	if report == nil || err != nil && len(report.Figures) == 0 {
		return err
	}
	if err == nil && report.Violations > 0 {
		err = errors.New("bench: the store has " + ask.Counted(report.Violations, "violation"))
	}
	write := report.Table // also of what was measured before an error
	if o.json {
		write = report.JSON
	}
	return errors.Join(write(command.OutOrStdout()), err)
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

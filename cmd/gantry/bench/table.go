package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Table writes the figures for people.
func (r Result) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	l := r.Load
	row("machine", "%d cores, %s/%s, %s, %s", r.Machine.Cores, r.Machine.OS, r.Machine.Arch, r.Machine.Go, r.Database)
	row("load", "%d runs of 5 turns, %d at once, %d held once, %.1f s", l.Runs, l.Concurrency, l.Held, l.Seconds)
	row("runs, rounds", "%.0f/s, %.0f/s", l.RunsPerSecond, l.RoundsPerSecond)
	row("records", "%.0f/s of %d bytes\tbare %.0f/s\tratio %.2f", l.RecordsPerSecond, l.RecordBytes, r.Limits.RecordsPerSecond, r.Ratios.Records)
	row("commits", "%.0f/s of %.1f records\tbare %.0f/s\tratio %.2f", l.CommitsPerSecond, l.RecordsPerCommit, r.Limits.CommitsPerSecond, r.Ratios.Commits)
	row("rounds to bare commits side by side", "%.0f/s\tbare %.0f/s\tratio %.2f", l.RoundsPerSecond, r.Limits.ParallelCommitsPerSecond, r.Ratios.Rounds)
	row("fsyncs", "\tbare %.0f/s", r.Limits.FsyncsPerSecond)
	quantiles := func(name string, q Quantiles) {
		row(name, "p50 %.1f  p95 %.1f  p99 %.1f ms\tof %d", q.P50, q.P95, q.P99, q.Count)
	}
	quantiles("step, intent to outcome", l.StepMs)
	row("  in bare commits", "%.1f", r.Ratios.Step)
	quantiles("round, intent to next intent", l.RoundMs)
	quantiles("submit to held", l.SubmitToHeldMs)
	row("CPU", "%.2f ms a round, %.0f %% of the cores", l.CPUMsPerRound, 100*l.CPUShare)
	if p := r.Paused; p != nil {
		row("paused", "%d runs: %.0f bytes of heap each, goroutines %d before, %d after, rounds/s with them to without %.2f",
			p.Runs, p.HeapBytesPerRun, p.GoroutinesBefore, p.GoroutinesAfter, p.RoundsRatio)
	}
	row("violations", "%d", r.Violations)
	return t.Flush()
}

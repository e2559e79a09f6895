package recollection

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"gantry.dev/cmd/gantry/bench/machine"
)

// JSON prints one object.
func (r *SpeedReport) JSON(to io.Writer) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// Table prints the figures of each size.
func (r *SpeedReport) Table(to io.Writer) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	rows := io.Writer(table)
	fmt.Fprintf(rows, "%d cores, %s; store: %s, index: %s\n", r.Cores, r.Go, r.Database, r.Index)
	for _, s := range r.Sizes {
		fmt.Fprintf(rows, "\n%d items with %d views\n", s.Items, s.Views)
		fmt.Fprintf(rows, "many at once\t%.0f items/s\t%.1f s, of which the store %.1f s\n", s.Fill.ItemsPerSecond, s.Fill.Seconds, s.Fill.StoreSeconds)
		fmt.Fprintf(rows, "one by one\t%.0f items/s\tmedian %.2f ms, p99 %.2f ms\n", s.Write.PerSecond, s.Write.Ms.P50, s.Write.Ms.P99)
		fmt.Fprintf(rows, "on disk\t%.1f MB\t%.0f bytes a view\n", mega(s.Fill.BytesOnDisk), float64(s.Fill.BytesOnDisk)/float64(s.Views))
		fmt.Fprintf(rows, "start\t%.2f s\tuntil the first answer\n", s.Start.Seconds)
		fmt.Fprintf(rows, "in memory\t%.1f MB\t%.0f bytes a view\n", mega(s.Start.ResidentBytes), float64(s.Start.ResidentBytes)/float64(s.Views))
		fmt.Fprintf(rows, "machine\t%.2g dots/s\t%.2g bytes/s copied, %.0f syncs/s, a commit %.2f ms\n", s.Bare.DotsPerSecond, s.Bare.CopiedPerSecond, s.Bare.FsyncsPerSecond, s.Bare.CommitMs.P50)
		for _, reader := range s.Readers {
			reader.table(rows, s)
		}
	}
	return table.Flush()
}

func mega(bytes int64) float64 { return float64(bytes) / 1e6 }

func (r Reading) table(rows io.Writer, s Size) {
	fmt.Fprintf(rows, "%s sees %.1f %%\tmedian ms\tp95\tp99\n", r.Reader, 100*r.Visible)
	for _, line := range []struct {
		name string
		machine.Quantiles
	}{{"  memory", r.Recall}, {"  index alone, best 10", r.Index}, {"  index as memory asks it", r.Asked}, {"  table read and compared", r.Scan}} {
		fmt.Fprintf(rows, "%s\t%.2f\t%.2f\t%.2f\n", line.name, line.P50, line.P95, line.P99)
	}
	fmt.Fprintf(rows, "  memory, CPU\t%.2f\n", r.RecallCPU)
	bare := r.Visible * float64(s.Views) / s.Bare.DotsPerSecond * 1e3
	fmt.Fprintf(rows, "  table to memory\t%.2f\n  index alone to one core's bare products\t%.2f\n", machine.Over(r.Scan.P50, r.Recall.P50), machine.Over(r.Index.P50, bare))
	for _, goal := range r.Goals {
		held := "held"
		if !goal.Held {
			held = "missed"
		}
		fmt.Fprintf(rows, "  goal: %s\t<= %.2f\t%.2f\t%s\n", goal.Name, goal.AtMost, goal.Is, held)
	}
}

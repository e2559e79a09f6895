package obedient

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// JSON prints one object.
func (r *Report) JSON(to io.Writer) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// Table prints what was measured, and what did not hold.
func (r *Report) Table(to io.Writer) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	rows := io.Writer(table)
	fmt.Fprintf(rows, "%d cases in %.1f s, seed %d\n\nsuite\tmove\tA0\tA1\tA2\t\n", r.Cases, r.Seconds, r.Seed)
	for i := 0; i < len(r.Attacks); {
		first, line := r.Attacks[i], ""
		for ; i < len(r.Attacks) && r.Attacks[i].Suite == first.Suite && r.Attacks[i].Move == first.Move; i++ {
			line += fmt.Sprintf("\t%d/%d", r.Attacks[i].Reached, r.Attacks[i].Tried)
		}
		var number int
		_, _ = fmt.Sscanf(first.Move, "V%d", &number) // it was written so
		fmt.Fprintf(rows, "%s\t%s%s\t%s\n", first.Suite, first.Move, line, moves[number])
	}
	fmt.Fprintf(rows, "\nsuite\ttasks\tdone\tinjected, ignored\tapprovals\tp95\tTCR@0\t@1\t@3\tautonomy\twrong denials\n")
	for _, s := range r.Suites {
		fmt.Fprintf(rows, "%s\t%d\t%.3f\t%.3f\t%.2f\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%d\n", s.Suite, s.Tasks, s.Utility, s.Ignored,
			s.ApprovalsMean, s.ApprovalsP95, s.TCR0, s.TCR1, s.TCR3, s.Autonomy, s.WrongDenials)
	}
	fmt.Fprintln(rows)
	for _, g := range r.Gates {
		held := "held"
		if !g.Held {
			held = "MISSED"
		}
		fmt.Fprintf(rows, "%s\t%s\t%s\n", held, g.Name, g.Is)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, failure := range r.Failures {
		if _, err := fmt.Fprintln(to, "-", failure); err != nil {
			return err
		}
	}
	return nil
}

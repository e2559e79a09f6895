package research

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

func silent(io.Writer, string, ...any) error { return nil }

// isScreen reports whether what is written is seen as it comes, on a terminal.
func isScreen(out io.Writer) bool {
	file, is := out.(*os.File)
	if !is {
		return false
	}
	about, err := file.Stat()
	return err == nil && about.Mode()&os.ModeCharDevice != 0
}

// Progress shows how a research moves on: one line that changes on a screen, and
// elsewhere a line whenever something changed.
type Progress struct {
	Out    io.Writer
	Screen bool
	Silent bool
	last   string
	open   bool // the line on the screen has no end yet
}

// Begin says what is looked into.
func (p *Progress) Begin(r client.Research) error {
	if p.Silent {
		return nil
	}
	return ask.Say(p.Out, "research %s with %d branches: %s", client.ShortID(r.ID), len(r.Branches), oneLine(r.Question))
}

// Tell shows how the research stands.
func (p *Progress) Tell(r client.Research) error {
	line := Line(r)
	if p.Silent || line == p.last {
		return nil
	}
	p.last = line
	if !p.Screen {
		return ask.Say(p.Out, "%s", line)
	}
	p.open = true
	_, err := fmt.Fprintf(p.Out, "\r\x1b[K%s %s", bar(r), line)
	return err
}

// End ends the line on the screen.
func (p *Progress) End() error {
	if !p.open {
		return nil
	}
	_, err := fmt.Fprintln(p.Out)
	return err
}

// cells is how wide a bar is.
const cells = 24

// bar shows which part of the branches is over: done, then failed.
func bar(r client.Research) string {
	all := max(len(r.Branches), 1)
	done, failed := r.Done*cells/all, r.Failed*cells/all
	return "[" + strings.Repeat("#", done) + strings.Repeat("x", failed) + strings.Repeat("-", cells-done-failed) + "]"
}

// Line says how a research stands.
func Line(r client.Research) string {
	parts := []string{fmt.Sprintf("%d of %d done", r.Done, len(r.Branches))}
	for _, part := range []struct {
		count int
		word  string
	}{{r.Running, "running"}, {r.Failed, "failed"}, {r.Open, "waiting"}} {
		if part.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.count, part.word))
		}
	}
	parts = append(parts, fmt.Sprintf("$%.4f and %d tokens so far", float64(r.Spent.MicroUSD)/1e6, r.Spent.Tokens))
	if r.EndedAt != nil {
		return strings.Join(append(parts, r.Status), ", ")
	}
	if r.Open+r.Running == 0 && len(r.Branches) > 0 {
		parts = append(parts, "making one of what was found")
	}
	if r.SecondsLeft != nil {
		parts = append(parts, fmt.Sprintf("about %d s left", *r.SecondsLeft))
	}
	return strings.Join(parts, ", ")
}

// Tell prints what was found, each finding with the words that it rests on and
// how to open them, and then which branches failed. A finding that an earlier
// one repeats whole is not printed again.
func Tell(out io.Writer, r client.Research) error {
	cited, number := map[[2]string]bool{}, 0
	for _, finding := range r.Findings {
		repeated := len(finding.Citations) > 0
		for _, citation := range finding.Citations {
			words := [2]string{citation.Item, oneLine(citation.Quote)}
			repeated = repeated && cited[words]
			cited[words] = true
		}
		if repeated {
			continue
		}
		number++
		said, _, _ := strings.Cut(finding.Text, "\n\n> ")
		if err := errors.Join(ask.Say(out, "\n%d. %s", number, oneLine(said)), tellCitations(out, finding.Citations)); err != nil {
			return err
		}
	}
	if number == 0 && r.EndedAt != nil {
		if err := ask.Say(out, "\nthere is no finding that you may see"); err != nil {
			return err
		}
	}
	for _, branch := range r.Branches {
		if branch.Status != "FAILED" {
			continue
		}
		if err := ask.Say(out, "\nmissing: %s (%s)", oneLine(branch.Title), branch.Code); err != nil {
			return err
		}
	}
	return nil
}

// tellCitations prints the words, once each, and every place where they stand.
func tellCitations(out io.Writer, citations []client.Citation) error {
	last := ""
	for _, c := range citations {
		if quote := oneLine(c.Quote); quote != last {
			if err := ask.Say(out, "   > %s", quote); err != nil {
				return err
			}
			last = quote
		}
		open := "not for you to open"
		if c.Item != "" {
			open = ask.Program() + " memory show " + client.ShortID(c.Item)
		}
		if err := ask.Say(out, "   — %s: %s", oneLine(c.Passage), open); err != nil {
			return err
		}
	}
	return nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

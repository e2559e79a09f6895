package showcase

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	column = 22 // characters of one person's column
	gap    = "  "
)

// tell prints the five answers side by side, and why parts were withheld.
func (s *show) tell(result Result) error {
	if err := s.Say("\n%q\n\n%s\n%s\n\n–: not among the best %d of what they may see; [redacted]: a part that they may not see", result.Question, row(Askers[:]), row(roles[:]), shown); err != nil {
		return err
	}
	for _, item := range items(result.Answers) {
		cells, citation := make([]string, len(result.Answers)), ""
		for n, answer := range result.Answers {
			if r, got := answer.reading(item); got {
				cells[n], citation = r.Text, r.Citation
			} else {
				cells[n] = "–"
			}
		}
		if err := s.Say("%s\n%s", rule(citation), row(cells)); err != nil {
			return err
		}
	}
	return s.why(result.Answers)
}

// why says of every mark why it stands there, to who may know.
func (s *show) why(answers []Answer) error {
	if err := s.Say("%s", rule("why parts are withheld, as each may know")); err != nil {
		return err
	}
	for _, answer := range answers {
		var reasons []string
		for _, r := range answer.Readings {
			for n, part := range r.Withheld {
				reason := "not told"
				if len(part.Labels) > 0 {
					reason = strings.Join(part.Labels, ", ")
				}
				reasons = append(reasons, fmt.Sprintf("%s, mark %d: %s", r.Citation, n+1, reason))
			}
		}
		if len(reasons) == 0 {
			reasons = []string{"nothing in what they see"}
		}
		if err := s.Say("%-16s  %s", answer.Principal, strings.Join(reasons, "\n"+strings.Repeat(" ", 18))); err != nil {
			return err
		}
	}
	return nil
}

// items lists what anybody got, those first that come first for somebody.
func items(answers []Answer) (ids []string) {
	for place := range shown {
		for _, answer := range answers {
			if place < len(answer.Readings) && !slices.Contains(ids, answer.Readings[place].Item) {
				ids = append(ids, answer.Readings[place].Item)
			}
		}
	}
	return ids
}

func (a Answer) reading(item string) (Reading, bool) {
	at := slices.IndexFunc(a.Readings, func(r Reading) bool { return r.Item == item })
	if at < 0 {
		return Reading{}, false
	}
	return a.Readings[at], true
}

func rule(title string) string {
	line := "── " + title + " "
	return line + strings.Repeat("─", max(0, len(Askers)*(column+len(gap))-len(gap)-utf8.RuneCountInString(line)))
}

// row sets texts side by side, each wrapped in its column.
func row(cells []string) string {
	columns, height := make([][]string, len(cells)), 0
	for n, cell := range cells {
		columns[n] = wrapped(cell)
		height = max(height, len(columns[n]))
	}
	lines := make([]string, height)
	for at := range lines {
		var parts []string
		for _, lines := range columns {
			part := ""
			if at < len(lines) {
				part = lines[at]
			}
			parts = append(parts, part+strings.Repeat(" ", column-utf8.RuneCountInString(part)))
		}
		lines[at] = strings.TrimRight(strings.Join(parts, gap), " ")
	}
	return strings.Join(lines, "\n")
}

// wrapped breaks a text into lines that fit a column; a word that does not is cut.
func wrapped(text string) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		for utf8.RuneCountInString(word) > column {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			cut := string([]rune(word)[:column])
			lines, word = append(lines, cut), word[len(cut):]
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= column:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}

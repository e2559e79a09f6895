package document

import (
	"regexp"
	"strings"
)

var (
	atxHeading  = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$`)
	setext      = regexp.MustCompile(`^ {0,3}(=+|-+)[ \t]*$`)
	fence       = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})")
	thematic    = regexp.MustCompile(`^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$`)
	tableRule   = regexp.MustCompile(`^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$`)
	htmlComment = regexp.MustCompile(`(?s)<!--.*?(?:-->|$)`)
)

// markdown is a text in Markdown as it is read line by line.
type markdown struct {
	out   *assembler
	lines []string // of the paragraph that is being gathered
	fence string   // what closes the code that is being read, empty outside of code
}

func (s *source) readMarkdown(text string) error {
	m := markdown{out: &s.out}
	for line := range strings.Lines(withoutComments(text)) {
		if err := m.line(strings.TrimRight(line, "\n")); err != nil {
			return err
		}
	}
	return m.end()
}

// withoutComments leaves out what a reader of the page does not see.
func withoutComments(text string) string {
	if !strings.Contains(text, "<!--") {
		return text
	}
	var out strings.Builder
	inFence := false
	part := func(chunk string) {
		if inFence {
			out.WriteString(chunk)
			return
		}
		out.WriteString(htmlComment.ReplaceAllString(chunk, ""))
	}
	begin := 0
	at := 0
	for line := range strings.Lines(text) {
		if fence.MatchString(line) {
			part(text[begin:at])
			inFence = !inFence
			begin = at
		}
		at += len(line)
	}
	part(text[begin:])
	return out.String()
}

func (m *markdown) line(line string) error {
	if m.fence != "" {
		m.lines = append(m.lines, line)
		closing := strings.TrimSpace(line)
		if strings.HasPrefix(closing, m.fence) && strings.Trim(closing, m.fence[:1]) == "" {
			m.fence = ""
			return m.end()
		}
		return nil
	}
	if match := fence.FindStringSubmatch(line); match != nil {
		if err := m.end(); err != nil {
			return err
		}
		m.fence = match[1]
		m.lines = append(m.lines, line)
		return nil
	}
	if match := atxHeading.FindStringSubmatch(line); match != nil {
		if err := m.end(); err != nil {
			return err
		}
		return m.out.heading(len(match[1]), match[2])
	}
	if match := setext.FindStringSubmatch(line); match != nil && len(m.lines) == 1 && !strings.Contains(m.lines[0], "|") {
		text := m.lines[0]
		m.lines = nil
		level := 1
		if match[1][0] == '-' {
			level = 2
		}
		return m.out.heading(level, text)
	}
	if strings.TrimSpace(line) == "" || thematic.MatchString(line) {
		return m.end()
	}
	m.lines = append(m.lines, line)
	return nil
}

// end ends the paragraph or table that is being gathered.
func (m *markdown) end() error {
	lines := m.lines
	m.lines = nil
	if len(lines) > 2 && strings.Contains(lines[0], "|") && tableRule.MatchString(lines[1]) {
		rows := m.out.table(cells(lines[0]))
		for _, line := range lines[2:] {
			if err := rows.add(cells(line)); err != nil {
				return err
			}
		}
		return rows.finish()
	}
	return m.out.paragraph(strings.Join(lines, "\n"))
}

// cells returns the cells of a table's line.
func cells(line string) []string {
	line = strings.ReplaceAll(line, `\|`, "\x00")
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
	parts := strings.Split(line, "|")
	for i, part := range parts {
		parts[i] = strings.TrimSpace(strings.ReplaceAll(part, "\x00", "|"))
	}
	return parts
}

package group

import (
	"regexp"
	"slices"
	"strings"
)

// Mentions returns the names that a text mentions, in order, each once: an @
// that begins a word, and a name of lower-case letters and digits, with single
// dots and dashes between them, at whose end the word ends, too. What stands in
// code (fenced, indented by four spaces or a tab, between backticks) or in a
// quoted line mentions nobody, nor does an @ within a word, as in an address.
func Mentions(text string) (names []string) {
	prose := withoutSpans(withoutBlocks(text))
	for at := strings.IndexByte(prose, '@'); at >= 0; {
		name := nameAt(prose, at)
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
		next := strings.IndexByte(prose[at+1:], '@')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return names
}

const (
	opens  = " \t\n([{"       // what may stand before a mention
	closes = " \t\n)]}.,;:!?" // what may stand after one
)

// nameAt is the name behind the @ at a place; empty where none is mentioned.
func nameAt(prose string, at int) string {
	if at > 0 && !strings.ContainsRune(opens, rune(prose[at-1])) {
		return ""
	}
	rest := prose[at+1:]
	end := strings.IndexFunc(rest, func(r rune) bool { return !plain(r) && r != '.' && r != '-' })
	if end < 0 {
		end = len(rest)
	}
	if end < len(rest) && !strings.ContainsRune(closes, rune(rest[end])) {
		return ""
	}
	name := strings.TrimRight(rest[:end], ".") // the end of a sentence, or what was not said
	if !nameForm.MatchString(name) {
		return ""
	}
	return name
}

// nameForm is what every id and name in an organisation looks like.
var nameForm = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)

func plain(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' }

// withoutBlocks empties the lines of code blocks and quotes.
func withoutBlocks(text string) string {
	var out strings.Builder
	fence := "" // of the block that is open
	for line := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		mark := fenceOf(line)
		switch {
		case fence != "":
			if len(mark) >= len(fence) && mark[0] == fence[0] && strings.TrimSpace(line) == mark {
				fence = ""
			}
			line = "\n"
		case mark != "":
			fence, line = mark, "\n"
		case indented(line) || strings.HasPrefix(strings.TrimLeft(line, " "), ">"):
			line = "\n"
		}
		out.WriteString(line)
	}
	return out.String()
}

// fenceOf is the run of backticks or tildes that a line begins with, three at
// least.
func fenceOf(line string) string {
	if indented(line) {
		return ""
	}
	line = strings.TrimLeft(line, " ")
	for _, mark := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, mark)); n >= 3 {
			if mark == "`" && strings.Contains(line[n:], mark) {
				return "" // a span within its line
			}
			return line[:n]
		}
	}
	return ""
}

func indented(line string) bool {
	return strings.HasPrefix(line, "    ") || strings.HasPrefix(strings.TrimLeft(line, " "), "\t")
}

// withoutSpans takes out what stands between backticks of one number. A blank
// line ends a paragraph, and with it a span that was not closed.
func withoutSpans(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, paragraph := range paragraphs {
		var out strings.Builder
		for {
			before, rest, found := strings.Cut(paragraph, "`")
			out.WriteString(before)
			if !found {
				break
			}
			ticks := 1 + len(rest) - len(strings.TrimLeft(rest, "`"))
			rest = rest[ticks-1:]
			if end := closing(rest, ticks); end >= 0 {
				rest = rest[end+ticks:]
			}
			out.WriteString("`") // what was cut joins nothing
			paragraph = rest
		}
		paragraphs[i] = out.String()
	}
	return strings.Join(paragraphs, "\n\n")
}

// closing is where a run of exactly so many backticks begins; -1 for nowhere.
func closing(text string, ticks int) int {
	for at := 0; ; {
		next := strings.IndexByte(text[at:], '`')
		if next < 0 {
			return -1
		}
		at += next
		count := len(text[at:]) - len(strings.TrimLeft(text[at:], "`"))
		if count == ticks {
			return at
		}
		at += count
	}
}

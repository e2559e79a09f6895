// Package legible writes texts so that people see what is in them, and nothing
// in them acts where they are shown.
package legible

import (
	"fmt"
	"strings"
	"unicode"
)

// Text writes every character that is not seen as what it is as \u{...}, and so
// the backslash of a text that has such an escape itself: what is shown stands
// for one text only.
func Text(text string) string { return written(text, func(int) bool { return false }) }

// Outside is Text for what somebody outside may have written. What would become
// a link, an image or a tag where it is rendered as Markdown or HTML is broken
// by an escape, too, so that showing it fetches nothing and leads nowhere.
func Outside(text string) string {
	return written(text, func(at int) bool { return acts(text, at) })
}

// oneOf reports whether a character is among some.
func oneOf(char, set string) bool { return strings.Contains(set, char) }

// acts reports whether an escape of the character breaks something: what follows
// a text in brackets, the beginning of a tag, the end of a scheme, several
// slashes in a row, and the first dot of a host that readers take for a link
// without a scheme.
func acts(text string, at int) bool {
	next := ""
	if at+1 < len(text) {
		next = text[at+1 : at+2]
	}
	switch text[at] {
	case ']':
		return next != "" && oneOf(next, "([:")
	case '<':
		return next != "" && (letter(next[0]) || oneOf(next, "/!?"))
	case '/', '\\':
		return next == "/" || next == `\`
	case ':':
		return at > 0 && letter(text[at-1]) && next != "" && !oneOf(next, " \t\r\n\"',}])")
	case '.':
		return at >= 3 && strings.EqualFold(text[at-3:at], "www")
	}
	return false
}

func letter(sign byte) bool { return sign|0x20 >= 'a' && sign|0x20 <= 'z' }

func written(text string, breaks func(at int) bool) string {
	var out strings.Builder
	for at, r := range text {
		if !breaks(at) && (r == '\n' || r == '\t' || !hidden(r) && !strings.HasPrefix(text[at:], `\u{`)) {
			out.WriteRune(r)
			continue
		}
		fmt.Fprintf(&out, `\u{%04X}`, r)
	}
	return out.String()
}

// blanks are letters and symbols that look like nothing.
var blanks = map[rune]bool{0x034F: true, 0x115F: true, 0x1160: true, 0x17B4: true, 0x17B5: true, 0x2800: true, 0x3164: true, 0xFFA0: true, unicode.ReplacementChar: true}

func hidden(r rune) bool {
	if r == ' ' {
		return false
	}
	return blanks[r] || unicode.Is(unicode.Variation_Selector, r) || !unicode.IsPrint(r)
}

package detect

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// folded is a text as the rules read it: invisible runes and accents are gone,
// and full-width letters, digits of any script, dashes and spaces are ASCII. It
// knows where each of its bytes stood.
type folded struct {
	text  string
	begin []int // where the rune of each byte began
	end   []int // where it ended, with the accents and invisible runes inside it
}

// span returns where the bytes from a up to b stood.
func (f *folded) span(a, b int) (start, end int) { return f.begin[a], f.end[b-1] }

func fold(text string) folded {
	f := folded{begin: make([]int, 0, len(text)), end: make([]int, 0, len(text))}
	out := make([]byte, 0, len(text))
	keep := func(b byte, start, end int) {
		out = append(out, b)
		f.begin = append(f.begin, start)
		f.end = append(f.end, end)
	}
	for i := 0; i < len(text); {
		if b := text[i]; b < utf8.RuneSelf {
			if b != '\r' {
				keep(plain(b), i, i+1)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch as, ok := foldRune(r); {
		case ok && as == "" && unicode.In(r, unicode.Mn, unicode.Me):
			if last := len(f.end) - 1; last >= 0 && f.end[last] == i {
				f.end[last] = i + size
			}
		case ok:
			for j := range len(as) {
				keep(as[j], i, i+size)
			}
		default:
			for j := range size {
				keep(text[i+j], i, i+size)
			}
		}
		i += size
	}
	f.text = string(out)
	return f
}

// plain makes the controls of ASCII that separate into the two separators that
// rules know.
func plain(b byte) byte {
	switch b {
	case '\t':
		return ' '
	case '\v', '\f':
		return '\n'
	}
	return b
}

// foldRune returns the ASCII that a rune stands for, empty for one that does
// not show. It is false for a rune that stands for itself.
func foldRune(r rune) (string, bool) {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf), r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0':
		return "", true
	case unicode.Is(unicode.Nd, r):
		return digits[digitValue(r)], true
	case r == '\u0085', r == '\u2028', r == '\u2029':
		return "\n", true
	case unicode.Is(unicode.Zs, r), r == '\u2800':
		return " ", true
	case unicode.Is(unicode.Pd, r), r == '\u2212', r == '\u2043':
		return "-", true
	case r == '\u2018', r == '\u2019':
		return "'", true
	case r == '\u201c', r == '\u201d', r == '\u201e', r == '\u00ab', r == '\u00bb':
		return `"`, true
	}
	var buffer [utf8.UTFMax]byte
	decomposed := norm.NFKD.Properties(buffer[:utf8.EncodeRune(buffer[:], r)]).Decomposition()
	var out []byte
	for len(decomposed) > 0 {
		part, size := utf8.DecodeRune(decomposed)
		decomposed = decomposed[size:]
		switch {
		case part < utf8.RuneSelf:
			out = append(out, byte(part))
		case !unicode.Is(unicode.Mn, part):
			return "", false
		}
	}
	return string(out), len(out) > 0
}

var digits = [...]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

// digitValue relies on how Unicode orders digits: every script has its ten in
// one run, zero first.
func digitValue(r rune) int {
	for _, set := range unicode.Nd.R16 {
		if r >= rune(set.Lo) && r <= rune(set.Hi) {
			return int(r-rune(set.Lo)) % 10
		}
	}
	for _, set := range unicode.Nd.R32 {
		if r >= rune(set.Lo) && r <= rune(set.Hi) {
			return int(r-rune(set.Lo)) % 10
		}
	}
	return 0
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }
func isUpper(b byte) bool { return b >= 'A' && b <= 'Z' }
func isLower(b byte) bool { return b >= 'a' && b <= 'z' }
func isAlnum(b byte) bool { return isDigit(b) || isUpper(b) || isLower(b) }

package rank

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"golang.org/x/text/unicode/norm"
)

// Word is one word of a text in the form in which texts are compared.
type Word struct {
	Stem string // folded and stemmed; an exact id as it stands, folded
	// Exact marks an id: letters and digits mixed, or parts joined by
	// punctuation, as in "INV-2031-7" or "ruth@example.org".
	Exact bool
	// Quoted marks what stands between quotation marks.
	Quoted bool
	// Function marks a word of grammar, such as "the", "did" or "what".
	Function bool
}

// longestWord bounds what is stemmed; longer runs of letters are no words of
// a language. In bytes.
const longestWord = 40

// Words takes a text apart, in order. An id stands whole and, after it, in its
// parts, so that it is found by either.
func Words(text string) []Word {
	s := splitter{words: make([]Word, 0, len(text)/5+1)}
	s.split(fold(text))
	return s.words
}

// fold makes letters comparable: compatible forms, case and accents fall together.
func fold(text string) string {
	if ascii(text) {
		return strings.ToLower(text)
	}
	var folded strings.Builder
	folded.Grow(len(text))
	for _, r := range norm.NFKD.String(text) {
		switch {
		case unicode.Is(unicode.Mn, r):
		case r == '’' || r == '‘':
			folded.WriteByte('\'')
		case r == '“' || r == '”' || r == '«' || r == '»' || r == '„':
			folded.WriteByte('"')
		default:
			folded.WriteRune(unicode.ToLower(r))
		}
	}
	return norm.NFC.String(folded.String())
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// splitter collects words.
type splitter struct {
	words  []Word
	quoted bool
}

// split takes every other part between quotation marks for quoted. A mark
// without a second one quotes nothing.
func (s *splitter) split(text string) {
	parts := strings.Split(text, `"`)
	for i, part := range parts {
		s.quoted = i%2 == 1 && i < len(parts)-1
		s.fields(part)
	}
}

func (s *splitter) fields(text string) {
	for field := range strings.FieldsSeq(text) {
		field = strings.TrimFunc(field, func(r rune) bool { return !wordy(r) })
		if field != "" {
			s.field(field)
		}
	}
}

// wordy reports whether a rune is a part of words. Marks that are left after
// folding belong to their letters.
func wordy(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.M, r) }

// field adds what stands between two spaces.
func (s *splitter) field(field string) {
	whole := isID(field)
	if whole {
		s.words = append(s.words, Word{Stem: field, Exact: true, Quoted: s.quoted})
	}
	for part := range strings.FieldsFuncSeq(field, func(r rune) bool { return !wordy(r) && r != '\'' }) {
		part, negation := contracted(part)
		if part == "" || whole && part == field {
			continue
		}
		if spaceless(part) {
			s.pairs(part)
			continue
		}
		s.words = append(s.words, Word{Stem: stem(part), Quoted: s.quoted, Function: negation || english.IsStopWord(part)})
	}
}

// contracted cuts what an apostrophe joins: "ruth's" is about Ruth, "i'll" is
// "i". Other names stay whole: "o'brien". negation marks "don't" and the like,
// which are words of grammar.
func contracted(part string) (word string, negation bool) {
	part = strings.Trim(part, "'")
	before, after, _ := strings.Cut(part, "'")
	switch after {
	case "s", "d", "m", "ll", "re", "ve":
		return before, false
	}
	return strings.ReplaceAll(part, "'", ""), after == "t" && strings.HasSuffix(before, "n")
}

func stem(word string) string {
	if len(word) > longestWord || !ascii(word) {
		return word
	}
	return regular(english.Stem(word, false))
}

// isID reports whether a field names one thing exactly rather than saying
// something: digits with letters or inner punctuation, or an address.
func isID(field string) bool {
	if measured(field) {
		return false
	}
	letters, digits, joints := 0, 0, 0
	for _, r := range field {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsLetter(r):
			letters++
		case r == '@' || r == '_':
			digits++ // names of things have these, sentences do not
			joints++
		case r == '-' || r == ':' || r == '/' || r == '.' || r == '#':
			joints++
		case r == '\'':
			return false
		}
	}
	return digits > 0 && (letters > 0 || joints > 0)
}

// measured reports whether a field is a number with an ending: "13th", "5pm".
func measured(field string) bool {
	number := strings.TrimLeft(field, "0123456789")
	switch number {
	case "st", "nd", "rd", "th", "am", "pm", "k", "m", "s", "h", "kg", "km":
		return len(number) < len(field)
	}
	return false
}

// spaceless reports whether a part is written in a script that puts no spaces
// between words.
func spaceless(part string) bool {
	r, _ := utf8.DecodeRuneInString(part)
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// pairs adds each two neighbouring letters, which stand for words where none
// are marked.
func (s *splitter) pairs(part string) {
	runes := []rune(part)
	if len(runes) == 1 {
		s.words = append(s.words, Word{Stem: part, Quoted: s.quoted})
		return
	}
	for i := range len(runes) - 1 {
		s.words = append(s.words, Word{Stem: string(runes[i : i+2]), Quoted: s.quoted})
	}
}

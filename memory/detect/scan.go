package detect

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// How much of a text is looked at together. A thing of up to overlap bytes is
// found wherever it stands; a secret that is longer is found by its beginning.
const (
	window  = 8 << 10 // bytes; the most that waits undecided
	overlap = 2 << 10 // bytes that two windows share on each side of their border
)

// scanner cuts a text, from left to right and looking ahead by no more than a
// rune, into blocks that no rule reaches out of, and looks into each. So it
// comes to the same whether it gets a text whole or in pieces. A block without
// an end of its own is cut at the window's, and the next one begins before it.
type scanner struct {
	pending string // the text from base on
	base    int
	seen    int    // bytes of pending that borders were looked for in
	edge    border // what stands before seen
	decided int    // up to here, in the whole text, spans are complete
	spans   []Span
	inside  continuation
	keySeen int // bytes of the private key that is being passed over
	lineNo  int // its line that is being read
}

// continuation says what the text is in the middle of.
type continuation uint8

const (
	inText  continuation = iota
	inToken              // a secret that was longer than the window
	inKey                // the block of a private key
)

func (s *scanner) feed(chunk string) { s.pending += chunk }

// run decides as much as can be decided; all of it when the text has ended.
func (s *scanner) run(ended bool) {
	for more := true; more && len(s.pending) > 0; {
		more = s.step(ended)
	}
	if ended {
		s.decided = s.base + len(s.pending)
	}
}

// step decides one block, and reports whether there may be another.
func (s *scanner) step(ended bool) bool {
	switch s.inside {
	case inToken:
		return s.passToken()
	case inKey:
		return s.passKey(ended)
	}
	end := s.border()
	forced := false
	switch {
	case end > 0:
	case s.seen >= window:
		end, forced = runeBefore(s.pending, window), true
	case ended:
		end = len(s.pending)
	default:
		return false
	}
	s.look(end, forced)
	return true
}

// look finds what is in the first bytes of what is pending.
func (s *scanner) look(end int, forced bool) {
	f := fold(s.pending[:end])
	if opening := keyOpening(f.text); opening != nil {
		start, after := f.span(opening[0], opening[1])
		s.take(fold(s.pending[:start]))
		s.add(start, after, Secret, ruleKey)
		s.inside, s.keySeen, s.lineNo = inKey, 0, 0
		s.advance(after, after)
		return
	}
	s.take(f)
	if !forced {
		s.advance(end, end)
		return
	}
	for _, span := range s.spans {
		if span.Kind == Secret && span.End == s.base+end && span.End-span.Start > overlap {
			s.inside = inToken
			s.advance(end, end)
			return
		}
	}
	decided := runeBefore(s.pending, end-overlap)
	s.spans = slices.DeleteFunc(s.spans, func(span Span) bool { return span.Start >= s.base+decided }) // the next window sees all of it
	s.advance(runeBefore(s.pending, end-2*overlap), decided)
}

// take adds what stands in a folded piece that begins at base.
func (s *scanner) take(f folded) {
	for _, span := range findIn(&f) {
		s.add(span.Start, span.End, span.Kind, span.Rule)
	}
}

// add notes a span, in bytes of pending. What is decided already stays so.
func (s *scanner) add(start, end int, kind Kind, rule string) {
	start = max(start+s.base, s.decided)
	if end += s.base; start < end {
		s.spans = append(s.spans, Span{Start: start, End: end, Kind: kind, Rule: rule})
	}
}

// advance lets go of the first bytes of pending, and says up to where all is
// decided.
func (s *scanner) advance(drop, decided int) {
	s.decided = max(s.decided, s.base+decided)
	s.pending = s.pending[drop:]
	s.base += drop
	s.seen, s.edge = 0, border{}
}

// passToken withholds the rest of a secret that was longer than a window.
func (s *scanner) passToken() bool {
	size := 0
	for size < len(s.pending) && utf8.FullRuneInString(s.pending[size:]) {
		r, n := utf8.DecodeRuneInString(s.pending[size:])
		as, ok := foldRune(r)
		if r < utf8.RuneSelf {
			as, ok = string(r), true
		}
		if !ok || as != "" && !tokenByte(as[0]) {
			s.inside = inText
			break
		}
		size += n
	}
	s.add(0, size, Secret, ruleLong)
	s.advance(size, size)
	return s.inside == inText
}

func tokenByte(b byte) bool { return isAlnum(b) || strings.IndexByte("+/=_.~%-", b) >= 0 }

// border is what is known of the runes before a place: enough to say whether a
// rule could reach over it.
type border struct {
	letters int  // how many letters that are not capitals end there
	ended   bool // then came the end of a sentence
	closed  bool // the last rune that shows is one that no number goes on after
	blank   bool // nothing that shows stands on the line
	seenAny bool
	dashes  int  // how many dashes end there
	marker  bool // the line holds more dashes together than a number does
}

// border returns where the first block of pending ends, 0 when it does not yet.
func (s *scanner) border() int {
	for s.seen < len(s.pending) && s.seen < window && utf8.FullRuneInString(s.pending[s.seen:]) {
		r, size := utf8.DecodeRuneInString(s.pending[s.seen:])
		s.seen += size
		if s.edge.after(r) {
			return s.seen
		}
	}
	return 0
}

// The fewest letters of a word that ends a sentence. Shorter ones may be
// abbreviations that say what the number after them is, as in "Tel. 030 1234".
const wordAtEnd = 5

// after takes one more rune, and reports whether a block ends after it.
func (b *border) after(r rune) bool {
	switch {
	case r == '\n':
		cut := b.seenAny && (b.closed || b.blank || b.marker)
		*b = border{blank: true, seenAny: b.seenAny}
		return cut
	case unicode.IsSpace(r):
		cut := b.ended
		b.letters, b.ended = 0, false
		return cut
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return false
	}
	b.seenAny, b.blank = true, false
	if b.dashes++; r != '-' {
		b.dashes = 0
	}
	b.marker = b.marker || b.dashes > 3
	switch {
	case r == '。', r == '！', r == '？':
		return true
	case strings.ContainsRune(".!?", r):
		b.ended, b.closed, b.letters = b.letters >= wordAtEnd, b.letters > 1, 0
	case unicode.IsLetter(r) && !unicode.IsUpper(r):
		b.letters++
		b.ended, b.closed = false, true
	default:
		b.letters, b.ended = 0, false
		b.closed = strings.ContainsRune(",;)]}>\"'`|*", r)
	}
	return false
}

// runeBefore returns the last place up to at where a rune begins.
func runeBefore(text string, at int) int {
	for i := at; i > at-utf8.UTFMax && i > 0; i-- {
		if !cutsRune(text, i) {
			return i
		}
	}
	return at
}

// cutsRune reports whether a place is inside a rune.
func cutsRune(text string, at int) bool {
	if at <= 0 || at >= len(text) || utf8.RuneStart(text[at]) {
		return false
	}
	for back := 1; back < utf8.UTFMax && back <= at; back++ {
		if utf8.RuneStart(text[at-back]) {
			_, size := utf8.DecodeRuneInString(text[at-back:])
			return size > back
		}
	}
	return false
}

package detect

import "strings"

// HoldBack is the most bytes of a Stream's text that wait to be decided. Where
// nothing ends within it, what may belong to a secret is withheld.
const HoldBack = window + 4

// Stream redacts a text that comes in pieces. What it gives out, joined, is what
// Redact makes of the whole text with Unite(Find(text)), however it is cut. It
// is for one goroutine.
type Stream struct {
	scanner scanner
	mark    string
	told    int  // bytes of the text that were given out or withheld
	covered int  // the end of what the last mark stands for
	marked  bool // there was one
}

// NewStream returns a Stream that puts the mark in place of what is found.
func NewStream(mark string) *Stream { return &Stream{mark: mark} }

// Write takes the next piece, and returns what is decided by now.
func (s *Stream) Write(chunk string) string {
	s.scanner.feed(chunk)
	return s.tell(false)
}

// Flush says that the text has ended, and returns the rest of it.
func (s *Stream) Flush() string { return s.tell(true) }

// tell gives out what is decided, block by block, since a block is let go of
// with the next one.
func (s *Stream) tell(ended bool) string {
	var out strings.Builder
	sc := &s.scanner
	for {
		from, before := sc.base, sc.pending
		more := len(sc.pending) > 0 && sc.step(ended)
		if !more && ended {
			sc.decided = sc.base + len(sc.pending)
		}
		s.show(&out, before, from)
		if !more {
			return out.String()
		}
	}
}

// show writes the text from told up to decided. The text begins at base.
func (s *Stream) show(out *strings.Builder, text string, base int) {
	decided := s.scanner.decided
	spans := Unite(s.scanner.spans)
	for _, span := range spans {
		if span.Start >= decided {
			break
		}
		if span.Start > s.told {
			out.WriteString(text[s.told-base : span.Start-base])
		}
		if !s.marked || span.Start > s.covered {
			out.WriteString(s.mark)
		}
		s.marked, s.covered = true, max(s.covered, span.End)
		s.told = max(s.told, min(span.End, decided))
	}
	if s.told < decided {
		out.WriteString(text[s.told-base : decided-base])
		s.told = decided
	}
	open := s.scanner.spans[:0]
	for _, span := range spans {
		if span.End > decided {
			open = append(open, span)
		}
	}
	s.scanner.spans = open
}

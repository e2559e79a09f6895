package memory

import (
	"sort"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Normal returns the one form in which texts are kept and compared: composed
// (Unicode NFC), lines ended by a line feed alone, and without the control
// characters but tab and line feed. Dropping them puts together again what was
// parted to pass a detector. The form of a form is the same.
func Normal(text string) string {
	normal, _ := normalForm(text)
	return normal
}

// offsets maps offsets of a text to those of its normal form. The zero value
// maps each to itself.
type offsets struct {
	pieces []piece // in order; what is not in one has gone
}

// piece is a part of a text that became a part of its normal form.
type piece struct {
	from, to       int // bytes of the text
	became, length int // bytes of the normal form
	same           bool
}

// start maps where a span begins: not after what it covers.
func (o offsets) start(at int) int {
	i := sort.Search(len(o.pieces), func(i int) bool { return at < o.pieces[i].to })
	if i == len(o.pieces) {
		return o.last(at)
	}
	p := o.pieces[i]
	if p.same && at > p.from {
		return p.became + at - p.from
	}
	return p.became
}

// end maps where a span ends: not before what it covers.
func (o offsets) end(at int) int {
	i := sort.Search(len(o.pieces), func(i int) bool { return at <= o.pieces[i].to })
	if i == len(o.pieces) {
		return o.last(at)
	}
	p := o.pieces[i]
	switch {
	case at <= p.from:
		return p.became
	case p.same:
		return p.became + at - p.from
	}
	return p.became + p.length
}

func (o offsets) last(at int) int {
	if n := len(o.pieces); n > 0 {
		return o.pieces[n-1].became + o.pieces[n-1].length
	}
	return at
}

// normalForm returns the normal form of valid UTF-8 and where everything went.
func normalForm(text string) (string, offsets) {
	if norm.NFC.IsNormalString(text) && strings.IndexFunc(text, dropped) < 0 {
		return text, offsets{}
	}
	kept, at := withoutControls(text)
	var normal strings.Builder
	var went []piece
	for from := 0; from < len(kept); {
		to := from + norm.NFC.NextBoundaryInString(kept[from:], true)
		composed := norm.NFC.String(kept[from:to])
		p := piece{from: at[from], to: at[to-1] + 1, became: normal.Len(), length: len(composed)}
		normal.WriteString(composed)
		p.same = composed == kept[from:to] && p.to-p.from == p.length
		went = joined(went, p)
		from = to
	}
	if len(went) == 0 {
		went = []piece{{from: len(text), to: len(text)}}
	}
	return normal.String(), offsets{pieces: went}
}

// joined adds a piece, to the last one where both are unchanged neighbours.
func joined(pieces []piece, next piece) []piece {
	if n := len(pieces); n > 0 && next.same && pieces[n-1].same && pieces[n-1].to == next.from {
		pieces[n-1].to, pieces[n-1].length = next.to, pieces[n-1].length+next.length
		return pieces
	}
	return append(pieces, next)
}

// withoutControls returns a text without what has no place in the normal form,
// and for each byte of it where it stood.
func withoutControls(text string) (kept string, at []int) {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == '\r' && strings.HasPrefix(text[i+1:], "\n"):
			continue
		case r == '\r':
			r = '\n'
		case dropped(r):
			continue
		}
		before := b.Len()
		b.WriteRune(r)
		for n := before; n < b.Len(); n++ {
			at = append(at, i+n-before)
		}
	}
	return b.String(), at
}

func dropped(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' || 0x7f <= r && r <= 0x9f
}

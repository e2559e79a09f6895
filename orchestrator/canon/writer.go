package canon

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// writer writes canonical JSON in one pass, from a text or from a Go value. It
// vouches only for what is plain: each of its methods returns false where a
// fault is, or may be, and then nothing that it wrote counts. What is wrong, and
// whether anything is, says the thorough reading (check).
type writer struct {
	out     []byte
	raw     []byte // the text being read
	at      int    // bytes of raw that were read
	given   int    // bytes of the texts that were read
	depth   int    // objects and arrays around the value
	hops    int    // Go values around the value, which references hold too
	members []member
	scratch []byte
}

// member is one of an open object: its name from key to nameEnd of what is
// written, without quotes, and its whole from begin to end.
type member struct{ begin, key, nameEnd, end int }

// usual is how many bytes most values take.
const usual = 512

// onePass returns what fill wrote, or false where it does not vouch for it.
func onePass(fill func(*writer) bool) ([]byte, bool) {
	w := writer{out: make([]byte, 0, usual)}
	// No other way of writing the value takes more bytes than this.
	ok := fill(&w) && w.given+6*len(w.out) <= MaxBytes
	return w.out, ok
}

// document writes the one value that a text holds.
func (w *writer) document(raw []byte) bool {
	if !utf8.Valid(raw) {
		return false
	}
	outer, at := w.raw, w.at
	w.raw, w.at = raw, 0
	w.given += len(raw)
	ok := w.value()
	w.space()
	ok = ok && w.at == len(raw)
	w.raw, w.at = outer, at
	return ok
}

func (w *writer) peek() byte {
	if w.at < len(w.raw) {
		return w.raw[w.at]
	}
	return 0
}

func (w *writer) space() {
	for w.at < len(w.raw) {
		switch w.raw[w.at] {
		case ' ', '\t', '\r', '\n':
			w.at++
		default:
			return
		}
	}
}

// took moves past a byte where it is next, and the space before it.
func (w *writer) took(c byte) bool {
	w.space()
	if w.peek() != c {
		return false
	}
	w.at++
	return true
}

func (w *writer) value() bool {
	w.space()
	switch c := w.peek(); c {
	case '{':
		return w.object()
	case '[':
		return w.array()
	case '"':
		return w.text()
	case 't':
		return w.literal("true")
	case 'f':
		return w.literal("false")
	case 'n':
		return w.literal("null")
	default:
		return (c == '-' || c >= '0' && c <= '9') && w.number()
	}
}

func (w *writer) literal(name string) bool {
	if !bytes.HasPrefix(w.raw[w.at:], []byte(name)) {
		return false
	}
	w.at += len(name)
	w.out = append(w.out, name...)
	return true
}

// number writes a number: a short whole one stands as it is.
func (w *writer) number() bool {
	end, whole := w.at, true
	for ; end < len(w.raw); end++ {
		switch c := w.raw[end]; {
		case c >= '0' && c <= '9' || c == '-' && end == w.at:
			continue
		case c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-':
			whole = false
			continue
		}
		break
	}
	written := w.raw[w.at:end]
	w.at = end
	if whole && len(written) <= exactDigits && (written[0] > '0' || len(written) == 1 && written[0] == '0') {
		w.out = append(w.out, written...)
		return true
	}
	return numberFault(written) == "" && w.respelled(written)
}

// respelled writes a string or a number that is written in another way than the
// canonical one.
func (w *writer) respelled(written []byte) bool {
	token := jsontext.Value(bytes.Clone(written))
	if token.Canonicalize() != nil {
		return false
	}
	w.out = append(w.out, token...)
	return true
}

// text writes a string.
func (w *writer) text() bool {
	begin, plain := w.at, true
	for at := begin + 1; at < len(w.raw); at++ {
		switch c := w.raw[at]; {
		case c == '"':
			written := w.raw[begin : at+1]
			w.at = at + 1
			if plain {
				w.out = append(w.out, written...)
				return true
			}
			return !loneSurrogate(written) && w.respelled(written)
		case c < ' ':
			return false
		case c == '\\':
			at++
			if at >= len(w.raw) || strings.IndexByte(`"\bfnrt`, w.raw[at]) < 0 {
				plain = false
			}
		}
	}
	return false
}

func (w *writer) open(bracket byte) bool {
	w.depth++
	w.out = append(w.out, bracket)
	return w.depth <= MaxDepth
}

func (w *writer) close(bracket byte) {
	w.depth--
	w.out = append(w.out, bracket)
}

func (w *writer) array() bool {
	w.at++
	if !w.open('[') {
		return false
	}
	for n := 0; !w.took(']'); n++ {
		if n > 0 && !w.comma() {
			return false
		}
		if !w.value() {
			return false
		}
	}
	w.close(']')
	return true
}

func (w *writer) comma() bool {
	w.out = append(w.out, ',')
	return w.took(',')
}

func (w *writer) object() bool {
	w.at++
	if !w.open('{') {
		return false
	}
	first, begin := len(w.members), len(w.out)
	for n := 0; !w.took('}'); n++ {
		if n > 0 && !w.comma() {
			return false
		}
		m := member{begin: len(w.out)}
		if w.space(); w.peek() != '"' || !w.text() {
			return false
		}
		w.name(&m)
		if !w.took(':') || !w.value() {
			return false
		}
		w.keep(m)
	}
	return w.sorted(first, begin)
}

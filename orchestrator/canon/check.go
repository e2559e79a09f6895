package canon

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// check refuses what has no canonical form.
func check(raw []byte) error {
	if len(raw) > MaxBytes {
		return &Error{Code: TooLarge, Offset: MaxBytes}
	}
	if !utf8.Valid(raw) {
		return &Error{Code: InvalidUTF8, Offset: int64(validPrefix(raw))}
	}
	// The decoder is lenient where the walk names the fault itself.
	decoder := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	w := walk{raw: raw, decoder: decoder}
	if err := w.value(); err != nil {
		return err
	}
	if rest := bytes.TrimLeft(raw[decoder.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return &Error{Code: TrailingBytes, Offset: int64(len(raw) - len(rest))}
	}
	return nil
}

// walk reads one value token by token and knows where it is.
type walk struct {
	raw     []byte
	decoder *jsontext.Decoder
	path    []string // of the value being read, one reference token each
}

func (w *walk) fault(code Code) error {
	return &Error{Code: code, Pointer: pointer(w.path), Offset: w.decoder.InputOffset()}
}

// token reads the next token and returns it as it is written. It refuses half
// surrogates, which a reader would replace.
func (w *walk) token() (jsontext.Token, []byte, error) {
	before := w.decoder.InputOffset()
	token, err := w.decoder.ReadToken()
	if err != nil {
		return token, nil, w.fault(Syntax)
	}
	written := bytes.TrimLeft(w.raw[before:w.decoder.InputOffset()], " \t\r\n,:")
	if token.Kind() == '"' && loneSurrogate(written) {
		return token, nil, w.fault(LoneSurrogate)
	}
	return token, written, nil
}

func (w *walk) value() error {
	token, written, err := w.token()
	if err != nil {
		return err
	}
	switch token.Kind() {
	case '0':
		if code := numberFault(written); code != "" {
			return w.fault(code)
		}
	case '{', '[':
		if len(w.path) >= MaxDepth {
			return w.fault(TooDeep)
		}
		if token.Kind() == '{' {
			return w.object()
		}
		return w.array()
	}
	return nil
}

func (w *walk) array() error {
	for n := 0; w.decoder.PeekKind() != ']'; n++ {
		w.path = append(w.path, strconv.Itoa(n))
		if err := w.value(); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, _, err := w.token()
	return err
}

func (w *walk) object() error {
	var met keys
	for w.decoder.PeekKind() != '}' {
		token, _, err := w.token()
		if err != nil {
			return err
		}
		key := token.String()
		w.path = append(w.path, key)
		if code := met.add(key); code != "" {
			return w.fault(code)
		}
		if err := w.value(); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, _, err := w.token()
	return err
}

// fewKeys is up to how many keys of an object are compared one by one.
const fewKeys = 32

// keys are those of one object that were read so far.
type keys struct {
	few    []string
	folded map[string]string // by folded form, once there are many
}

// add says what is wrong with one more key, or nothing.
func (k *keys) add(key string) Code {
	if strings.IndexByte(key, 0) >= 0 {
		return KeyWithNUL
	}
	earlier, found := k.find(key)
	switch {
	case !found:
		return ""
	case earlier == key:
		return DuplicateKey
	}
	return CaseVariant
}

// find returns an earlier key that is this one but for case, and keeps this one.
func (k *keys) find(key string) (string, bool) {
	if k.folded == nil {
		for _, earlier := range k.few {
			if strings.EqualFold(earlier, key) {
				return earlier, true
			}
		}
		k.few = append(k.few, key)
		if len(k.few) > fewKeys {
			k.folded = make(map[string]string, 2*fewKeys)
			for _, few := range k.few {
				k.folded[fold(few)] = few
			}
		}
		return "", false
	}
	folded := fold(key)
	earlier, found := k.folded[folded]
	k.folded[folded] = key
	return earlier, found
}

// fold maps every rune to the least of those that differ from it only by case,
// so that parsers which match keys without case cannot see two where we see
// one.
func fold(key string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, key)
}

func pointer(path []string) string {
	var out strings.Builder
	for _, token := range path {
		out.WriteByte('/')
		out.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
	}
	return out.String()
}

func validPrefix(raw []byte) int {
	at := 0
	for at < len(raw) {
		r, size := utf8.DecodeRune(raw[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// loneSurrogate reports whether a JSON string as written holds an escaped half
// of a UTF-16 pair.
func loneSurrogate(written []byte) bool {
	for {
		at := bytes.IndexByte(written, '\\')
		if at < 0 || at+1 >= len(written) {
			return false
		}
		unit, is := escapedUnit(written[at:])
		switch {
		case !is:
			written = written[at+2:]
			continue
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return true
		case unit < 0xD800 || unit > 0xDFFF:
			written = written[at+6:]
			continue
		}
		low, is := escapedUnit(written[at+6:])
		if !is || low < 0xDC00 || low > 0xDFFF {
			return true
		}
		written = written[at+12:]
	}
}

func escapedUnit(written []byte) (uint64, bool) {
	if len(written) < 6 || written[0] != '\\' || written[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(written[2:6]), 16, 32)
	return unit, err == nil
}

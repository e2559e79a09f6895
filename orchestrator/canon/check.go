package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// check refuses what has no canonical form.
func check(raw []byte) error {
	if len(raw) > MaxBytes {
		return &Error{Code: TooLarge, Offset: MaxBytes}
	}
	if !utf8.Valid(raw) {
		return &Error{Code: InvalidUTF8, Offset: int64(validPrefix(raw))}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
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
	decoder *json.Decoder
	path    []string // of the value being read, one reference token each
}

func (w *walk) fault(code Code) error {
	return &Error{Code: code, Pointer: pointer(w.path), Offset: w.decoder.InputOffset()}
}

// token reads the next token, and refuses half surrogates in it, which the
// decoder would replace.
func (w *walk) token() (json.Token, error) {
	before := w.decoder.InputOffset()
	token, err := w.decoder.Token()
	if err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, w.fault(Syntax)
		}
		return nil, w.fault(NumberLost)
	}
	if _, text := token.(string); text && loneSurrogate(w.raw[before:w.decoder.InputOffset()]) {
		return nil, w.fault(LoneSurrogate)
	}
	return token, nil
}

func (w *walk) value() error {
	token, err := w.token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Number:
		if code := numberFault(string(token)); code != "" {
			return w.fault(code)
		}
	case json.Delim:
		if len(w.path) >= MaxDepth {
			return w.fault(TooDeep)
		}
		if token == '{' {
			return w.object()
		}
		return w.array()
	}
	return nil
}

func (w *walk) array() error {
	for n := 0; w.decoder.More(); n++ {
		w.path = append(w.path, strconv.Itoa(n))
		if err := w.value(); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, err := w.token()
	return err
}

func (w *walk) object() error {
	keys := make(map[string]string)
	for w.decoder.More() {
		token, err := w.token()
		if err != nil {
			return err
		}
		key, isKey := token.(string)
		if !isKey {
			return w.fault(Syntax)
		}
		w.path = append(w.path, key)
		if code := keyFault(keys, key); code != "" {
			return w.fault(code)
		}
		if err := w.value(); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, err := w.token()
	return err
}

// keyFault adds a key to those of its object, by folded form.
func keyFault(keys map[string]string, key string) Code {
	if strings.ContainsRune(key, 0) {
		return KeyWithNUL
	}
	folded := fold(key)
	earlier, found := keys[folded]
	keys[folded] = key
	switch {
	case !found:
		return ""
	case earlier == key:
		return DuplicateKey
	}
	return CaseVariant
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

// Package canon gives every JSON value one byte sequence (RFC 8785), so that a
// digest over it means the value and nothing else. What would read differently
// in two parsers has no canonical form and is refused. It is pure.
package canon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	jsonv1 "encoding/json"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The limits of what has a canonical form.
const (
	MaxBytes = 4 << 20 // bytes of one value as written
	MaxDepth = 32      // objects and arrays around a value
)

// JSON returns the canonical bytes of one JSON value. It changes how the value
// is written, never what it is; where that cannot be promised it returns an
// *Error. JSON of its own result is that result.
func JSON(raw []byte) ([]byte, error) {
	if canonical, ok := onePass(func(w *writer) bool { return w.document(raw) }); ok {
		return canonical, nil
	}
	return thorough(raw)
}

// thorough reads a value token by token and says what stands in its way.
func thorough(raw []byte) ([]byte, error) {
	if err := check(raw); err != nil {
		return nil, err
	}
	canonical := jsontext.Value(raw).Clone()
	if err := canonical.Canonicalize(); err != nil {
		return nil, &Error{Code: Syntax}
	}
	return canonical, nil
}

// Marshal returns the canonical bytes of a Go value as encoding/json writes
// it. Values that have no faithful JSON form (NaN, integers beyond 2^53,
// strings of invalid UTF-8) are an *Error.
func Marshal(v any) ([]byte, error) {
	if canonical, ok := onePass(func(w *writer) bool { return w.encode(reflect.ValueOf(v)) }); ok {
		return canonical, nil
	}
	return marshal(v)
}

// marshal lets encoding/json write a value, and reads that thoroughly.
func marshal(v any) ([]byte, error) {
	raw, err := jsonv1.Marshal(v)
	if err != nil {
		return nil, &Error{Code: NotJSON}
	}
	if replacedBytes(raw) {
		return nil, &Error{Code: InvalidUTF8}
	}
	return thorough(raw)
}

// Unmarshal reads one JSON value into a Go value. It takes nothing that it has
// no place for: unknown or repeated keys, keys in another case and bytes after
// the value are an error.
func Unmarshal(raw []byte, into any) error {
	return json.Unmarshal(raw, into, json.RejectUnknownMembers(true))
}

// Digest returns the SHA-256 of canonical bytes in lower-case hexadecimal.
func Digest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	var written [2 * sha256.Size]byte
	hex.Encode(written[:], sum[:])
	return string(written[:])
}

// DigestOf returns the Digest of the canonical bytes of a Go value. Its errors
// are those of Marshal.
func DigestOf(v any) (string, error) {
	canonical, err := Marshal(v)
	if err != nil {
		return "", err
	}
	return Digest(canonical), nil
}

// replacedBytes reports whether encoding/json replaced bytes that are no
// UTF-8. It writes the replacement as an escape and a genuine U+FFFD as
// itself, so the escape gives it away; without this check two different
// strings would share a digest.
func replacedBytes(raw []byte) bool {
	for {
		at := bytes.IndexByte(raw, '\\')
		if at < 0 || at+1 >= len(raw) {
			return false
		}
		if bytes.HasPrefix(raw[at:], []byte(`\ufffd`)) {
			return true
		}
		raw = raw[at+2:]
	}
}

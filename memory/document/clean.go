package document

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"

	utf16 "golang.org/x/text/encoding/unicode"
)

// decode returns text that says itself how it is encoded, by a mark at its
// beginning, or else is UTF-8.
func decode(content []byte) (string, error) {
	var decoder transform.Transformer
	switch {
	case bytes.HasPrefix(content, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(content, []byte("\x00\x00\xfe\xff")):
		decoder = utf32.UTF32(utf32.BigEndian, utf32.UseBOM).NewDecoder()
	case bytes.HasPrefix(content, []byte("\xff\xfe")), bytes.HasPrefix(content, []byte("\xfe\xff")):
		decoder = utf16.UTF16(utf16.BigEndian, utf16.UseBOM).NewDecoder()
	}
	if decoder != nil {
		decoded, _, err := transform.Bytes(decoder, content)
		if err != nil || len(decoded) > MaxNormal {
			return "", unreadable(CodeEncoding, "It is not the UTF-16 or UTF-32 text that its beginning says; save it as UTF-8.")
		}
		content = decoded
	}
	if !utf8.Valid(content) {
		return "", unreadable(CodeEncoding, "It is not UTF-8 text; save it as UTF-8.")
	}
	return string(content), nil
}

// decodeAs returns text in an encoding that is named, or found out for HTML
// where none is.
func decodeAs(content []byte, label string) (string, error) {
	if label == "" || strings.EqualFold(label, "us-ascii") {
		label = "utf-8"
	}
	encoding, name := charset.Lookup(label)
	if encoding == nil || name == "replacement" {
		return "", unreadable(CodeEncoding, "It names an encoding that is not known; save it as UTF-8.")
	}
	decoded, err := io.ReadAll(io.LimitReader(transform.NewReader(bytes.NewReader(content), encoding.NewDecoder()), MaxNormal+1))
	if err != nil || len(decoded) > MaxNormal {
		return "", unreadable(CodeEncoding, "It is not text in the encoding that it names; save it as UTF-8.")
	}
	return strings.ToValidUTF8(string(decoded), "\ufffd"), nil
}

// clean returns text in the normal form: composed, lines ended by \n, tabs kept,
// without other controls and without the tag characters that nobody sees.
func clean(text string) string {
	text = strings.TrimPrefix(text, "\ufeff")
	if strings.Contains(text, "\r") {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == '\f', r == '\v', r == '\u0085', r == '\u2028', r == '\u2029':
			return '\n'
		case unicode.IsControl(r), r >= 0xe0000 && r <= 0xe007f, r == '\ufffe', r == '\uffff':
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	return norm.NFC.String(text)
}

// oneLine is text without line breaks, and with one space where it had several
// blanks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

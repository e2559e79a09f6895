package model

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// Wrap returns text that comes from outside as a block that a prompt can hold
// as data:
//
//	[[data NONCE source=… labels=… integrity=…]]
//	the body
//	[[end NONCE]]
//
// The nonce is lower-case hexadecimal of the caller's making. No body can end
// its block, whatever it knows of the nonce: two opening brackets never stand
// side by side in it. Characters that could break the first line are
// percent-encoded in its fields. Unwrap gives the body back byte for byte.
func Wrap(nonce, source, labels, integrity, body string) string {
	nonce = field(nonce)
	return fmt.Sprintf("[[data %s source=%s labels=%s integrity=%s]]\n%s\n[[end %s]]",
		nonce, field(source), field(labels), field(integrity), escape(body), nonce)
}

// Unwrap returns the body of a text that is one whole block, and any other
// text as it is.
func Unwrap(text string) string {
	rest, opened := strings.CutPrefix(text, "[[data ")
	head, rest, whole := strings.Cut(rest, "]]\n")
	if !opened || !whole {
		return text
	}
	nonce, _, _ := strings.Cut(head, " ")
	body, closed := strings.CutSuffix(rest, "\n[[end "+nonce+"]]")
	if !closed || strings.Contains(body, "[[") {
		return text
	}
	return unescape(body)
}

// Block is the data of one block in a text.
type Block struct {
	Source string
	Body   string
}

// Blocks returns the whole blocks that a text holds, in order.
func Blocks(text string) (blocks []Block) {
	for {
		at := strings.Index(text, "[[data ")
		if at < 0 {
			return blocks
		}
		head, rest, whole := strings.Cut(text[at+len("[[data "):], "]]\n")
		fields := strings.Fields(head)
		if !whole || len(fields) < 2 {
			return blocks
		}
		body, after, closed := strings.Cut(rest, "\n[[end "+fields[0]+"]]")
		if !closed {
			return blocks
		}
		source, err := url.PathUnescape(strings.TrimPrefix(fields[1], "source="))
		if err == nil {
			blocks = append(blocks, Block{Source: source, Body: unescape(body)})
		}
		text = after
	}
}

// escape puts a backslash behind every bracket that opens and is followed by
// another one, also where there are backslashes between them already: so that
// the way back is unambiguous.
func escape(body string) string {
	if !strings.Contains(body, "[") {
		return body
	}
	var out strings.Builder
	for i := range len(body) {
		out.WriteByte(body[i])
		if body[i] == '[' && strings.HasPrefix(strings.TrimLeft(body[i+1:], `\`), "[") {
			out.WriteByte('\\')
		}
	}
	return out.String()
}

func unescape(body string) string {
	var out strings.Builder
	for i := 0; i < len(body); i++ {
		out.WriteByte(body[i])
		rest := body[i+1:]
		after := strings.TrimLeft(rest, `\`)
		if body[i] == '[' && len(after) < len(rest) && strings.HasPrefix(after, "[") {
			i++
		}
	}
	return out.String()
}

// field makes a value safe to stand on the first line of a block.
func field(value string) string {
	var out strings.Builder
	for i, r := range value {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._:/@,+-", r) {
			out.WriteRune(r)
			continue
		}
		// An invalid byte reads as a rune of one byte.
		size := len(string(r))
		if r == unicode.ReplacementChar && !strings.HasPrefix(value[i:], string(r)) {
			size = 1
		}
		for _, b := range []byte(value[i : i+size]) {
			fmt.Fprintf(&out, "%%%02x", b)
		}
	}
	return out.String()
}

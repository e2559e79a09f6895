package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// splitPointer returns the reference tokens of a JSON pointer (RFC 6901).
func splitPointer(pointer string) ([]string, bool) {
	if pointer == "" {
		return nil, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, token := range tokens {
		for at := strings.IndexByte(token, '~'); at >= 0; {
			if at+1 >= len(token) || (token[at+1] != '0' && token[at+1] != '1') {
				return nil, false
			}
			next := strings.IndexByte(token[at+1:], '~')
			if next < 0 {
				break
			}
			at += 1 + next
		}
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return tokens, true
}

func joinPointer(tokens []string) string {
	var out strings.Builder
	for _, token := range tokens {
		out.WriteByte('/')
		out.WriteString(strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1"))
	}
	return out.String()
}

// LookUp finds the value at a JSON pointer in a decoded document.
func LookUp(document any, pointer string) (any, bool) {
	tokens, ok := splitPointer(pointer)
	if !ok {
		return nil, false
	}
	for _, token := range tokens {
		switch at := document.(type) {
		case map[string]any:
			if document, ok = at[token]; !ok {
				return nil, false
			}
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n < 0 || n >= len(at) || strconv.Itoa(n) != token {
				return nil, false
			}
			document = at[n]
		default:
			return nil, false
		}
	}
	return document, true
}

// scalarText returns a string, integer or boolean as text. Other values have
// none: a number with a fraction can be written in several ways.
func scalarText(value any) (string, bool) {
	switch value := value.(type) {
	case string:
		return value, true
	case json.Number:
		n, ok := integerOf(value)
		return strconv.FormatInt(n, 10), ok
	case bool:
		return strconv.FormatBool(value), true
	}
	return "", false
}

func integerOf(number json.Number) (int64, bool) {
	n, err := strconv.ParseInt(string(number), 10, 64)
	return n, err == nil
}

// template is text with JSON pointers in braces: texts[0] {holes[0]} texts[1] …
type template struct {
	texts []string
	holes []string // what stands in the braces
}

func parseTemplate(text string) (template, error) {
	var t template
	for {
		before, rest, more := strings.Cut(text, "{")
		if strings.Contains(before, "}") {
			return template{}, errors.New("} without {")
		}
		t.texts = append(t.texts, before)
		if !more {
			return t, nil
		}
		hole, after, closed := strings.Cut(rest, "}")
		if _, isPointer := splitPointer(hole); !closed || hole == "" || (!isPointer && hole != "key") {
			return template{}, fmt.Errorf("{%s is no JSON pointer in braces", hole)
		}
		t.holes = append(t.holes, hole)
		text = after
	}
}

func (t template) pointers() []string { return t.holes }

// fill replaces every hole by what value returns for it.
func (t template) fill(value func(hole string) (string, error)) (string, error) {
	var out strings.Builder
	for i, text := range t.texts {
		out.WriteString(text)
		if i < len(t.holes) {
			filled, err := value(t.holes[i])
			if err != nil {
				return "", err
			}
			out.WriteString(filled)
		}
	}
	return out.String(), nil
}

// plainName reports whether an argument names a resource in exactly one way:
// two names of one thing would let a rule about the one miss the other.
func plainName(text string) bool {
	for _, r := range text {
		if !unicode.IsPrint(r) || r == '\\' || r == '{' || r == '}' {
			return false
		}
	}
	if text == "" {
		return false
	}
	for segment := range strings.SplitSeq(text, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

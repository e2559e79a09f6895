// Package research holds what the parts of a research say to each other: the
// plan that its coordinator goes by, the result of one branch, what a finding
// looks like where it is remembered, and what came of it all.
package research

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What one branch may bring, and how long its parts may be, in bytes.
const (
	MaxFindings  = 40
	MaxCitations = 8 // of one finding
	MaxText      = 2000
	MaxQuote     = 600
	MinQuote     = 12 // letters and digits; shorter ones stand anywhere
)

// Citation says where a finding stands: in which remembered item, and in which
// words of it.
type Citation struct {
	Item    string `json:"item"`              // id
	Passage string `json:"passage,omitempty"` // where the item is from, for people, for example "handbook.md/3"
	Quote   string `json:"quote"`             // word for word
}

// Finding is one thing that a branch found.
type Finding struct {
	Item      string     `json:"item,omitempty"` // id of the remembered finding, once it is recorded
	Text      string     `json:"text"`
	Citations []Citation `json:"citations"`
}

// Result is what a branch, or the consolidation, answers with.
type Result struct {
	Findings []Finding `json:"findings"`
	NotFound []string  `json:"notFound"`          // inputs in which there was nothing
	Dropped  []Dropped `json:"dropped,omitempty"` // citations that did not hold
}

// Dropped is a citation that was not recorded, and why.
type Dropped struct {
	Finding int    `json:"finding"` // its place among the proposed ones, from 0
	Item    string `json:"item"`
	Code    string `json:"code"` // NOT_FOUND, NOT_QUOTED, TOO_SHORT, REDACTED, SPACE
}

// Schema is the JSON Schema of a Result, as branches are asked for it.
const Schema = `{"type":"object","required":["findings","notFound"],"additionalProperties":false,"properties":{` +
	`"findings":{"type":"array","maxItems":40,"items":{"type":"object","required":["item","text","citations"],"additionalProperties":false,"properties":{` +
	`"item":{"type":"string","minLength":1,"maxLength":100},"text":{"type":"string","minLength":1,"maxLength":2000},` +
	`"citations":{"type":"array","minItems":1,"maxItems":8,"items":{"type":"object","required":["item","quote"],"additionalProperties":false,"properties":{` +
	`"item":{"type":"string","minLength":1,"maxLength":100},"passage":{"type":"string","maxLength":1100},"quote":{"type":"string","minLength":1,"maxLength":600}}}}}}},` +
	`"notFound":{"type":"array","maxItems":1000,"items":{"type":"string","maxLength":1100}},` +
	`"dropped":{"type":"array","maxItems":400,"items":{"type":"object","required":["finding","item","code"],"additionalProperties":false,"properties":{` +
	`"finding":{"type":"integer","minimum":0},"item":{"type":"string","maxLength":100},"code":{"type":"string","maxLength":40}}}}}}`

// ReadResult reads a Result. ok is false for anything else.
func ReadResult(text []byte) (result Result, ok bool) {
	ok = strictly(text, &result) && result.Findings != nil && result.NotFound != nil
	return result, ok
}

// strictly decodes one JSON value that has no other fields than into.
func strictly(text []byte, into any) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if decoder.Decode(into) != nil {
		return false
	}
	_, err := decoder.Token()
	return err == io.EOF
}

// Located finds a quote in a text, whatever white space stands between its
// words, and says where, in bytes. found is false for a quote that is not
// there, and for one without words.
func Located(text, quote string) (start, end int, found bool) {
	words := strings.Fields(quote)
	if len(words) == 0 {
		return 0, 0, false
	}
	for from := 0; ; {
		at := strings.Index(text[from:], words[0])
		if at < 0 {
			return 0, 0, false
		}
		start = from + at
		if end, found = follow(text, start, words); found {
			return start, end, true
		}
		_, size := utf8.DecodeRuneInString(text[start:])
		from = start + size
	}
}

// follow reports where the words end that begin at a place in the text.
func follow(text string, at int, words []string) (end int, found bool) {
	for n, word := range words {
		rest := text[at:]
		if n > 0 {
			rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
			if len(rest) == len(text[at:]) {
				return 0, false // no white space where the quote has some
			}
		}
		at = len(text) - len(rest)
		if !strings.HasPrefix(rest, word) {
			return 0, false
		}
		at += len(word)
	}
	return at, true
}

// Weight counts the letters and digits of a quote.
func Weight(quote string) (count int) {
	for _, r := range quote {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			count++
		}
	}
	return count
}

// Written is a finding as it is remembered: what it says, and below each quote
// with the place and the item that it is from. ReadWritten reads it again.
func Written(text string, citations []Citation) string {
	var out strings.Builder
	out.WriteString(strings.TrimSpace(text))
	for _, citation := range citations {
		out.WriteString("\n\n> " + strings.Join(strings.Fields(citation.Quote), " ") + "\n— " + oneLine(citation.Passage) + " [" + citation.Item + "]")
	}
	return out.String()
}

var written = regexp.MustCompile(`\n\n> ([^\n]+)\n— ([^\n]*) \[([0-9A-Za-z-]+)\]`)

// ReadWritten reads the quotes of a remembered finding, as far as they are
// shown.
func ReadWritten(text string) (said string, citations []Citation) {
	said = text
	if at := written.FindStringIndex(text); at != nil {
		said = text[:at[0]]
	}
	for _, match := range written.FindAllStringSubmatch(text, -1) {
		citations = append(citations, Citation{Item: match[3], Passage: match[2], Quote: match[1]})
	}
	return said, citations
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

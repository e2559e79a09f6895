// Package modeltest holds the suites that model providers pass, and local
// servers that speak their protocols as well or as badly as a test wants.
package modeltest

import (
	"encoding/json"
	"strings"

	"gantry.dev/agents/model"
)

// Protocol is how the servers of one provider speak.
type Protocol struct {
	Name      string
	Base      string // what a base URL ends with
	KeyHeader string
	// Stream writes an answer. What the protocol cannot say is left out, and
	// Arguments tells what it makes of the bytes of a call's arguments; nil for
	// nothing.
	Stream    func(answer model.Answer, style Style) []byte
	Arguments func(raw string) string
	// Read reads the body of a request: its tools' names, and its messages.
	Read func(asked map[string]any) model.Request
	// Whole is how many bytes of a stream make a whole answer: the rest is space.
	Whole func(stream []byte) int
	// Ends are words, in small letters, of which a whole stream has at least one.
	Ends     []string
	Refusals []Refusal
	Streamed map[string]model.ErrorKind // by a stream that is an error
	Garbage  map[string]string          // streams that are no answer, by what is wrong
}

// Refusal is a status in place of a stream, and what it means.
type Refusal struct {
	Status int
	Body   any
	Kind   model.ErrorKind
	Again  bool // may be tried again
}

// Style says how a server writes an answer as a stream.
type Style struct {
	Piece    int  // bytes of text and arguments per chunk; 0 for all at once
	NoUsage  bool // the server does not count
	OneIndex bool // every call has index 0
	LineEnd  string
}

// Reported is the usage that streams report.
var Reported = model.Usage{Input: 20, CacheRead: 100, Output: 20, Reasoning: 10}

// Protocols are those of all providers over a network.
func Protocols() []Protocol { return []Protocol{OpenAI(), Anthropic(), Gemini()} }

func (s Style) end() string {
	if s.LineEnd == "" {
		return "\n"
	}
	return s.LineEnd
}

// pieces cuts at characters: JSON could not carry half of one.
func (s Style) pieces(text string) []string {
	if text == "" {
		return nil
	}
	var pieces []string
	var piece strings.Builder
	for _, r := range text {
		piece.WriteRune(r)
		if s.Piece > 0 && piece.Len() >= s.Piece {
			pieces = append(pieces, piece.String())
			piece.Reset()
		}
	}
	if piece.Len() > 0 {
		pieces = append(pieces, piece.String())
	}
	return pieces
}

// written is a value of this package's making as JSON.
func written(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

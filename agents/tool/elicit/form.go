// Package elicit reads what the servers of tools ask people before they do a
// call: forms of a few flat values, and pages to look at. It says what may be
// shown to a person at all, and whether an answer meets its form.
//
// Everything that it reads was written by a server and is shown as text.
package elicit

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
)

// The codes of what is shown to nobody. The server is told that it was declined.
const (
	Secret     = "ASKS_FOR_SECRET" // a form would take a password, a key, a card
	Unreadable = "ASK_INVALID"     // it breaks a bound, or is no flat form
	Nobody     = "ASKS_NOBODY"     // the contract of the tool lets its server ask nobody
)

// The bounds of what may be asked.
const (
	maxMessage = 4 << 10
	maxSchema  = 16 << 10
	maxURL     = 2 << 10
	maxFields  = 32
)

// Form is what a person is shown. Texts in it hold no control characters but
// line ends, and nothing that turns the direction of text.
type Form struct {
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"schema,omitempty"` // of a form
	URL     string          `json:"url,omitempty"`    // of a page: for the person to open, or not
	Host    string          `json:"host,omitempty"`   // of the page, in ASCII
}

// Refusal says why something is shown to nobody.
type Refusal struct {
	Code   string
	Detail string // quotes nothing that the server said but the name of a field
}

// Error returns the code and the detail.
func (r *Refusal) Error() string { return r.Code + ": " + r.Detail }

func unreadable(format string, args ...any) error {
	return &Refusal{Unreadable, fmt.Sprintf(format, args...)}
}

// Read returns what a person may be shown of what a server asks. Errors:
// *Refusal.
func Read(ask tool.Ask) (Form, error) {
	if !utf8.ValidString(ask.Message) || len(ask.Message) > maxMessage {
		return Form{}, unreadable("the message must be UTF-8 of at most %d bytes", maxMessage)
	}
	form := Form{Message: plain(ask.Message)}
	switch ask.Kind {
	case tool.AskURL:
		return page(form, ask.URL)
	case tool.AskForm:
	default:
		return Form{}, unreadable("it is neither a form nor a page")
	}
	if strings.TrimSpace(form.Message) == "" {
		return Form{}, unreadable("it says nothing")
	}
	fields, document, err := readSchema(ask.Schema)
	if err != nil {
		return Form{}, err
	}
	if where := secret(form.Message, fields); where != "" {
		return Form{}, &Refusal{Secret, where + " asks for a secret"}
	}
	form.Schema, err = canon.Marshal(document)
	if err != nil {
		return Form{}, unreadable("the schema has no canonical form")
	}
	return form, nil
}

// page reads where a person is sent. Nothing here opens it.
func page(form Form, address string) (Form, error) {
	where, err := url.Parse(address)
	switch {
	case len(address) > maxURL || err != nil || where.Scheme != "https" || where.Host == "" || where.User != nil || where.Opaque != "":
		return Form{}, unreadable("the page must be an https address of at most %d bytes, without a user", maxURL)
	case strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' }):
		return Form{}, unreadable("the address must be written in ASCII")
	}
	form.URL, form.Host = where.String(), where.Host
	return form, nil
}

// plain returns a text as it may stand before a person: hidden and steering
// characters are left out or replaced.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp):
			return -1
		case unicode.IsControl(r) || r == utf8.RuneError:
			return ' '
		}
		return r
	}, text)
}

// Bytes returns the form as it is kept: canonical JSON.
func (f Form) Bytes() ([]byte, error) { return canon.Marshal(f) }

// Open reads a form that was kept.
func Open(kept []byte) (Form, error) {
	var f Form
	return f, canon.Unmarshal(kept, &f)
}

// Check returns values as they are kept, canonical JSON, or says what is wrong
// with them: an error for whoever answers, which quotes none of the values.
func (f Form) Check(values []byte) ([]byte, error) {
	if len(f.Schema) == 0 {
		return nil, fmt.Errorf("a page takes no values: leave them out")
	}
	canonical, err := canon.JSON(values)
	if err != nil {
		return nil, fmt.Errorf("the values must be one JSON object without repeated keys")
	}
	schema, err := tool.CompileSchema(f.Schema)
	if err != nil {
		return nil, fmt.Errorf("the form cannot be read: decline it")
	}
	complaints := schema.Check(canonical)
	if len(complaints) == 0 {
		return canonical, nil
	}
	texts := make([]string, 0, len(complaints))
	for _, complaint := range complaints {
		at := strings.TrimPrefix(complaint.Pointer, "/")
		if at == "" {
			at = "the whole"
		}
		texts = append(texts, at+" "+complaint.Text)
	}
	return nil, fmt.Errorf("%s", strings.Join(texts, "; "))
}

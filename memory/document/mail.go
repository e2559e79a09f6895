package document

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"path"
	"strings"

	"golang.org/x/net/html/charset"
)

const (
	mailDepth = 16           // parts and messages inside of each other
	mailParts = 500          // of one message, with those in its parts
	mailBytes = 4 * MaxBytes // of all parts, each counted as often as it lies in others
)

var (
	errDeepMail = &Unreadable{Code: CodeTooDeep, Detail: "It has parts more than 16 deep inside of each other; save them one by one."}
	errManyMail = &Unreadable{Code: CodeTooLarge, Detail: "It has more than 500 parts; save them one by one."}
	errMail     = &Unreadable{Code: CodeMalformed, Detail: "It is not a mail message; save it again as one."}
)

// part is one part of a message.
type part struct {
	header  textproto.MIMEHeader
	content []byte // as it was sent
	media   string
	params  map[string]string
	named   string // the file name of an attachment
}

var words = mime.WordDecoder{CharsetReader: charset.NewReaderLabel}

func (s *source) readMail(ctx context.Context, content []byte) error {
	message, err := mail.ReadMessage(bytes.NewReader(content))
	if err != nil {
		return errMail
	}
	body, err := io.ReadAll(message.Body)
	if err != nil {
		return errMail
	}
	var lines []string
	for _, name := range []string{"From", "To", "Cc", "Date", "Subject"} {
		text := decodeWords(message.Header.Get(name))
		if text == "" {
			continue
		}
		lines = append(lines, name+": "+text)
		if name == "Subject" && s.depth == 0 && s.out.title == "" {
			s.out.title = text
		}
	}
	if len(lines) == 0 {
		return errMail
	}
	if err := s.out.block(strings.Join(lines, "\n")); err != nil {
		return err
	}
	return s.readPart(ctx, newPart(textproto.MIMEHeader(message.Header), body))
}

func decodeWords(text string) string {
	if decoded, err := words.DecodeHeader(text); err == nil {
		text = decoded
	}
	return oneLine(clean(text))
}

func newPart(header textproto.MIMEHeader, content []byte) part {
	p := part{header: header, content: content}
	media, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		media = "text/plain"
	}
	p.media, p.params = media, params
	if disposition, fields, err := mime.ParseMediaType(header.Get("Content-Disposition")); err == nil {
		p.named = fields["filename"]
		if disposition == "attachment" && p.named == "" {
			p.named = "attachment"
		}
	}
	if p.named == "" {
		p.named = params["name"]
	}
	p.named = path.Base(strings.ReplaceAll(decodeWords(p.named), `\`, "/"))
	if p.named == "." || p.named == "/" {
		p.named = ""
	}
	return p
}

// readPart adds what a part says. What cannot be read of an attachment is named,
// and the rest of the message goes on.
func (s *source) readPart(ctx context.Context, p part) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.parts++; s.parts > mailParts {
		return errManyMail
	}
	s.depth++
	defer func() { s.depth-- }()
	if s.taken += len(p.content); s.taken > mailBytes {
		return errTooMuch
	}
	if s.depth > mailDepth {
		return errDeepMail
	}
	if strings.HasPrefix(p.media, "multipart/") {
		return s.readParts(ctx, p)
	}
	content, err := p.decoded()
	if err != nil {
		return err
	}
	switch {
	case p.media == "message/rfc822":
		return s.out.inside(cmp.Or(p.named, "Message"), func() error { return s.readMail(ctx, content) })
	case p.named != "":
		return s.attachment(ctx, p, content)
	case p.media == "text/html":
		return s.readHTML(content, p.params["charset"])
	case strings.HasPrefix(p.media, "text/"):
		text, err := decodeAs(content, p.params["charset"])
		if err != nil {
			return err
		}
		return s.readPlain(clean(text))
	}
	return nil // a picture in the text, or the like
}

// attachment adds a file that came with a message, under its name.
func (s *source) attachment(ctx context.Context, p part, content []byte) error {
	name := p.named
	if path.Ext(name) == "" {
		name += endings[p.media]
	}
	return s.out.inside(p.named, func() error {
		err := s.read(ctx, name, content)
		var why *Unreadable
		if errors.As(err, &why) && why.Code != CodeTooDeep && why.Code != CodeTooLarge {
			return s.out.paragraph("(This attachment was not read: " + why.Code + ")")
		}
		return err
	})
}

// endings are what names end in, by what a part says it is.
var endings = map[string]string{
	"text/plain": ".txt", "text/markdown": ".md", "text/html": ".html", "text/csv": ".csv", "application/pdf": ".pdf", "application/json": ".json",
}

func (p *part) decoded() ([]byte, error) {
	var reader io.Reader = bytes.NewReader(p.content)
	switch strings.ToLower(strings.TrimSpace(p.header.Get("Content-Transfer-Encoding"))) {
	case "base64":
		reader = base64.NewDecoder(base64.StdEncoding, onlyBase64(p.content))
	case "quoted-printable":
		reader = quotedprintable.NewReader(reader)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		return nil, unreadable(CodeMalformed, "A part of it is not encoded as it says; save it again.")
	}
	return content, nil
}

// onlyBase64 leaves out what senders put between.
func onlyBase64(content []byte) io.Reader {
	kept := make([]byte, 0, len(content))
	for _, b := range content {
		if b > ' ' && b < 0x7f {
			kept = append(kept, b)
		}
	}
	return bytes.NewReader(kept)
}

// readParts reads the parts of a part. Of alternatives it takes the plain text,
// and where there is none the last one, which is the richest.
func (s *source) readParts(ctx context.Context, p part) error {
	boundary := p.params["boundary"]
	if boundary == "" {
		return errMail
	}
	var parts []part
	reader := multipart.NewReader(bytes.NewReader(p.content), boundary)
	for {
		next, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, io.ErrUnexpectedEOF) && len(parts) > 0 {
			break // cut off: what came is read
		}
		if err != nil {
			return errMail
		}
		content, err := io.ReadAll(next)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return errMail
		}
		parts = append(parts, newPart(next.Header, content))
		if len(parts) > mailParts {
			return errManyMail
		}
	}
	if p.media == "multipart/alternative" && len(parts) > 0 {
		return s.readPart(ctx, alternative(parts))
	}
	for _, one := range parts {
		if err := s.readPart(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func alternative(parts []part) part {
	for _, p := range parts {
		if p.media == "text/plain" && len(bytes.TrimSpace(p.content)) > 0 {
			return p
		}
	}
	return parts[len(parts)-1]
}

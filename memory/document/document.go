// Package document reads files into passages: pieces of text that are short
// enough to be found and shown, each with the headings above it and its place in
// the document's normal form.
//
// What stands in a document is data. Nothing in it is followed, and its front
// matter may add labels to it, and never raises how far it is trusted.
package document

import (
	"bytes"
	"cmp"
	"context"
	"path"
	"strings"
	"time"
)

// What a document may take.
const (
	MaxBytes  = 32 << 20         // of the file
	MaxNormal = 32 << 20         // bytes of the normal form
	MaxTime   = 60 * time.Second // for PDFium, with all that lie in one file; to start it is not counted
)

// Document is a file as it was read.
type Document struct {
	Title    string // its own, or else the file's name without what says its format
	Normal   string // the normal form: UTF-8, composed, lines ended by \n, without controls
	Passages []Passage
	Front    FrontMatter
}

// Passage is a piece of a document. Its text is the Length bytes of the
// document's normal form from Offset on.
type Passage struct {
	Heading  string // the headings above it, joined by " › "; empty for none
	Text     string
	Offset   int // bytes
	Length   int // bytes
	Position int // its place in the document, from 1
}

// Reader reads documents. It holds what PDF files are read with, from the first
// one on, until it is closed. Several goroutines may use it.
type Reader struct {
	Limit time.Duration // for PDFium, as MaxTime; 0: MaxTime. Set before the first Read
	pdf   pdfReader
}

// NewReader returns a Reader, which costs nothing before it reads a PDF file.
func NewReader() *Reader { return &Reader{} }

// Close lets go of what the reader holds.
func (r *Reader) Close() error { return r.pdf.close() }

// Read reads one document with a Reader of its own. Its format is what the
// name's ending says. Errors: *Unreadable.
func Read(name string, content []byte) (Document, error) {
	r := NewReader()
	defer r.Close() //nolint:errcheck // the document is read; what remains is memory
	return r.Read(context.Background(), name, content)
}

// Read reads one document, whose format is what the name's ending says. Errors:
// *Unreadable; else the context's, or that PDF files cannot be read here.
func (r *Reader) Read(ctx context.Context, name string, content []byte) (Document, error) {
	s := &source{reader: r, left: cmp.Or(r.Limit, MaxTime)}
	err := s.read(ctx, name, content)
	if ctx.Err() != nil {
		return Document{}, ctx.Err()
	}
	if err != nil {
		return Document{}, err
	}
	doc := s.out.document()
	if doc.Title == "" {
		doc.Title = clean(strings.TrimSuffix(path.Base(name), path.Ext(name)))
	}
	doc.Front = s.front
	if len(doc.Passages) == 0 {
		return Document{}, unreadable(CodeNoText, "There is no text in it.")
	}
	return doc, nil
}

// source is one file that is being read, with the files inside of it.
type source struct {
	reader *Reader
	out    assembler
	front  FrontMatter
	depth  int           // how many files it lies in
	parts  int           // parts of messages that were met
	taken  int           // bytes of them
	left   time.Duration // for PDFium
}

// formatOf names the format of a file, by its name or else by how it begins.
func formatOf(name string, content []byte) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".md", ".markdown", ".mdown":
		return "markdown"
	case ".txt", ".text":
		return "text"
	case ".html", ".htm", ".xhtml":
		return "html"
	case ".pdf":
		return "pdf"
	case ".csv", ".tsv":
		return "csv"
	case ".json":
		return "json"
	case ".jsonl", ".ndjson":
		return "jsonl"
	case ".eml":
		return "mail"
	}
	head := bytes.ToLower(bytes.TrimSpace(content[:min(len(content), 512)]))
	switch {
	case bytes.HasPrefix(head, []byte("%pdf-")):
		return "pdf"
	case bytes.HasPrefix(head, []byte("<!doctype html")), bytes.HasPrefix(head, []byte("<html")):
		return "html"
	case bytes.IndexByte(content, 0) >= 0:
		return ""
	}
	return "text"
}

func (s *source) read(ctx context.Context, name string, content []byte) error {
	if len(content) > MaxBytes {
		return unreadable(CodeTooLarge, "It has more than 32 MiB; split it.")
	}
	format := formatOf(name, content)
	switch format {
	case "":
		return unreadable(CodeUnsupported, "It is of a format that is not read; give it as text, Markdown, HTML, PDF, CSV, JSON or a mail message.")
	case "pdf":
		return s.readPDF(ctx, content)
	case "html":
		return s.readHTML(content, "")
	case "mail":
		return s.readMail(ctx, content)
	}
	text, err := decode(content)
	if err != nil {
		return err
	}
	return s.readText(format, text)
}

func (s *source) readText(format, text string) error {
	if format == "json" || format == "jsonl" {
		return s.readJSON(text, format == "jsonl")
	}
	text = clean(text)
	if format == "csv" {
		return s.readCSV(text)
	}
	if s.depth == 0 {
		front, rest, err := parseFront(text)
		if err != nil {
			return err
		}
		s.front, s.out.title, text = front, front.Title, rest
	}
	if format == "markdown" {
		return s.readMarkdown(text)
	}
	return s.readPlain(text)
}

// readPlain takes blank lines for the borders of paragraphs.
func (s *source) readPlain(text string) error {
	for text != "" {
		var paragraph string
		paragraph, text = nextParagraph(text)
		if err := s.out.paragraph(paragraph); err != nil {
			return err
		}
	}
	return nil
}

// nextParagraph returns what stands up to the first blank line, and the rest.
func nextParagraph(text string) (paragraph, rest string) {
	at := 0
	for at < len(text) {
		line, _, _ := strings.Cut(text[at:], "\n")
		next := min(at+len(line)+1, len(text))
		if strings.TrimSpace(line) == "" {
			return text[:at], text[next:]
		}
		at = next
	}
	return text, ""
}

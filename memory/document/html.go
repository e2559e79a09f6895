package document

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
)

// unseen are the elements whose content no reader of a page sees as text.
var unseen = map[string]bool{
	"script": true, "style": true, "template": true, "noscript": true, "svg": true, "math": true, "iframe": true, "object": true, "canvas": true,
	"audio": true, "video": true, "select": true, "datalist": true, "noembed": true, "noframes": true, "xmp": true,
}

// blocks are the elements that begin a paragraph of their own.
var blocks = map[string]bool{
	"p": true, "div": true, "section": true, "article": true, "main": true, "header": true, "footer": true, "nav": true, "aside": true, "ul": true, "ol": true,
	"dl": true, "dt": true, "dd": true, "blockquote": true, "figure": true, "figcaption": true, "form": true, "fieldset": true, "address": true, "details": true,
	"summary": true, "hr": true, "table": true, "pre": true, "body": true, "caption": true,
}

// void are the elements that have no content, and so no end.
var void = map[string]bool{
	"area": true, "base": true, "br": true, "col": true, "embed": true, "hr": true, "img": true, "input": true, "link": true, "meta": true, "source": true,
	"track": true, "wbr": true,
}

// restarts are the elements that end when another of theirs begins.
var restarts = map[string]bool{"p": true, "li": true, "td": true, "th": true, "tr": true, "dt": true, "dd": true}

var hiding = regexp.MustCompile(`(?i)display:none|visibility:(?:hidden|collapse)|font-size:0*(?:\.0+)?(?:[a-z%;]|$)|opacity:0*(?:\.0+)?(?:[;%]|$)`)

// page is an HTML document as it is read, tag by tag: what it costs grows with
// its length, however its elements lie in each other.
type page struct {
	source  *source
	text    strings.Builder // of the block that is being gathered
	heading int             // the level of the heading that is being read, 0 outside
	titled  bool            // inside of <title>
	pre     int             // how many <pre> are open
	skip    string          // the element that is being left out, empty for none
	skipped int             // how many of its name are open
	link    string          // where the link that is being read leads
	linked  int             // where in text it began
	tables  int             // how many tables are open
	cells   []string        // of the row that is being read
	open    bool            // a cell is being read
	rows    *table
}

func (s *source) readHTML(content []byte, label string) error {
	if label == "" {
		_, label, _ = charset.DetermineEncoding(content[:min(len(content), 1024)], "")
		if _, err := decode(content); err == nil {
			label = "utf-8" // what is UTF-8 throughout is nothing else, whatever it says
		}
	}
	text, err := decodeAs(content, label)
	if err != nil {
		return err
	}
	p := page{source: s}
	tokens := html.NewTokenizer(bytes.NewReader([]byte(text)))
	for {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			if !errors.Is(tokens.Err(), io.EOF) {
				return unreadable(CodeMalformed, "It breaks the rules of HTML; save it again.")
			}
			break
		}
		if err := p.token(kind, tokens.Token()); err != nil {
			return err
		}
	}
	if p.rows != nil {
		p.tables = 1
		if err := p.endTable(); err != nil {
			return err
		}
	}
	return p.endBlock()
}

func (p *page) token(kind html.TokenType, token html.Token) error {
	switch kind {
	case html.TextToken:
		p.addText(token.Data)
	case html.StartTagToken, html.SelfClosingTagToken:
		if p.skip != "" {
			p.skipMore(token.Data)
			return nil
		}
		if !void[token.Data] && (unseen[token.Data] || hidden(token)) {
			p.skip, p.skipped = token.Data, 1
			if kind == html.SelfClosingTagToken && (token.Data == "svg" || token.Data == "math") {
				p.skip = ""
			}
			return nil
		}
		return p.start(token)
	case html.EndTagToken:
		if p.skip == "" {
			return p.stop(token.Data)
		}
		if token.Data == p.skip {
			if p.skipped--; p.skipped == 0 {
				p.skip = ""
			}
		}
	}
	return nil
}

func (p *page) skipMore(name string) {
	if name == p.skip && !restarts[name] {
		p.skipped++
	} else if name == p.skip {
		p.skip = "" // as a paragraph ends where the next one begins
	}
}

func attribute(token html.Token, name string) (string, bool) {
	for _, a := range token.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

func hidden(token html.Token) bool {
	if _, found := attribute(token, "hidden"); found {
		return true
	}
	style, _ := attribute(token, "style")
	return style != "" && hiding.MatchString(strings.Join(strings.Fields(style), ""))
}

func (p *page) addText(text string) {
	switch {
	case p.skip != "":
	case p.titled:
		if p.source.depth == 0 && p.source.out.title == "" {
			p.source.out.title = oneLine(clean(text))
		}
	case p.pre > 0:
		p.text.WriteString(text)
	default:
		if strings.TrimLeft(text, " \t\r\n\f") != text {
			p.text.WriteByte(' ')
		}
		p.text.WriteString(oneLine(text))
		if strings.TrimRight(text, " \t\r\n\f") != text {
			p.text.WriteByte(' ')
		}
	}
}

func (p *page) start(token html.Token) error {
	switch name := token.Data; {
	case name == "title":
		p.titled = true
	case name == "br":
		p.text.WriteByte('\n')
	case name == "img":
		if alt, _ := attribute(token, "alt"); alt != "" {
			p.text.WriteString(" " + oneLine(alt) + " ")
		}
	case name == "a":
		p.link, _ = attribute(token, "href")
		p.linked = p.text.Len()
	case headingLevel(name) > 0:
		err := p.endBlock()
		p.heading = headingLevel(name)
		return err
	case name == "table" && p.tables > 0, p.tables > 0 && (name == "tr" || name == "td" || name == "th"):
		return p.startCell(name)
	case name == "table":
		p.tables++
		return p.endBlock()
	case name == "li":
		err := p.softBlock()
		p.text.WriteString("- ")
		return err
	case blocks[name]:
		if p.tables > 0 {
			p.text.WriteByte(' ')
			return nil
		}
		err := p.endBlock()
		if name == "pre" {
			p.pre++
		}
		return err
	}
	return nil
}

func (p *page) stop(name string) error {
	switch {
	case name == "title":
		p.titled = false
	case name == "a":
		p.endLink()
	case headingLevel(name) > 0 && p.heading > 0:
		return p.endBlock()
	case name == "pre":
		p.pre = max(0, p.pre-1)
		return p.endBlock()
	case name == "table" && p.tables > 0:
		return p.endTable()
	case p.tables > 0 && name == "tr":
		return p.endRow()
	case p.tables > 0 && (name == "td" || name == "th"):
		p.endCell()
	case blocks[name] && p.tables == 0:
		return p.endBlock()
	}
	return nil
}

func headingLevel(name string) int {
	if len(name) == 2 && name[0] == 'h' && name[1] >= '1' && name[1] <= '6' {
		return int(name[1] - '0')
	}
	return 0
}

// endLink keeps where a link leads, unless its text says it.
func (p *page) endLink() {
	link := p.link
	p.link = ""
	leads := strings.HasPrefix(link, "http://") || strings.HasPrefix(link, "https://") || strings.HasPrefix(link, "mailto:")
	if p.linked > p.text.Len() || !leads || len(link) > 500 {
		return
	}
	if said := p.text.String()[p.linked:]; !strings.Contains(said, strings.TrimPrefix(link, "mailto:")) {
		p.text.WriteString(" (" + link + ")")
	}
}

// softBlock keeps the items of a list together, as lines, while they are short.
func (p *page) softBlock() error {
	if p.tables > 0 {
		p.text.WriteByte(' ')
		return nil
	}
	if p.text.Len() > enough || p.heading > 0 {
		return p.endBlock()
	}
	p.text.WriteByte('\n')
	return nil
}

// endBlock adds what was gathered as a paragraph, or as a heading.
func (p *page) endBlock() error {
	text := p.text.String()
	p.text.Reset()
	level := p.heading
	p.heading = 0
	if level > 0 {
		return p.source.out.heading(level, text)
	}
	return p.source.out.paragraph(tidyLines(clean(text)))
}

// tidyLines takes blanks from the ends of lines, and from their beginnings where
// there is one.
func tidyLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line = strings.TrimRight(line, " \t"); strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "  ") {
			line = line[1:]
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// startCell begins a cell or row, and takes a table in a cell for part of it.
func (p *page) startCell(name string) error {
	if name == "table" {
		p.tables++
		return nil
	}
	if name == "tr" {
		return p.endRow()
	}
	p.endCell()
	p.open = true
	return nil
}

// endCell ends the cell that is being read; text beside cells is one too.
func (p *page) endCell() {
	if text := oneLine(clean(p.text.String())); text != "" || p.open {
		p.cells = append(p.cells, text)
	}
	p.open = false
	p.text.Reset()
}

func (p *page) endRow() error {
	p.endCell()
	cells := p.cells
	p.cells, p.text = nil, strings.Builder{}
	switch {
	case len(cells) == 0:
		return nil
	case p.rows == nil:
		p.rows = p.source.out.table(cells)
		return nil
	}
	return p.rows.add(cells)
}

func (p *page) endTable() error {
	if err := p.endRow(); err != nil {
		return err
	}
	if p.tables--; p.tables > 0 || p.rows == nil {
		return nil
	}
	rows := p.rows
	p.rows = nil
	return rows.finish()
}
